// REST v3 as Confluent's tools speak it, against a LinkService in memory.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { createAdminApp } from '../../../src/admin/server.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import {
  clusterId,
  type FakeServices,
  fakeServices,
  linkStatus,
  mirrorStatus,
  partitionStatus,
} from './fake-services.ts';

let services: FakeServices;
let app: FastifyInstance;
const apps: FastifyInstance[] = [];

beforeEach(async () => {
  services = fakeServices();
  app = await createAdminApp(services);
  apps.push(app);
});

after(async () => {
  for (const opened of apps) await opened.close();
});

const root = `/kafka/v3/clusters/${clusterId}`;

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly text: string;
}

async function call(method: Method, url: string, payload?: unknown): Promise<Answer> {
  const response = await app.inject({
    method,
    url,
    headers: { 'x-causeway-actor': 'tester' },
    ...(payload === undefined ? {} : { payload: payload as object }),
  });
  const text = response.body;
  const isJson = String(response.headers['content-type']).includes('json');
  return { status: response.statusCode, body: isJson ? JSON.parse(text) : null, text };
}

async function assertError(answer: Promise<Answer>, status: number, code: number, word: RegExp) {
  const { status: got, body, text } = await answer;
  assert.equal(got, status, text);
  const error = body as { error_code: number; message: string };
  assert.deepEqual(Object.keys(error), ['error_code', 'message']);
  assert.equal(error.error_code, code);
  assert.match(error.message, word);
}

test('clusters name the destination under both prefixes and with a trailing slash', async () => {
  for (const url of ['/kafka/v3/clusters', '/v3/clusters', '/v3/clusters/']) {
    const { status, body } = await call('GET', url);
    assert.equal(status, 200);
    const list = body as { kind: string; data: { kind: string; cluster_id: string }[] };
    assert.equal(list.kind, 'KafkaClusterList');
    assert.equal(list.data[0]?.cluster_id, clusterId);
  }
  assert.equal((await call('GET', `/v3/clusters/lkc-${clusterId}/links`)).status, 200);
  await assertError(
    call('GET', '/v3/clusters/other/links'),
    404,
    404,
    /^Cluster other cannot be found\.$/,
  );
});

test('a link is created with its name in the query, also after a trailing slash', async () => {
  const payload = {
    source_cluster_id: 'source-cluster-id',
    configs: [{ name: 'bootstrap.servers', value: 'source:9092' }],
  };
  const { status, text } = await call('POST', `${root}/links/?link_name=dr`, payload);
  assert.equal(status, 204);
  assert.equal(text, '');
  assert.deepEqual(services.links.lastCall, {
    method: 'createLink',
    argument: {
      name: 'dr',
      configs: { 'bootstrap.servers': 'source:9092' },
      sourceClusterId: 'source-cluster-id',
      validateOnly: false,
      actor: 'tester (127.0.0.1)',
    },
  });
  await assertError(call('POST', `${root}/links?link_name=dr`, payload), 409, 40902, /exists/);
});

test('validate_only reaches the service and creates nothing', async () => {
  const url = `${root}/links?link_name=dr&validate_only=true`;
  assert.equal((await call('POST', url, { configs: [] })).status, 204);
  assert.equal(services.links.links.size, 0);
});

