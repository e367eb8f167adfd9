// Changes of configs on mirrors: keys that follow the source, and all others; and on the link node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AlterConfigsRequest,
  alterConfigsRequestCodec,
  createAlterConfigsRequest,
  createAlterableConfig as createFullConfig,
  createAlterConfigsResource as createFullResource,
} from '../../../protocol/generated/alter-configs-request.ts';
import {
  alterConfigsResponseCodec,
  createAlterConfigsResponse,
  createAlterConfigsResourceResponse as createFullResponse,
} from '../../../protocol/generated/alter-configs-response.ts';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
  describeConfigsRequestCodec,
} from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
  createDescribeConfigsSynonym,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import {
  createAlterableConfig,
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
  incrementalAlterConfigsRequestCodec,
} from '../../../protocol/generated/incremental-alter-configs-request.ts';
import {
  createAlterConfigsResourceResponse,
  createIncrementalAlterConfigsResponse,
  incrementalAlterConfigsResponseCodec,
} from '../../../protocol/generated/incremental-alter-configs-response.ts';
import { ApiKey, ErrorCode } from '../../../protocol/index.ts';
import { createAlterConfigsHandler } from '../../../src/gateway/handlers/alter-configs.ts';
import { describeConfigsHandler } from '../../../src/gateway/handlers/describe-configs.ts';
import { createIncrementalAlterConfigsHandler } from '../../../src/gateway/handlers/incremental-alter-configs.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import {
  DESCRIBE,
  exchange,
  FakeSession,
  linkNodeId,
  mirror,
  promoted,
  type TopicFixture,
} from './read-fixtures.ts';

const ownTopics = new OwnTopics('__causeway');

test('configs: what always follows the source is refused on a mirror, and free after promotion', async () => {
  const codecs = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
  };
  const cases: readonly [TopicFixture, string, number][] = [
    [mirror, 'cleanup.policy', 44],
    [mirror, 'retention.ms', 0],
    [promoted, 'cleanup.policy', 0],
  ];
  for (const [topic, name, wanted] of cases) {
    const session = new FakeSession({ kind: 'bootstrap' });
    session.directory.put(topic);
    session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
      createIncrementalAlterConfigsResponse({
        responses: resources.map(({ resourceType, resourceName }) =>
          createAlterConfigsResourceResponse({ resourceType, resourceName }),
        ),
      }),
    );
    const configs = [createAlterableConfig({ name, value: 'x' })];
    const resource = createAlterConfigsResource({
      resourceType: 2,
      resourceName: 'orders',
      configs,
    });
    const { response } = await exchange(
      session,
      createIncrementalAlterConfigsHandler(ownTopics),
      codecs,
      1,
      createIncrementalAlterConfigsRequest({ resources: [resource] }),
    );
    const [answer] = response.responses;
    assert.equal(answer?.errorCode, wanted, name);
    if (wanted !== 0) assert.match(answer?.errorMessage ?? '', /its cleanup\.policy follows/);
  }
});

