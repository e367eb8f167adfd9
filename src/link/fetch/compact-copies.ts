// Which copies of compacted topics are to be built anew, and when: those that have grown well
// beyond what the source still has, and those that may hold a deleted key because the source
// cleaned records away that we had not read. So are copies, of any topic, with a transaction whose
// end was cleaned away, or readers would wait for it for ever. Owns that decision for one link;
// refuses to know how a copy is built (rebuild-copy.ts). Invariants: one at a time, so that no more
// than one copy of a link takes its space twice; a source that does not tell sizes is judged by
// growth alone.
import {
  createDescribableLogDirTopic,
  createDescribeLogDirsRequest,
} from '../../../protocol/generated/describe-log-dirs-request.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { describeLogDirsApi } from '../../cluster/apis.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import type { LinkClock, LinkLimits } from '../context.ts';
import { LinkError } from '../link-error.ts';
import { topicConfigs } from '../mirror/cluster-configs.ts';
import { sourceStarts } from '../mirror/start-offset.ts';
import { retentionOfTombstones } from '../mirror/topic-configs.ts';
import { messageOf } from '../signal.ts';
import { EndlessTransactions, firstOpenOffset } from './endless-transactions.ts';
import type { LinkBounds } from './link-bounds.ts';
import type { PartitionFeed } from './partition-feed.ts';
import { NotWhole, rebuildCopy } from './rebuild-copy.ts';
import type { FeedLink } from './source-link.ts';

/** One that cannot be built is tried again after the time between two looks, doubled each time. */
const retryMsMax = 3_600_000;
/** A copy of so many times the source's size is built anew. */
const growthMax = 2;

export interface CompactCopiesParts {
  readonly link: FeedLink;
  readonly clock: LinkClock;
  readonly limits: LinkLimits;
  readonly bounds: LinkBounds;
}

interface Failed {
  readonly count: number;
  readonly retryAtMs: number;
}

export class CompactCopies {
  readonly #parts: CompactCopiesParts;
  /** Size of a copy when it was first seen or last built: what growth is measured from. */
  readonly #baseBytes = new WeakMap<PartitionFeed, number>();
  readonly #endless = new EndlessTransactions();
  /** Open transactions that are the same in a copy that was built anew: by their first offset. */
  readonly #unended = new WeakMap<PartitionFeed, bigint>();
  readonly #failed = new WeakMap<PartitionFeed, Failed>();
  #nextLookMs = Number.NEGATIVE_INFINITY;
  #isRunning = false;

  constructor(parts: CompactCopiesParts) {
    this.#parts = parts;
  }

