// A source that starts above what a copy needs next: which offsets are lost, on record once, by
// either policy, of every partition. Over real mirror logs and a source that answers from a table.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createPartitionData } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { systemClock } from '../../../src/link/context.ts';
import { acceptPartition } from '../../../src/link/fetch/fetch-response.ts';
import { resolveOutOfRange } from '../../../src/link/fetch/out-of-range.ts';
import { lostTotals } from '../../../src/link/mirror/lost-history.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { TopicFailures } from '../../../src/link/mirror/topic-failures.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { until } from '../../helpers/wait.ts';
import { FakeLink } from './fake-link.ts';
import {
  batch,
  FakeCluster,
  FakeState,
  feedOf,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
  topicInfo,
} from './fakes.ts';

/** A copy of which nothing was read yet, or that holds [start, start + count). */
async function scene(
  t: TestContext,
  copy: { readonly start?: bigint; readonly count?: number; readonly base?: bigint } = {},
) {
  const { start = 0n, count = 0, base = copy.start ?? 0n } = copy;
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, base);
  if (count > 0) await log.append(batch({ base: start, count }));
  await log.flush();
  const newFeed = () => feedOf(log, { firstOffset: start });
  const link = new FakeLink(new FakeCluster());
  link.cluster.topics.set('orders', topicInfo('orders', sourceId, [5]));
  link.cluster.script('Fetch', () => {
    const records = batch({ base: sourceBase, count: 20 });
    const partition = { partitionIndex: 0, errorCode: 0, records, highWatermark: 100n };
    return { errorCode: 0, responses: [{ partitions: [partition] }] };
  });
  let sourceBase = 0n;
  let feed = newFeed();
  /** The source starts there, within a batch that begins at `from`. */
  const overtaken = async (to: bigint, from = to) => {
    sourceBase = from;
    link.cluster.starts.set('orders/0', to);
    link.cluster.ends.set('orders/0', 100n);
    const data = createPartitionData({ errorCode: ErrorCode.OFFSET_OUT_OF_RANGE });
    await acceptPartition(feed, data, { link, clock: systemClock });
    await link.work;
  };
  const restart = () => {
    feed = newFeed();
  };
  const told = () =>
    link.events.since(0).map(({ event, fields }) => [event, fields.from, fields.to]);
  return { log, link, overtaken, restart, told, position: () => feed.position };
}

function ranges({ lost = [] }: Pick<TopicRecord, 'lost'>): string[] {
  return lost.map(({ partition, from, to }) => `${partition}: [${from}, ${to})`);
}

test('R10: history that an empty copy lost, begun at the end of its source, was in no status', async (t) => {
  const { link, overtaken, told } = await scene(t, { start: 5n });
  await overtaken(9n);
  assert.match(
    link.failures.join(),
    /^LOST_HISTORY: orders-0: offsets \[5, 9\).*delete the mirror and create it again/,
  );
  assert.deepEqual(told(), [], 'the failure tells');
});

test('R10: history lost once more behind a gap that no batch had followed was in no status', async (t) => {
  const { log, link, overtaken, told, position } = await scene(t, { count: 2 });
  link.lostHistory = 'continue';
  await overtaken(5n, 4n);
  assert.deepEqual([log.lastEpoch, log.end, position()], [-1, 4n, 5n]);
  await overtaken(9n, 8n);
  assert.deepEqual(ranges(link.losses), ['0: [2, 9)']);
  assert.deepEqual(lostTotals(link.losses), [{ partition: 0, ranges: 1, records: 7n }]);
  assert.deepEqual(told(), [
    ['mirror_history_lost', '2', '5'],
    ['mirror_history_lost', '5', '9'],
  ]);
  link.lostHistory = 'stop';
  await overtaken(12n);
  assert.match(link.failures.join(), /^LOST_HISTORY.*\[9, 12\)/);
});

test('a gap on record is no new loss after a restart in front of it', async (t) => {
  const { link, overtaken, restart, told, position } = await scene(t, { count: 2 });
  link.lostHistory = 'continue';
  await overtaken(5n, 4n);
  restart();
  assert.equal(position(), 4n, 'the source would not serve it');
  link.lostHistory = 'stop';
  await overtaken(5n, 4n);
  assert.equal(position(), 5n);
  assert.deepEqual([link.failures, told().length, ranges(link.losses)], [[], 1, ['0: [2, 5)']]);
});

test('a copy that begins within a batch has lost nothing of it', async (t) => {
  const { link, overtaken, told, position } = await scene(t, { start: 5n, base: 4n });
  await overtaken(5n, 4n);
  assert.equal(position(), 5n);
  assert.deepEqual([link.failures, told(), link.losses], [[], [], {}]);
});

