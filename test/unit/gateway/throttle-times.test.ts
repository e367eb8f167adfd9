// For how long a broker throttles a client, where the answer is put together of several of the
// broker's: the client must hear of the longest, or it does not keep away for that long.
//
// Owns: one promoted topic, or one mirror, and a broker that throttles. Invariant: every API whose
// answers are put together is here (ListOffsets has a test beside its others).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCodec } from '../../../protocol/codec.ts';
import {
  alterConfigsRequestCodec,
  createAlterableConfig,
  createAlterConfigsRequest,
  createAlterConfigsResource,
} from '../../../protocol/generated/alter-configs-request.ts';
import {
  alterConfigsResponseCodec,
  createAlterConfigsResponse,
} from '../../../protocol/generated/alter-configs-response.ts';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
  deleteRecordsRequestCodec,
} from '../../../protocol/generated/delete-records-request.ts';
import { deleteRecordsResponseCodec } from '../../../protocol/generated/delete-records-response.ts';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
  deleteTopicsRequestCodec,
} from '../../../protocol/generated/delete-topics-request.ts';
import { deleteTopicsResponseCodec } from '../../../protocol/generated/delete-topics-response.ts';
import { describeConfigsRequestCodec } from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import {
  createDescribeProducersRequest,
  createTopicRequest,
  describeProducersRequestCodec,
} from '../../../protocol/generated/describe-producers-request.ts';
import {
  createDescribeProducersResponse,
  describeProducersResponseCodec,
} from '../../../protocol/generated/describe-producers-response.ts';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  fetchRequestCodec,
} from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchResponse,
  fetchResponseCodec,
} from '../../../protocol/generated/fetch-response.ts';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
  offsetForLeaderEpochRequestCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  createOffsetForLeaderEpochResponse,
  offsetForLeaderEpochResponseCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-response.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  produceRequestCodec,
} from '../../../protocol/generated/produce-request.ts';
import { produceResponseCodec } from '../../../protocol/generated/produce-response.ts';
import { ApiKey } from '../../../protocol/index.ts';
import { createHandlers } from '../../../src/gateway/handler-table.ts';
import { createAlterConfigsHandler } from '../../../src/gateway/handlers/alter-configs.ts';
import { describeProducersHandler } from '../../../src/gateway/handlers/describe-producers.ts';
import { offsetForLeaderEpochHandler } from '../../../src/gateway/handlers/offset-for-leader-epoch.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { fetch, virtualBroker } from './promoted-fixtures.ts';
import { exchange, FakeSession, ordersId, otherId } from './read-fixtures.ts';

test('Fetch: the longer throttle of the two requests that it was made of was lost', async () => {
  for (const [asked, read, told] of [
    [70, 30, 70],
    [30, 70, 70],
  ] as const) {
    const session = virtualBroker();
    session.broker.serve(fetchRequestCodec, fetchResponseCodec, ({ maxBytes }) =>
      createFetchResponse({ throttleTimeMs: maxBytes === 1 ? asked : read }),
    );
    const asks = [{ fetchOffset: 60n }, { name: 'ordinary', id: otherId, fetchOffset: 5n }];
    const { disposition, response } = await fetch(session, asks, { sessionEpoch: 0 });
    assert.deepEqual([disposition, response.throttleTimeMs], ['answer', told]);
  }
});

test('OffsetForLeaderEpoch: the throttle of promoted topics was lost', async () => {
  const session = virtualBroker();
  const codecs = {
    request: offsetForLeaderEpochRequestCodec,
    response: offsetForLeaderEpochResponseCodec,
  };
  session.broker.serve(codecs.request, codecs.response, () => createOffsetForLeaderEpochResponse());
  session.broker.throttles.set(ApiKey.OffsetForLeaderEpoch, 70);
  const partitions = [createOffsetForLeaderPartition({ partition: 0, leaderEpoch: 7 })];
  const request = createOffsetForLeaderEpochRequest({
    replicaId: -1,
    topics: [createOffsetForLeaderTopic({ topic: 'orders', partitions })],
  });
  const { response } = await exchange(session, offsetForLeaderEpochHandler, codecs, 4, request);
  assert.equal(response.throttleTimeMs, 70);
});

test('DescribeProducers: the throttle of promoted topics was lost', async () => {
  const session = virtualBroker();
  const codecs = {
    request: describeProducersRequestCodec,
    response: describeProducersResponseCodec,
  };
  session.broker.serve(codecs.request, codecs.response, () => createDescribeProducersResponse());
  session.broker.throttles.set(ApiKey.DescribeProducers, 70);
  const request = createDescribeProducersRequest({
    topics: [createTopicRequest({ name: 'orders', partitionIndexes: [0] })],
  });
  const { response } = await exchange(session, describeProducersHandler, codecs, 0, request);
  assert.equal(response.throttleTimeMs, 70);
});

