// What is kept of copies that may hold deleted keys: put on record while nothing is being built, by
// partition, and known again to the feed of a restarted proxy.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { defaultLinkLimits, systemClock } from '../../../src/link/context.ts';
import { CompactCopies } from '../../../src/link/fetch/compact-copies.ts';
import { FakeLink, linkBounds } from './fake-link.ts';
import { batch, FakeCluster, feedOf, openTestStorage, shellId } from './fakes.ts';

async function scene(t: TestContext) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n, count: 3 }));
  const newFeed = (options: { isCompacted: boolean; isCleaningUnseen: boolean }) =>
    feedOf(log, { ...options, isCompacted: () => options.isCompacted });
  const link = new FakeLink(new FakeCluster());
  const copies = new CompactCopies({
    link,
    clock: systemClock,
    limits: defaultLinkLimits,
    bounds: linkBounds(),
  });
  return { newFeed, link, copies };
}

test('a gap that the cleaner left behind our back is on record, and is known after a restart', async (t) => {
  const { newFeed, link, copies } = await scene(t);
  const feed = newFeed({ isCompacted: true, isCleaningUnseen: false });
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], [['orders-0', false]]);
  // What lay between was cleaned away before it was read.
  await feed.append(batch({ base: 7n }));
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], [['orders-0', true]]);

  const restarted = newFeed({ isCompacted: true, isCleaningUnseen: true });
  await restarted.append(batch({ base: 8n }));
  copies.tend([restarted]);
  assert.deepEqual([...link.unseen], [['orders-0', true]]);
  // Built anew.
  restarted.unseenCleaningMs = null;
  copies.tend([restarted]);
  assert.deepEqual([...link.unseen], [['orders-0', false]]);
});

test('gaps in a topic that is not compacted are nobody’s deleted keys', async (t) => {
  const { newFeed, link, copies } = await scene(t);
  const feed = newFeed({ isCompacted: false, isCleaningUnseen: false });
  await feed.append(batch({ base: 7n }));
  copies.tend([feed]);
  assert.deepEqual([...link.unseen], []);
});
