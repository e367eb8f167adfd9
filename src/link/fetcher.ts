// The fetch loop for one source broker: one long poll at a time on its own connection, over a fetch
// session, for all partitions that the broker leads. Refuses to know what an answer means for a
// partition (fetch-response.ts). Invariants: at most one answer of bounded size is held; a broker
// that does not answer is tried for ever with a growing delay; a partition that cannot be fetched
// is left out, not waited for.
import type { FetchResponse, PartitionData } from '../../protocol/generated/fetch-response.ts';
import { ErrorCode, zeroUuid } from '../../protocol/index.ts';
import { fetchApi } from '../cluster/apis.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { LinkClock } from './context.ts';
import { acceptPartition } from './fetch-response.ts';
import { type FetchOptions, FetchSession, partitionKey } from './fetch-session.ts';
import type { PartitionFeed } from './partition-feed.ts';
import { messageOf, Signal } from './signal.ts';
import type { FeedLink } from './source-link.ts';
import { fetchTopicIdsFrom } from './source-offsets.ts';

const idleWaitMs = 1_000;
const blockedWaitMs = 200;
const answerTimeoutMs = 30_000;
const backoffMaxMs = 2_000;
const throttleMaxMs = 30_000;

export interface FetcherSettings extends FetchOptions {
  readonly partitionBytesMax: number;
}

export class BrokerFetcher {
  readonly nodeId: number;
  readonly #link: FeedLink;
  readonly #clock: LinkClock;
  readonly #settings: () => FetcherSettings;
  readonly #mayFetch: () => boolean;
  readonly #feeds = new Set<PartitionFeed>();
  readonly #session = new FetchSession();
  readonly #signal = new Signal();
  #failures = 0;
  #turn = 0;
  #isClosed = false;
  #done: Promise<void> = Promise.resolve();

  constructor(parts: {
    nodeId: number;
    link: FeedLink;
    clock: LinkClock;
    settings: () => FetcherSettings;
    /** `mayAct` and room on the disk. */
    mayFetch: () => boolean;
  }) {
    this.nodeId = parts.nodeId;
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#settings = parts.settings;
    this.#mayFetch = parts.mayFetch;
  }

  get feedsCount(): number {
    return this.#feeds.size;
  }

  start(): void {
    this.#done = this.#run();
  }

  add(feed: PartitionFeed): void {
    this.#feeds.add(feed);
    this.#signal.notify();
  }

  remove(feed: PartitionFeed): void {
    this.#feeds.delete(feed);
  }

