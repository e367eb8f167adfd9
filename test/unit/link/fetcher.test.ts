// The loop of one connection over a source that answers from a table: what one partition does to
// the others that are fetched beside it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ByteThrottle } from '../../../src/link/byte-throttle.ts';
import { BrokerFetcher } from '../../../src/link/fetcher.ts';
import { LagTracker } from '../../../src/link/lag.ts';
import { PartitionFeed } from '../../../src/link/partition-feed.ts';
import { RangeReaders } from '../../../src/link/range-readers.ts';
import { until } from '../../helpers/wait.ts';
import { FakeLink } from './fake-link.ts';
import { batch, FakeCluster, openTestStorage, shellId, sourceId } from './fakes.ts';

/** Twenty times as fast as ours. */
const clock = { monotonicMs: () => performance.now() * 20, unixMs: () => Date.now() };

/** Every partition that is asked for has one more record. */
function answer(request: FetchRequest) {
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
  return createFetchResponse({ responses: partitions.length > 0 ? responses : [] });
}

test('R14: a partition that is slow to append does not hold up the others', async (t) => {
  const { storage } = await openTestStorage(t);
  const cluster = new FakeCluster();
  cluster.script('Fetch', async (request) => {
    await new Promise((resolve) => setImmediate(resolve));
    return answer(request as FetchRequest);
  });
  const link = new FakeLink(cluster);
  const settings = () => ({
    waitMs: 10,
    bytesMax: 1 << 20,
    partitionBytesMax: 1 << 20,
    bytesPerSecond: null,
  });
  const throttle = new ByteThrottle();
  const mayFetch = (): boolean => true;
  const ranges = new RangeReaders({ link, clock, settings, throttle, mayFetch });
  const parts = { nodeId: 1, link, clock, settings, mayFetch, throttle, ranges, index: 0 };
  const fetcher = new BrokerFetcher(parts);
  const feeds: PartitionFeed[] = [];
  for (const partition of [0, 1]) {
    const log = await storage.create({ topicId: shellId, partition }, 0n);
    const lag = new LagTracker(0n, clock.monotonicMs());
    const names = { topic: 'orders', sourceTopic: 'orders', sourceTopicId: sourceId };
    const feed = new PartitionFeed({
      ...{ ...names, partition, log, lag, clock },
      isCompacted: () => false,
    });
    feed.follow(1, 5);
    feeds.push(feed);
  }
  const [slow, quick] = feeds;
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
  for (const feed of feeds) fetcher.add(feed);
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
    await fetcher.close();
    for (const feed of feeds) await feed.stop();
  }
});
