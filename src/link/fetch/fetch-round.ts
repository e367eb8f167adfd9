// What one Fetch request asks for and what of its answer is in the logs already: batches are
// appended while the answer comes in, where nothing has to be waited for. Owns which partition of
// an answer is whose; refuses to know connections, and what an answer means beyond its records
// (fetch-response.ts). Invariants: what was taken continues the log at the offset that was asked
// for; whatever is not taken, for whatever cause, stays in the answer and is worked off in its
// turn.
import type { FetchableTopicResponse } from '../../../protocol/generated/fetch-response.ts';
import { nextOffset, ProtocolError, readBatchHeader, zeroUuid } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LinkClock } from '../context.ts';
import { assertWithinSource } from './answered-records.ts';
import type { ArrivingPartition, TakeBatches } from './arriving-fetch.ts';
import { partitionKey } from './fetch-session.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';

/** One partition of the request. */
export class AskedPartition {
  readonly feed: PartitionFeed;
  readonly askedFrom: bigint;
  /** Behind what was taken. */
  position: bigint;
  takenBytes = 0;
  /** It has come in, or comes in; what an answer says of it a second time is not looked at. */
  hasCome = false;
  /** Its records are not what can be appended: that is found, and told, in their turn. */
  isRefused = false;

  constructor(feed: PartitionFeed) {
    this.feed = feed;
    this.askedFrom = feed.fetchOffset;
    this.position = feed.fetchOffset;
  }
}

/** What comes of one partition, and whether its broker has looked at the topic's id. */
interface Arrived {
  readonly isById: boolean;
  readonly highWatermark: bigint;
  readonly batches: Buffer;
  readonly lastAt: number;
}

export class FetchRound {
  readonly asked: readonly AskedPartition[];
  readonly #link: FeedLink;
  readonly #clock: LinkClock;
  readonly #isOurs: (feed: PartitionFeed) => boolean;
  readonly #byId = new Map<string, AskedPartition>();
  readonly #byName = new Map<string, AskedPartition>();
  #isOver = false;

  constructor(
    feeds: readonly PartitionFeed[],
    parts: { link: FeedLink; clock: LinkClock; isOurs: (feed: PartitionFeed) => boolean },
  ) {
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#isOurs = parts.isOurs;
    this.asked = feeds.map((feed) => new AskedPartition(feed));
    for (const asked of this.asked) {
      const { sourceTopic, sourceTopicId, partition } = asked.feed;
      this.#byName.set(partitionKey(sourceTopic, partition), asked);
      this.#byId.set(partitionKey(sourceTopicId, partition), asked);
    }
  }

  get takenBytes(): number {
    return this.asked.reduce((sum, { takenBytes }) => sum + takenBytes, 0);
  }

  /** Nobody waits for the answer any more: nothing is taken of what still comes. */
  abandon(): void {
    this.#isOver = true;
  }

  /** Undefined: it was not asked for. */
  find(
    { topic, topicId }: Pick<FetchableTopicResponse, 'topic' | 'topicId'>,
    partition: number,
  ): AskedPartition | undefined {
    return topicId === zeroUuid
      ? this.#byName.get(partitionKey(topic, partition))
      : this.#byId.get(partitionKey(topicId, partition));
  }

  /**
   * Who takes batches of a partition that begins to come in. A diverging epoch would stand behind
   * its records; no broker sends records with one (ReplicaManager reads none then), and if one did,
   * what was appended is cut by the truncation that follows.
   */
  takerOf(partition: ArrivingPartition): TakeBatches | null {
    const { topicName: topic, topicId = zeroUuid, highWatermark } = partition;
    const asked = this.find({ topic, topicId }, partition.partition);
    if (asked === undefined || asked.hasCome) return null;
    asked.hasCome = true;
    if (partition.preferredReadReplica >= 0) return null;
    const isById = topicId !== zeroUuid;
    return (batches, lastAt) => this.#take(asked, { isById, highWatermark, batches, lastAt });
  }

  #take(asked: AskedPartition, arrived: Arrived): boolean {
    const { feed } = asked;
    const { isById, highWatermark, batches, lastAt } = arrived;
    if (this.#isOver || asked.isRefused || !this.#isOurs(feed) || !this.#link.mayAct())
      return false;
    // Asked by its name, it may be another topic.
    if (!isById && !feed.isProved) return false;
    if (feed.position !== asked.position || feed.startOverride !== null) return false;
    try {
      assertWithinSource(nextOffset(readBatchHeader(batches, lastAt)), highWatermark);
      if (asked.takenBytes === 0) this.#observeSource(feed, highWatermark);
      if (!feed.appendNow(batches)) return false;
    } catch (error) {
      if (!(error instanceof StorageError || error instanceof ProtocolError)) throw error;
      asked.isRefused = true;
      return false;
    }
    asked.position = feed.position;
    asked.takenBytes += batches.length;
    return true;
  }

  /** Before the mirror moves: it must not look complete while the rest is on its way. */
  #observeSource({ lag }: PartitionFeed, highWatermark: bigint): void {
    if (highWatermark < 0n) return;
    lag.observeSource(highWatermark, {
      nowMs: this.#clock.monotonicMs(),
      unixMs: this.#clock.unixMs(),
    });
  }
}
