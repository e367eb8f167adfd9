// Requests that name a partition more than once: each API has its own way with them, and ours must
// be the broker's (test/kafka/as-a-broker.test.ts asks one). Refuses to know what is answered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
  deleteRecordsRequestCodec,
} from '../../../protocol/generated/delete-records-request.ts';
import {
  createDeleteRecordsResponse,
  deleteRecordsResponseCodec,
} from '../../../protocol/generated/delete-records-response.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  type ListOffsetsRequest,
  listOffsetsRequestCodec,
} from '../../../protocol/generated/list-offsets-request.ts';
import {
  createListOffsetsPartitionResponse,
  createListOffsetsResponse,
  createListOffsetsTopicResponse,
  listOffsetsResponseCodec,
} from '../../../protocol/generated/list-offsets-response.ts';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
  offsetForLeaderEpochRequestCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  createEpochEndOffset,
  createOffsetForLeaderEpochResponse,
  createOffsetForLeaderTopicResult,
  offsetForLeaderEpochResponseCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-response.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  produceRequestCodec,
} from '../../../protocol/generated/produce-request.ts';
import {
  createProduceResponse,
  produceResponseCodec,
} from '../../../protocol/generated/produce-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { createDeleteRecordsHandler } from '../../../src/gateway/handlers/delete-records.ts';
import { listOffsetsHandler } from '../../../src/gateway/handlers/list-offsets.ts';
import { offsetForLeaderEpochHandler } from '../../../src/gateway/handlers/offset-for-leader-epoch.ts';
import { createProduceHandler } from '../../../src/gateway/handlers/produce.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import {
  exchange,
  type FakeSession,
  mirror,
  promoted,
  READ,
  sessionWith,
} from './read-fixtures.ts';

const { NONE, INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER } = ErrorCode;
const { TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION } = ErrorCode;

const listOffsets = { request: listOffsetsRequestCodec, response: listOffsetsResponseCodec };
const leaderEpochs = {
  request: offsetForLeaderEpochRequestCodec,
  response: offsetForLeaderEpochResponseCodec,
};
const deleteRecords = { request: deleteRecordsRequestCodec, response: deleteRecordsResponseCodec };
const produce = { request: produceRequestCodec, response: produceResponseCodec };

const log = (): MemoryMirrorLog => new MemoryMirrorLog(0n, batch(0n, 100));

type Named = readonly [topic: string, ...partitions: number[]];

async function listed(session: FakeSession, ...named: readonly Named[]) {
  const topics = named.map(([name, ...partitions]) =>
    createListOffsetsTopic({
      name,
      partitions: partitions.map((partitionIndex, index) =>
        createListOffsetsPartition({ partitionIndex, timestamp: index === 0 ? -1n : -2n }),
      ),
    }),
  );
  const request = createListOffsetsRequest({ replicaId: -1, topics });
  const { response } = await exchange(session, listOffsetsHandler, listOffsets, 11, request);
  return response.topics.map(({ name, partitions }) => [
    name,
    ...partitions.map(({ partitionIndex, errorCode }) => [partitionIndex, errorCode]),
  ]);
}

/** As Kafka: the repeated one once, with 42. */
function serveListOffsets({ broker }: FakeSession): void {
  broker.serve(listOffsets.request, listOffsets.response, ({ topics }) =>
    createListOffsetsResponse({
      topics: topics.map(({ name, partitions }) => {
        const indexes = partitions.map(({ partitionIndex }) => partitionIndex);
        return createListOffsetsTopicResponse({
          name,
          partitions: [...new Set(indexes)].map((partitionIndex) => {
            const isOnce = indexes.indexOf(partitionIndex) === indexes.lastIndexOf(partitionIndex);
            const errorCode = isOnce ? NONE : INVALID_REQUEST;
            return createListOffsetsPartitionResponse({ partitionIndex, errorCode, offset: 30n });
          }),
        });
      }),
    }),
  );
}

test('ListOffsets answered a partition of a mirror as often as it was named: 42, and once', async () => {
  const session = sessionWith([{ ...mirror, log: log() }], 'link');
  assert.deepEqual(await listed(session, ['orders', 0, 1, 0, 0]), [
    ['orders', [0, INVALID_REQUEST], [1, UNKNOWN_TOPIC_OR_PARTITION]],
  ]);
  assert.deepEqual(await listed(session, ['orders', 0], ['orders', 0]), [
    ['orders', [0, INVALID_REQUEST]],
  ]);
  assert.deepEqual(await listed(session, ['orders', 1, 1]), [['orders', [1, INVALID_REQUEST]]]);
  assert.deepEqual(await listed(session, ['orders']), []);
});

