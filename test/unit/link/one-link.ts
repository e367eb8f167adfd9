// A link at work with one mirror of one partition, over a source that answers from a table.
//
// Owns: the link and its mirror. Refuses to know what the source says and what is told of it.
// Invariant: time passes for it only when the test says so, and nothing of it outlives its test.
import type { TestContext } from 'node:test';
import { LinkRuntime } from '../../../src/link/link.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import type { LinkRecord, SourceSeenRecord } from '../../../src/state/records.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
} from './fakes.ts';

const linkRecord: LinkRecord = {
  ...{ kind: 'link', name: 'dr', linkId: sourceId, sourceClusterId: 'fake-cluster' },
  ...{ configs: { 'bootstrap.servers': 'source:9092' }, paused: false, createdTimeMs: 1 },
};

export interface OneLinkOptions {
  readonly source: FakeCluster;
  readonly isPaused?: boolean;
  /** What was seen of the source before a restart. */
  readonly seen?: SourceSeenRecord;
}

/** Not started yet. Its mirror is called `orders`. */
export async function openLink(t: TestContext, options: OneLinkOptions) {
  const { source, isPaused = false, seen } = options;
  const record = { ...linkRecord, paused: isPaused };
  const state = new FakeState();
  state.links.set('dr', record);
  if (seen !== undefined) state.sourcesSeen.set('dr', seen);
  state.topics.set('orders', mirrorRecord());
  const { storage } = await openTestStorage(t);
  await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const made = testContext({ state, storage, destination: new FakeCluster(), source });
  const now = { ms: 0 };
  const clock = { monotonicMs: () => now.ms, unixMs: () => 1_000_000 + now.ms };
  const context = { ...made, clock, limits: { ...made.limits, sourceWatchMs: 1 } };
  const topics = new MirrorTopics(context);
  await topics.start();
  const changes = new TopicChanges({ ...context, touch: () => undefined });
  const link = new LinkRuntime({ context, topics, changes, record });
  t.after(async () => {
    await link.close();
    topics.close();
  });
  return { link, state, topics, now, events: context.events };
}
