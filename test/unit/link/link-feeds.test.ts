// The feeds of a link: what may still be appending when a topic is stopped, and stopped once more
// by somebody else.
//
// Owns: one mirrored topic over a log on disk. Refuses to know how answers are fetched. Invariant:
// the append that is under way ends only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { defaultLinkLimits, systemClock } from '../../../src/link/context.ts';
import { LinkFeeds } from '../../../src/link/fetch/link-feeds.ts';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { until } from '../../helpers/wait.ts';
import { FakeLink } from './fake-link.ts';
import { FakeCluster, openTestStorage, shellId, sourceId, topicInfo } from './fakes.ts';

/** Feeds of a link, and a topic of one partition for them. */
async function scene(t: TestContext, link: FakeLink) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const record = { name: 't', sourceTopic: 't', sourceTopicId: sourceId };
  const partitions = [{ partition: 0, log, timeline: newMirror(virtualOffset(0n)) }];
  const settings = { waitMs: 10, bytesMax: 1_000, partitionBytesMax: 1_000, bytesPerSecond: null };
  const feeds = new LinkFeeds({
    link,
    clock: systemClock,
    limits: defaultLinkLimits,
    storage,
    settings: () => settings,
    mayFetch: () => true,
    fetchersPerBroker: () => 1,
  });
  return { feeds, topic: { record, partitions } as unknown as MirrorTopic };
}

test('R11: a topic is held only when the append that somebody else has stopped has ended', async (t) => {
  const { feeds, topic } = await scene(t, new FakeLink(new FakeCluster()));
  feeds.start(topic, undefined);
  let endAppend: (() => void) | undefined;
  const appending = feeds.feeds('t')[0]?.exclusively(
    () =>
      new Promise<void>((resolve) => {
        endAppend = resolve;
      }),
  );
  await until('the append', () => endAppend !== undefined);
  // As a pause does, or a failure of the topic, in the background.
  const stopped = feeds.stop('t');
  let isHeld = false;
  // As a failover does next: it measures the end of the log as soon as this resolves.
  const held = feeds.hold('t').then(() => {
    isHeld = true;
  });
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  assert.equal(isHeld, false, 'the end of the log may move yet');
  endAppend?.();
  await Promise.all([appending, stopped, held]);
  await feeds.close();
});

/** Its brokers take requests, and answer when it is closed. */
class Hung extends FakeCluster {
  asked = 0;
  end = (): void => undefined;
  readonly #ended = new Promise<void>((resolve) => {
    this.end = resolve;
  });

  override async send(): Promise<never> {
    this.asked++;
    await this.#ended;
    throw new ClusterError('CLOSED', 'scripted', { maybeSent: true });
  }
}

test('the look at the source waited for a broker that hung, after its partitions had moved on', async (t) => {
  const source = new Hung();
  const link = new FakeLink(source);
  const { feeds, topic } = await scene(t, link);
  feeds.start(topic, topicInfo('t', sourceId, [0]));
  await until('its broker is asked', () => source.asked === 1);
  const [leader] = topicInfo('t', sourceId, [0]).partitions;
  assert.ok(leader);
  const moved = { ...leader, leaderId: leader.leaderId + 1, leaderEpoch: leader.leaderEpoch + 1 };
  feeds.follow('t', { ...topicInfo('t', sourceId, [0]), partitions: [moved] });
  await until('the next one is asked', () => source.asked === 2);
  const before = link.work;
  feeds.prune();
  assert.notEqual(link.work, before, 'its end is waited for beside the look');
  source.end();
  await Promise.all([link.work, feeds.close()]);
});
