// The partitions that a link fetches and the fetchers that do it: so many per source broker as
// `num.cluster.link.fetchers` says. Owns who fetches what; refuses to know states and metadata
// requests. Invariant: a topic that is held or stopped has no feed that can append, and its lag is
// remembered over stops.
import type { MirrorStorage } from '../../../storage/mirror-log.ts';
import type { TopicInfo } from '../../cluster/cluster.ts';
import { lastExtent } from '../../timeline/timeline.ts';
import type { LinkClock, LinkLimits } from '../context.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import { isCompacted } from '../mirror/topic-configs.ts';
import { ByteThrottle } from './byte-throttle.ts';
import { CompactCopies } from './compact-copies.ts';
import { watchDamage } from './damage-repair.ts';
import { BrokerFetcher, type FetcherSettings } from './fetcher.ts';
import { LagTracker, type SeenPartition } from './lag.ts';
import { LinkBounds } from './link-bounds.ts';
import { PartitionFeed } from './partition-feed.ts';
import { RangeReaders } from './range-readers.ts';
import type { FeedLink } from './source-link.ts';
import { SourceWhileFull } from './source-while-full.ts';

/** After so long with a nearer replica the leader is asked again, as Kafka's consumers do. */
const nearAgeMaxMs = 300_000;

export class LinkFeeds {
  readonly #link: FeedLink;
  readonly #clock: LinkClock;
  readonly #settings: () => FetcherSettings;
  readonly #mayFetch: () => boolean;
  readonly #fetchersPerBroker: () => number;
  readonly #throttle = new ByteThrottle();
  readonly #ranges: RangeReaders;
  readonly #feeds = new Map<string, PartitionFeed[]>();
  readonly #lags = new Map<string, LagTracker[]>();
  /** By topic of the source: its mirrors, of which each has connections of its own. */
  readonly #mirrors = new Map<string, (string | undefined)[]>();
  /** By broker and index. */
  readonly #fetchers = new Map<string, BrokerFetcher>();
  readonly #assigned = new Map<PartitionFeed, BrokerFetcher>();
  /** Topics that must not be fetched whatever their state says: a switch is going on. */
  readonly #held = new Set<string>();
  /** By topic: the end of what its feeds of before are appending yet. */
  readonly #stopping = new Map<string, Promise<void>>();
  readonly #bounds: LinkBounds;
  readonly #compactCopies: CompactCopies;
  readonly #sourceWhileFull: SourceWhileFull;

  constructor(parts: {
    link: FeedLink;
    clock: LinkClock;
    limits: LinkLimits;
    storage: Pick<MirrorStorage, 'isFull' | 'roomBytes'>;
    settings: () => FetcherSettings;
    mayFetch: () => boolean;
    fetchersPerBroker: () => number;
  }) {
    this.#fetchersPerBroker = parts.fetchersPerBroker;
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#settings = parts.settings;
    this.#mayFetch = parts.mayFetch;
    this.#ranges = new RangeReaders({ ...parts, throttle: this.#throttle });
    this.#bounds = new LinkBounds({ ...parts, throttle: this.#throttle });
    this.#compactCopies = new CompactCopies({ ...parts, bounds: this.#bounds });
    this.#sourceWhileFull = new SourceWhileFull(parts);
  }

  feeds(topic: string): readonly PartitionFeed[] {
    return this.#feeds.get(topic) ?? [];
  }

  lag(topic: string, partition: number): LagTracker | undefined {
    return this.#lags.get(topic)?.[partition];
  }

