// What of the answer to one Fetch request is in the logs already: batches are appended while the
// answer comes in, where nothing has to be waited for. Owns how far each partition that the answer
// names has come; refuses to know connections, what was asked for (fetch-session.ts), and what an
// answer means beyond its records (fetch-response.ts). Invariants: what was taken continues the log
// at the offset that was asked for; whatever is not taken, for whatever cause, stays in the answer
// and is worked off in its turn; a partition that the answer does not name costs nothing.
import type { FetchableTopicResponse } from '../../../protocol/generated/fetch-response.ts';
import { nextOffset, ProtocolError, readBatchHeader, zeroUuid } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LinkClock } from '../context.ts';
import { assertWithinSource } from './answered-records.ts';
import type { ArrivingPartition, TakeBatches } from './arriving-fetch.ts';
import type { AskedFor, FetchSession } from './fetch-session.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';

/** One partition of the answer. */
export class AnsweredPartition {
  readonly feed: PartitionFeed;
  readonly askedFrom: bigint;
  /** Behind what was taken. */
  position: bigint;
  takenBytes = 0;
  /** It has come in, or comes in; what an answer says of it a second time is not looked at. */
  hasCome = false;
  /** Its records are not what can be appended: that is found, and told, in their turn. */
  isRefused = false;

  constructor({ of, fetchOffset }: AskedFor<PartitionFeed>) {
    this.feed = of;
    this.askedFrom = fetchOffset;
    this.position = fetchOffset;
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
  readonly #session: FetchSession<PartitionFeed>;
  readonly #link: FeedLink;
  readonly #clock: LinkClock;
  readonly #isOurs: (feed: PartitionFeed) => boolean;
  readonly #answered = new Map<PartitionFeed, AnsweredPartition>();
  #isOver = false;

  constructor(parts: {
    /** Its last request is the round's. */
    session: FetchSession<PartitionFeed>;
    link: FeedLink;
    clock: LinkClock;
    isOurs: (feed: PartitionFeed) => boolean;
  }) {
    this.#session = parts.session;
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#isOurs = parts.isOurs;
  }

  get takenBytes(): number {
    let sum = 0;
    for (const { takenBytes } of this.#answered.values()) sum += takenBytes;
    return sum;
  }

  takenOf(feed: PartitionFeed): number {
    return this.#answered.get(feed)?.takenBytes ?? 0;
  }

  /** Nobody waits for the answer any more: nothing is taken of what still comes. */
  abandon(): void {
    this.#isOver = true;
  }

  /** Undefined: it was not asked for. */
  find(
    topic: Pick<FetchableTopicResponse, 'topic' | 'topicId'>,
    partition: number,
  ): AnsweredPartition | undefined {
    const asked = this.#session.find(topic, partition);
    if (asked === undefined) return undefined;
    const known = this.#answered.get(asked.of);
    if (known !== undefined) return known;
    const answered = new AnsweredPartition(asked);
    this.#answered.set(asked.of, answered);
    return answered;
  }

  /**
   * Who takes batches of a partition that begins to come in. A diverging epoch would stand behind
   * its records; no broker sends records with one (ReplicaManager reads none then), and if one did,
   * what was appended is cut by the truncation that follows.
   */
  takerOf(partition: ArrivingPartition): TakeBatches | null {
    const { topicName: topic, topicId = zeroUuid, highWatermark } = partition;
    const answered = this.find({ topic, topicId }, partition.partition);
    if (answered === undefined || answered.hasCome) return null;
    answered.hasCome = true;
    if (partition.preferredReadReplica >= 0) return null;
    const isById = topicId !== zeroUuid;
    return (batches, lastAt) => this.#take(answered, { isById, highWatermark, batches, lastAt });
  }

  #take(answered: AnsweredPartition, arrived: Arrived): boolean {
    const { feed } = answered;
    const { isById, highWatermark, batches, lastAt } = arrived;
    if (this.#isOver || answered.isRefused || !this.#isOurs(feed) || !this.#link.mayAct())
      return false;
    // Asked by its name, it may be another topic.
    if (!isById && !feed.isProved) return false;
    if (feed.position !== answered.position || feed.startOverride !== null) return false;
    try {
      assertWithinSource(nextOffset(readBatchHeader(batches, lastAt)), highWatermark);
      if (answered.takenBytes === 0) this.#observeSource(feed, highWatermark);
      if (!feed.appendNow(batches)) return false;
    } catch (error) {
      if (!(error instanceof StorageError || error instanceof ProtocolError)) throw error;
      answered.isRefused = true;
      return false;
    }
    answered.position = feed.position;
    answered.takenBytes += batches.length;
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
