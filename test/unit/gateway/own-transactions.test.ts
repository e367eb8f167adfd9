// The transactional ids that write the state: no client takes them over, ends their transactions or
// puts anything into them; every other transaction is the destination's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCodec } from '../../../protocol/codec.ts';
import {
  addOffsetsToTxnRequestCodec,
  createAddOffsetsToTxnRequest,
} from '../../../protocol/generated/add-offsets-to-txn-request.ts';
import {
  addOffsetsToTxnResponseCodec,
  createAddOffsetsToTxnResponse,
} from '../../../protocol/generated/add-offsets-to-txn-response.ts';
import {
  addPartitionsToTxnRequestCodec,
  createAddPartitionsToTxnRequest,
  createAddPartitionsToTxnTopic,
  createAddPartitionsToTxnTransaction,
} from '../../../protocol/generated/add-partitions-to-txn-request.ts';
import {
  addPartitionsToTxnResponseCodec,
  createAddPartitionsToTxnResponse,
} from '../../../protocol/generated/add-partitions-to-txn-response.ts';
import {
  createEndTxnRequest,
  endTxnRequestCodec,
} from '../../../protocol/generated/end-txn-request.ts';
import {
  createEndTxnResponse,
  endTxnResponseCodec,
} from '../../../protocol/generated/end-txn-response.ts';
import {
  createInitProducerIdRequest,
  initProducerIdRequestCodec,
} from '../../../protocol/generated/init-producer-id-request.ts';
import {
  createInitProducerIdResponse,
  initProducerIdResponseCodec,
} from '../../../protocol/generated/init-producer-id-response.ts';
import {
  createTxnOffsetCommitRequest,
  createTxnOffsetCommitRequestPartition,
  createTxnOffsetCommitRequestTopic,
  txnOffsetCommitRequestCodec,
} from '../../../protocol/generated/txn-offset-commit-request.ts';
import {
  createTxnOffsetCommitResponse,
  txnOffsetCommitResponseCodec,
} from '../../../protocol/generated/txn-offset-commit-response.ts';
import { createOwnTransactionHandlers } from '../../../src/gateway/handlers/own-transactions.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { exchange, FakeSession, otherId } from './read-fixtures.ts';

const handlers = new Map(createOwnTransactionHandlers(new OwnTopics('__causeway', '__other_')));
const ours = ['__causeway_state', '__other_state'];

interface Codecs<Request extends object, Response extends object> {
  readonly request: MessageCodec<Request>;
  readonly response: MessageCodec<Response>;
}

/** The answer to a client, and how often the destination was asked. */
async function ask<Request extends object, Response extends object>(
  codecs: Codecs<Request, Response>,
  version: number,
  request: Request,
  answer: Response,
): Promise<{ response: Response; asked: number }> {
  const session = new FakeSession({ kind: 'bootstrap' });
  session.broker.serve(codecs.request, codecs.response, () => answer);
  const handler = handlers.get(codecs.request.apiKey ?? -1);
  assert.ok(handler);
  const { response } = await exchange(session, handler, codecs, version, request);
  return { response, asked: session.broker.seen.length };
}

function versionsOf({
  request: { versionMin, versionMax },
}: {
  request: { readonly versionMin: number; readonly versionMax: number };
}): number[] {
  return Array.from({ length: versionMax - versionMin + 1 }, (_, index) => versionMin + index);
}

const initProducerId = {
  request: initProducerIdRequestCodec,
  response: initProducerIdResponseCodec,
};

test('R12: a client that asks for the id of the state does not fence the instance that owns it', async () => {
  const answer = createInitProducerIdResponse({ producerId: 7n, producerEpoch: 3 });
  for (const version of versionsOf(initProducerId)) {
    for (const transactionalId of ours) {
      const request = createInitProducerIdRequest({ transactionalId, transactionTimeoutMs: 1000 });
      const { response, asked } = await ask(initProducerId, version, request, answer);
      assert.equal(response.errorCode, 53);
      assert.deepEqual([response.producerId, response.producerEpoch], [-1n, -1]);
      assert.equal(asked, 0, 'the destination heard of it');
    }
  }
});

