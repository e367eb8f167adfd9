// What is kept of copies that may hold deleted keys: put on record while nothing is being built, by
// partition, and known again to the feed of a restarted proxy.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { defaultLinkLimits, systemClock } from '../../../src/link/context.ts';
import { CompactCopies } from '../../../src/link/fetch/compact-copies.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import { FakeLink, linkBounds } from './fake-link.ts';
import { batch, FakeCluster, openTestStorage, shellId, sourceId } from './fakes.ts';

async function scene(t: TestContext) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n, count: 3 }));
  const feedOf = (options: { isCompacted: boolean; isCleaningUnseen: boolean }) =>
    new PartitionFeed({
      topic: 'orders',
      sourceTopic: 'orders',
      sourceTopicId: sourceId,
      partition: 0,
      log,
      lag: new LagTracker(log.visibleEnd, systemClock.monotonicMs()),
      clock: systemClock,
      isCompacted: () => options.isCompacted,
      isCleaningUnseen: options.isCleaningUnseen,
    });
  const link = new FakeLink(new FakeCluster());
  const copies = new CompactCopies({
    link,
    clock: systemClock,
    limits: defaultLinkLimits,
    bounds: linkBounds(),
  });
  return { feedOf, link, copies };
}

test('a gap that the cleaner left behind our back is on record, and is known after a restart', async (t) => {
  const { feedOf, link, copies } = await scene(t);
  const feed = feedOf({ isCompacted: true, isCleaningUnseen: false });
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], [['orders-0', false]]);
  // What lay between was cleaned away before it was read.
  await feed.append(batch({ base: 7n }));
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], [['orders-0', true]]);

  const restarted = feedOf({ isCompacted: true, isCleaningUnseen: true });
  await restarted.append(batch({ base: 8n }));
  copies.tend([restarted]);
  assert.deepEqual([...link.unseen], [['orders-0', true]]);
  // Built anew.
  restarted.unseenCleaningMs = null;
  copies.tend([restarted]);
  assert.deepEqual([...link.unseen], [['orders-0', false]]);
});

test('gaps in a topic that is not compacted are nobody’s deleted keys', async (t) => {
  const { feedOf, link, copies } = await scene(t);
  const feed = feedOf({ isCompacted: false, isCleaningUnseen: false });
  await feed.append(batch({ base: 7n }));
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], []);
});