test('AlterConfigs: what it names otherwise, or leaves out, of the synced keys is refused', async () => {
  const codecs = { request: alterConfigsRequestCodec, response: alterConfigsResponseCodec };
  const ask = async (configs: Readonly<Record<string, string>>, describeError = 0) => {
    const session = new FakeSession({ kind: 'bootstrap' });
    session.directory.put(mirror);
    session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
      createAlterConfigsResponse({
        responses: resources.map(({ resourceType, resourceName }) =>
          createFullResponse({ resourceType, resourceName }),
        ),
      }),
    );
    const current = [
      createDescribeConfigsResourceResult({
        name: 'cleanup.policy',
        value: 'compact',
        configSource: 1,
      }),
      createDescribeConfigsResourceResult({
        name: 'max.message.bytes',
        value: '1048588',
        configSource: 5,
      }),
    ];
    session.broker.serve(describeConfigsRequestCodec, describeConfigsResponseCodec, () =>
      createDescribeConfigsResponse({
        results: [
          createDescribeConfigsResult({
            errorCode: describeError,
            resourceType: 2,
            resourceName: 'orders',
            configs: current,
          }),
        ],
      }),
    );
    const { response } = await exchange(
      session,
      createAlterConfigsHandler(ownTopics),
      codecs,
      2,
      createAlterConfigsRequest({
        resources: ['orders', 'plain', '__causeway_state'].map((resourceName) =>
          createFullResource({
            resourceType: 2,
            resourceName,
            configs: Object.entries(configs).map(([name, value]) =>
              createFullConfig({ name, value }),
            ),
          }),
        ),
      }),
    );
    const sent = session.broker.seen.at(-1)?.message as AlterConfigsRequest;
    return {
      codes: new Map(response.responses.map((one) => [one.resourceName, one.errorCode])),
      sent: sent.resources.map(({ resourceName }) => resourceName),
    };
  };
  const kept = { 'cleanup.policy': 'compact', 'retention.ms': '1' };
  const others = [
    ['plain', 0],
    ['__causeway_state', 44],
  ] as const;
  assert.deepEqual((await ask(kept)).codes, new Map([['orders', 0], ...others]));
  assert.deepEqual((await ask(kept)).sent, ['orders', 'plain']);
  for (const changing of [
    { 'retention.ms': '1' },
    { 'cleanup.policy': 'delete' },
    { ...kept, 'max.message.bytes': '7' },
  ]) {
    const { codes, sent } = await ask(changing);
    assert.deepEqual(codes, new Map([['orders', 44], ...others]), JSON.stringify(changing));
    assert.deepEqual(sent, ['plain']);
  }
  assert.equal((await ask(kept, 29)).codes.get('orders'), 29, 'no answer means no');
});

test('configs: of a topic that may be a mirror for all that we know none are changed', async () => {
  const incremental = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
  };
  const full = { request: alterConfigsRequestCodec, response: alterConfigsResponseCodec };
  for (const mode of ['unavailable', 'unsettled'] as const) {
    const session = new FakeSession({ kind: 'bootstrap' });
    if (mode === 'unavailable') session.directory.put({ ...mirror, mode });
    else session.directory.isSettled = false;
    const resource = { resourceType: 2, resourceName: 'orders' };
    const one = await exchange(
      session,
      createIncrementalAlterConfigsHandler(ownTopics),
      incremental,
      1,
      createIncrementalAlterConfigsRequest({ resources: [createAlterConfigsResource(resource)] }),
    );
    const other = await exchange(
      session,
      createAlterConfigsHandler(ownTopics),
      full,
      2,
      createAlterConfigsRequest({ resources: [createFullResource(resource)] }),
    );
    for (const { response } of [one, other]) {
      assert.equal(response.responses[0]?.errorCode, ErrorCode.REQUEST_TIMED_OUT, mode);
    }
    const altered = session.broker.seen.filter(({ apiKey }) => apiKey !== ApiKey.Metadata);
    assert.deepEqual(altered, [], 'the destination never hears of it');
  }
});

test('configs: who may not alter a mirror hears that, and not that it is one', async () => {
  const session = new FakeSession({ kind: 'bootstrap' });
  session.directory.put(mirror);
  session.broker.operations.set('orders', DESCRIBE);
  const resource = { resourceType: 2, resourceName: 'orders' };
  const configs = [createAlterableConfig({ name: 'cleanup.policy', value: 'delete' })];
  const { response } = await exchange(
    session,
    createIncrementalAlterConfigsHandler(ownTopics),
    {
      request: incrementalAlterConfigsRequestCodec,
      response: incrementalAlterConfigsResponseCodec,
    },
    1,
    createIncrementalAlterConfigsRequest({
      resources: [createAlterConfigsResource({ ...resource, configs })],
    }),
  );
  assert.equal(response.responses[0]?.errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
});

test('taking configs away from the link node does nothing, and is no error', async () => {
  const codecs = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
  };
  for (const [configOperation, wanted] of [
    [1, 0],
    [0, 42],
  ] as const) {
    const session = new FakeSession({ kind: 'bootstrap' });
    const throttle = createAlterableConfig({
      name: 'leader.replication.throttled.rate',
      configOperation,
      value: configOperation === 1 ? null : '1',
    });
    const resource = createAlterConfigsResource({
      resourceType: 4,
      resourceName: String(linkNodeId),
      configs: [throttle],
    });
    const { response } = await exchange(
      session,
      createIncrementalAlterConfigsHandler(ownTopics),
      codecs,
      1,
      createIncrementalAlterConfigsRequest({ resources: [resource] }),
    );
    assert.deepEqual(
      response.responses.map(({ errorCode }) => errorCode),
      [wanted],
    );
    assert.deepEqual(session.broker.seen, []);
  }
});

