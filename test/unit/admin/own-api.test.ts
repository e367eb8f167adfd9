// What /causeway/v1, health and metrics add to REST v3.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { createAdminApp, startAdminServer } from '../../../src/admin/server.ts';
import {
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
  services.links.links.set('dr', linkStatus('dr'));
  app = await createAdminApp(services);
  apps.push(app);
});

after(async () => {
  for (const opened of apps) await opened.close();
});

interface EventsAnswer {
  instanceId: string;
  lastId: number;
  events: { id: number; event: string; message: string }[];
}

async function get(url: string): Promise<{ status: number; body: unknown }> {
  const response = await app.inject({ method: 'GET', url });
  return { status: response.statusCode, body: response.json() };
}

async function post(url: string, payload: object): Promise<{ status: number; body: unknown }> {
  const response = await app.inject({ method: 'POST', url, payload });
  return { status: response.statusCode, body: response.json() };
}

test('events come after an id, oldest first, at most as many as asked for', async () => {
  for (const name of ['a', 'b', 'c']) services.events.info(name, `Event ${name}.`, { link: 'dr' });
  const { body } = await get('/causeway/v1/events?since=1&limit=1');
  assert.deepEqual(body, {
    instanceId: 'instance-1',
    lastId: 2,
    events: [
      {
        id: 2,
        timeMs: 1_700_000_000_000,
        level: 'info',
        event: 'b',
        message: 'Event b.',
        fields: { link: 'dr' },
      },
    ],
  });
});

test('a long poll answers with the event that comes', async () => {
  services.events.info('before', 'Before.');
  const subscribed = new Promise<void>((resolve) => {
    const subscribe = services.events.subscribe.bind(services.events);
    services.events.subscribe = (listener) => {
      resolve();
      return subscribe(listener);
    };
  });
  const polled = get('/causeway/v1/events?since=1&waitMs=60000');
  await subscribed;
  services.events.warn('during', 'During.');
  const answer = (await polled).body as EventsAnswer;
  assert.deepEqual(
    answer.events.map((event) => event.event),
    ['during'],
  );
});

test('a long poll ends when its time is over and when the server closes', async () => {
  const short = (await get('/causeway/v1/events?waitMs=20')).body as EventsAnswer;
  assert.deepEqual(short.events, []);
  const server = await startAdminServer(services, { bind: '127.0.0.1', port: 0 });
  const subscribed = new Promise<void>((resolve) => {
    const subscribe = services.events.subscribe.bind(services.events);
    services.events.subscribe = (listener) => {
      resolve();
      return subscribe(listener);
    };
  });
  const startedAt = performance.now();
  const polled = fetch(`${server.url}/causeway/v1/events?waitMs=60000`).then(
    (response) => response.status,
    () => 0,
  );
  await subscribed;
  await server.close();
  await polled;
  assert.ok(performance.now() - startedAt < 10_000);
});

test('a command over topics of any link is one call, with its deadline', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  const payload = { topics: ['orders', 'gone'], deadlineMs: 60_000 };
  const { status, body } = await post('/causeway/v1/mirrors:promote', payload);
  assert.equal(status, 200);
  const { rows } = body as { rows: { topic: string; state: string; error: unknown }[] };
  assert.deepEqual(
    rows.map((row) => [row.topic, row.state, row.error]),
    [
      ['orders', 'STOPPED', null],
      ['gone', null, { code: 'MIRROR_NOT_FOUND', message: 'Topic gone is not a mirror.' }],
    ],
  );
  const sent = services.links.lastCall.argument as Record<string, unknown>;
  assert.equal(sent.link, null);
  assert.equal(sent.deadlineMs, 60_000);
});

test('all of a link leaves out what is stopped; a failover gives its receipt', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  services.links.mirrors.set('done', mirrorStatus('done', { state: 'STOPPED' }));
  const { body } = await post('/causeway/v1/mirrors:failover', { link: 'dr', all: true });
  const { rows, receipt } = body as { rows: { topic: string }[]; receipt: { id: string } };
  assert.deepEqual(
    rows.map((row) => row.topic),
    ['orders'],
  );
  const read = await get(`/causeway/v1/receipts/${receipt.id}`);
  assert.deepEqual(read.body, receipt);
  assert.deepEqual(read.body, {
    id: 'r-1',
    command: 'failover',
    actor: 'admin-api (127.0.0.1)',
    timeMs: 1_700_000_000_000,
    topics: [
      {
        topic: 'orders',
        link: 'dr',
        partitions: [
          {
            partition: 0,
            virtualEnd: 91,
            nativeEnd: 0,
            firstEpoch: 1,
            sourceEnd: 100,
            mirroredEnd: 90,
            lostRecords: 10,
            lostBytes: 1000,
            lostSeconds: 2,
            lastContactTimeMs: 1_699_999_999_000,
            abortedTransactions: 1,
            found: null,
          },
        ],
        groups: [{ group: 'billing', partition: 0, oldOffset: 95, newOffset: 91 }],
        groupsCount: 1,
        duplicates: {
          expected: 3,
          possible: 8,
          readTimeMs: 1_699_999_999_000,
          groups: [{ group: 'audit', partition: 0, position: 82, expected: 3, possible: 8 }],
          groupsCount: 1,
        },
        historyCopies: 1,
        completedTimeMs: -1,
      },
    ],
  });
  assert.equal((await get('/causeway/v1/receipts/none')).status, 404);
});

