// One link at work: its connection to the source, the feeds of its topics, its health, and what
// looks at the source (source-look.ts). Owns nothing durable: the record and the topics' records
// are the truth, and this follows them. Refuses to know commands. Invariant: nothing is appended or
// changed without a valid lease, while the link is paused, or from a cluster that is not the link's
// source.
import { ProtocolError } from '../../protocol/index.ts';
import { type BrokerInfo, type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import type { LinkRecord, MirrorError } from '../state/records.ts';
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
import { messageOf } from './signal.ts';
import { SourceLook } from './source-look.ts';
import { SourceSeen, seenBefore, seenOf } from './source-seen.ts';
import { examine } from './source-watch.ts';

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
  readonly #failures: TopicFailures;
  readonly #look: SourceLook;
  readonly #background = new Set<Promise<void>>();
  #leadersOnlyUntilMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

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
    this.#look = new SourceLook({ context, topics, failures: this.#failures, link: this });
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

  isConnectedTo(cluster: Cluster): boolean {
    return cluster === this.#cluster;
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
    return this.#look.topic(name);
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
    this.#look.start();
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
    const looked = this.#look.close();
    // First, so that long polls end now instead of in their own time.
    await this.#cluster?.close();
    await this.feeds.close();
    await this.#seen.close();
    await looked;
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
      const info = this.#look.topic(topic.record.sourceTopic);
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
    this.#look.forget(name);
  }

  /** Lets a topic be fetched again after `feeds.hold`. */
  release(name: string): void {
    this.feeds.release(name);
    this.sync(name);
  }

  mayAct(): boolean {
    return this.whyIdle() === null;
  }

  /** Null: it may act. */
  whyIdle(): string | null {
    if (this.#isClosed) return 'the link is closed';
    if (this.#record.paused) return 'the link is paused';
    if (this.health.isFailed) return 'the link has failed';
    return this.#context.state.lease.isValid() ? null : 'this instance does not hold the lease';
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
    this.#look.wake();
  }

  wake(): void {
    this.#look.wake();
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
      else this.tellFault(error);
    });
    this.#background.add(run);
    void run.finally(() => this.#background.delete(run));
  }

  tellFault(error: unknown): void {
    this.#tell('error', 'link_fault', error);
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
}
