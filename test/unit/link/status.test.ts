// How a partition is shown of which nothing is heard: a partition of the source that never had a
// leader since we started is not fetched, and nothing else would say so.
//
// Owns: one mirror with one feed. Refuses to know how leaders are found. Invariant: time passes
// only when the test says so.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { partitionStatuses } from '../../../src/link/status.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { FakeState, openTestStorage, shellId, sourceId } from './fakes.ts';

const ageMaxMs = 15_000;

test('R15: a partition of which nothing is heard is STALLED, with the cause', async (t) => {
  let nowMs = 1_000_000;
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const lag = new LagTracker(0n, nowMs);
  const feed = new PartitionFeed({
    topic: 't',
    sourceTopic: 't',
    sourceTopicId: sourceId,
    partition: 0,
    log,
    lag,
    clock,
    isCompacted: () => false,
  });
  const link = {
    feeds: { feeds: () => [feed], lag: () => lag },
    health: { error: null },
    record: { paused: false },
  } as unknown as LinkRuntime;
  const limits = { sampleAgeMaxMs: ageMaxMs };
  const context = { state: new FakeState(), storage, clock, limits } as unknown as LinkContext;
  const partitions = [{ partition: 0, timeline: newMirror(virtualOffset(0n)), log }];
  const topic = { name: 't', record: { state: 'ACTIVE' }, partitions } as unknown as MirrorTopic;
  const shown = () => {
    const [{ isStalled, stallCause, lagRecords } = {}] = partitionStatuses(topic, link, context);
    return [isStalled, stallCause?.split(':')[0], lagRecords];
  };
  assert.deepEqual(shown(), [false, undefined, null], 'it may come yet');
  nowMs += ageMaxMs;
  assert.deepEqual(shown(), [true, 'LEADER_NOT_AVAILABLE', null]);
  feed.follow(1, 0);
  assert.deepEqual(shown(), [true, 'NO_ANSWER', null]);
  lag.observeSource(0n, { nowMs, unixMs: nowMs });
  assert.deepEqual(shown(), [false, undefined, 0n]);
  await feed.stop();
});