test('all other producers get their ids from the destination', async () => {
  const answer = createInitProducerIdResponse({ producerId: 7n, producerEpoch: 3 });
  for (const transactionalId of [null, 'mine', 'causeway']) {
    const request = createInitProducerIdRequest({ transactionalId, transactionTimeoutMs: 1000 });
    const { response, asked } = await ask(initProducerId, 5, request, answer);
    assert.deepEqual([response.errorCode, response.producerId, asked], [0, 7n, 1]);
  }
});

const endTxn = { request: endTxnRequestCodec, response: endTxnResponseCodec };

test('R12: a client that knows the producer id of the state ends none of its transactions', async () => {
  for (const version of versionsOf(endTxn)) {
    for (const transactionalId of [...ours, 'mine']) {
      const request = createEndTxnRequest({ transactionalId, producerId: 7n, committed: true });
      const { response, asked } = await ask(endTxn, version, request, createEndTxnResponse());
      const expected = transactionalId === 'mine' ? [0, 1] : [53, 0];
      assert.deepEqual([response.errorCode, asked], expected);
    }
  }
});

const addPartitions = {
  request: addPartitionsToTxnRequestCodec,
  response: addPartitionsToTxnResponseCodec,
};

test('R12: a client could put a partition into a transaction of the state, which never ended then', async () => {
  const topics = [createAddPartitionsToTxnTopic({ name: 'orders', partitions: [4, 5] })];
  const refused = [
    [4, 53],
    [5, 53],
  ];
  for (const version of versionsOf(addPartitions)) {
    for (const transactionalId of [...ours, 'mine']) {
      const request =
        version < 4
          ? createAddPartitionsToTxnRequest({
              v3AndBelowTransactionalId: transactionalId,
              v3AndBelowTopics: topics,
            })
          : createAddPartitionsToTxnRequest({
              transactions: [createAddPartitionsToTxnTransaction({ transactionalId, topics })],
            });
      const answer = createAddPartitionsToTxnResponse();
      const { response, asked } = await ask(addPartitions, version, request, answer);
      const [result = response.resultsByTransaction[0]?.topicResults[0]] =
        response.resultsByTopicV3AndBelow;
      const results = result?.resultsByPartition.map((one) => [
        one.partitionIndex,
        one.partitionErrorCode,
      ]);
      const isOurs = transactionalId !== 'mine';
      assert.deepEqual([results, asked], isOurs ? [refused, 0] : [undefined, 1], `${version}`);
    }
  }
});

const addOffsets = {
  request: addOffsetsToTxnRequestCodec,
  response: addOffsetsToTxnResponseCodec,
};

test('R12: a client could put a group into a transaction of the state', async () => {
  for (const version of versionsOf(addOffsets)) {
    for (const transactionalId of [...ours, 'mine']) {
      const request = createAddOffsetsToTxnRequest({ transactionalId, groupId: 'billing' });
      const answer = createAddOffsetsToTxnResponse();
      const { response, asked } = await ask(addOffsets, version, request, answer);
      const expected = transactionalId === 'mine' ? [0, 1] : [53, 0];
      assert.deepEqual([response.errorCode, asked], expected);
    }
  }
});

const commits = { request: txnOffsetCommitRequestCodec, response: txnOffsetCommitResponseCodec };

test('R12: a client could commit offsets in a transaction of the state', async () => {
  for (const version of versionsOf(commits)) {
    for (const transactionalId of [...ours, 'mine']) {
      const topic = version >= 6 ? { topicId: otherId } : { name: 'orders' };
      const partitions = [createTxnOffsetCommitRequestPartition({ partitionIndex: 3 })];
      const request = createTxnOffsetCommitRequest({
        transactionalId,
        groupId: 'billing',
        topics: [createTxnOffsetCommitRequestTopic({ ...topic, partitions })],
      });
      const answer = createTxnOffsetCommitResponse();
      const { response, asked } = await ask(commits, version, request, answer);
      const [refused] = response.topics;
      if (transactionalId === 'mine') {
        assert.deepEqual([refused, asked], [undefined, 1]);
      } else {
        const { name, topicId } = refused ?? {};
        assert.equal(version >= 6 ? topicId : name, version >= 6 ? otherId : 'orders');
        const [partition] = refused?.partitions ?? [];
        assert.deepEqual([partition?.partitionIndex, partition?.errorCode, asked], [3, 53, 0]);
      }
    }
  }
});