test('AlterConfigs: the throttle of what was asked before was lost', async () => {
  for (const [described, altered, told] of [
    [70, 30, 70],
    [30, 70, 70],
  ] as const) {
    const session = new FakeSession({ kind: 'bootstrap' });
    session.directory.put({ name: 'orders', mode: 'mirror', log: null });
    const codecs = { request: alterConfigsRequestCodec, response: alterConfigsResponseCodec };
    session.broker.serve(codecs.request, codecs.response, () => createAlterConfigsResponse());
    session.broker.serve(describeConfigsRequestCodec, describeConfigsResponseCodec, () =>
      createDescribeConfigsResponse({
        results: [createDescribeConfigsResult({ resourceType: 2, resourceName: 'orders' })],
      }),
    );
    session.broker.throttles.set(ApiKey.DescribeConfigs, described);
    session.broker.throttles.set(ApiKey.AlterConfigs, altered);
    const configs = [createAlterableConfig({ name: 'retention.ms', value: '1' })];
    const resource = createAlterConfigsResource({
      resourceType: 2,
      resourceName: 'orders',
      configs,
    });
    const { response } = await exchange(
      session,
      createAlterConfigsHandler(new OwnTopics('__causeway')),
      codecs,
      2,
      createAlterConfigsRequest({ resources: [resource] }),
    );
    assert.equal(response.throttleTimeMs, told);
  }
});

interface Refused {
  readonly what: string;
  readonly codecs: {
    readonly request: MessageCodec<object>;
    readonly response: MessageCodec<{ throttleTimeMs: number }>;
  };
  readonly version: number;
  readonly request: object;
  readonly isAtLinkNode?: true;
}

function refused<Request extends object, Response extends { throttleTimeMs: number }>(
  what: string,
  codecs: { readonly request: MessageCodec<Request>; readonly response: MessageCodec<Response> },
  rest: { readonly version: number; readonly request: Request; readonly isAtLinkNode?: true },
): Refused {
  return { what, codecs: codecs as unknown as Refused['codecs'], ...rest };
}

const produceCodecs = { request: produceRequestCodec, response: produceResponseCodec };
const deleteCodecs = { request: deleteTopicsRequestCodec, response: deleteTopicsResponseCodec };
const partitionData = [createPartitionProduceData({ index: 0, records: Buffer.alloc(1) })];
const writes = createProduceRequest({
  acks: -1,
  topicData: ['orders', 'plain'].map((name) => createTopicProduceData({ name, partitionData })),
});
const deletions = createDeleteTopicsRequest({
  topics: ['orders', 'plain'].map((name) => createDeleteTopicState({ name })),
});
const read = [createFetchPartition({ partition: 0 })];

/** Of a mirror `orders`, whose rights are asked for; of `plain` the broker answers, or nobody. */
const onMirrors: readonly Refused[] = [
  refused('Produce, all of it', produceCodecs, {
    version: 12,
    request: { ...writes, topicData: writes.topicData.slice(0, 1) },
  }),
  refused('Produce in part', produceCodecs, { version: 12, request: writes }),
  refused('Produce to what is led elsewhere', produceCodecs, {
    version: 12,
    request: { ...writes, topicData: writes.topicData.slice(1) },
    isAtLinkNode: true,
  }),
  refused('DeleteTopics, all of it', deleteCodecs, {
    version: 6,
    request: { ...deletions, topics: deletions.topics.slice(0, 1) },
  }),
  refused('DeleteTopics in part', deleteCodecs, { version: 6, request: deletions }),
  refused(
    'DeleteRecords',
    { request: deleteRecordsRequestCodec, response: deleteRecordsResponseCodec },
    {
      version: 2,
      request: createDeleteRecordsRequest({
        topics: [
          createDeleteRecordsTopic({
            name: 'orders',
            partitions: [createDeleteRecordsPartition({ partitionIndex: 0, offset: 1n })],
          }),
        ],
      }),
    },
  ),
  refused(
    'Fetch',
    { request: fetchRequestCodec, response: fetchResponseCodec },
    {
      version: 17,
      request: createFetchRequest({
        topics: [createFetchTopic({ topicId: ordersId, partitions: read })],
      }),
      isAtLinkNode: true,
    },
  ),
];

for (const { what, codecs, version, request, isAtLinkNode } of onMirrors) {
  test(`${what}: the throttle of asking for rights or leaders was lost`, async () => {
    const session = new FakeSession(isAtLinkNode ? { kind: 'link' } : { kind: 'bootstrap' });
    session.directory.put({ name: 'orders', mode: 'mirror', log: null });
    session.broker.operations.set('plain', session.broker.operations.get('orders') ?? 0);
    session.broker.serve(codecs.request, codecs.response, () =>
      Object.assign(codecs.response.create(), { throttleTimeMs: 30 }),
    );
    session.broker.throttles.set(ApiKey.Metadata, 70);
    const handler = createHandlers(new OwnTopics('__causeway')).get(codecs.request.apiKey ?? -1);
    assert.ok(handler !== undefined);
    const { response } = await exchange(session, handler, codecs, version, request);
    assert.equal(response.throttleTimeMs, 70);
  });
}
