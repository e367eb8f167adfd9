// One mirror with one partition and its feed, over a log on disk, and how it is shown.
//
// Owns: the partition, and what its link seems to be like. Refuses to know what stalls it.
// Invariant: time passes only when the test says so.
import type { TestContext } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import type { LinkConditions } from '../../../src/link/mirror/mirror-state.ts';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { partitionStatuses } from '../../../src/link/status.ts';
import { Events } from '../../../src/observe/events.ts';
import type { MirrorState } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { FakeState, openTestStorage, shellId, sourceId } from './fakes.ts';

export const ageMaxMs = 15_000;

const soundLink: LinkConditions = { linkFailed: false, linkPaused: false, sourceLost: false };

export async function makeMirror(t: TestContext) {
  const now = { ms: 1_000_000 };
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const clock = { monotonicMs: () => now.ms, unixMs: () => now.ms };
  const lag = new LagTracker(0n, now.ms);
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
  t.after(() => feed.stop());
  const feeds = [feed];
  const state = new FakeState();
  const events = new Events();
  const limits = { sampleAgeMaxMs: ageMaxMs };
  const context = { state, storage, clock, events, limits } as unknown as LinkContext;
  const timeline = newMirror(virtualOffset(0n));
  const linkOf = (conditions: Partial<LinkConditions> = {}) =>
    ({
      feeds: { feeds: () => feeds, lag: () => lag },
      health: { error: null },
      record: { paused: conditions.linkPaused ?? false },
      conditions: { ...soundLink, ...conditions },
    }) as unknown as LinkRuntime;
  const topicOf = (inState: MirrorState = 'ACTIVE', ownLog: typeof log | null = log) => {
    const partitions = [{ partition: 0, timeline, log: ownLog }];
    const record = { state: inState };
    return { name: 't', link: 'dr', record, partitions } as unknown as MirrorTopic;
  };
  const shown = (
    inState: MirrorState = 'ACTIVE',
    conditions: Partial<LinkConditions> = {},
    ownLog: typeof log | null = log,
  ) => {
    const statuses = partitionStatuses(topicOf(inState, ownLog), linkOf(conditions), context);
    const [{ isStalled, stallCause, lagRecords } = {}] = statuses;
    return [isStalled, stallCause?.split(':')[0], lagRecords];
  };
  return { now, feed, feeds, lag, state, events, context, linkOf, topicOf, shown };
}
