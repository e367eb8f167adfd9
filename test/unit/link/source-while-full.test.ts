// Log starts and ends of a source while the disk is full, over a source that answers from a table.
//
// Owns: one mirror partition over a log on disk, and whether that disk is said to be full. Refuses
// to know how fetching stops. Invariant: time passes only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { SourceWhileFull } from '../../../src/link/fetch/source-while-full.ts';
import { FakeLink } from './fake-link.ts';
import {
  batch,
  FakeCluster,
  feedOf,
  openTestStorage,
  shellId,
  sourceId,
  topicInfo,
} from './fakes.ts';

const everyMs = 10_000;

async function scene(t: TestContext) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  for (const base of [0n, 10n, 20n]) await log.append(batch({ base, count: 10 }));
  await log.flush();
  const disk = { isFull: true };
  let nowMs = 1_000_000;
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const cluster = new FakeCluster();
  cluster.topics.set('orders', topicInfo('orders', sourceId, [0]));
  cluster.ends.set('orders/0', 60n);
  const link = new FakeLink(cluster);
  const feed = feedOf(log, { lag: new LagTracker(30n, nowMs), clock });
  const limits = { sourceWhileFullMs: everyMs };
  const starts = new SourceWhileFull({ link, clock, limits, storage: disk });
  const look = async (start: bigint): Promise<bigint> => {
    cluster.starts.set('orders/0', start);
    nowMs += everyMs;
    starts.tend([feed]);
    await link.work;
    return log.logStart;
  };
  return { log, feed, link, cluster, disk, clock, look };
}

test('a full disk that kept what its source had let go follows the source, also to the end', async (t) => {
  const { log, look } = await scene(t);
  assert.equal(await look(0n), 0n);
  assert.equal(await look(15n), 15n);
  assert.equal(await look(30n), 30n);
  assert.equal(log.sizeBytes, 0, 'all of it is free');
});

test('R15: the lag behind a full disk is known, and so is what a failover would lose', async (t) => {
  const { feed, look, clock } = await scene(t);
  await look(0n);
  const { sourceEnd, records } = feed.lag.lag(clock.monotonicMs(), everyMs);
  assert.deepEqual([sourceEnd, records], [60n, 30n]);
});

test('starts are not asked for while there is room, nor without the lease', async (t) => {
  const { link, disk, look } = await scene(t);
  disk.isFull = false;
  assert.equal(await look(15n), 0n);
  disk.isFull = true;
  link.isOwner = false;
  assert.equal(await look(15n), 0n);
  link.isOwner = true;
  assert.equal(await look(15n), 15n);
});

test('the start of a topic that was made again deletes nothing', async (t) => {
  const { cluster, link, look } = await scene(t);
  cluster.topics.set('orders', topicInfo('orders', shellId, [0]));
  assert.equal(await look(15n), 0n);
  assert.equal(await look(50n), 0n);
  assert.deepEqual(link.failures, []);
});

test('R10: a source that has let go of more than a full disk has is lost history at once', async (t) => {
  const { log, link, look } = await scene(t);
  assert.equal(await look(40n), 0n);
  assert.match(link.failures.join(), /^LOST_HISTORY: orders-0: offsets \[30, 40\)/);
  assert.ok(log.sizeBytes > 0, 'what is the last copy stays');
});

test('with lost history accepted, what a full disk holds makes room; the rest is one range', async (t) => {
  const { log, link, cluster, look } = await scene(t);
  const lost: string[] = [];
  Object.assign(link, {
    lostHistory: 'continue',
    noteLoss: async (_: string, { from, to }: { from: bigint; to: bigint }) => {
      lost.push(`${from}..${to}`);
    },
  });
  cluster.script('Fetch', () => ({
    errorCode: 0,
    throttleTimeMs: 0,
    responses: [{ partitions: [{ partitionIndex: 0, errorCode: 0, records: null }] }],
  }));
  assert.equal(await look(40n), 40n);
  assert.equal(log.sizeBytes, 0);
  assert.equal(await look(50n), 40n, 'nothing would be freed');
  assert.deepEqual(lost, ['30..40']);
});