test('a link shows every field of the schema; tasks only when asked for', async () => {
  services.links.links.set('dr', linkStatus('dr', { topicNames: ['orders'] }));
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  services.links.mirrors.set('old', mirrorStatus('old', { state: 'FAILED' }));
  const { body } = await call('GET', `${root}/links/dr`);
  assert.deepEqual(body, {
    kind: 'KafkaLinkData',
    metadata: {
      self: `http://localhost:80${root}/links/dr`,
      resource_name: `crn:///kafka=${clusterId}/link=dr`,
    },
    source_cluster_id: 'source-cluster-id',
    destination_cluster_id: null,
    remote_cluster_id: null,
    link_name: 'dr',
    link_id: 'AAAAAAAAAAAAAAAAAAAAAg',
    cluster_link_id: 'AAAAAAAAAAAAAAAAAAAAAg',
    topic_names: ['orders'],
    link_state: 'ACTIVE',
    link_error: 'NO_ERROR',
    link_error_message: null,
    category_counts: [
      { state_category: 'ACTIVE', count: 1 },
      { state_category: 'IN_ERROR', count: 1 },
    ],
    last_contact_time_ms: 5000,
    last_contact_is_recorded: false,
    rpo_seconds: 0.25,
    rpo_is_at_most: false,
    rpo_unknown_topics: [],
  });
  const withTasks = await call('GET', `${root}/links/dr?include_tasks=true`);
  const { tasks } = withTasks.body as { tasks: unknown };
  assert.deepEqual(tasks, [
    { task_name: 'ConsumerOffsetSync', state: 'ACTIVE', errors: [], last_success_time_ms: 5000 },
  ]);
  const list = await call('GET', `${root}/links`);
  assert.equal((list.body as { kind: string }).kind, 'KafkaLinkDataList');
});

test('a link with mirrors is deleted only with force', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  await assertError(call('DELETE', `${root}/links/dr`), 403, 40301, /still has mirrors/);
  assert.equal((await call('DELETE', `${root}/links/dr?force=true`)).status, 200);
  await assertError(
    call('DELETE', `${root}/links/dr`),
    404,
    404,
    /Cluster link 'dr' does not exist/,
  );
});

test('R17: settings are listed, read and changed; secrets are write-only', async () => {
  const status = linkStatus('dr');
  const configs = {
    'bootstrap.servers': 'source:9092',
    'sasl.jaas.config': 'x required password="hunter2";',
  };
  services.links.links.set('dr', { ...status, record: { ...status.record, configs } });
  const list = await call('GET', `${root}/links/dr/configs`);
  assert.ok(!list.text.includes('hunter2'));
  const rows = (list.body as { data: Record<string, unknown>[] }).data;
  assert.deepEqual(rows[1], {
    kind: 'KafkaLinkConfigData',
    metadata: {
      self: `http://localhost:80${root}/links/dr/configs/sasl.jaas.config`,
      resource_name: `crn:///kafka=${clusterId}/config=sasl.jaas.config`,
    },
    cluster_id: clusterId,
    name: 'sasl.jaas.config',
    value: '',
    is_default: false,
    is_read_only: false,
    is_sensitive: true,
    default: false,
    read_only: false,
    sensitive: true,
    source: 'DYNAMIC_CLUSTER_LINK_CONFIG',
    synonyms: [],
    link_name: 'dr',
  });
  assert.equal(rows[0]?.value, 'source:9092');

  const one = `${root}/links/dr/configs/cluster.link.paused`;
  assert.equal((await call('PUT', one, { value: 'true' })).status, 204);
  const read = await call('GET', one);
  assert.equal((read.body as { value: string }).value, 'true');
  assert.equal((await call('DELETE', one)).status, 204);
  await assertError(call('GET', one), 404, 404, /cluster\.link\.paused is not set/);

  const alter = `${root}/links/dr/configs:alter`;
  const data = [
    { name: 'consumer.offset.sync.ms', value: '1000' },
    { name: 'bootstrap.servers', operation: 'DELETE' },
  ];
  assert.equal((await call('PUT', alter, { data })).status, 204);
  assert.deepEqual((services.links.lastCall.argument as { changes: unknown }).changes, [
    { name: 'consumer.offset.sync.ms', value: '1000' },
    { name: 'bootstrap.servers', value: null },
  ]);
  await assertError(call('POST', alter, { data }), 405, 405, /use PUT/);
});

