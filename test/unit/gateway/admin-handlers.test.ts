// Administration through the gateway: what is refused on mirrors and on our own topics, what the
// link node answers by itself, and that the rest reaches the destination.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  consumerGroupHeartbeatRequestCodec,
  createConsumerGroupHeartbeatRequest,
} from '../../../protocol/generated/consumer-group-heartbeat-request.ts';
import {
  consumerGroupHeartbeatResponseCodec,
  createConsumerGroupHeartbeatResponse,
} from '../../../protocol/generated/consumer-group-heartbeat-response.ts';
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
  createPartitionsRequestCodec,
} from '../../../protocol/generated/create-partitions-request.ts';
import {
  createCreatePartitionsResponse,
  createCreatePartitionsTopicResult,
  createPartitionsResponseCodec,
} from '../../../protocol/generated/create-partitions-response.ts';
import {
  createCreatableTopic,
  createCreateTopicsRequest,
  createTopicsRequestCodec,
} from '../../../protocol/generated/create-topics-request.ts';
import {
  createCreatableTopicResult,
  createCreateTopicsResponse,
  createTopicsResponseCodec,
} from '../../../protocol/generated/create-topics-response.ts';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
  type DeleteTopicsRequest,
  deleteTopicsRequestCodec,
} from '../../../protocol/generated/delete-topics-request.ts';
import {
  createDeletableTopicResult,
  createDeleteTopicsResponse,
  deleteTopicsResponseCodec,
} from '../../../protocol/generated/delete-topics-response.ts';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
  describeConfigsRequestCodec,
} from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import {
  createDescribeLogDirsRequest,
  describeLogDirsRequestCodec,
} from '../../../protocol/generated/describe-log-dirs-request.ts';
import { describeLogDirsResponseCodec } from '../../../protocol/generated/describe-log-dirs-response.ts';
import {
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
  incrementalAlterConfigsRequestCodec,
} from '../../../protocol/generated/incremental-alter-configs-request.ts';
import {
  createAlterConfigsResourceResponse,
  createIncrementalAlterConfigsResponse,
  incrementalAlterConfigsResponseCodec,
} from '../../../protocol/generated/incremental-alter-configs-response.ts';
import {
  createListGroupsRequest,
  listGroupsRequestCodec,
} from '../../../protocol/generated/list-groups-request.ts';
import {
  createListedGroup,
  createListGroupsResponse,
  listGroupsResponseCodec,
} from '../../../protocol/generated/list-groups-response.ts';
import {
  createListTransactionsRequest,
  listTransactionsRequestCodec,
} from '../../../protocol/generated/list-transactions-request.ts';
import { listTransactionsResponseCodec } from '../../../protocol/generated/list-transactions-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { consumerGroupHeartbeatHandler } from '../../../src/gateway/handlers/consumer-group-heartbeat.ts';
import { createCreatePartitionsHandler } from '../../../src/gateway/handlers/create-partitions.ts';
import { createCreateTopicsHandler } from '../../../src/gateway/handlers/create-topics.ts';
import { createDeleteTopicsHandler } from '../../../src/gateway/handlers/delete-topics.ts';
import { describeConfigsHandler } from '../../../src/gateway/handlers/describe-configs.ts';
import { describeLogDirsHandler } from '../../../src/gateway/handlers/describe-log-dirs.ts';
import { createIncrementalAlterConfigsHandler } from '../../../src/gateway/handlers/incremental-alter-configs.ts';
import { listGroupsHandler } from '../../../src/gateway/handlers/list-groups.ts';
import { listTransactionsHandler } from '../../../src/gateway/handlers/list-transactions.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import {
  DESCRIBE,
  exchange,
  type FakeSession,
  linkNodeId,
  mirror,
  ordersId,
  promoted,
  READ,
  sessionWith,
} from './read-fixtures.ts';

const ownTopics = new OwnTopics('__causeway');

/** What the broker got of one API. */
function sentTo(session: FakeSession, { apiKey }: { readonly apiKey?: number | undefined }) {
  const seen = session.broker.seen.filter((one) => one.apiKey === apiKey);
  return seen.map(({ message }) => message);
}

const deleteTopics = { request: deleteTopicsRequestCodec, response: deleteTopicsResponseCodec };

test('DeleteTopics: mirrors and our own topics stay, by name and by id', async () => {
  for (let version = 1; version <= 6; version++) {
    const session = sessionWith([mirror], 'bootstrap');
    session.broker.serve(deleteTopics.request, deleteTopics.response, (request) =>
      createDeleteTopicsResponse({
        responses: [...request.topicNames, ...request.topics.map(({ name }) => name)].map((name) =>
          createDeletableTopicResult({ name }),
        ),
      }),
    );
    const names = ['plain', 'orders', '__causeway_state'];
    const request = createDeleteTopicsRequest(
      version < 6
        ? { topicNames: names }
        : {
            topics: [
              createDeleteTopicState({ name: 'plain' }),
              createDeleteTopicState({ name: null, topicId: ordersId }),
              createDeleteTopicState({ name: '__causeway_state' }),
            ],
          },
    );
    const { response } = await exchange(
      session,
      createDeleteTopicsHandler(ownTopics),
      deleteTopics,
      version,
      request,
    );
    assert.deepEqual(
      response.responses.map(({ errorCode }) => errorCode),
      [0, 44, 44],
    );
    const sent = sentTo(session, deleteTopics.request)[0] as DeleteTopicsRequest;
    assert.deepEqual([...sent.topicNames, ...sent.topics.map(({ name }) => name)], ['plain']);
    if (version >= 5) assert.match(response.responses[1]?.errorMessage ?? '', /cannot be deleted/);
  }
});

