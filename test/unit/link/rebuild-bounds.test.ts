// What a rebuild of a copy may take of what it shares with fetching, and when one that could not be
// built is tried again, over a source that answers from a table.
//
// Owns: one compacted mirror partition that is to be built anew. Refuses to know when that is
// wanted. Invariant: time passes when the test says so, and where a throttle is asked.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { defaultLinkLimits } from '../../../src/link/context.ts';
import { ByteThrottle } from '../../../src/link/fetch/byte-throttle.ts';
import { CompactCopies } from '../../../src/link/fetch/compact-copies.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { FakeLink, linkBounds } from './fake-link.ts';
import {
  batch,
  FakeCluster,
  feedOf,
  openTestStorage,
  shellId,
  sourceId,
  topicInfo,
} from './fakes.ts';

interface Wanted {
  readonly topics: readonly {
    readonly partitions: readonly { fetchOffset: bigint; partitionMaxBytes: number }[];
  }[];
}

/** Six batches here, of which the source has the last two left. */
async function scene(t: TestContext, options: { bytesPerSecond?: number } = {}) {
  const { bytesPerSecond = null } = options;
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const bases = [0n, 1n, 2n, 3n, 4n, 5n];
  for (const base of bases) await log.append(batch({ base }));
  await log.flush();
  const time = { nowMs: 1_000_000 };
  const clock = { monotonicMs: () => time.nowMs, unixMs: () => time.nowMs };
  const cluster = new FakeCluster();
  cluster.topics.set('orders', topicInfo('orders', sourceId, [0]));
  const asked: number[] = [];
  cluster.script('Fetch', (request) => {
    const [wanted] = (request as Wanted).topics[0]?.partitions ?? [];
    asked.push(wanted?.partitionMaxBytes ?? -1);
    const base = bases.slice(4).find((each) => each >= (wanted?.fetchOffset ?? 0n));
    const records = base === undefined ? null : batch({ base });
    const partitions = [createPartitionData({ records, highWatermark: 6n })];
    return createFetchResponse({ responses: [createFetchableTopicResponse({ partitions })] });
  });
  cluster.script('DescribeConfigs', () => ({
    throttleTimeMs: 0,
    results: [{ resourceName: 'orders', resourceType: 2, errorCode: 0, configs: [] }],
  }));
  cluster.script('DescribeLogDirs', () => ({ throttleTimeMs: 0, errorCode: 0, results: [] }));
  const lag = new LagTracker(6n, time.nowMs);
  lag.observeSource(6n, { nowMs: time.nowMs, unixMs: time.nowMs });
  const feed = feedOf(log, { lag, clock, isCompacted: () => true, isCleaningUnseen: true });
  const link = new FakeLink(cluster);
  const read: number[] = [];
  const throttle = new ByteThrottle();
  const take = throttle.take.bind(throttle);
  throttle.take = (bytes, at) => {
    read.push(bytes);
    take(bytes, at);
  };
  const disk = { roomBytes: Number.POSITIVE_INFINITY, perLookBytes: 0 };
  const bounds = linkBounds({
    clock,
    throttle,
    limits: { rebuildReserveBytes: 1_000 },
    settings: () => {
      if (bytesPerSecond !== null) time.nowMs += 1;
      return { partitionBytesMax: 1 << 20, bytesPerSecond };
    },
    storage: {
      roomBytes: async () => {
        disk.roomBytes -= disk.perLookBytes;
        return disk.roomBytes;
      },
    },
  });
  const copies = new CompactCopies({ link, clock, limits: defaultLinkLimits, bounds });
  /** So much later. Resolves when what was begun has ended. */
  const tend = async (afterMs: number): Promise<void> => {
    time.nowMs += afterMs;
    copies.tend([feed]);
    await link.work;
  };
  const events = () => link.events.since(0).map(({ event, message }) => `${event}: ${message}`);
  return { log, feed, time, read, throttle, disk, asked, bounds, tend, events, clock };
}

const { rebuildCheckMs } = defaultLinkLimits;

test('a rebuild that read past the throttle of its link asks for a second’s worth, and counts', async (t) => {
  const { log, read, asked, tend, events } = await scene(t, { bytesPerSecond: 10_000 });
  const before = log.sizeBytes;
  await tend(0);
  assert.match(events().join(), /mirror_copy_rebuilt/);
  assert.ok(log.sizeBytes < before);
  assert.deepEqual([...new Set(asked)], [10_000]);
  // Twice, since how long tombstones are kept is not known.
  const sum = read.reduce((total, bytes) => total + bytes, 0);
  assert.ok(sum >= 2 * log.sizeBytes, `${read} of ${log.sizeBytes}`);
});

test('a rebuild waits while others have used the throttle up, and ends with its mirror', async (t) => {
  const { throttle, time, bounds } = await scene(t, { bytesPerSecond: 10_000 });
  throttle.take(20_000, { nowMs: time.nowMs, bytesPerSecond: 10_000 });
  const begunMs = time.nowMs;
  const goOn = () => {
    time.nowMs += 1_000;
  };
  assert.equal(await bounds.turn(goOn), 10_000);
  assert.ok(time.nowMs - begunMs >= 2_000, `${time.nowMs - begunMs} ms`);
  throttle.take(20_000, { nowMs: time.nowMs, bytesPerSecond: 10_000 });
  const stopped = (): never => {
    throw new Error('stopped');
  };
  await assert.rejects(bounds.turn(stopped), /stopped/);
});

test('a copy that would fill the disk for all links is not begun; it is tried again ever later', async (t) => {
  const { log, disk, asked, tend, events } = await scene(t);
  const before = log.sizeBytes;
  disk.roomBytes = before + 999;
  for (const waitMs of [0, rebuildCheckMs, rebuildCheckMs, rebuildCheckMs, rebuildCheckMs]) {
    await tend(waitMs);
  }
  const told = events();
  assert.equal(told.length, 3, told.join('\n'));
  for (const [index, seconds] of [60, 120, 240].entries()) {
    assert.match(told[index] ?? '', /^mirror_copy_not_rebuilt.*as it is for \d+ s: a new copy/);
    assert.ok(told[index]?.includes(`for ${seconds} s`), told[index]);
  }
  assert.deepEqual(asked, []);
  disk.roomBytes = before + 2_000;
  await tend(240_000);
  assert.match(events().at(-1) ?? '', /mirror_copy_rebuilt/);
  assert.ok(log.sizeBytes < before);
});

test('a rebuild that the disk gets too small for gives its space back, and the copy stays', async (t) => {
  const { log, disk, asked, tend, events } = await scene(t);
  const before = log.sizeBytes;
  disk.roomBytes = 2 * before + 1_000;
  disk.perLookBytes = before;
  await tend(0);
  assert.deepEqual(asked.length, 1, 'it was begun');
  assert.match(events().join(), /mirror_copy_not_rebuilt/);
  assert.equal(log.sizeBytes, before);
  disk.roomBytes = Number.POSITIVE_INFINITY;
  await tend(rebuildCheckMs);
  assert.match(events().at(-1) ?? '', /mirror_copy_rebuilt/);
});