test('a mirror is created, shown and listed with every field of the schema', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  const payload = { source_topic_name: 'orders', replication_factor: 3, configs: [] };
  assert.equal((await call('POST', `${root}/links/dr/mirrors`, payload)).status, 204);
  const { body } = await call('GET', `${root}/links/dr/mirrors/orders`);
  const expected = {
    kind: 'KafkaMirrorData',
    metadata: {
      self: `http://localhost:80${root}/links/dr/mirrors/orders`,
      resource_name: `crn:///kafka=${clusterId}/mirror=orders`,
    },
    link_name: 'dr',
    mirror_topic_name: 'orders',
    source_topic_name: 'orders',
    num_partitions: 1,
    mirror_lags: [{ partition: 0, lag: 10, last_source_fetch_offset: 90 }],
    mirror_status: 'ACTIVE',
    mirror_topic_error: 'NO_ERROR',
    state_time_ms: 1_700_000_000_000,
    mirror_state_transition_errors: [],
  };
  assert.deepEqual(body, expected);
  for (const url of [`${root}/links/dr/mirrors`, `${root}/links/-/mirrors?mirror_status=active`]) {
    const list = (await call('GET', url)).body as { kind: string; data: unknown[] };
    assert.equal(list.kind, 'KafkaMirrorDataList');
    assert.deepEqual(list.data, [expected]);
  }
  const paused = await call('GET', `${root}/links/-/mirrors?mirror_status=PAUSED`);
  assert.deepEqual((paused.body as { data: unknown[] }).data, []);
  await assertError(
    call('GET', `${root}/links/-/mirrors?mirror_status=activ`),
    400,
    400,
    /no mirror status; did you mean "ACTIVE"/,
  );
});

test('blocking reasons of a promotion are its transition errors', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  const blocking = [{ code: 'LAG', message: 'Partition 0 is 10 records behind.', remedy: null }];
  services.links.mirrors.set('orders', mirrorStatus('orders', { blocking }));
  const url = `${root}/links/dr/mirrors/orders?include_state_transition_errors=true`;
  const { body } = await call('GET', url);
  const { mirror_state_transition_errors: errors } = body as {
    mirror_state_transition_errors: unknown;
  };
  assert.deepEqual(errors, [
    { error_code: 'LAG', error_message: 'Partition 0 is 10 records behind.' },
  ]);
});

test('R15: a lag that is not known is never shown as 0', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  const partitions = [partitionStatus({ lagRecords: null, lagSeconds: null })];
  services.links.mirrors.set('orders', mirrorStatus('orders', { partitions }));
  const rest = await call('GET', `${root}/links/dr/mirrors/orders`);
  assert.equal((rest.body as { mirror_lags: { lag: number }[] }).mirror_lags[0]?.lag, -1);
  const own = await call('GET', '/causeway/v1/mirrors/orders');
  const { partitions: shown } = own.body as { partitions: { lagRecords: unknown }[] };
  assert.equal(shown[0]?.lagRecords, null);
});

test('offsets beyond 2^53 are exact', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  const partitions = [partitionStatus({ mirrorEnd: 2n ** 60n + 1n, lagRecords: 2n ** 53n - 1n })];
  services.links.mirrors.set('orders', mirrorStatus('orders', { partitions }));
  const { text } = await call('GET', `${root}/links/dr/mirrors/orders`);
  assert.ok(text.includes('"last_source_fetch_offset":"1152921504606846977"'), text);
  assert.ok(text.includes('"lag":9007199254740991'), text);
});

