// DeleteRecords: what of an ordinary, a mirrored and a promoted topic may go, and where from.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
  type DeleteRecordsRequest,
  deleteRecordsRequestCodec,
} from '../../../protocol/generated/delete-records-request.ts';
import {
  createDeleteRecordsPartitionResult,
  createDeleteRecordsResponse,
  createDeleteRecordsTopicResult,
  deleteRecordsResponseCodec,
} from '../../../protocol/generated/delete-records-response.ts';
import { ApiKey, ErrorCode } from '../../../protocol/index.ts';
import { createDeleteRecordsHandler } from '../../../src/gateway/handlers/delete-records.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import {
  DESCRIBE,
  exchange,
  type FakeSession,
  mirror,
  promoted,
  READ,
  sessionWith,
} from './read-fixtures.ts';

const ownTopics = new OwnTopics('__causeway');

const deleteRecords = { request: deleteRecordsRequestCodec, response: deleteRecordsResponseCodec };

/** `refused`: how the broker answers, whatever it is asked to delete. */
async function deleting(session: FakeSession, name: string, offset: bigint, refused = 0) {
  session.broker.serve(deleteRecords.request, deleteRecords.response, ({ topics }) =>
    createDeleteRecordsResponse({
      topics: topics.map((topic) =>
        createDeleteRecordsTopicResult({
          name: topic.name,
          partitions: topic.partitions.map((one) =>
            createDeleteRecordsPartitionResult({
              partitionIndex: one.partitionIndex,
              errorCode: refused,
              lowWatermark: refused !== 0 ? -1n : one.offset < 0n ? 30n : one.offset,
            }),
          ),
        }),
      ),
    }),
  );
  const request = createDeleteRecordsRequest({
    topics: [
      createDeleteRecordsTopic({
        name,
        partitions: [createDeleteRecordsPartition({ partitionIndex: 0, offset })],
      }),
    ],
  });
  const handler = createDeleteRecordsHandler(ownTopics);
  const { response } = await exchange(session, handler, deleteRecords, 2, request);
  const [seen] = session.broker.seen.filter(({ apiKey }) => apiKey === ApiKey.DeleteRecords);
  const sent = seen?.message as DeleteRecordsRequest | undefined;
  return {
    result: response.topics[0]?.partitions[0],
    sentOffset: sent?.topics[0]?.partitions[0]?.offset,
  };
}

test('DeleteRecords: refused on mirrors and our own topics, passed on ordinary ones', async () => {
  const refused = await deleting(sessionWith([mirror], 'broker'), 'orders', 5n);
  assert.deepEqual([refused.result?.errorCode, refused.sentOffset], [44, undefined]);
  const own = await deleting(sessionWith([], 'broker'), '__causeway_state', 5n);
  assert.deepEqual([own.result?.errorCode, own.sentOffset], [44, undefined]);
  const plain = await deleting(sessionWith([mirror], 'broker'), 'plain', 5n);
  assert.deepEqual([plain.result?.errorCode, plain.result?.lowWatermark], [0, 5n]);
  const stray = await deleting(sessionWith([mirror], 'link'), 'plain', 5n);
  assert.deepEqual([stray.result?.errorCode, stray.sentOffset], [6, undefined]);
});

test('DeleteRecords in the copied part of a promoted topic was refused: its head goes', async () => {
  const log = new MemoryMirrorLog(40n, batch(40n, 20), batch(60n, 40));
  const session = () => sessionWith([{ ...promoted, log }], 'broker');
  for (const [offset, start] of [
    // Below the start of the log nothing is there to go.
    [7n, 40n],
    [60n, 60n],
    [99n, 99n],
    [60n, 99n],
  ] as const) {
    const { result, sentOffset } = await deleting(session(), 'orders', offset);
    assert.deepEqual([result?.errorCode, result?.lowWatermark], [0, start]);
    assert.equal(sentOffset, 0n, 'the shell loses nothing');
    assert.equal(log.logStart, start);
  }
});

test('DeleteRecords in a copy took what its broker refuses: compacted topics keep their records', async () => {
  const log = new MemoryMirrorLog(40n, batch(40n, 60));
  const session = () => sessionWith([{ ...promoted, log }], 'broker');
  for (const refused of [
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  ]) {
    for (const offset of [60n, 100n, 105n, -1n]) {
      const { result } = await deleting(session(), 'orders', offset, refused);
      assert.deepEqual([result?.errorCode, result?.lowWatermark], [refused, -1n]);
      assert.equal(log.logStart, 40n);
    }
  }
});

test('DeleteRecords said yes for a copy that cannot be reached', async () => {
  const session = () => sessionWith([promoted], 'broker');
  // At n itself nothing of the shell is deleted, so that the copy would still count.
  for (const offset of [60n, 100n]) {
    const { result } = await deleting(session(), 'orders', offset);
    assert.deepEqual([result?.errorCode, result?.lowWatermark], [56, -1n]);
  }
  const { result } = await deleting(session(), 'orders', 101n);
  assert.deepEqual([result?.errorCode, result?.lowWatermark], [0, 101n]);
});

test('who may not delete records hears that, not what the topic is, and deletes nothing', async () => {
  const session = sessionWith([mirror], 'broker');
  session.broker.operations.set('orders', READ | DESCRIBE);
  const { result, sentOffset } = await deleting(session, 'orders', 60n);
  assert.deepEqual([result?.errorCode, result?.lowWatermark], [29, -1n]);
  assert.equal(sentOffset, undefined);
});

test('DeleteRecords on a promoted topic: from the splice on shifted, the copy goes whole', async () => {
  const log = new MemoryMirrorLog(40n, batch(40n, 60));
  // S = 100, n = 8.
  const above = await deleting(sessionWith([{ ...promoted, log }], 'broker'), 'orders', 105n);
  assert.deepEqual([above.sentOffset, above.result?.lowWatermark], [13n, 105n]);
  assert.equal(log.logStart, 100n, 'the copy went with it');
  const all = await deleting(sessionWith([promoted], 'broker'), 'orders', -1n);
  assert.deepEqual([all.sentOffset, all.result?.lowWatermark], [-1n, 122n]);
  const link = await deleting(sessionWith([promoted], 'link'), 'orders', 105n);
  assert.deepEqual([link.result?.errorCode, link.sentOffset], [6, undefined]);
});