  /** What was seen of a topic before a restart, by partition; to be told before it is started. */
  recall({ name, partitions }: MirrorTopic, seen: readonly SeenPartition[]): void {
    const at = { nowMs: this.#clock.monotonicMs(), unixMs: this.#clock.unixMs() };
    const lags = seen.slice(0, partitions.length).map((one, partition) => {
      const mirrorEnd = partitions[partition]?.log?.visibleEnd ?? -1n;
      return new LagTracker(mirrorEnd, at.nowMs, { seen: one, unixMs: at.unixMs });
    });
    this.#lags.set(name, lags);
  }

  isHeld(topic: string): boolean {
    return this.#held.has(topic);
  }

  /**
   * Makes the feeds of a topic that is to be fetched. True: there are new ones, which have no
   * leader yet.
   */
  start(topic: MirrorTopic, info: TopicInfo | undefined): boolean {
    const { record } = topic;
    if (this.#held.has(record.name)) return false;
    const feeds = this.#feeds.get(record.name) ?? [];
    const known = new Set(feeds.map(({ partition }) => partition));
    let isNew = false;
    for (const { partition, log, timeline } of topic.partitions) {
      if (log === null || known.has(partition)) continue;
      const lag = this.#lagOf(record.name, partition, log.visibleEnd);
      const feed = new PartitionFeed({
        topic: record.name,
        sourceTopic: record.sourceTopic,
        sourceTopicId: record.sourceTopicId,
        partition,
        log,
        lag,
        clock: this.#clock,
        firstOffset: lastExtent(timeline).start,
        isCleaningUnseen: record.unseenCleaning?.includes(partition) ?? false,
        isCompacted: () => isCompacted(topic.record.syncedConfigs ?? {}),
      });
      const repairs = { link: this.#link, clock: this.#clock, bounds: this.#bounds };
      feed.endRepairs = watchDamage(feed, repairs);
      feeds.push(feed);
      isNew = true;
    }
    this.#feeds.set(record.name, feeds);
    if (feeds.length > 0) this.#enter(record);
    if (isNew && info !== undefined) this.follow(record.name, info);
    return isNew;
  }

  /** Leaders as the source's metadata has them. */
  follow(topic: string, info: TopicInfo): void {
    const nearSinceMsMax = this.#clock.monotonicMs() - nearAgeMaxMs;
    const byPartition = new Map(info.partitions.map((found) => [found.partition, found]));
    for (const feed of this.feeds(topic)) {
      const found = byPartition.get(feed.partition);
      if (found === undefined || found.leaderId < 0) continue;
      const hasMoved = feed.follow(found.leaderId, found.leaderEpoch);
      if (hasMoved || feed.readAtLeader(nearSinceMsMax)) this.assign(feed);
    }
  }

  /** What the source's metadata have against what its leaders were known to have; null: nothing. */
  epochGoneBack(topic: string, info: TopicInfo): string | null {
    const epochs = new Map(info.partitions.map((found) => [found.partition, found.leaderEpoch]));
    for (const { partition, leaderEpoch } of this.feeds(topic)) {
      const found = epochs.get(partition) ?? -1;
      if (found < 0 || found >= leaderEpoch) continue;
      return `partition ${partition} has leader epoch ${found}, after ${leaderEpoch}`;
    }
    return null;
  }

  assign(feed: PartitionFeed): void {
    if (feed.isStopped || feed.leaderId < 0) return;
    const before = this.#assigned.get(feed);
    const fetcher = this.#fetcher(feed.readNodeId, this.#indexOf(feed));
    if (before === fetcher) {
      fetcher.wake();
      return;
    }
    before?.remove(feed);
    fetcher.add(feed);
    this.#assigned.set(feed, fetcher);
  }

  /** After a change of settings: of how many fetchers there are per broker, of where we are. */
  spread(): void {
    for (const feeds of this.#feeds.values()) {
      for (const feed of feeds) {
        feed.readAtLeader();
        this.assign(feed);
      }
    }
  }

  /**
   * Neighbouring partitions go to different connections, and so do several mirrors of one topic: an
   * answer does not say which of them it is for.
   */
  #indexOf({ topic, sourceTopic, partition }: PartitionFeed): number {
    const ofTopic = Math.max(0, this.#mirrors.get(sourceTopic)?.indexOf(topic) ?? 0);
    let hash = partition;
    for (let at = 0; at < sourceTopic.length; at++) hash += sourceTopic.charCodeAt(at);
    const count = this.#fetchersPerBroker();
    return (hash % count) + ofTopic * count;
  }

  #enter({ name, sourceTopic }: Pick<MirrorTopic['record'], 'name' | 'sourceTopic'>): void {
    const mirrors = this.#mirrors.get(sourceTopic) ?? [];
    this.#mirrors.set(sourceTopic, mirrors);
    if (mirrors.includes(name)) return;
    const free = mirrors.indexOf(undefined);
    mirrors[free < 0 ? mirrors.length : free] = name;
  }

  #leave(topic: string, sourceTopic: string): void {
    const mirrors = this.#mirrors.get(sourceTopic);
    const at = mirrors?.indexOf(topic) ?? -1;
    if (mirrors === undefined || at < 0) return;
    mirrors[at] = undefined;
    if (mirrors.every((mirror) => mirror === undefined)) this.#mirrors.delete(sourceTopic);
  }

  /** Resolves when nothing of the topic is being appended any more, whoever began to stop it. */
  async stop(topic: string): Promise<void> {
    const feeds = this.feeds(topic);
    this.#feeds.delete(topic);
    for (const feed of feeds) {
      this.#assigned.get(feed)?.remove(feed);
      this.#assigned.delete(feed);
      this.#leave(topic, feed.sourceTopic);
    }
    const before = this.#stopping.get(topic);
    const stopped = Promise.all([before, ...feeds.map((feed) => feed.stop())]).then(() => {
      if (this.#stopping.get(topic) === stopped) this.#stopping.delete(topic);
    });
    this.#stopping.set(topic, stopped);
    await stopped;
  }

  /** Stops a topic and keeps it stopped until `release`. */
  async hold(topic: string): Promise<void> {
    this.#held.add(topic);
    await this.stop(topic);
  }

  release(topic: string): void {
    this.#held.delete(topic);
  }

  forget(topic: string): void {
    this.#lags.delete(topic);
    this.#held.delete(topic);
  }

  /** What is due from time to time beside fetching. */
  tend(): void {
    const feeds = [...this.#feeds.values()].flat();
    this.#compactCopies.tend(feeds);
    this.#sourceWhileFull.tend(feeds);
  }

  wake(): void {
    for (const fetcher of this.#fetchers.values()) fetcher.wake();
  }

  /** Ends the fetchers of brokers that lead nothing of ours any more: it may be that they hang. */
  prune(): void {
    for (const [key, fetcher] of this.#fetchers) {
      if (fetcher.feedsCount > 0) continue;
      this.#fetchers.delete(key);
      this.#link.inBackground(() => fetcher.close());
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#feeds.keys()].map((topic) => this.stop(topic)));
    await Promise.all(this.#stopping.values());
    const fetchers = [...this.#fetchers.values()];
    this.#fetchers.clear();
    await Promise.all(fetchers.map((fetcher) => fetcher.close()));
  }

  #lagOf(topic: string, partition: number, mirrorEnd: bigint): LagTracker {
    const lags = this.#lags.get(topic) ?? [];
    this.#lags.set(topic, lags);
    const known = lags[partition];
    const nowMs = this.#clock.monotonicMs();
    if (known !== undefined) {
      known.observeMirror(mirrorEnd, nowMs);
      return known;
    }
    const lag = new LagTracker(mirrorEnd, nowMs);
    lags[partition] = lag;
    return lag;
  }

  #fetcher(nodeId: number, index: number): BrokerFetcher {
    const key = `${nodeId}/${index}`;
    const known = this.#fetchers.get(key);
    if (known !== undefined) return known;
    const fetcher = new BrokerFetcher({
      nodeId,
      link: this.#link,
      clock: this.#clock,
      settings: this.#settings,
      mayFetch: this.#mayFetch,
      throttle: this.#throttle,
      ranges: this.#ranges,
      index,
    });
    this.#fetchers.set(key, fetcher);
    fetcher.start();
    return fetcher;
  }
}
