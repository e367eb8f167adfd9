// Requests that are wrong, or that nobody may make: each gets the one error body, says what is
// wrong, and changes nothing (R18).
import assert from 'node:assert/strict';
import net from 'node:net';
import { afterEach, beforeEach, test } from 'node:test';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { createAdminApp, startAdminServer } from '../../../src/admin/server.ts';
import {
  clusterId,
  type FakeServices,
  fakeServices,
  linkStatus,
  mirrorStatus,
} from './fake-services.ts';

const base = `/kafka/v3/clusters/${clusterId}/links`;

let services: FakeServices;
let app: FastifyInstance;

beforeEach(async () => {
  services = fakeServices();
  services.links.links.set('dr', linkStatus('dr'));
  services.links.mirrors.set('orders', mirrorStatus('orders'));
  app = await createAdminApp(services, { bind: '127.0.0.1' });
});

afterEach(async () => {
  await app.close();
});

async function ask(
  method: InjectOptions['method'] & string,
  url: string,
  payload?: object,
  headers: Record<string, string> = {},
): Promise<{ status: number; message: string }> {
  const options = { method, url, headers: { host: '127.0.0.1', ...headers } };
  const response = await app.inject(payload === undefined ? options : { ...options, payload });
  const body = response.body === '' ? {} : (response.json() as { message?: string });
  return { status: response.statusCode, message: body.message ?? '' };
}

async function refused(answer: ReturnType<typeof ask>, status: number, words: RegExp) {
  const { status: given, message } = await answer;
  assert.equal(given, status, message);
  assert.match(message, words);
  assert.deepEqual(services.links.calls, []);
}

test('R18: a setting that is given twice, or has a name that no setting can have, is refused', async () => {
  const twice = [
    { name: 'client.id', value: 'a' },
    { name: 'client.id', value: 'b' },
  ];
  const words = /client\.id is given twice/;
  await refused(ask('POST', `${base}?link_name=x`, { configs: twice }), 400, words);
  await refused(ask('PUT', `${base}/dr/configs:alter`, { data: twice }), 400, words);
  const mirror = { source_topic_name: 'orders', configs: twice };
  await refused(ask('POST', `${base}/dr/mirrors`, mirror), 400, words);
  // Whether it is known is the service's to say: it must not get lost on the way there.
  const configs = JSON.parse('[{"name":"__proto__","value":"x"}]') as object[];
  await ask('POST', `${base}?link_name=x`, { configs });
  const sent = services.links.lastCall.argument as { configs: object };
  assert.deepEqual(Object.keys(sent.configs), ['__proto__']);
});

test('R18: numbers that mean nothing are refused, not taken for others', async () => {
  const none = { source_topic_name: 'orders', replication_factor: 0 };
  await refused(ask('POST', `${base}/dr/mirrors`, none), 400, /replication_factor: 0/);
  const verify = '/causeway/v1/mirrors/orders/verify';
  const tooLarge = { partition: 0, from: '9223372036854775808' };
  await refused(ask('POST', verify, tooLarge), 400, /9223372036854775808 is no offset/);
  for (const wrong of [
    { partition: 0, from: '9'.repeat(1_000_000) },
    { partition: 0, end: 1e300 },
    { partition: 0, since: -1 },
    { partition: 1e300 },
  ]) {
    await refused(ask('POST', verify, wrong), 400, /^Something in the body is wrong: /);
  }
});

test('what a body leaves out has the default that the description tells', async () => {
  await ask('POST', '/causeway/v1/mirrors/orders/verify', { partition: 0 });
  const sent = services.links.lastCall.argument as { bytesPerSecond: number };
  assert.equal(sent.bytesPerSecond, 20_000_000);
  await ask('POST', '/causeway/v1/mirrors/orders/detach', {});
  const detach = services.links.lastCall.argument as { dropHistory: boolean };
  assert.equal(detach.dropHistory, false);
});

test('R18: a wrong value is told in one sentence, in the words of the API that was asked', async () => {
  const wrong = { configs: [{ name: 1, value: 2 }] };
  const one = /wrong: configs\[0\]\.name: must be string; configs\[0\]\.value: must be string$/;
  await refused(ask('POST', `${base}?link_name=x`, wrong), 400, one);
  const own = '/causeway/v1/mirrors:promote';
  await refused(ask('POST', own, {}), 400, /^Give topics, or a link and all\.$/);
  await refused(ask('POST', own, { topics: [] }), 400, /^Give topics/);
  const rest = ask('POST', `${base}/dr/mirrors:promote`, {});
  await refused(rest, 400, /mirror_topic_names/);
});

test('a page of another site changes nothing, its own server’s pages and tools may', async () => {
  const unfence = '/causeway/v1/mirrors/orders/unfence';
  for (const origin of ['http://evil.example', 'null', 'http://127.0.0.1:1']) {
    await refused(ask('POST', unfence, undefined, { origin }), 403, /another site/);
  }
  const same = await ask('POST', unfence, undefined, { origin: 'http://127.0.0.1' });
  assert.equal(same.status, 204);
  assert.equal((await ask('POST', unfence)).status, 204);
  const read = await ask('GET', '/causeway/v1/mirrors', undefined, { origin: 'http://a.example' });
  assert.equal(read.status, 200);
});

test('a foreign Host header is refused on every form of a loopback address', async () => {
  for (const [bind, status] of [
    ['127.0.0.1', 403],
    ['127.1.2.3', 403],
    ['localhost', 403],
    ['::1', 403],
    ['0:0:0:0:0:0:0:1', 403],
    ['::ffff:127.0.0.1', 403],
    ['10.0.0.7', 200],
    ['::', 200],
  ] as const) {
    const bound = await createAdminApp(services, { bind });
    const url = '/health/live';
    const response = await bound.inject({ url, headers: { host: 'evil.example' } });
    assert.equal(response.statusCode, status, bind);
    await bound.close();
  }
});

/** All that comes back for bytes that are sent as they are. */
function raw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setEncoding('utf8');
    socket.on('data', (text) => {
      answer += text;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(answer));
  });
}

test('R18: bytes that are no HTTP request get the error body too', async () => {
  const server = await startAdminServer(services, { bind: '127.0.0.1', port: 0 });
  try {
    const port = Number(new URL(server.url).port);
    for (const [bytes, status] of [
      ['BOGUS\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`, 431],
    ] as const) {
      const answer = await raw(port, bytes);
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
      const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))) as { error_code: number };
      assert.equal(body.error_code, status);
    }
    const long = await ask('GET', `/causeway/v1/links/${'a'.repeat(2000)}`);
    assert.equal(long.status, 414);
  } finally {
    await server.close();
  }
});
