// The source's log starts and ends while the disk is full. They come with the answers to fetches,
// and a full disk ends fetching: without this nothing that the source's retention lets go would
// ever leave the disk: what the mirrors have filled they would fill for good. Owns when they are
// asked for; refuses to know what else a start that lies beyond a mirror means (out-of-range.ts).
// Invariants: nothing is asked for while there is room; nothing is deleted that the mirrored topic
// still has at the source; a copy that ends below the start is the loss that it would be later.
import { ErrorCode } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { LinkClock, LinkLimits } from '../context.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { earliestTimestamp, latestTimestamp, listOffsets } from '../source-offsets.ts';
import { resolveOutOfRange } from './out-of-range.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';

export interface SourceWhileFullParts {
  readonly link: FeedLink;
  readonly clock: LinkClock;
  readonly limits: Pick<LinkLimits, 'sourceWhileFullMs'>;
  readonly storage: { readonly isFull: boolean };
}

interface Found {
  readonly feed: PartitionFeed;
  readonly start: bigint;
  readonly end: bigint;
}

export class SourceWhileFull {
  readonly #parts: SourceWhileFullParts;
  #nextLookMs = Number.NEGATIVE_INFINITY;
  #isRunning = false;

  constructor(parts: SourceWhileFullParts) {
    this.#parts = parts;
  }

  /** Looks, if it is time; what is to be done is done beside the caller. */
  tend(feeds: Iterable<PartitionFeed>): void {
    const { clock, limits, link, storage } = this.#parts;
    if (this.#isRunning || !storage.isFull || !link.mayAct()) return;
    if (clock.monotonicMs() < this.#nextLookMs) return;
    const asked = [...feeds].filter((feed) => !feed.isStopped && feed.leaderId >= 0);
    if (asked.length === 0) return;
    this.#isRunning = true;
    link.inBackground(async () => {
      try {
        await this.#look(asked);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        link.lost(error);
      } finally {
        this.#isRunning = false;
        this.#nextLookMs = clock.monotonicMs() + limits.sourceWhileFullMs;
      }
    });
  }

  async #look(feeds: readonly PartitionFeed[]): Promise<void> {
    const { link, clock } = this.#parts;
    const found = await this.#ask(feeds);
    // Both are asked for by name: those of a topic that was made again are no news of ours.
    const mirrors = new Map(found.map(({ feed }) => [feed.topic, sourceOf(feed)] as const));
    const unconfirmed = await unconfirmedSources(link, [...mirrors.values()]);
    for (const { feed, start, end } of found) {
      if (unconfirmed.has(feed.topic)) continue;
      feed.lag.observeSource(end, { nowMs: clock.monotonicMs(), unixMs: clock.unixMs() });
      if (start > feed.log.logStart) await this.#follow(feed, start);
    }
  }

  async #ask(feeds: readonly PartitionFeed[]): Promise<readonly Found[]> {
    const { cluster } = this.#parts.link;
    const partitions = feeds.map(({ sourceTopic: topic, partition, leaderId }) => {
      return { topic, partition, leaderId };
    });
    const starts = await listOffsets(cluster, partitions, { timestamp: earliestTimestamp });
    const ends = await listOffsets(cluster, partitions, { timestamp: latestTimestamp });
    return feeds.flatMap((feed) => {
      const key = partitionKey(feed.sourceTopic, feed.partition);
      const [start, end] = [starts.get(key), ends.get(key)];
      if (start?.errorCode !== ErrorCode.NONE || end?.errorCode !== ErrorCode.NONE) return [];
      return [{ feed, start: feed.logStartFor(start.offset), end: end.offset }];
    });
  }

  async #follow(feed: PartitionFeed, start: bigint): Promise<void> {
    const { link, clock } = this.#parts;
    const { log } = feed;
    // What is being found out, or appended yet, is looked at the next time.
    if (feed.isStopped || feed.isSuspended || feed.isAppending || !link.mayAct()) return;
    if (start > log.end) {
      // Nothing is freed by an empty one: fetching will find how much it has lost, in one range.
      if (log.sizeBytes === 0) return;
      feed.isSuspended = true;
      try {
        await resolveOutOfRange(feed, link, clock);
      } finally {
        feed.isSuspended = false;
      }
      return;
    }
    try {
      await feed.exclusively(async () => {
        if (link.mayAct() && start > log.logStart && start <= log.end) await log.deleteHead(start);
      });
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      feed.fail(`${error.code}: ${error.message}`, clock.monotonicMs(), 1_000);
    }
  }
}

function sourceOf({ topic, sourceTopic, sourceTopicId }: PartitionFeed) {
  return { name: topic, sourceTopic, sourceTopicId, partitions: [] };
}