test('a mirror made just now begins where its source starts by then, and says so', async (t) => {
  const { link, log, overtaken, told } = await scene(t);
  link.isNew = true;
  await overtaken(7n);
  assert.equal(log.logStart, 7n);
  assert.deepEqual(link.failures, []);
  assert.deepEqual(told(), [['mirror_start_moved', '0', '7']]);
  assert.deepEqual(ranges(link.losses), ['0: [0, 7)']);
});

test('a mirror made just now is stopped by what it loses of what it has read', async (t) => {
  const { link, overtaken } = await scene(t, { count: 2 });
  link.isNew = true;
  await overtaken(7n);
  assert.match(link.failures.join(), /^LOST_HISTORY.*\[2, 7\)/);
});

/** A topic whose copies hold [0, 2), and whose source has lost what lies below its starts. */
async function failing(t: TestContext, starts: readonly (bigint | null)[]) {
  const state = new FakeState();
  const record = mirrorRecord({ partitions: starts.map(() => newMirror(virtualOffset(0n))) });
  state.topics.set('orders', record);
  const { storage } = await openTestStorage(t);
  const source = new FakeCluster();
  source.topics.set(
    'orders',
    topicInfo(
      'orders',
      sourceId,
      starts.map(() => 0),
    ),
  );
  const leaderless = new Set(starts.flatMap((start, index) => (start === null ? [index] : [])));
  const setLeaders = () => {
    const info = topicInfo(
      'orders',
      sourceId,
      starts.map(() => 0),
    );
    const partitions = info.partitions.map((found) =>
      leaderless.has(found.partition) ? { ...found, leaderId: -1 } : found,
    );
    source.topics.set('orders', { ...info, partitions });
  };
  for (const [partition, start] of starts.entries()) {
    const log = await storage.create({ topicId: shellId, partition }, 0n);
    await log.append(batch({ base: 0n, count: 2 }));
    await log.flush();
    source.starts.set(`orders/${partition}`, start ?? 4n);
  }
  setLeaders();
  let asks = 0;
  const metadata = source.metadata.bind(source);
  source.metadata = (names) => {
    asks++;
    return metadata(names);
  };
  const time = { ms: 0 };
  const context = {
    ...testContext({ state, storage, destination: new FakeCluster(), source }),
    clock: { monotonicMs: () => time.ms, unixMs: () => 1_000_000 + time.ms },
  };
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  let work = Promise.resolve();
  const link = {
    name: 'dr',
    record: { sourceClusterId: source.clusterId } as never,
    cluster: source,
    feeds: { stop: async () => undefined },
    inBackground: (run: () => Promise<void>) => {
      work = Promise.all([work, run()]).then(() => undefined);
    },
  };
  const failures = new TopicFailures({ context, topics, changes, link });
  const now = () => state.topics.get('orders') ?? record;
  const elect = (partitions: Iterable<number> = [...leaderless]) => {
    for (const partition of partitions) leaderless.delete(partition);
    setLeaders();
  };
  /** As the look at the source does, so many ms after the one before. */
  const look = async (afterMs: number) => {
    time.ms += afterMs;
    failures.tend();
    await work;
  };
  const told = () =>
    events
      .since(0)
      .filter(({ event }) => event === 'mirror_history_lost')
      .map(({ fields }) => `${fields.partition}: [${fields.from}, ${fields.to})`);
  return { failures, now, settled: () => work, elect, look, told, state, asks: () => asks };
}

const cause = { code: 'LOST_HISTORY', message: 'orders-1: offsets [2, 4) were gone' } as const;

test('R10: of a mirror stopped for lost history the ranges of all but one partition were nowhere', async (t) => {
  const { failures, now, settled, told, state } = await failing(t, [9n, 4n, 0n, 2n, 3n]);
  failures.fail('orders', cause, { partition: 1, from: 2n, to: 4n });
  // Two that had found theirs at the same moment; the source has gone on since for the first.
  failures.fail('orders', cause, { partition: 0, from: 2n, to: 5n });
  failures.fail('orders', cause, { partition: 0, from: 2n, to: 9n });
  await settled();
  const found = ['1: [2, 4)', '0: [2, 9)', '4: [2, 3)'];
  assert.equal(now().state, 'FAILED');
  assert.equal(state.commits.length, 1, 'it is never FAILED without all of them');
  assert.deepEqual(ranges(now()).sort(), [...found].sort());
  assert.deepEqual(told().sort(), [...found, '0: [2, 5)'].sort());
});

test('R10: a lost range found after the mirror was FAILED was dropped', async (t) => {
  const { failures, now, settled, elect, look, told } = await failing(t, [0n, 4n, null]);
  failures.fail('orders', cause, { partition: 1, from: 2n, to: 4n });
  await settled();
  assert.equal(now().state, 'FAILED');
  assert.deepEqual(ranges(now()), ['1: [2, 4)'], 'the third has no leader');
  await look(2_000);
  assert.deepEqual(ranges(now()), ['1: [2, 4)']);
  elect();
  await look(4_000);
  assert.deepEqual(ranges(now()), ['1: [2, 4)', '2: [2, 4)']);
  failures.fail('orders', cause, { partition: 0, from: 2n, to: 3n });
  await settled();
  await look(600_000);
  const found = ['1: [2, 4)', '2: [2, 4)', '0: [2, 3)'];
  assert.deepEqual([ranges(now()), told()], [found, found]);
});

