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
