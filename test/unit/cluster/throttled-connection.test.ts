// A broker whose quota has our client wait (KIP-219): it answers at once, says for how long, and
// reads nothing of that connection meanwhile. What the client sends then, and what it takes for
// late. Real sockets on the loopback, a clock of the test's.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createListGroupsRequest } from '../../../protocol/generated/list-groups-request.ts';
import {
  createListGroupsResponse,
  encodeListGroupsResponse,
} from '../../../protocol/generated/list-groups-response.ts';
import {
  createSaslAuthenticateResponse,
  encodeSaslAuthenticateResponse,
} from '../../../protocol/generated/sasl-authenticate-response.ts';
import {
  createSaslHandshakeResponse,
  encodeSaslHandshakeResponse,
} from '../../../protocol/generated/sasl-handshake-response.ts';
import { listGroupsApi } from '../../../src/cluster/apis.ts';
import { connectCluster } from '../../../src/cluster/cluster-client.ts';
import { until } from '../../helpers/wait.ts';
import { FakeBroker, type FakeHandler } from './fake-broker.ts';

const listGroupsKey = 16;
const listGroups = createListGroupsRequest();

const answering =
  (throttleTimeMs: number): FakeHandler =>
  ({ header }) =>
  (writer) =>
    encodeListGroupsResponse(
      writer,
      createListGroupsResponse({ throttleTimeMs }),
      header.apiVersion,
    );

async function scene(t: TestContext) {
  const broker = new FakeBroker({ [listGroupsKey]: [0, 4] });
  await broker.listen();
  const clock = { nowMs: 1_000 };
  const cluster = connectCluster({
    bootstrapServers: [broker.address],
    limits: { tickMs: 5, throttleMsMax: 60_000 },
    now: () => clock.nowMs,
  });
  t.after(async () => {
    await cluster.close();
    await broker.close();
  });
  const send = (lane: string, timeoutMs = 500) =>
    cluster.send({ kind: 'any' }, listGroupsApi, listGroups, { lane, timeoutMs });
  const asked = (): number => broker.seen.filter((api) => api.startsWith('16 ')).length;
  return { broker, cluster, clock, send, asked };
}

test('nothing is sent on a connection before the time of a quota is over, nor called late', async (t) => {
  const { broker, clock, send, asked } = await scene(t);
  broker.handlers.set(listGroupsKey, answering(30));
  assert.equal((await send('a')).throttleTimeMs, 30);
  broker.handlers.set(listGroupsKey, answering(0));
  // Longer held than it may take: its time begins when it is sent.
  const held = send('a', 20);
  for (let other = 0; other < 20; other++) await send('b');
  assert.equal(asked(), 21, 'other connections go on');
  clock.nowMs += 29;
  for (let other = 0; other < 20; other++) await send('b');
  assert.equal(asked(), 41);
  clock.nowMs += 1;
  await held;
  assert.equal(asked(), 42);
  assert.equal(broker.connectionsCount, 2, 'nothing was given up');
});

test('what was under way when a quota stepped in was called late, and its connection closed', async (t) => {
  const { broker, clock, send, asked } = await scene(t);
  await until('connected', async () => {
    broker.handlers.set(listGroupsKey, answering(0));
    await send('a');
    return true;
  });
  let answers = 0;
  broker.handlers.set(listGroupsKey, (request) =>
    answers++ === 0 ? answering(5_000)(request) : 'silence',
  );
  const first = send('a');
  const behind = send('a');
  let isOver = false;
  const end = behind.then(
    () => assert.fail('nobody answers it'),
    (error: unknown) => {
      isOver = true;
      return error;
    },
  );
  assert.equal((await first).throttleTimeMs, 5_000);
  await until('both are there', () => asked() === 3);
  clock.nowMs += 5_400;
  broker.handlers.set(listGroupsKey, answering(0));
  // Several ticks go by.
  for (let other = 0; other < 20; other++) await send('b');
  assert.equal(isOver, false, 'it was late after 500 ms, and is after 5,500');
  clock.nowMs += 200;
  assert.match(String(await end), /no answer to ListGroups within 500 ms/);
});

test('closing ends what a quota holds', async (t) => {
  const { broker, cluster, send } = await scene(t);
  broker.handlers.set(listGroupsKey, answering(50_000));
  await send('a');
  const held = assert.rejects(send('a'), { name: 'ClusterError', code: 'CLOSED' });
  await new Promise((resolve) => setImmediate(resolve));
  await cluster.close();
  await held;
});

test('what any broker can answer waited for the one that a quota held', async (t) => {
  const brokers = [0, 1].map(() => new FakeBroker({ [listGroupsKey]: [0, 4] }));
  for (const broker of brokers) await broker.listen();
  const cluster = connectCluster({
    bootstrapServers: brokers.map(({ address }) => address),
  });
  t.after(async () => {
    await cluster.close();
    for (const broker of brokers) await broker.close();
  });
  const askedOf = brokers.map((broker, index) => {
    broker.handlers.set(listGroupsKey, answering(2_000));
    return () => brokers[index]?.seen.filter((api) => api.startsWith('16 ')).length;
  });
  const send = () => cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  await send();
  await send();
  assert.deepEqual(
    askedOf.map((count) => count()),
    [1, 1],
  );
});

test('who authenticated again while a quota held the connection was called late', async (t) => {
  const broker = new FakeBroker({ [listGroupsKey]: [0, 4], 17: [0, 1], 36: [0, 2] });
  await broker.listen();
  const clock = { nowMs: 0 };
  const cluster = connectCluster({
    bootstrapServers: [broker.address],
    client: {
      'security.protocol': 'SASL_PLAINTEXT',
      'sasl.mechanism': 'PLAIN',
      'sasl.jaas.config':
        'org.apache.kafka.common.security.plain.PlainLoginModule required ' +
        'username="u" password="p";',
    },
    limits: { tickMs: 5, requestTimeoutMs: 500 },
    now: () => clock.nowMs,
  });
  t.after(async () => {
    await cluster.close();
    await broker.close();
  });
  const greets: FakeHandler = ({ header }) => {
    const response = createSaslHandshakeResponse({ mechanisms: ['PLAIN'] });
    return (writer) => encodeSaslHandshakeResponse(writer, response, header.apiVersion);
  };
  broker.handlers.set(17, greets);
  broker.handlers.set(36, ({ header }) => {
    const response = createSaslAuthenticateResponse({ sessionLifetimeMs: 60_000n });
    return (writer) => encodeSaslAuthenticateResponse(writer, response, header.apiVersion);
  });
  broker.handlers.set(listGroupsKey, answering(0));
  const send = (lane: string) => cluster.send({ kind: 'any' }, listGroupsApi, listGroups, { lane });
  await send('a');
  clock.nowMs = 40_000;
  broker.handlers.set(listGroupsKey, answering(30_000));
  await send('a');
  broker.handlers.set(listGroupsKey, answering(0));
  clock.nowMs = 55_000;
  broker.handlers.set(17, () => 'silence');
  let isOver = false;
  const end = send('a').catch((error: unknown) => {
    isOver = true;
    return error;
  });
  await until('it authenticates', () => broker.seen.at(-1)?.startsWith('17 ') === true);
  broker.handlers.set(17, greets);
  clock.nowMs = 70_400;
  // Several ticks go by.
  for (let other = 0; other < 20; other++) await send('b');
  assert.equal(isOver, false, 'it is read when the time of the quota is over');
  assert.equal(broker.connectionsCount, 2, 'nothing was given up');
  clock.nowMs = 70_600;
  assert.match(String(await end), /no time left/);
});