test('R10: the starts of a FAILED mirror without leaders were asked for at each look', async (t) => {
  const { failures, now, settled, elect, look, asks } = await failing(t, [4n, null, null]);
  failures.fail('orders', cause, { partition: 0, from: 2n, to: 4n });
  await settled();
  assert.equal(now().state, 'FAILED');
  const askedAt: number[] = [];
  for (let second = 2, before = asks(); second <= 3_000; second += 2, before = asks()) {
    await look(2_000);
    if (asks() > before) askedAt.push(second);
  }
  assert.deepEqual(askedAt, [2, 6, 14, 30, 62, 126, 254, 510, 1_022, 1_622, 2_222, 2_822]);
  elect([1]);
  await look(600_000);
  assert.deepEqual(ranges(now()), ['0: [2, 4)', '1: [2, 4)']);
  elect();
  await look(2_000);
  const all = ['0: [2, 4)', '1: [2, 4)', '2: [2, 4)'];
  assert.deepEqual(ranges(now()), all, 'one came back: the next is asked soon');
});

test('a failure that the state does not take yet is tried at each look, whatever its leaders say', async (t) => {
  const { failures, now, settled, look, state, asks } = await failing(t, [4n, null]);
  const refused = Array<'UNAVAILABLE'>(6).fill('UNAVAILABLE');
  state.fates = [...refused];
  failures.fail('orders', cause, { partition: 0, from: 2n, to: 4n });
  await assert.rejects(settled(), /scripted UNAVAILABLE/);
  const askedBefore = asks();
  for (let turn = 1; turn < refused.length; turn++) {
    await assert.rejects(look(100), /scripted UNAVAILABLE/);
  }
  await assert.rejects(look(100), /scripted UNAVAILABLE/, 'the first try stays a failure');
  await until('it is FAILED', () => now().state === 'FAILED');
  assert.equal(asks(), askedBefore, 'its leaders are asked at their own times');
});

test('R10: lost ranges are on record when the state took the failure only the second time', async (t) => {
  const { failures, now, settled, state } = await failing(t, [7n, 4n]);
  state.fates = ['UNAVAILABLE'];
  failures.fail('orders', cause, { partition: 1, from: 2n, to: 4n });
  await assert.rejects(settled(), /scripted UNAVAILABLE/);
  assert.equal(now().state, 'ACTIVE');
  failures.tend();
  // The first try stays a failure of the work behind it.
  await assert.rejects(settled(), /scripted UNAVAILABLE/);
  await until('it is FAILED', () => now().state === 'FAILED');
  assert.deepEqual(ranges(now()), ['1: [2, 4)', '0: [2, 7)']);
});

test('a mirror that was paused as it failed was FAILED when it was resumed, whatever had become of the cause', async (t) => {
  const { failures, now, settled, look, state } = await failing(t, [0n]);
  const missing = { code: 'SOURCE_TOPIC_MAY_BE_DELETED', message: 'it is not there' } as const;
  const pause = () => state.topics.set('orders', { ...now(), state: 'PAUSED' });
  const resume = () => state.topics.set('orders', { ...now(), state: 'ACTIVE' });
  failures.fail('orders', missing, null);
  pause();
  await settled();
  resume();
  await look(2_000);
  assert.deepEqual([now().state, failures.has('orders')], ['ACTIVE', false]);

  state.fates = ['UNAVAILABLE'];
  failures.fail('orders', missing, null);
  await assert.rejects(settled(), /scripted UNAVAILABLE/);
  pause();
  await assert.rejects(look(2_000), /scripted UNAVAILABLE/, 'the first try stays a failure');
  resume();
  await assert.rejects(look(2_000), /scripted UNAVAILABLE/);
  assert.deepEqual([now().state, failures.has('orders')], ['ACTIVE', false]);
});

test('R9: a mirror was FAILED by what its source had said before it was paused and resumed', async (t) => {
  const { link, log } = await scene(t, { count: 2 });
  const { cluster } = link;
  const metadata = cluster.metadata.bind(cluster);
  let goOn = (): void => undefined;
  let isAsked = false;
  cluster.metadata = async (names) => {
    isAsked = true;
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
    return metadata(names);
  };
  cluster.ends.set('orders/0', 2n);
  const feed = feedOf(log);
  const resolved = resolveOutOfRange(feed, link, systemClock);
  await until('the source is asked whether it is the same', () => isAsked);
  await feed.stop();
  // Of the feed that came after it.
  await log.append(batch({ base: 2n, count: 2 }));
  goOn();
  await resolved;
  assert.deepEqual(link.failures, []);
});
