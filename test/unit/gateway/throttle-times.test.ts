// For how long a broker throttles a client, where the answer is put together of several of the
// broker's: the client must hear of the longest, or it does not keep away for that long.
//
// Owns: one promoted topic, or one mirror, and a broker that throttles. Invariant: every API whose
// answers are put together is here (ListOffsets has a test beside its others).
import assert from 'node:assert/strict';
import { test } from 'node:test';
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
import { fetchRequestCodec } from '../../../protocol/generated/fetch-request.ts';
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
import { ApiKey } from '../../../protocol/index.ts';
import { createAlterConfigsHandler } from '../../../src/gateway/handlers/alter-configs.ts';
import { describeProducersHandler } from '../../../src/gateway/handlers/describe-producers.ts';
import { offsetForLeaderEpochHandler } from '../../../src/gateway/handlers/offset-for-leader-epoch.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { fetch, virtualBroker } from './promoted-fixtures.ts';
import { exchange, FakeSession, otherId } from './read-fixtures.ts';

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