const describeCodecs = {
  request: describeConfigsRequestCodec,
  response: describeConfigsResponseCodec,
};

/** Each resource has the given configs, with themselves as synonyms. */
function serveConfigs(session: FakeSession, values: Readonly<Record<string, string>>): void {
  session.broker.serve(describeCodecs.request, describeCodecs.response, ({ resources }) =>
    createDescribeConfigsResponse({
      results: resources.map(({ resourceType, resourceName }) =>
        createDescribeConfigsResult({
          resourceType,
          resourceName,
          configs: Object.entries(values).map(([name, value]) =>
            createDescribeConfigsResourceResult({
              name,
              value,
              synonyms: [createDescribeConfigsSynonym({ name, value, source: 4 })],
            }),
          ),
        }),
      ),
    }),
  );
}

test("R2: a broker's configs do not tell its address", async () => {
  for (const version of [1, 2, 3, 4]) {
    const session = new FakeSession({ kind: 'broker', nodeId: 1 });
    serveConfigs(session, {
      'advertised.listeners': 'PLAINTEXT://real-1:9092',
      listeners: 'PLAINTEXT://real-1:9092,CONTROLLER://real-1:9093',
      'controller.quorum.voters': '1@real-1:9093',
      'controller.quorum.bootstrap.servers': 'real-1:9093',
      'rlmm.config.remote.log.metadata.common.client.bootstrap.servers': 'real-1:9092',
      'early.start.listeners': 'CONTROLLER',
      'num.io.threads': '8',
    });
    const resource = createDescribeConfigsResource({ resourceType: 4, resourceName: '1' });
    const request = createDescribeConfigsRequest({ resources: [resource] });
    const answer = await exchange(
      session,
      describeConfigsHandler,
      describeCodecs,
      version,
      request,
    );
    assert.equal(answer.frame.indexOf('real-1'), -1, `version ${version}`);
    const shown = answer.response.results[0]?.configs.filter(({ isSensitive }) => !isSensitive);
    assert.deepEqual(
      shown?.map(({ name, value }) => [name, value]),
      [
        ['early.start.listeners', 'CONTROLLER'],
        ['num.io.threads', '8'],
      ],
    );
  }
});

test('a mirror and the link node can be described in one request', async () => {
  const session = new FakeSession({ kind: 'bootstrap' });
  session.directory.put({ ...mirror, sourceClusters: ['first'] });
  serveConfigs(session, { 'retention.ms': '1' });
  const resources = [
    { resourceType: 4, resourceName: String(linkNodeId) },
    { resourceType: 2, resourceName: 'orders' },
  ].map((resource) => createDescribeConfigsResource({ ...resource, configurationKeys: null }));
  const request = createDescribeConfigsRequest({ resources });
  const { response } = await exchange(session, describeConfigsHandler, describeCodecs, 4, request);
  const counts = response.results.map(({ resourceName, configs }) => [
    resourceName,
    configs.length,
  ]);
  assert.deepEqual(
    new Map(counts as [string, number][]),
    new Map([
      [String(linkNodeId), 0],
      ['orders', 2],
    ]),
  );
});