test('the tail of a switched topic comes line by line', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders', { state: 'STOPPED' }));
  const response = await app.inject({ url: '/causeway/v1/mirrors/orders/tail' });
  assert.match(String(response.headers['content-type']), /x-ndjson/);
  const lines = response.body.trimEnd().split('\n');
  assert.deepEqual(JSON.parse(lines[0] ?? ''), {
    partition: 0,
    gap: { from: 90, to: 92, why: 'aged out at the source' },
  });
  assert.equal(lines.length, 3);
});

test('R18: commands that say too little or too much change nothing', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  for (const [command, payload] of [
    ['promote', {}],
    ['promote', { all: true }],
    ['promote', { all: true, link: 'dr', topics: ['orders'] }],
    ['pause', { topics: ['orders'], deadlineMs: 5000 }],
    ['pause', { topic: ['orders'] }],
  ] as const) {
    const { status } = await post(`/causeway/v1/mirrors:${command}`, payload);
    assert.equal(status, 400, JSON.stringify(payload));
  }
  assert.equal((await post('/causeway/v1/mirrors:pause', { link: 'x', all: true })).status, 404);
  assert.equal(services.links.calls.length, 0);
});

test('links are shown whole; R17: without the values of secrets', async () => {
  const status = linkStatus('dr');
  const configs = { 'bootstrap.servers': 'source:9092', 'ssl.key.password': 'hunter2' };
  services.links.links.set('dr', { ...status, record: { ...status.record, configs } });
  const { body } = await get('/causeway/v1/links/dr');
  assert.deepEqual(body, {
    name: 'dr',
    linkId: 'AAAAAAAAAAAAAAAAAAAAAg',
    sourceClusterId: 'source-cluster-id',
    state: 'ACTIVE',
    error: 'NO_ERROR',
    errorMessage: null,
    configs: { 'bootstrap.servers': 'source:9092', 'ssl.key.password': '' },
    createdTimeMs: 1,
    topicNames: [],
    lastContactTimeMs: 5000,
    isContactRecorded: false,
    isAnswering: true,
    rpoSeconds: 0.25,
    isRpoAtMost: false,
    rpoUnknownTopics: [],
    tasks: [{ name: 'ConsumerOffsetSync', state: 'ACTIVE', errors: [], lastSuccessTimeMs: 5000 }],
  });
  assert.deepEqual((await get('/causeway/v1/links')).body, { links: [body] });
  assert.equal((await get('/causeway/v1/links/none')).status, 404);
});

test('groups, state and status are shown', async () => {
  assert.deepEqual((await get('/causeway/v1/links/dr/groups')).body, {
    groups: [
      {
        group: 'billing',
        sourceGroup: 'billing',
        kind: 'classic',
        topic: 'orders',
        partition: 0,
        sourceOffset: 42,
        destinationOffset: 40,
        held: 'clamped',
      },
    ],
  });
  assert.equal((await get('/causeway/v1/links/none/groups')).status, 404);
  assert.deepEqual((await get('/causeway/v1/state')).body, { format: 1 });
  const status = (await get('/causeway/v1/status')).body as Record<string, unknown>;
  assert.equal(status.role, 'owner');
  assert.equal(status.healthy, true);
});

test('readiness follows the destination and never a source', async () => {
  services.links.links.set('dr', linkStatus('dr', { linkState: 'UNAVAILABLE' }));
  assert.equal((await get('/health/live')).status, 200);
  assert.equal((await get('/health/ready')).status, 200);
  const links = await get('/health/links');
  assert.equal(links.status, 503);
  assert.match(JSON.stringify(links.body), /link is UNAVAILABLE/);
  services.notReady.push('the destination does not answer');
  const ready = await get('/health/ready');
  assert.equal(ready.status, 503);
  assert.deepEqual(ready.body, {
    healthy: false,
    checks: [{ name: 'destination', healthy: false, message: 'the destination does not answer' }],
  });
});

test('HEAD tells load balancers what GET does, without the body', async () => {
  services.notReady.push('the destination does not answer');
  for (const [url, status] of [
    ['/health/live', 200],
    ['/health/ready', 503],
    ['/health/links', 200],
    ['/metrics', 200],
  ] as const) {
    const response = await app.inject({ method: 'HEAD', url });
    assert.deepEqual([response.statusCode, response.body], [status, ''], url);
  }
});

