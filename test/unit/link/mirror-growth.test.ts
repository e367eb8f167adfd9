// Mirrors whose sources were given partitions: grown, or shown to lack them with the reason, over
// clusters that answer from a table and a clock of the test's own.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import { MirrorGrowth } from '../../../src/link/mirror/mirror-growth.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
  topicInfo,
} from './fakes.ts';

async function scene(t: TestContext) {
  const state = new FakeState();
  state.topics.set('orders', mirrorRecord());
  const { storage } = await openTestStorage(t);
  await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const [source, destination] = [new FakeCluster(), new FakeCluster()];
  source.topics.set('orders', topicInfo('orders', sourceId, [0, 0, 0]));
  destination.topics.set('orders', topicInfo('orders', shellId, [0]));
  const answer = { errorCode: 0 as number, errorMessage: null as string | null };
  let asked = 0;
  destination.script('CreatePartitions', () => {
    asked++;
    return { results: [{ name: 'orders', ...answer }] };
  });
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, unixMs: () => 1_000_000 + nowMs };
  const context = { ...testContext({ state, storage, destination, source }), clock };
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const { events } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const idle = { why: null as string | null };
  let work = Promise.resolve();
  const link = {
    name: 'dr',
    record: { sourceClusterId: source.clusterId } as never,
    cluster: source,
    inBackground: (run: () => Promise<void>) => {
      work = run();
    },
  };
  const growth = new MirrorGrowth({ context, topics, changes, link });
  /** As the look at the source does, so many ms after the one before. */
  const look = async (afterMs = 2_000) => {
    nowMs += afterMs;
    const now = state.topics.get('orders');
    assert.ok(now);
    const count = source.topics.get('orders')?.partitions.length ?? 0;
    if (count > now.partitions.length) growth.found(now, count, idle.why);
    else growth.clear('orders');
    await work;
  };
  const partitions = () => topics.byName('orders')?.partitions ?? [];
  const told = () => events.since(0).map(({ event }) => event);
  return { growth, look, partitions, told, source, answer, asked: () => asked, events, idle };
}

test('R15: one new partition without a leader held up the others', async (t) => {
  const { growth, look, partitions, told, source } = await scene(t);
  const info = topicInfo('orders', sourceId, [0, 0, 0]);
  const leaderless = info.partitions.map((found) =>
    found.partition === 1 ? { ...found, leaderId: -1 } : found,
  );
  source.topics.set('orders', { ...info, partitions: leaderless });
  await look();
  assert.deepEqual(
    partitions().map(({ log }) => log?.end),
    [0n, 0n, 0n],
  );
  assert.deepEqual([growth.of('orders'), told()], [null, ['mirror_grown']]);
});

test('R15: a mirror that the destination refuses to grow looked healthy', async (t) => {
  const { growth, look, partitions, told, answer, asked, events } = await scene(t);
  answer.errorCode = ErrorCode.POLICY_VIOLATION;
  answer.errorMessage = 'no more partitions';
  await look();
  const cause = /^DESTINATION_REFUSED: .*to 3 partitions: POLICY_VIOLATION: no more partitions/;
  const found = growth.of('orders');
  assert.deepEqual([found?.sourcePartitions, found?.sinceTimeMs], [3, 1_002_000]);
  assert.match(found?.cause ?? '', cause);
  for (let turn = 0; turn < 30; turn++) await look();
  // At once and after 2, 4, 8, 16 s more each; told once.
  assert.deepEqual([asked(), told()], [5, ['mirror_growth_failed']]);
  const [event] = events.since(0);
  assert.equal(event?.level, 'warn');
  assert.match(event?.message ?? '', /'orders' has 1 of the 3 partitions of its source/);
  assert.equal(growth.of('orders')?.sinceTimeMs, 1_002_000);
  answer.errorCode = ErrorCode.INVALID_REQUEST;
  await look(60_000);
  assert.deepEqual(told(), ['mirror_growth_failed', 'mirror_growth_failed'], 'another cause');
  answer.errorCode = ErrorCode.NONE;
  await look(60_000);
  assert.equal(partitions().length, 3);
  assert.deepEqual([growth.of('orders'), told().at(-1)], [null, 'mirror_grown']);
});

test('R15: a mirror that cannot grow since its source is not confirmed says so', async (t) => {
  const { growth, look, partitions, told, source } = await scene(t);
  const metadata = source.metadata.bind(source);
  source.metadata = async (names) => ({ ...(await metadata(names)), topics: new Map() });
  await look();
  assert.match(growth.of('orders')?.cause ?? '', /source topic 'orders' is not there/);
  assert.deepEqual(told(), [], 'it may be over with the next answer');
  for (let turn = 0; turn < 9; turn++) await look();
  assert.deepEqual(told(), ['mirror_growth_failed']);
  source.metadata = metadata;
  await look();
  assert.equal(partitions().length, 3);
  assert.equal(growth.of('orders'), null);
});

test('R15: a mirror that may not grow kept the cause from before', async (t) => {
  const { growth, look, partitions, answer, asked, idle } = await scene(t);
  const causeOf = () => growth.of('orders')?.cause ?? null;
  answer.errorCode = ErrorCode.POLICY_VIOLATION;
  await look();
  const refused = /POLICY_VIOLATION/;
  assert.match(causeOf() ?? '', refused);
  idle.why = 'the link is paused';
  await look(60_000);
  assert.deepEqual([causeOf(), asked(), partitions().length], [idle.why, 1, 1]);
  idle.why = null;
  answer.errorCode = ErrorCode.NONE;
  await look();
  assert.deepEqual([growth.of('orders'), partitions().length], [null, 3]);
});
