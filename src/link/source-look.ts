// The regular look at a link's source: who it is, who leads what, what has changed of the topics
// that are mirrored. Owns what the last look has found, and since when what is no verdict by itself
// lasts. Refuses to know how topics are fetched, grown and failed: it tells those who do.
// Invariants: what was asked before the link was closed, or had another connection, is nobody's
// news; a topic that is not provably the one that was mirrored is never followed; of one that is
// not mirrored any more, or of another mirror of its name, nothing is told.
import { type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import type { LinkRecord, MirrorError, TopicRecord } from '../state/records.ts';
import type { LinkContext } from './context.ts';
import type { LinkFeeds } from './fetch/link-feeds.ts';
import type { LinkHealth } from './link-health.ts';
import type { MirrorGrowth } from './mirror/mirror-growth.ts';
import { isFetching } from './mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror/mirror-topics.ts';
import type { TopicFailures } from './mirror/topic-failures.ts';
import type { LinkSettings } from './settings/link-settings.ts';
import { Loop, Signal } from './signal.ts';
import { knownToMost } from './source-identity.ts';
import { examine, isDenied, Lasting } from './source-watch.ts';

/** Looks that somebody asked for are at least so far apart. */
const lookSpacingMs = 150;
const shrunkLastsMs = 10_000;

/** What is asked of the link, and who hears of what is found. */
export interface LookingLink {
  readonly name: string;
  readonly record: LinkRecord;
  readonly settings: LinkSettings;
  readonly health: LinkHealth;
  readonly feeds: LinkFeeds;
  readonly growth: MirrorGrowth;
  readonly cluster: Cluster;
  connected(): Promise<Cluster>;
  isConnectedTo(cluster: Cluster): boolean;
  /** Null: it may act. */
  whyIdle(): string | null;
  failTopic(name: string, error: MirrorError): void;
  tellFault(error: unknown): void;
}

export interface SourceLookParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly failures: TopicFailures;
  readonly link: LookingLink;
}