  wake(): void {
    this.#signal.notify();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#signal.notify();
    await this.#done;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      if (!this.#mayFetch()) {
        await this.#signal.wait(blockedWaitMs);
        continue;
      }
      const nowMs = this.#clock.monotonicMs();
      const ready = [...this.#feeds].filter((feed) => feed.isReady(nowMs));
      if (ready.length === 0) {
        await this.#signal.wait(this.#feeds.size === 0 ? idleWaitMs : blockedWaitMs);
        continue;
      }
      try {
        await this.#round(this.#inTurn(ready));
      } catch (error) {
        this.#fault(messageOf(error));
        await this.#signal.wait(idleWaitMs);
      }
    }
  }

  /** A fault of ours: told, and tried again; the session starts over. */
  #fault(message: string): void {
    this.#session.reset();
    this.#link.events.error(
      'fetch_fault',
      `Fetching from broker ${this.nodeId} of link '${this.#link.name}': ${message}`,
      { link: this.#link.name, node: this.nodeId },
    );
  }

  /**
   * Without a session the broker fills the answer in the order of the request: everyone comes first
   * once.
   */
  #inTurn(feeds: readonly PartitionFeed[]): readonly PartitionFeed[] {
    if (this.#session.isIncremental) return feeds;
    const first = this.#turn++ % feeds.length;
    return [...feeds.slice(first), ...feeds.slice(0, first)];
  }

  async #round(feeds: readonly PartitionFeed[]): Promise<void> {
    let response: FetchResponse;
    try {
      response = await this.#fetch(feeds);
    } catch (error) {
      this.#session.reset();
      if (!(error instanceof ClusterError)) throw error;
      if (this.#isClosed) return;
      this.#link.lost(error);
      this.#link.refreshMetadata();
      const delayMs = Math.min(50 * 2 ** this.#failures++, backoffMaxMs);
      await this.#signal.wait(delayMs);
      return;
    }
    this.#failures = 0;
    this.#link.contacted();
    if (this.#session.received(response)) {
      await this.#accept(feeds, response);
    } else if (response.errorCode !== ErrorCode.FETCH_SESSION_ID_NOT_FOUND) {
      // A broker that refuses everything must not be asked without pause.
      await this.#signal.wait(blockedWaitMs);
    }
    if (response.throttleTimeMs > 0) {
      await this.#signal.wait(Math.min(response.throttleTimeMs, throttleMaxMs));
    }
  }

  #fetch(feeds: readonly PartitionFeed[]): Promise<FetchResponse> {
    const settings = this.#settings();
    const wanted = feeds.map((feed) => ({
      topic: feed.sourceTopic,
      topicId: feed.sourceTopicId,
      partition: feed.partition,
      fetchOffset: feed.fetchOffset,
      currentLeaderEpoch: feed.leaderEpoch,
      lastFetchedEpoch: feed.omitsLastEpoch ? -1 : feed.log.lastEpoch,
      bytesMax: settings.partitionBytesMax,
    }));
    const hasTopicIds = wanted.every(({ topicId }) => topicId !== zeroUuid);
    return this.#link.cluster.send(
      { kind: 'node', nodeId: this.nodeId },
      fetchApi,
      (version) => this.#session.build(wanted, version, settings),
      {
        lane: `fetch-${this.#link.name}`,
        timeoutMs: answerTimeoutMs,
        ...(hasTopicIds ? {} : { versionMax: fetchTopicIdsFrom - 1 }),
      },
    );
  }

  async #accept(feeds: readonly PartitionFeed[], response: FetchResponse): Promise<void> {
    const byId = new Map<string, PartitionFeed>();
    const byName = new Map<string, PartitionFeed>();
    for (const feed of feeds) {
      byName.set(partitionKey(feed.sourceTopic, feed.partition), feed);
      byId.set(partitionKey(feed.sourceTopicId, feed.partition), feed);
    }
    const at = { nowMs: this.#clock.monotonicMs(), unixMs: this.#clock.unixMs() };
    const answered = new Set<PartitionFeed>();
    const work: Promise<void>[] = [];
    for (const topic of response.responses) {
      for (const data of topic.partitions) {
        const feed =
          topic.topicId === zeroUuid
            ? byName.get(partitionKey(topic.topic, data.partitionIndex))
            : byId.get(partitionKey(topic.topicId, data.partitionIndex));
        if (feed === undefined || answered.has(feed)) continue;
        answered.add(feed);
        work.push(this.#acceptOne(feed, data));
      }
    }
    // In a session silence means: nothing new, everything as it was.
    for (const feed of feeds) if (!answered.has(feed)) feed.lag.observeSource(null, at);
    await Promise.all(work);
  }

  async #acceptOne(feed: PartitionFeed, data: PartitionData): Promise<void> {
    if (feed.isStopped || !this.#feeds.has(feed)) return;
    try {
      await acceptPartition(feed, data, { link: this.#link, clock: this.#clock });
    } catch (error) {
      // One partition's fault touches no other.
      this.#fault(`${feed.topic}-${feed.partition}: ${messageOf(error)}`);
      feed.fail(`INTERNAL_ERROR: ${messageOf(error)}`, this.#clock.monotonicMs(), idleWaitMs);
    }
  }
}