  /** Looks at the feeds, at most once in a while; what is to be done is done beside the caller. */
  tend(feeds: Iterable<PartitionFeed>): void {
    const { clock, limits, link } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#isRunning || !link.mayAct()) return;
    const all = [...feeds];
    keepUnseen(all, link);
    if (nowMs < this.#nextLookMs) return;
    const candidates = all.filter((feed) => this.#isCandidate(feed));
    const open = all.filter((feed) => feed.log.openTransactions().length > 0 && this.#isDue(feed));
    if (candidates.length === 0 && open.length === 0) return;
    this.#isRunning = true;
    link.inBackground(async () => {
      try {
        await this.#look(candidates);
        await this.#endTransactions(open);
      } finally {
        this.#isRunning = false;
        this.#nextLookMs = clock.monotonicMs() + limits.rebuildCheckMs;
      }
    });
  }

  #isCandidate(feed: PartitionFeed): boolean {
    if (feed.isStopped || feed.leaderId < 0 || !feed.isCompacted()) return false;
    if (!this.#isDue(feed)) return false;
    const { sizeBytes } = feed.log;
    if (!this.#baseBytes.has(feed)) this.#baseBytes.set(feed, sizeBytes);
    // A copy that is not complete yet is being read for the first time.
    if (feed.lag.completeAtMs === null) return false;
    return feed.unseenCleaningMs !== null || sizeBytes >= this.#parts.limits.rebuildBytesMin;
  }

  #isDue(feed: PartitionFeed): boolean {
    const failed = this.#failed.get(feed);
    return failed === undefined || this.#parts.clock.monotonicMs() >= failed.retryAtMs;
  }

  async #look(candidates: readonly PartitionFeed[]): Promise<void> {
    const sizes = await this.#sourceSizes(candidates);
    for (const feed of candidates) {
      if (feed.isStopped || !this.#parts.link.mayAct()) continue;
      try {
        await this.#consider(feed, sizes.get(partitionKey(feed.sourceTopic, feed.partition)));
      } catch (error) {
        this.#noteFailure(feed, error);
      }
    }
  }

  /** A copy whose transaction ended unseen is read again: with its end, or without its records. */
  async #endTransactions(open: readonly PartitionFeed[]): Promise<void> {
    const { link } = this.#parts;
    for (const feed of await this.#endless.find(link.cluster, open)) {
      const firstOffset = firstOpenOffset(feed);
      if (firstOffset === null || this.#unended.get(feed) === firstOffset) continue;
      const { topic, partition } = feed;
      link.events.warn(
        'mirror_transaction_end_unseen',
        `${topic}-${partition}: the transaction at offset ${firstOffset} has ended at the ` +
          'source, its end was cleaned away before it was read: the copy is built anew',
        { topic, partition, link: link.name, offset: String(firstOffset) },
      );
      try {
        const parts = { tombstonesMs: await this.#tombstonesMs(feed), bytes: feed.log.sizeBytes };
        await this.#rebuild(feed, parts);
      } catch (error) {
        this.#noteFailure(feed, error);
        continue;
      }
      if (firstOpenOffset(feed) === firstOffset) this.#unended.set(feed, firstOffset);
    }
  }

  async #consider(feed: PartitionFeed, sourceBytes: number | undefined): Promise<void> {
    const { sizeBytes } = feed.log;
    const base = sourceBytes ?? this.#baseBytes.get(feed) ?? sizeBytes;
    const isLarge =
      sizeBytes >= this.#parts.limits.rebuildBytesMin && sizeBytes >= growthMax * base;
    if (!isLarge && feed.unseenCleaningMs === null) return;
    const tombstonesMs = await this.#tombstonesMs(feed);
    const awayMs = feed.unseenCleaningMs ?? 0;
    if (!isLarge && awayMs < tombstonesMs / 2) {
      // Whatever went, its tombstone cannot have gone with it.
      feed.unseenCleaningMs = null;
      return;
    }
    await this.#rebuild(feed, { tombstonesMs, bytes: sourceBytes ?? sizeBytes });
  }

  /** `bytes` is about what the new copy will take. */
  async #rebuild(
    feed: PartitionFeed,
    { tombstonesMs, bytes }: { tombstonesMs: number; bytes: number },
  ): Promise<void> {
    const { link, clock, bounds } = this.#parts;
    const { sourceTopic, partition } = feed;
    await bounds.assertRoom(bytes);
    const info = (await link.cluster.metadata([sourceTopic])).topics.get(sourceTopic);
    const only = info?.partitions.filter((each) => each.partition === partition);
    if (info?.topicId !== feed.sourceTopicId || only?.length !== 1) return;
    const [from] = (await sourceStarts(link.cluster, { ...info, partitions: only })) ?? [];
    if (from === undefined) throw new NotWhole('the log start of the source cannot be read now');
    const unseenBefore = feed.unseenCleaningMs;
    feed.unseenCleaningMs = null;
    try {
      const parts = { feed, link, clock, from, tombstonesMs, bounds };
      const { before, after } = await rebuildCopy(parts);
      this.#failed.delete(feed);
      this.#baseBytes.set(feed, after);
      link.events.info(
        'mirror_copy_rebuilt',
        `${feed.topic}-${partition}: the copy of the compacted topic was built anew, ` +
          `${before} bytes became ${after}`,
        { topic: feed.topic, partition, link: link.name, before, after },
      );
    } catch (error) {
      feed.unseenCleaningMs ??= unseenBefore;
      throw error;
    }
  }

  #noteFailure(feed: PartitionFeed, error: unknown): void {
    const isExpected =
      error instanceof NotWhole ||
      error instanceof ClusterError ||
      error instanceof StorageError ||
      error instanceof LinkError;
    if (!isExpected) throw error;
    if (feed.isStopped) return;
    const { link, clock, limits } = this.#parts;
    const count = (this.#failed.get(feed)?.count ?? 0) + 1;
    const waitMs = backOffMs(count, limits.rebuildCheckMs, retryMsMax);
    this.#failed.set(feed, { count, retryAtMs: clock.monotonicMs() + waitMs });
    link.events.warn(
      'mirror_copy_not_rebuilt',
      `${feed.topic}-${feed.partition}: the copy of the compacted topic stays as it is for ` +
        `${Math.round(waitMs / 1000)} s: ${messageOf(error)}`,
      { topic: feed.topic, partition: feed.partition, link: link.name },
    );
  }

  async #tombstonesMs(feed: PartitionFeed): Promise<number> {
    const configs = await topicConfigs(this.#parts.link.cluster, feed.sourceTopic);
    const text = configs.find(({ name }) => name === retentionOfTombstones)?.value ?? '';
    return /^\d+$/.test(text) ? Number(text) : 0;
  }

  /** By `partitionKey`, of those whose broker tells it; it needs DESCRIBE on the cluster. */
  async #sourceSizes(feeds: readonly PartitionFeed[]): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for (const leaderId of new Set(feeds.map((feed) => feed.leaderId))) {
      const led = feeds.filter((feed) => feed.leaderId === leaderId);
      const topics = [...new Set(led.map(({ sourceTopic }) => sourceTopic))].map((topic) =>
        createDescribableLogDirTopic({
          topic,
          partitions: led.flatMap((feed) => (feed.sourceTopic === topic ? [feed.partition] : [])),
        }),
      );
      try {
        const target = { kind: 'node', nodeId: leaderId } as const;
        const request = createDescribeLogDirsRequest({ topics });
        const response = await this.#parts.link.cluster.send(target, describeLogDirsApi, request);
        for (const result of response.results) {
          if (result.errorCode !== ErrorCode.NONE) continue;
          for (const { name, partitions } of result.topics) {
            for (const { partitionIndex, partitionSize, isFutureKey } of partitions) {
              if (isFutureKey) continue;
              sizes.set(partitionKey(name, partitionIndex), Number(partitionSize));
            }
          }
        }
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
      }
    }
    return sizes;
  }
}

function keepUnseen(feeds: readonly PartitionFeed[], link: FeedLink): void {
  const byTopic = new Map<string, Map<number, boolean>>();
  for (const feed of feeds) {
    if (!feed.isCompacted()) continue;
    const { topic, partition, unseenCleaningMs } = feed;
    const known = byTopic.get(topic) ?? new Map<number, boolean>();
    byTopic.set(topic, known.set(partition, unseenCleaningMs !== null));
  }
  for (const [topic, isUnseen] of byTopic) link.keepUnseenCleaning(topic, isUnseen);
}