for (const verb of ['promote', 'failover', 'pause', 'resume']) {
  test(`mirrors:${verb} takes names and patterns, and reports failures as rows`, async () => {
    services.links.links.set('dr', linkStatus('dr'));
    for (const name of ['orders', 'orders-eu', 'bills']) {
      services.links.mirrors.set(name, mirrorStatus(name));
    }
    const payload = { mirror_topic_names: ['gone'], mirror_topic_name_pattern: 'orders.*' };
    const { status, body } = await call('POST', `${root}/links/dr/mirrors:${verb}`, payload);
    assert.equal(status, 200);
    const answer = body as { kind: string; data: Record<string, unknown>[] };
    assert.equal(answer.kind, 'KafkaPromoteMirror');
    assert.deepEqual(
      answer.data.map((row) => [row.mirror_topic_name, row.error_code]),
      [
        ['gone', 40403],
        ['orders', null],
        ['orders-eu', null],
      ],
    );
    assert.deepEqual(Object.keys(answer.data[1] ?? {}), [
      'kind',
      'metadata',
      'mirror_topic_name',
      'error_code',
      'error_message',
      'mirror_lags',
      'messages_truncated',
      'partition_level_truncation_data',
    ]);
    const sent = services.links.lastCall.argument as Record<string, unknown>;
    assert.equal(sent.command, verb);
    assert.equal(sent.link, 'dr');
    assert.equal(sent.validateOnly, false);
    const dry = `${root}/links/dr/mirrors:${verb}?validate_only=true`;
    assert.equal((await call('POST', dry, { mirror_topic_names: ['bills'] })).status, 200);
    assert.equal(services.links.mirrors.get('bills')?.state, 'ACTIVE');
  });
}

test('verbs of later versions are refused by name', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  for (const verb of ['reverse-and-start-mirror', 'truncate-and-restore']) {
    const url = `${root}/links/dr/mirrors:${verb}?include_partition_level_truncation_data=true`;
    await assertError(
      call('POST', url, { mirror_topic_names: ['t'] }),
      501,
      40035,
      new RegExp(verb),
    );
  }
});

test('a mirror is deleted as a topic', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  assert.equal((await call('DELETE', `${root}/topics/orders`)).status, 204);
  assert.equal(services.links.mirrors.size, 0);
  await assertError(call('DELETE', `${root}/topics/orders`), 404, 40403, /not a mirror/);
});

const badRequests: readonly [string, Method, string, unknown, RegExp][] = [
  ['a missing link name', 'POST', `${root}/links`, {}, /the query is wrong: link_name: is missing/],
  [
    'an unknown query parameter',
    'POST',
    `${root}/links?link_name=a&validate_olny=true`,
    {},
    /validate_olny: unknown name; did you mean "validate_only"/,
  ],
  [
    'a word where true or false belongs',
    'POST',
    `${root}/links?link_name=a&validate_only=maybe`,
    {},
    /validate_only: must be boolean/,
  ],
  [
    'an unknown field',
    'POST',
    `${root}/links/dr/mirrors`,
    { source_topic_nam: 'x' },
    /source_topic_name: is missing.*source_topic_nam: unknown name|source_topic_nam: unknown name/,
  ],
  [
    'a number for a name',
    'POST',
    `${root}/links/dr/mirrors`,
    { source_topic_name: 5 },
    /source_topic_name: must be string/,
  ],
  [
    'a row without a name',
    'PUT',
    `${root}/links/dr/configs:alter`,
    { data: [{ value: 'x' }] },
    /data\[0\]\.name: is missing/,
  ],
  [
    'a setting given twice',
    'POST',
    `${root}/links?link_name=a`,
    {
      configs: [
        { name: 'a', value: '1' },
        { name: 'a', value: '2' },
      ],
    },
    /setting a is given twice/,
  ],
  ['no topics', 'POST', `${root}/links/dr/mirrors:promote`, {}, /Give mirror_topic_names/],
  [
    'a pattern that is none',
    'POST',
    `${root}/links/dr/mirrors:promote`,
    { mirror_topic_name_pattern: '(' },
    /mirror_topic_name_pattern: /,
  ],
  [
    'a link opened by the source',
    'POST',
    `${root}/links?link_name=a`,
    { destination_cluster_id: 'x' },
    /not in this version/,
  ],
  ['no body', 'POST', `${root}/links/dr/mirrors:promote`, undefined, /needs a JSON body/],
];

for (const [what, method, url, payload, word] of badRequests) {
  test(`R18: ${what} gets a clear 400 and changes nothing`, async () => {
    services.links.links.set('dr', linkStatus('dr'));
    services.links.mirrors.set('orders', mirrorStatus('orders'));
    const { status, body, text } = await call(method, url, payload);
    assert.equal(status, 400, text);
    assert.match((body as { message: string }).message, word);
    assert.equal(services.links.calls.length, 0);
  });
}