export class SourceLook {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #failures: TopicFailures;
  readonly #link: LookingLink;
  readonly #loop = new Loop(() => this.#turn());
  readonly #missing = new Lasting();
  readonly #shrunk = new Lasting();
  readonly #agedEpochs = new Lasting();
  readonly #lasting = [this.#missing, this.#shrunk, this.#agedEpochs];
  #infos: ReadonlyMap<string, TopicInfo> = new Map();
  #startedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: SourceLookParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#failures = parts.failures;
    this.#link = parts.link;
  }

  start(): void {
    this.#loop.start();
  }

  /** Looks soon. */
  wake(): void {
    this.#loop.wake();
  }

  /** Waits for the look that is under way: whoever calls ends its connection first. */
  async close(): Promise<void> {
    await this.#loop.close();
  }

  /** A topic of the source, as the last look found it. */
  topic(sourceTopic: string): TopicInfo | undefined {
    return this.#infos.get(sourceTopic);
  }

  /** What lasts of a mirror of this name is not true of the next one. */
  forget(name: string): void {
    for (const lasting of this.#lasting) lasting.clear(name);
  }

  async #turn(): Promise<number> {
    const earlyMs = this.#startedMs + lookSpacingMs - this.#context.clock.monotonicMs();
    if (earlyMs > 0) await new Signal().wait(earlyMs);
    const periodMs = this.#link.settings.metadataMaxAgeMs ?? this.#context.limits.sourceWatchMs;
    if (this.#loop.isClosed) return periodMs;
    this.#startedMs = this.#context.clock.monotonicMs();
    try {
      await this.#look();
    } catch (error) {
      if (error instanceof ClusterError) this.#link.health.lost(error);
      else this.#link.tellFault(error);
      // What a source that just comes back says is not what it has said all the time.
      for (const lasting of this.#lasting) lasting.keep(() => false);
    }
    return periodMs;
  }

  #isOver(cluster: Cluster): boolean {
    return this.#loop.isClosed || !this.#link.isConnectedTo(cluster);
  }

  #watched(): readonly MirrorTopic[] {
    return [...this.#topics.all].filter(
      ({ link, record }) => link === this.#link.name && isFetching(record.state),
    );
  }

  async #look(): Promise<void> {
    const link = this.#link;
    const cluster = await link.connected();
    const watched = this.#watched();
    const watchedNames = new Set(watched.map(({ name }) => name));
    for (const noted of [...this.#lasting, link.growth]) {
      noted.keep((name) => watchedNames.has(name));
    }
    const names = [...new Set(watched.map((topic) => topic.record.sourceTopic))];
    const askedAtMs = this.#context.clock.monotonicMs();
    const metadata = await cluster.metadata(names);
    if (this.#isOver(cluster)) return;
    link.health.contacted();
    link.health.sawClusterId(link.record.sourceClusterId, metadata.clusterId);
    if (link.health.isFailed) return;
    this.#infos = metadata.topics;
    link.health.sawDenied(
      names.filter((name) => isDenied(metadata.topics.get(name))),
      names.length,
    );
    const others: TopicRecord[] = [];
    for (const topic of watched) {
      const { name, record } = topic;
      // Meanwhile it may be stopped, or another mirror may have its name.
      if (this.#topics.byName(name) !== topic || !isFetching(record.state)) continue;
      const info = metadata.topics.get(record.sourceTopic);
      if (examine(record, info).kind === 'other') others.push(record);
      else this.#consider(record, info, askedAtMs);
    }
    await this.#considerOthers(cluster, others);
    if (this.#isOver(cluster)) return;
    this.#failures.tend();
    link.feeds.tend();
    link.feeds.prune();
  }

  /**
   * One broker has another topic of the name: it may have been left behind. Until most have been
   * asked nothing is appended that was fetched by name.
   */
  async #considerOthers(cluster: Cluster, records: readonly TopicRecord[]): Promise<void> {
    if (records.length === 0) return;
    const { feeds } = this.#link;
    for (const { name } of records) for (const feed of feeds.feeds(name)) feed.unprove();
    const askedAtMs = this.#context.clock.monotonicMs();
    const known = await knownToMost(this.#link, records);
    // Brokers that were not waited for have said nothing against the one.
    if (this.#isOver(cluster)) return;
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
    const { feeds, growth, settings } = this.#link;
    const finding = examine(record, info);
    const nowMs = this.#context.clock.monotonicMs();
    if (finding.kind !== 'missing') this.#missing.clear(name);
    if (finding.kind !== 'shrunk') this.#shrunk.clear(name);
    switch (finding.kind) {
      case 'missing':
        growth.notTold(name, `the source does not know topic '${record.sourceTopic}' now`);
        if (this.#missing.note(name, nowMs, settings.retryTimeoutMs)) {
          this.#link.failTopic(name, {
            code: 'SOURCE_TOPIC_MAY_BE_DELETED',
            message: `Source topic '${record.sourceTopic}' is not there any more`,
          });
        }
        return;
      case 'unreadable':
        growth.notTold(name, `the source answers ${finding.cause}`);
        return;
      case 'shrunk':
        growth.notTold(name, finding.error.message);
        if (this.#shrunk.note(name, nowMs, shrunkLastsMs)) {
          this.#link.failTopic(name, finding.error);
        }
        return;
      case 'other':
        this.#link.failTopic(name, finding.error);
        return;
      case 'grown':
        growth.found(record, finding.partitionsCount, this.#link.whyIdle());
        break;
      case 'as-is':
        growth.clear(name);
        break;
    }
    if (info === undefined) return;
    feeds.follow(name, info);
    for (const feed of feeds.feeds(name)) feed.noteIdSeen(askedAtMs);
    this.#considerEpochs(record, info);
  }

  /** Brokers that were left behind tell older epochs too, but not for ever. */
  #considerEpochs({ name, sourceTopic }: TopicRecord, info: TopicInfo): void {
    const goneBack = this.#link.feeds.epochGoneBack(name, info);
    const nowMs = this.#context.clock.monotonicMs();
    if (goneBack === null) this.#agedEpochs.clear(name);
    else if (this.#agedEpochs.note(name, nowMs, this.#link.settings.retryTimeoutMs)) {
      this.#link.failTopic(name, {
        code: 'NON_MONOTONIC_SOURCE_EPOCH',
        message: `Source topic '${sourceTopic}' is not the one that was mirrored: ${goneBack}`,
      });
    }
  }
}
