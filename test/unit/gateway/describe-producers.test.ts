// DescribeProducers for mirrors and for promoted partitions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDescribeProducersRequest,
  createTopicRequest,
  describeProducersRequestCodec,
} from '../../../protocol/generated/describe-producers-request.ts';
import {
  createDescribeProducersResponse,
  createPartitionResponse,
  createProducerState,
  createTopicResponse,
  describeProducersResponseCodec,
} from '../../../protocol/generated/describe-producers-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { describeProducersHandler } from '../../../src/gateway/handlers/describe-producers.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import { DESCRIBE, exchange, FakeSession, promotedAt100 } from './read-fixtures.ts';

const codecs = { request: describeProducersRequestCodec, response: describeProducersResponseCodec };

async function ask(session: FakeSession, name = 'orders') {
  const request = createDescribeProducersRequest({
    topics: [createTopicRequest({ name, partitionIndexes: [0] })],
  });
  const { response } = await exchange(session, describeProducersHandler, codecs, 0, request);
  const answer = response.topics[0]?.partitions[0];
  assert.ok(answer !== undefined);
  return answer;
}

function serveProducers(session: FakeSession): void {
  session.broker.serve(describeProducersRequestCodec, describeProducersResponseCodec, (request) =>
    createDescribeProducersResponse({
      topics: request.topics.map(({ name, partitionIndexes }) =>
        createTopicResponse({
          name,
          partitions: partitionIndexes.map((partitionIndex) =>
            createPartitionResponse({
              partitionIndex,
              activeProducers: [12n, -1n].map((currentTxnStartOffset) =>
                createProducerState({ producerId: 1n, currentTxnStartOffset }),
              ),
            }),
          ),
        }),
      ),
    }),
  );
}

test('a mirror names the transactions that are open in it', async () => {
  const session = new FakeSession({ kind: 'link' });
  const log = new MemoryMirrorLog(
    0n,
    batch(0n, 5),
    batch(5n, 2, { producerId: 7n, isTransactional: true }),
  );
  session.directory.put({ name: 'orders', mode: 'mirror', log });
  const { errorCode, activeProducers } = await ask(session);
  assert.equal(errorCode, ErrorCode.NONE);
  assert.deepEqual(
    activeProducers.map(({ producerId, currentTxnStartOffset }) => [
      producerId,
      currentTxnStartOffset,
    ]),
    [[7n, 5n]],
  );
  session.broker.operations.set('orders', DESCRIBE);
  const denied = new FakeSession({ kind: 'link' });
  denied.directory.put({ name: 'orders', mode: 'mirror', log });
  denied.broker.operations.set('orders', DESCRIBE);
  const refused = await ask(denied);
  assert.equal(refused.errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  assert.equal(refused.errorMessage, 'TOPIC_AUTHORIZATION_FAILED');
});

test('a promoted partition is the broker’s to describe, offsets shifted', async () => {
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const log = new MemoryMirrorLog(0n);
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  serveProducers(session);
  const offsets = async (name: string) =>
    (await ask(session, name)).activeProducers.map(
      ({ currentTxnStartOffset }) => currentTxnStartOffset,
    );
  assert.deepEqual(await offsets('orders'), [104n, -1n]);
  assert.deepEqual(await offsets('ordinary'), [12n, -1n]);
});

test('R3: a virtual broker is never asked about a mirror; the copy answers', async () => {
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const open = batch(0n, 2, { producerId: 7n, isTransactional: true });
  session.directory.put({ name: 'orders', mode: 'mirror', log: new MemoryMirrorLog(0n, open) });
  serveProducers(session);
  const { errorCode, activeProducers } = await ask(session);
  assert.equal(errorCode, ErrorCode.NONE);
  assert.deepEqual(
    activeProducers.map(({ producerId }) => producerId),
    [7n],
  );
  assert.equal(session.broker.seen.filter(({ apiKey }) => apiKey === 61).length, 0);
});