const unhealthyMirrors = [
  {
    mirror: mirrorStatus('orders', {
      partitions: [partitionStatus({ isStalled: true, stallCause: 'disk is full' })],
    }),
    cause: 'mirror orders is STALLED in partition 0: disk is full',
  },
  {
    mirror: mirrorStatus('orders', {
      state: 'FAILED',
      error: { code: 'SOURCE_TOPIC_ID_CHANGED', message: 'recreated' },
    }),
    cause: 'mirror orders is FAILED: SOURCE_TOPIC_ID_CHANGED recreated',
  },
  {
    mirror: mirrorStatus('orders', { state: 'SOURCE_UNAVAILABLE' }),
    cause: 'mirror orders is SOURCE_UNAVAILABLE',
  },
  {
    mirror: mirrorStatus('orders', {
      state: 'PAUSED',
      partitions: [partitionStatus(), partitionStatus({ partition: 1, damagedRanges: 2 })],
    }),
    cause: 'mirror orders has damaged records in partition 1: RECORDS_DAMAGED',
  },
  {
    mirror: mirrorStatus('orders', { growth: lacking(15_000) }),
    cause: 'mirror orders has 1 of the 3 partitions of its source: POLICY_VIOLATION: no more',
  },
];

/** What a mirror says that lacks partitions since so many ms. */
function lacking(sinceMs: number) {
  const sinceTimeMs = Date.now() - sinceMs;
  return { sourcePartitions: 3, sinceTimeMs, cause: 'POLICY_VIOLATION: no more' };
}

test('a mirror that grows just now is not unhealthy', async () => {
  services.links.mirrors.set('orders', mirrorStatus('orders', { growth: lacking(5_000) }));
  assert.equal((await get('/health/links')).status, 200);
});

test('R15: not healthy: mirrors whose link was deleted', async () => {
  services.links.mirrors.set('left', mirrorStatus('left', { link: 'gone', state: 'LINK_FAILED' }));
  services.links.mirrors.set('done', mirrorStatus('done', { link: 'past', state: 'STOPPED' }));
  const { status, body } = await get('/health/links');
  assert.equal(status, 503);
  const { checks } = body as { checks: { healthy: boolean }[] };
  assert.deepEqual(
    checks.filter(({ healthy }) => !healthy),
    [{ name: 'gone', healthy: false, message: 'link was deleted; mirror left is LINK_FAILED' }],
  );
});

test('R15: not healthy: a mirror that is not made for a minute', async () => {
  const pending = { state: 'PENDING_MIRROR' } as const;
  const now = Date.now();
  services.links.mirrors.set('new', mirrorStatus('new', { ...pending, stateTimeMs: now }));
  assert.equal((await get('/health/links')).status, 200);
  services.links.mirrors.set('old', mirrorStatus('old', { ...pending, stateTimeMs: now - 90_000 }));
  const { status, body } = await get('/health/links');
  assert.equal(status, 503);
  assert.match(JSON.stringify(body), /mirror old is PENDING_MIRROR for 9\d+ s/);
});

for (const { mirror, cause } of unhealthyMirrors) {
  test(`R15: not healthy: ${cause}`, async () => {
    services.links.mirrors.set('orders', mirror);
    const { status, body } = await get('/health/links');
    assert.equal(status, 503);
    assert.deepEqual(body, {
      healthy: false,
      checks: [{ name: 'dr', healthy: false, message: cause }],
    });
  });
}

test('R15: storage that cannot be used makes the links unhealthy, but not the proxy', async () => {
  services.shared.push({ name: 'storage', cause: 'the directory is empty' });
  assert.equal((await get('/health/links')).status, 503);
  assert.equal((await get('/health/ready')).status, 200);
  const status = (await get('/causeway/v1/status')).body as Record<string, unknown>;
  assert.equal(status.healthy, false);
});

test('what an operator stopped or paused is not unhealthy', async () => {
  const partitions = [partitionStatus({ isStalled: true })];
  const damaged = [partitionStatus({ damagedRanges: 1 })];
  services.links.mirrors.set('a', mirrorStatus('a', { state: 'PAUSED', partitions }));
  services.links.mirrors.set('c', mirrorStatus('c', { state: 'STOPPED', partitions: damaged }));
  services.links.mirrors.set('b', mirrorStatus('b', { state: 'STOPPED', partitions }));
  assert.equal((await get('/health/links')).status, 200);
});

test('on loopback a foreign Host header is refused, and nothing is done', async () => {
  const guarded = await createAdminApp(services, { bind: '127.0.0.1' });
  try {
    const path = '/causeway/v1/status';
    const foreign = await guarded.inject({ url: path, headers: { host: 'rebound.example:8082' } });
    assert.equal(foreign.statusCode, 403);
    assert.match(foreign.json().message, /bound to loopback/);
    for (const host of ['localhost:8082', '127.0.0.1:8082', '[::1]:8082']) {
      const own = await guarded.inject({ url: path, headers: { host } });
      assert.equal(own.statusCode, 200, host);
    }
  } finally {
    await guarded.close();
  }
});