test('DeleteTopics: when all is refused nothing is sent; a promoted topic may go', async () => {
  const session = sessionWith([mirror], 'bootstrap');
  const request = createDeleteTopicsRequest({ topicNames: ['orders'] });
  const handler = createDeleteTopicsHandler(ownTopics);
  const { response } = await exchange(session, handler, deleteTopics, 5, request);
  assert.equal(response.responses[0]?.errorCode, 44);
  assert.deepEqual(sentTo(session, deleteTopics.request), []);
  session.directory.put(promoted);
  session.broker.serve(deleteTopics.request, deleteTopics.response, () =>
    createDeleteTopicsResponse({ responses: [createDeletableTopicResult({ name: 'orders' })] }),
  );
  const second = await exchange(session, handler, deleteTopics, 5, request);
  assert.equal(second.response.responses[0]?.errorCode, 0);
});

test('CreateTopics: neither our own topics nor a mirror that is about to be made', async () => {
  const codecs = { request: createTopicsRequestCodec, response: createTopicsResponseCodec };
  for (let version = 2; version <= 7; version++) {
    const session = sessionWith([{ ...mirror, topicId: null }], 'bootstrap');
    session.broker.serve(codecs.request, codecs.response, ({ topics }) =>
      createCreateTopicsResponse({
        topics: topics.map(({ name }) => createCreatableTopicResult({ name })),
      }),
    );
    const { response } = await exchange(
      session,
      createCreateTopicsHandler(ownTopics),
      codecs,
      version,
      createCreateTopicsRequest({
        topics: ['plain', 'orders', '__causeway_x'].map((name) => createCreatableTopic({ name })),
      }),
    );
    assert.deepEqual(
      response.topics.map(({ name, errorCode }) => [name, errorCode]),
      [
        ['plain', 0],
        ['orders', 36],
        ['__causeway_x', 44],
      ],
    );
  }
});

test('CreateTopics: nothing is made while we cannot tell which names are mirrors', async () => {
  const codecs = { request: createTopicsRequestCodec, response: createTopicsResponseCodec };
  const session = sessionWith([], 'bootstrap');
  session.directory.isSettled = false;
  const request = createCreateTopicsRequest({ topics: [createCreatableTopic({ name: 'plain' })] });
  const handler = createCreateTopicsHandler(ownTopics);
  const { response } = await exchange(session, handler, codecs, 7, request);
  assert.equal(response.topics[0]?.errorCode, ErrorCode.REQUEST_TIMED_OUT);
  assert.deepEqual(session.broker.seen, []);
});

test('CreatePartitions: a mirror grows with its source only', async () => {
  const codecs = { request: createPartitionsRequestCodec, response: createPartitionsResponseCodec };
  const session = sessionWith([mirror], 'bootstrap');
  session.broker.serve(codecs.request, codecs.response, ({ topics }) =>
    createCreatePartitionsResponse({
      results: topics.map(({ name }) => createCreatePartitionsTopicResult({ name })),
    }),
  );
  const { response } = await exchange(
    session,
    createCreatePartitionsHandler(ownTopics),
    codecs,
    3,
    createCreatePartitionsRequest({
      topics: ['orders', 'plain', '__causeway_x'].map((name) =>
        createCreatePartitionsTopic({ name, count: 9 }),
      ),
    }),
  );
  const codes = new Map(response.results.map(({ name, errorCode }) => [name, errorCode]));
  assert.deepEqual(
    [codes.get('orders'), codes.get('plain'), codes.get('__causeway_x')],
    [37, 0, 44],
  );
});

test('configs: mirrors may be altered, our own topics and the link node not', async () => {
  const codecs = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
  };
  const session = sessionWith([mirror], 'bootstrap');
  session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
    createIncrementalAlterConfigsResponse({
      responses: resources.map(({ resourceType, resourceName }) =>
        createAlterConfigsResourceResponse({ resourceType, resourceName }),
      ),
    }),
  );
  const { response } = await exchange(
    session,
    createIncrementalAlterConfigsHandler(ownTopics),
    codecs,
    1,
    createIncrementalAlterConfigsRequest({
      resources: [
        createAlterConfigsResource({ resourceType: 2, resourceName: 'orders' }),
        createAlterConfigsResource({ resourceType: 2, resourceName: '__causeway_state' }),
        createAlterConfigsResource({ resourceType: 4, resourceName: String(linkNodeId) }),
        createAlterConfigsResource({ resourceType: 4, resourceName: '1' }),
      ],
    }),
  );
  const codes = response.responses.map((one) => [one.resourceName, one.errorCode] as const);
  assert.deepEqual(
    new Map(codes),
    new Map([
      ['orders', 0],
      ['1', 0],
      ['__causeway_state', 44],
      [String(linkNodeId), 42],
    ]),
  );
});

