// The loop of one connection over a source that answers from a table: what one partition does to
// the others that are fetched beside it.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  encodeFetchResponse,
  type FetchResponse,
} from '../../../protocol/generated/fetch-response.ts';
import { Writer } from '../../../protocol/index.ts';
import { fetchApi } from '../../../src/cluster/apis.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import type { FrameReceiver } from '../../../src/cluster/frame-intake.ts';
import type { LinkClock } from '../../../src/link/context.ts';
import { ByteThrottle } from '../../../src/link/fetch/byte-throttle.ts';
import { BrokerFetcher } from '../../../src/link/fetch/fetcher.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import type { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import { RangeReaders } from '../../../src/link/fetch/range-readers.ts';
import { until } from '../../helpers/wait.ts';
import { FakeLink } from './fake-link.ts';
import { batch, FakeCluster, feedOf, openTestStorage, shellId, sourceId } from './fakes.ts';

/** Every partition that is asked for has one more record. */
function answer(request: FetchRequest, throttleTimeMs = 0) {
  const partitions = request.topics.flatMap(({ partitions: asked }) =>
    asked.map(({ partition, fetchOffset }) =>
      createPartitionData({
        partitionIndex: partition,
        highWatermark: fetchOffset + 1n,
        records: batch({ base: fetchOffset }),
      }),
    ),
  );
  const responses = [createFetchableTopicResponse({ topicId: sourceId, partitions })];
  return createFetchResponse({
    throttleTimeMs,
    responses: partitions.length > 0 ? responses : [],
  });
}

async function scene(t: TestContext, options: { clock: LinkClock; partitions: number }) {
  const { clock } = options;
  const { storage } = await openTestStorage(t);
  const cluster = new FakeCluster();
  const world = {
    cluster,
    bytesPerSecond: null as number | null,
    fetches: 0,
    /** How often it was looked whether to fetch. */
    looks: 0,
    throttleTimeMs: 0,
    waitMs: 10,
    timeoutMs: 0,
    feeds: [] as PartitionFeed[],
  };
  cluster.script('Fetch', async (request, { timeoutMs = 0 }) => {
    world.fetches++;
    world.timeoutMs = timeoutMs;
    await new Promise((resolve) => setImmediate(resolve));
    return answer(request as FetchRequest, world.throttleTimeMs);
  });
  const link = new FakeLink(cluster);
  const bytesMax = 1 << 20;
  const settings = () => {
    const { bytesPerSecond, waitMs } = world;
    return { waitMs, bytesMax, partitionBytesMax: bytesMax, bytesPerSecond };
  };
  const throttle = new ByteThrottle();
  const mayFetch = (): boolean => ++world.looks > 0;
  const ranges = new RangeReaders({ link, clock, settings, throttle, mayFetch });
  const parts = { nodeId: 1, link, clock, settings, mayFetch, throttle, ranges, index: 0 };
  const fetcher = new BrokerFetcher(parts);
  for (let partition = 0; partition < options.partitions; partition++) {
    const log = await storage.create({ topicId: shellId, partition }, 0n);
    const lag = new LagTracker(0n, clock.monotonicMs());
    const feed = feedOf(log, { partition, lag, clock });
    world.feeds.push(feed);
    fetcher.add(feed);
  }
  const stop = async (): Promise<void> => {
    await fetcher.close();
    for (const feed of world.feeds) await feed.stop();
  };
  return { world, link, fetcher, stop };
}

test('R14: a partition that is slow to append does not hold up the others', async (t) => {
  // Twenty times as fast as ours.
  const clock = { monotonicMs: () => performance.now() * 20, unixMs: () => Date.now() };
  const { world, fetcher, stop } = await scene(t, { clock, partitions: 2 });
  const [slow, quick] = world.feeds;
  assert.ok(slow && quick);
  let begun = 0;
  let goOn = (): void => undefined;
  const isHeld = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const append = slow.log.append.bind(slow.log);
  slow.log.append = async (records) => {
    begun++;
    await isHeld;
    return append(records);
  };
  fetcher.start();
  try {
    await until('the slow partition is at it', () => begun === 1);
    const reached = quick.log.end;
    await until('the other one goes on', () => quick.log.end > reached + 20n);
    assert.equal(begun, 1, 'the slow one has not ended, and no answer of it was passed over');
    assert.equal(slow.log.end, 0n);
    goOn();
    await until('the slow one goes on where it was', () => slow.log.end > 10n);
  } finally {
    goOn();
    await stop();
  }
});

test('the delay of the broker’s quota and the link’s own limit are obeyed, the limit live', async (t) => {
  let nowMs = 1_000_000;
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const { world, fetcher, stop } = await scene(t, { clock, partitions: 1 });
  /** Nothing is asked for however often it is looked at. */
  const rests = async (): Promise<void> => {
    const { looks } = world;
    await until('four more looks', () => world.looks >= looks + 4);
  };
  world.throttleTimeMs = 5_000;
  fetcher.start();
  try {
    await until('the first answer', () => world.feeds[0]?.log.end === 1n);
    await rests();
    assert.equal(world.fetches, 1);
    nowMs += 4_999;
    await rests();
    assert.equal(world.fetches, 1);
    world.throttleTimeMs = 0;
    world.bytesPerSecond = 1;
    nowMs += 1;
    await until('the second answer', () => world.feeds[0]?.log.end === 2n);
    await rests();
    assert.equal(world.fetches, 2, 'one byte a second, and as many taken as a batch has');
    world.bytesPerSecond = null;
    await until('it goes on', () => (world.feeds[0]?.log.end ?? 0n) > 10n);
  } finally {
    await stop();
  }
});