test('ListOffsets asked the broker twice for what is named twice, and gave 42 twice', async () => {
  const session = sessionWith([{ ...promoted, log: log() }], 'broker');
  serveListOffsets(session);
  assert.deepEqual(await listed(session, ['orders', 0, 0], ['plain', 3, 3, 4]), [
    ['orders', [0, INVALID_REQUEST]],
    ['plain', [3, INVALID_REQUEST], [4, NONE]],
  ]);
  const asked = session.broker.seen.filter(({ apiKey }) => apiKey === 2);
  assert.deepEqual(
    asked.flatMap(({ message }) => (message as ListOffsetsRequest).topics.map(({ name }) => name)),
    ['plain'],
    'of the other one nothing is looked up',
  );
});

test('who may not describe a topic hears that for each partition that is named', async () => {
  const session = sessionWith([{ ...mirror, log: log() }], 'link');
  session.broker.operations.set('orders', READ);
  assert.deepEqual(await listed(session, ['orders', 0, 0]), [
    ['orders', [0, TOPIC_AUTHORIZATION_FAILED], [0, TOPIC_AUTHORIZATION_FAILED]],
  ]);
});

test('of two epochs of one partition both were told the end of the last', async () => {
  const session = sessionWith([{ ...promoted, log: log() }], 'broker');
  // Native epoch 2 is V0 = 6.
  const ends = new Map([
    [2, 20n],
    [3, 30n],
  ]);
  session.broker.serve(leaderEpochs.request, leaderEpochs.response, ({ topics }) =>
    createOffsetForLeaderEpochResponse({
      topics: topics.map(({ topic, partitions }) =>
        createOffsetForLeaderTopicResult({
          topic,
          partitions: partitions.map(({ partition, leaderEpoch, currentLeaderEpoch }) =>
            currentLeaderEpoch === 9
              ? createEpochEndOffset({ partition, errorCode: NOT_LEADER_OR_FOLLOWER })
              : createEpochEndOffset({
                  partition,
                  leaderEpoch,
                  endOffset: ends.get(leaderEpoch) ?? -1n,
                }),
          ),
        }),
      ),
    }),
  );
  const ask = (leaderEpoch: number, currentLeaderEpoch = -1) =>
    createOffsetForLeaderPartition({ partition: 0, leaderEpoch, currentLeaderEpoch });
  const request = createOffsetForLeaderEpochRequest({
    replicaId: -1,
    topics: [
      createOffsetForLeaderTopic({ topic: 'orders', partitions: [ask(6), ask(0), ask(7)] }),
      createOffsetForLeaderTopic({ topic: 'plain', partitions: [ask(2), ask(3, 9)] }),
      createOffsetForLeaderTopic({ topic: 'orders', partitions: [ask(6)] }),
    ],
  });
  const handler = offsetForLeaderEpochHandler;
  const { response } = await exchange(session, handler, leaderEpochs, 4, request);
  assert.deepEqual(
    response.topics.map(({ topic, partitions }) => [
      topic,
      ...partitions.map(({ errorCode, endOffset }) => errorCode || endOffset),
    ]),
    [
      ['orders', 112n, 100n, 122n],
      ['plain', 20n, NOT_LEADER_OR_FOLLOWER],
      ['orders', 112n],
    ],
  );
});

test('DeleteRecords refused a partition of a mirror as often as it was named', async () => {
  const session = sessionWith([mirror], 'broker');
  const partitions = [3n, 5n, 7n].map((offset, index) =>
    createDeleteRecordsPartition({ partitionIndex: index % 2, offset }),
  );
  const names = ['orders', '__causeway_state', 'orders'];
  const topics = names.map((name) => createDeleteRecordsTopic({ name, partitions }));
  session.broker.serve(deleteRecords.request, deleteRecords.response, () =>
    createDeleteRecordsResponse(),
  );
  const request = createDeleteRecordsRequest({ topics });
  const handler = createDeleteRecordsHandler(new OwnTopics('__causeway'));
  const { response } = await exchange(session, handler, deleteRecords, 2, request);
  assert.deepEqual(
    response.topics.map(({ name, partitions: results }) => [
      name,
      ...results.map(({ partitionIndex }) => partitionIndex),
    ]),
    [
      ['orders', 0, 1],
      ['__causeway_state', 0, 1],
    ],
  );
});

test('Produce refused a partition of a mirror as often as it was named', async () => {
  const session = sessionWith([{ ...mirror, log: log() }], 'broker');
  session.broker.serve(produce.request, produce.response, () => createProduceResponse());
  const records = batch(0n, 1);
  const topic = (name: string, ...indexes: number[]) =>
    createTopicProduceData({
      name,
      partitionData: indexes.map((index) => createPartitionProduceData({ index, records })),
    });
  const request = createProduceRequest({
    acks: -1,
    topicData: [topic('orders', 0, 1, 0), topic('plain', 0), topic('orders', 1, 2)],
  });
  const handler = createProduceHandler(new OwnTopics('__causeway'));
  const { response } = await exchange(session, handler, produce, 9, request);
  assert.deepEqual(
    response.responses.map(({ name, partitionResponses }) => [
      name,
      ...partitionResponses.map(({ index }) => index),
    ]),
    [['orders', 0, 1, 2]],
  );
});