test('DescribeConfigs: the link node as a broker has none, and that is no error', async () => {
  const codecs = { request: describeConfigsRequestCodec, response: describeConfigsResponseCodec };
  const session = sessionWith([mirror], 'link');
  const link = createDescribeConfigsResource({
    resourceType: 4,
    resourceName: String(linkNodeId),
  });
  const request = createDescribeConfigsRequest({ resources: [link] });
  const { response } = await exchange(session, describeConfigsHandler, codecs, 4, request);
  assert.deepEqual(response.results[0]?.configs, []);
  assert.equal(response.results[0]?.errorCode, 0);
  session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
    createDescribeConfigsResponse({
      results: resources.map(({ resourceType, resourceName }) =>
        createDescribeConfigsResult({ resourceType, resourceName }),
      ),
    }),
  );
  const topic = createDescribeConfigsResource({ resourceType: 2, resourceName: 'orders' });
  const both = createDescribeConfigsRequest({ resources: [link, topic] });
  const mixed = await exchange(session, describeConfigsHandler, codecs, 4, both);
  assert.deepEqual(mixed.response.results.map(({ resourceName }) => resourceName).sort(), [
    String(linkNodeId),
    'orders',
  ]);
});

test('the link node answers what clients ask of every node by itself', async () => {
  const session = sessionWith([mirror], 'link');
  const groups = { request: listGroupsRequestCodec, response: listGroupsResponseCodec };
  const asked = createListGroupsRequest();
  assert.deepEqual(
    (await exchange(session, listGroupsHandler, groups, 5, asked)).response.groups,
    [],
  );
  const transactions = {
    request: listTransactionsRequestCodec,
    response: listTransactionsResponseCodec,
  };
  const listed = await exchange(
    session,
    listTransactionsHandler,
    transactions,
    2,
    createListTransactionsRequest(),
  );
  assert.deepEqual(listed.response.transactionStates, []);
  const dirs = { request: describeLogDirsRequestCodec, response: describeLogDirsResponseCodec };
  const described = await exchange(
    session,
    describeLogDirsHandler,
    dirs,
    4,
    createDescribeLogDirsRequest({ topics: null }),
  );
  // Java's admin client takes an empty list for "not authorized".
  assert.equal(described.response.results.length, 1);
  assert.deepEqual(described.response.results[0]?.topics, []);
  assert.deepEqual(session.broker.seen, []);

  const broker = sessionWith([mirror], 'broker');
  broker.broker.serve(groups.request, groups.response, () =>
    createListGroupsResponse({ groups: [createListedGroup({ groupId: 'g' })] }),
  );
  const far = await exchange(broker, listGroupsHandler, groups, 5, asked);
  assert.equal(far.response.groups[0]?.groupId, 'g');
});

test('who may not delete or grow a mirror hears that, and not that it is one', async () => {
  const session = sessionWith([mirror], 'bootstrap');
  session.broker.operations.set('orders', READ | DESCRIBE);
  const deleting6 = createDeleteTopicsRequest({
    topics: [createDeleteTopicState({ name: null, topicId: ordersId })],
  });
  const deleter = createDeleteTopicsHandler(ownTopics);
  const deleted = await exchange(session, deleter, deleteTopics, 6, deleting6);
  assert.equal(deleted.response.responses[0]?.errorCode, 29);
  const grown = await exchange(
    session,
    createCreatePartitionsHandler(ownTopics),
    { request: createPartitionsRequestCodec, response: createPartitionsResponseCodec },
    3,
    createCreatePartitionsRequest({
      topics: [createCreatePartitionsTopic({ name: 'orders', count: 9 })],
    }),
  );
  assert.equal(grown.response.results[0]?.errorCode, 29);
});

test('a member that comes from another cluster is told to join again', async () => {
  const codecs = {
    request: consumerGroupHeartbeatRequestCodec,
    response: consumerGroupHeartbeatResponseCodec,
  };
  for (const [memberEpoch, expected] of [
    [7, 25],
    [0, 69],
    [-1, 69],
  ] as const) {
    const session = sessionWith([], 'broker');
    session.broker.serve(codecs.request, codecs.response, () =>
      createConsumerGroupHeartbeatResponse({ errorCode: 69, errorMessage: 'no such group' }),
    );
    const request = createConsumerGroupHeartbeatRequest({ groupId: 'g', memberEpoch });
    const handler = consumerGroupHeartbeatHandler;
    const { response } = await exchange(session, handler, codecs, 1, request);
    assert.equal(response.errorCode, expected);
  }
});