/** The answer begins to come in, and its last bytes never do. */
function breakOff(answered: ReturnType<typeof answer>, receiver: FrameReceiver): never {
  const version = fetchApi.versionMax;
  const writer = new Writer();
  writer.writeInt32(1);
  writer.writeUvarint(0);
  encodeFetchResponse(writer, answered, version);
  const frame = writer.toBuffer();
  const intake = receiver.begin({ sizeInBytes: frame.length, version });
  const comes = frame.subarray(0, frame.length - 1);
  comes.copy(intake.room(frame.length));
  intake.filled(comes.length);
  throw new ClusterError('TIMEOUT', 'scripted', { maybeSent: true });
}

test('R8: a line that breaks off each answer brings the mirror on, at the rate that is set', async (t) => {
  let nowMs = 1_000_000;
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const { world, link, fetcher, stop } = await scene(t, { clock, partitions: 1 });
  link.lost = ({ message }) => assert.equal(message, 'scripted');
  const [feed] = world.feeds;
  assert.ok(feed);
  await feed.log.append(batch({ base: 0n }));
  world.cluster.script('Fetch', async (request, { into }) => {
    world.fetches++;
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(into);
    return breakOff(answer(request as FetchRequest), into);
  });
  fetcher.start();
  try {
    await until('four more records', () => {
      // As much as it waits after an answer that brought something, and no more.
      nowMs += 10;
      return feed.log.end >= 5n;
    });
    assert.deepEqual([feed.failures, feed.lag.sourceEnd], [0, feed.log.end]);
    const { end } = feed.log;
    world.bytesPerSecond = 1;
    nowMs += 60;
    await until('another one, from when the rate is set', () => feed.log.end > end);
    const { fetches, looks } = world;
    nowMs += 2_000;
    await until('four more looks', () => world.looks >= looks + 4);
    assert.equal(world.fetches, fetches, 'what was taken of it counts');
  } finally {
    await stop();
  }
});

test('an empty answer to a request for everything, or by a quota, passed for a fresh sample', async (t) => {
  let nowMs = 1_000_000;
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const { world, fetcher, stop } = await scene(t, { clock, partitions: 1 });
  const [feed] = world.feeds;
  assert.ok(feed);
  let next: (request: FetchRequest) => FetchResponse = (request) => ({
    ...answer(request),
    sessionId: 7,
  });
  world.cluster.script('Fetch', async (request) => {
    world.fetches++;
    await new Promise((resolve) => setImmediate(resolve));
    return next(request as FetchRequest);
  });
  /** When the partition was heard of last, after some answers more of this kind. */
  const sampledAfter = async (kind: typeof next): Promise<number> => {
    next = kind;
    nowMs += 1_000;
    const { fetches } = world;
    await until('three more answers', () => {
      nowMs += 1_000;
      return world.fetches >= fetches + 3;
    });
    return feed.lag.sampledAtMs;
  };
  const empty = (fields: Partial<FetchResponse>) => () => createFetchResponse(fields);
  fetcher.start();
  try {
    await until('a session', () => (feed.log.end ?? 0n) > 2n);
    const silence = await sampledAfter(empty({ sessionId: 7 }));
    assert.ok(silence > feed.heardAtMs - 2_000, 'in a session silence says: nothing new');
    const before = await sampledAfter(empty({ sessionId: 7, throttleTimeMs: 1 }));
    const throttled = await sampledAfter(empty({ sessionId: 7, throttleTimeMs: 1 }));
    assert.equal(throttled, before, 'a quota says nothing');
    assert.ok(feed.heldBackAtMs > before);
    // Without a slot for our session each request is for everything.
    await sampledAfter(empty({ sessionId: 0 }));
    const sampled = feed.lag.sampledAtMs;
    assert.equal(await sampledAfter(empty({ sessionId: 0 })), sampled, 'nothing was said of it');
    assert.equal(await sampledAfter(empty({ sessionId: 0, throttleTimeMs: 1 })), sampled);
    assert.ok((await sampledAfter(answer)) > sampled);
  } finally {
    await stop();
  }
});

test('R15: a source that was allowed to wait longer than its answer was waited for looked dead', async (t) => {
  const clock = { monotonicMs: () => performance.now(), unixMs: () => Date.now() };
  const { world, fetcher, stop } = await scene(t, { clock, partitions: 1 });
  world.waitMs = 60_000;
  fetcher.start();
  try {
    await until('it is asked', () => world.fetches > 0);
    assert.ok(world.timeoutMs > world.waitMs);
  } finally {
    await stop();
  }
});
