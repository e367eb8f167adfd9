// One link at work: its connection to the source, the look at the source's metadata every two
// seconds, the feeds of its topics, its health. Owns nothing durable: the record and the topics'
// records are the truth, and this follows them. Refuses to know commands. Invariant: nothing is
// appended or changed without a valid lease, while the link is paused, or from a cluster that is
// not the link's source.
import { ProtocolError } from '../../protocol/index.ts';
import { type BrokerInfo, type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import type { LinkRecord, MirrorError, TopicRecord } from '../state/records.ts';
import type { LinkContext } from './context.ts';
import { LinkFeeds } from './fetch/link-feeds.ts';
import type { PartitionFeed } from './fetch/partition-feed.ts';
import type { FeedLink, Loss } from './fetch/source-link.ts';
import { isOperatingError } from './link-error.ts';
import { LinkHealth } from './link-health.ts';
import { unrecordedLoss, withLosses } from './mirror/lost-history.ts';
import { MirrorGrowth } from './mirror/mirror-growth.ts';
import { isFetching, type LinkConditions } from './mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror/mirror-topics.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import { TopicFailures } from './mirror/topic-failures.ts';
import {
  answerSizes,
  type LinkSettings,
  needsReconnect,
  parseLinkSettings,
} from './settings/link-settings.ts';
import { messageOf, Signal } from './signal.ts';
import { knownToMost } from './source-identity.ts';
import { SourceSeen, seenBefore, seenOf } from './source-seen.ts';
import { examine, isDenied, Lasting } from './source-watch.ts';

/** Looks that somebody asked for are at least so far apart. */
const lookSpacingMs = 150;
const shrunkLastsMs = 10_000;
/** After a nearer replica has failed; until then the source has noticed too. */
const leadersOnlyMs = 15_000;

export class LinkRuntime implements FeedLink {
  readonly name: string;
  readonly feeds: LinkFeeds;
  readonly health: LinkHealth;
  /** Of mirrors that have fewer partitions than their sources. */
  readonly growth: MirrorGrowth;
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;
  readonly #seen: SourceSeen;
  #record: LinkRecord;
  #settings: LinkSettings;
  #cluster: Cluster | null = null;
  #connecting: Promise<Cluster> | null = null;
  #infos: ReadonlyMap<string, TopicInfo> = new Map();
  readonly #failures: TopicFailures;
  readonly #missing = new Lasting();
  readonly #shrunk = new Lasting();
  readonly #agedEpochs = new Lasting();
  readonly #lasting = [this.#missing, this.#shrunk, this.#agedEpochs];
  readonly #background = new Set<Promise<void>>();
  readonly #signal = new Signal();
  #leadersOnlyUntilMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #done: Promise<void> = Promise.resolve();

  constructor(parts: {
    context: LinkContext;
    topics: MirrorTopics;
    changes: TopicChanges;
    record: LinkRecord;
  }) {
    const { context } = parts;
    this.#context = context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
    this.#record = parts.record;
    this.#settings = parseLinkSettings(parts.record.configs);
    this.name = parts.record.name;
    this.health = new LinkHealth({
      link: this.name,
      events: context.events,
      clock: context.clock,
      lostAfterMs: context.limits.sourceUnavailableMs,
      recordedContactUnixMs: seenBefore(context, parts.record)?.contactTimeMs ?? -1,
    });
    const { topics, changes } = parts;
    this.#failures = new TopicFailures({ context, topics, changes, link: this });
    this.growth = new MirrorGrowth({ context, topics, changes, link: this });
    this.feeds = new LinkFeeds({
      link: this,
      clock: context.clock,
      limits: context.limits,
      storage: context.storage,
      settings: () => this.#fetcherSettings(),
      mayFetch: () => this.#mayFetch(),
      fetchersPerBroker: () => this.#settings.fetchersPerBroker,
    });
    this.#seen = new SourceSeen({ ...parts, link: this, topics: () => this.#ownTopics() });
  }

  get record(): LinkRecord {
    return this.#record;
  }

  get settings(): LinkSettings {
    return this.#settings;
  }

  get events(): Events {
    return this.#context.events;
  }

  /** False in the first moments of a link, and while its configuration makes no client. */
  get isConnected(): boolean {
    return this.#cluster !== null;
  }

  /** @throws ClusterError while there is no connection */
  get cluster(): Cluster {
    if (this.#cluster === null) {
      throw new ClusterError('UNREACHABLE', `Link '${this.name}' is not connected`, {
        maybeSent: false,
      });
    }
    return this.#cluster;
  }

  get conditions(): LinkConditions {
    return {
      linkFailed: this.health.isFailed,
      linkPaused: this.#record.paused,
      sourceLost: this.health.isLost,
    };
  }

  /** As the last look at the source found it. */
  sourceTopic(name: string): TopicInfo | undefined {
    return this.#infos.get(name);
  }

  start(): void {
    const { topics = [] } = seenBefore(this.#context, this.#record) ?? {};
    const before = new Map(topics.map((seen) => [seen.topic, seen]));
    for (const topic of this.#ownTopics()) {
      const { partitions, growth } = seenOf(before.get(topic.name), topic);
      this.feeds.recall(topic, partitions);
      this.growth.recall(topic.record, growth);
      this.sync(topic.name);
    }
    this.#done = this.#run();
    this.#seen.start();
  }

  #ownTopics(): readonly MirrorTopic[] {
    return [...this.#topics.all].filter(({ link }) => link === this.name);
  }

  /** The connection, made now if there is none. @throws ClusterError */
  async connected(): Promise<Cluster> {
    if (this.#cluster !== null) return this.#cluster;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #connect(): Promise<Cluster> {
    const record = this.#record;
    const cluster = await this.#context.connectSource(record);
    if (this.#isClosed || needsReconnect(record.configs, this.#record.configs)) {
      await cluster.close();
      throw new ClusterError('CLOSED', `Link '${this.name}' has changed`, { maybeSent: false });
    }
    this.#cluster = cluster;
    return cluster;
  }

  /** The record has changed; its new source was tried by whoever changed it. */
  async update(record: LinkRecord): Promise<void> {
    const isOtherSource = needsReconnect(this.#record.configs, record.configs);
    this.#record = record;
    this.#settings = parseLinkSettings(record.configs);
    if (isOtherSource) {
      const before = this.#cluster;
      this.#cluster = null;
      await before?.close();
    }
    for (const topic of this.#ownTopics()) this.sync(topic.name);
    this.feeds.spread();
    this.wake();
    this.feeds.wake();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#signal.notify();
    // First, so that long polls end now instead of in their own time.
    await this.#cluster?.close();
    await this.feeds.close();
    await this.#seen.close();
    await this.#done;
    await Promise.all(this.#background);
    this.#cluster = null;
  }

  /** Starts or stops the feeds of a topic as its record and the link's say now. */
  sync(name: string): void {
    const topic = this.#topics.byName(name);
    if (topic === undefined || topic.link !== this.name) {
      this.inBackground(() => this.feeds.stop(name));
      this.forget(name);
      return;
    }
    if (this.#isToBeFetched(topic)) {
      const info = this.#infos.get(topic.record.sourceTopic);
      // Leaders of a topic that had the name before, or has it now, are none of this one's.
      const isOther = examine(topic.record, info).kind === 'other';
      if (this.feeds.start(topic, isOther ? undefined : info)) this.wake();
    } else if (this.feeds.feeds(name).length > 0) {
      this.inBackground(() => this.feeds.stop(name));
    }
  }

  /** What was known of a topic of this name is not true of the next one. */
  forget(name: string): void {
    this.feeds.forget(name);
    this.#failures.forget(name);
    this.growth.clear(name);
    for (const lasting of this.#lasting) lasting.clear(name);
  }

  /** Lets a topic be fetched again after `feeds.hold`. */
  release(name: string): void {
    this.feeds.release(name);
    this.sync(name);
  }

  mayAct(): boolean {
    return this.#context.state.lease.isValid() && !this.#record.paused && !this.health.isFailed;
  }

  get lostHistory(): 'stop' | 'continue' {
    return this.#settings.lostHistory;
  }

  failTopic(name: string, error: MirrorError, loss: Loss | null = null): void {
    this.#failures.fail(name, error, loss);
  }

  isBeginning(name: string): boolean {
    const { madeTimeMs } = this.#changes.record(name) ?? {};
    const { clock, limits } = this.#context;
    return madeTimeMs !== undefined && clock.unixMs() - madeTimeMs < limits.mirrorBeginsMs;
  }

  unrecorded(name: string, loss: Loss): Loss | null {
    return unrecordedLoss(this.#changes.record(name) ?? {}, loss);
  }

  noteLoss(name: string, loss: Loss): Promise<void> {
    const timeMs = this.#context.clock.unixMs();
    return this.#changes.edit(name, (record) => withLosses(record, [loss], timeMs));
  }

  keepUnseenCleaning(name: string, isUnseen: ReadonlyMap<number, boolean>): void {
    const before = this.#changes.record(name)?.unseenCleaning ?? [];
    const found = [...isUnseen.keys()].filter((partition) => isUnseen.get(partition));
    const left = before.filter((partition) => !isUnseen.has(partition));
    const after = [...left, ...found].sort((one, other) => one - other);
    if (after.join() === before.join()) return;
    this.inBackground(() =>
      this.#changes.edit(name, ({ unseenCleaning: _before, ...record }) =>
        after.length === 0 ? record : { ...record, unseenCleaning: after },
      ),
    );
  }

  truncating(topic: string, partition: number): void {
    this.#topics.noteTruncation(topic, partition);
  }

  refreshMetadata(): void {
    this.#signal.notify();
  }

  wake(): void {
    this.#signal.notify();
  }

  knowsNode(nodeId: number): boolean {
    const brokers: readonly BrokerInfo[] = this.#cluster?.brokers ?? [];
    return brokers.some((broker) => broker.nodeId === nodeId);
  }

  reassign(feed: PartitionFeed): void {
    this.feeds.assign(feed);
  }

  contacted(): void {
    this.health.contacted();
  }

  lost(error: Error): void {
    this.health.lost(error);
  }

  nearFailed(): void {
    this.#leadersOnlyUntilMs = this.#context.clock.monotonicMs() + leadersOnlyMs;
  }

  inBackground(work: () => Promise<void>): void {
    const run = work().catch((error: unknown) => {
      if (error instanceof ClusterError) this.health.lost(error);
      const isExpected = isOperatingError(error) || error instanceof ProtocolError;
      if (isExpected) this.#tell('warn', 'link_work_failed', error);
      else this.#tell('error', 'link_fault', error);
    });
    this.#background.add(run);
    void run.finally(() => this.#background.delete(run));
  }

  #tell(level: 'warn' | 'error', event: string, error: unknown): void {
    const message = `Link '${this.name}': ${messageOf(error)}`;
    this.events.emit(level, event, message, { link: this.name });
  }

  #isToBeFetched(topic: MirrorTopic): boolean {
    const { record } = topic;
    return (
      !this.#isClosed &&
      isFetching(record.state) &&
      record.topicId !== null &&
      record.stopping?.command !== 'failover' &&
      !this.#record.paused &&
      !this.#failures.has(record.name)
    );
  }

  #mayFetch(): boolean {
    return this.mayAct() && !this.#context.storage.isFull && this.#cluster !== null;
  }

  #fetcherSettings() {
    const { limits, clock } = this.#context;
    const nowMs = clock.monotonicMs();
    return {
      waitMs: this.#settings.fetchWaitMs ?? limits.fetchWaitMs,
      ...answerSizes(this.#settings, limits),
      bytesPerSecond: this.#settings.bytesPerSecond,
      rackId: nowMs < this.#leadersOnlyUntilMs ? '' : this.#settings.rack,
    };
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const startedMs = this.#context.clock.monotonicMs();
      try {
        await this.#look();
      } catch (error) {
        if (error instanceof ClusterError) this.health.lost(error);
        else this.#tell('error', 'link_fault', error);
        // What a source that just comes back says is not what it has said all the time.
        for (const lasting of this.#lasting) lasting.keep(() => false);
      }
      const periodMs = this.#settings.metadataMaxAgeMs ?? this.#context.limits.sourceWatchMs;
      await this.#signal.wait(periodMs);
      const tookMs = this.#context.clock.monotonicMs() - startedMs;
      if (tookMs < lookSpacingMs && !this.#isClosed) {
        await new Signal().wait(lookSpacingMs - tookMs);
      }
    }
  }

  /** One look at the source: who it is, who leads what, what has changed. */
  async #look(): Promise<void> {
    const cluster = await this.connected();
    const watched = this.#ownTopics().filter(({ record }) => isFetching(record.state));
    const watchedNames = new Set(watched.map(({ name }) => name));
    for (const noted of [...this.#lasting, this.growth]) {
      noted.keep((name) => watchedNames.has(name));
    }
    const names = [...new Set(watched.map((topic) => topic.record.sourceTopic))];
    const askedAtMs = this.#context.clock.monotonicMs();
    const metadata = await cluster.metadata(names);
    if (this.#isClosed || cluster !== this.#cluster) return;
    this.health.contacted();
    this.health.sawClusterId(this.#record.sourceClusterId, metadata.clusterId);
    if (this.health.isFailed) return;
    this.#infos = metadata.topics;
    this.health.sawDenied(
      names.filter((name) => isDenied(metadata.topics.get(name))),
      names.length,
    );
    const others: TopicRecord[] = [];
    for (const { record } of watched) {
      const info = metadata.topics.get(record.sourceTopic);
      if (examine(record, info).kind === 'other') others.push(record);
      else this.#consider(record, info, askedAtMs);
    }
    await this.#considerOthers(others);
    if (this.#isClosed || cluster !== this.#cluster) return;
    this.#failures.tend();
    this.feeds.tend();
    this.feeds.prune();
  }

  /**
   * One broker has another topic of the name: it may have been left behind. Until most have been
   * asked nothing is appended that was fetched by name.
   */
  async #considerOthers(records: readonly TopicRecord[]): Promise<void> {
    if (records.length === 0) return;
    for (const { name } of records) for (const feed of this.feeds.feeds(name)) feed.unprove();
    const askedAtMs = this.#context.clock.monotonicMs();
    const cluster = this.#cluster;
    const known = await knownToMost(this, records);
    // Brokers that were not waited for have said nothing against the one.
    if (this.#isClosed || cluster !== this.#cluster) return;
    if (known.size > 0) {
      const infos = records.flatMap(({ name, sourceTopic }) => {
        const info = known.get(name);
        return info === undefined ? [] : [[sourceTopic, info] as const];
      });
      this.#infos = new Map([...this.#infos, ...infos]);
    }
    for (const { name, sourceTopicId } of records) {
      // It may be stopped, or made anew of the other topic, meanwhile.
      const record = this.#topics.byName(name)?.record;
      if (record === undefined || !isFetching(record.state)) continue;
      if (record.sourceTopicId !== sourceTopicId) continue;
      this.#consider(record, this.#infos.get(record.sourceTopic), askedAtMs);
    }
  }

  #consider(record: TopicRecord, info: TopicInfo | undefined, askedAtMs: number): void {
    const { name } = record;
    const finding = examine(record, info);
    const nowMs = this.#context.clock.monotonicMs();
    if (finding.kind !== 'missing') this.#missing.clear(name);
    if (finding.kind !== 'shrunk') this.#shrunk.clear(name);
    switch (finding.kind) {
      case 'missing':
        if (this.#missing.note(name, nowMs, this.#settings.retryTimeoutMs)) {
          this.failTopic(name, {
            code: 'SOURCE_TOPIC_MAY_BE_DELETED',
            message: `Source topic '${record.sourceTopic}' is not there any more`,
          });
        }
        return;
      case 'unreadable':
        return;
      case 'shrunk':
        if (this.#shrunk.note(name, nowMs, shrunkLastsMs)) this.failTopic(name, finding.error);
        return;
      case 'other':
        this.failTopic(name, finding.error);
        return;
      case 'grown':
        if (this.mayAct()) this.growth.found(record, finding.partitionsCount);
        break;
      case 'as-is':
        this.growth.clear(name);
        break;
    }
    if (info === undefined) return;
    this.feeds.follow(name, info);
    for (const feed of this.feeds.feeds(name)) feed.noteIdSeen(askedAtMs);
    this.#considerEpochs(record, info);
  }

  /** Brokers that were left behind tell older epochs too, but not for ever. */
  #considerEpochs({ name, sourceTopic }: TopicRecord, info: TopicInfo): void {
    const goneBack = this.feeds.epochGoneBack(name, info);
    const nowMs = this.#context.clock.monotonicMs();
    if (goneBack === null) this.#agedEpochs.clear(name);
    else if (this.#agedEpochs.note(name, nowMs, this.#settings.retryTimeoutMs)) {
      this.failTopic(name, {
        code: 'NON_MONOTONIC_SOURCE_EPOCH',
        message: `Source topic '${sourceTopic}' is not the one that was mirrored: ${goneBack}`,
      });
    }
  }
}