test('R18: a pattern that backtracks without end is cut off', async () => {
  services.links.links.set('dr', linkStatus('dr'));
  const name = `${'a'.repeat(200)}!`;
  services.links.mirrors.set(name, mirrorStatus(name));
  const payload = { mirror_topic_name_pattern: '(a+)+b' };
  const answer = call('POST', `${root}/links/dr/mirrors:pause`, payload);
  await assertError(answer, 400, 400, /takes longer than/);
});

test('R18: bad JSON, other content types and too large bodies are refused', async () => {
  const url = `${root}/links?link_name=dr`;
  const send = async (type: string, payload: string): Promise<Answer> => {
    const headers = { 'content-type': type };
    const response = await app.inject({ method: 'POST', url, headers, payload });
    return { status: response.statusCode, body: response.json(), text: response.body };
  };
  await assertError(send('application/json', '{"configs": [,]}'), 400, 400, /JSON/);
  await assertError(send('application/json', '{"__proto__": {"x": 1}}'), 400, 400, /.+/);
  await assertError(send('text/plain', 'x'), 415, 415, /Unsupported Media Type/);
  const large = JSON.stringify({ configs: 'x'.repeat(5_000_000) });
  await assertError(send('application/json', large), 413, 413, /too large/);
  assert.equal(services.links.calls.length, 0);
});

test('unknown paths are 404 with the error body; / says where to look', async () => {
  await assertError(call('GET', '/v3/nothing'), 404, 404, /Not Found/);
  await assertError(call('GET', '/v3/%E0%A4%A'), 400, 400, /.+/);
  const page = await call('GET', '/');
  assert.equal(page.status, 404);
  assert.match(page.text, /openapi\.json/);
});

test('errors of the service keep their message; 503 says when to retry', async () => {
  services.links.nextError = new LinkError('NOT_OWNER', 'This instance lost its lease.');
  const response = await app.inject({
    method: 'POST',
    url: `${root}/links?link_name=dr`,
    payload: {},
  });
  assert.equal(response.statusCode, 503);
  assert.equal(response.headers['retry-after'], '1');
  assert.deepEqual(response.json(), {
    error_code: 50003,
    message: 'This instance lost its lease.',
  });
});

test('R17: a fault inside is logged, not shown, and without secrets', async () => {
  services.links.nextError = new Error('cannot parse sasl.jaas.config=x password="hunter2";');
  const { status, text } = await call('POST', `${root}/links?link_name=dr`, {});
  assert.equal(status, 500);
  assert.ok(!text.includes('jaas'), text);
  const logged = services.events.since(0).find((event) => event.event === 'admin_request_failed');
  assert.match(String(logged?.fields.detail), /cannot parse/);
  assert.ok(!JSON.stringify(logged).includes('hunter2'));
});

test('R17: the refusal of a setting never repeats its secret', async () => {
  const message = 'Unknown setting: sasl.jaas.config=x required password="hunter2";';
  services.links.nextError = new LinkError('INVALID_CONFIG', message);
  const { status, text } = await call('POST', `${root}/links?link_name=dr`, {});
  assert.equal(status, 400);
  assert.ok(!text.includes('hunter2'), text);
});

test('the OpenAPI description covers both APIs, each operation once', async () => {
  const { status, body } = await call('GET', '/openapi.json');
  assert.equal(status, 200);
  const { paths } = body as { paths: Record<string, Record<string, { operationId: string }>> };
  const promote = paths['/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors:promote'];
  assert.equal(promote?.post?.operationId, 'updateKafkaMirrorTopicsPromote');
  assert.ok(paths['/causeway/v1/events'] !== undefined);
  const ids = Object.values(paths).flatMap((path) =>
    Object.values(path).map((operation) => operation.operationId),
  );
  assert.equal(new Set(ids).size, ids.length);
});
