// What one Fetch request asks for and what of its answer is in the logs already: batches are
// appended while the answer comes in, where nothing has to be waited for. Owns which partition of
// an answer is whose; refuses to know connections, and what an answer means beyond its records
// (fetch-response.ts). Invariants: what was taken continues the log at the offset that was asked
// for; whatever is not taken, for whatever cause, stays in the answer and is worked off in its
// turn.
import type { FetchableTopicResponse } from '../../../protocol/generated/fetch-response.ts';
import { nextOffset, readBatchHeader, zeroUuid } from '../../../protocol/index.ts';
import type { ArrivingPartition, TakeBatches } from './arriving-fetch.ts';
import { assertWithinSource } from './fetch-response.ts';
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

  constructor(feed: PartitionFeed) {
    this.feed = feed;
    this.askedFrom = feed.fetchOffset;
    this.position = feed.fetchOffset;
  }
}

export class FetchRound {
  readonly asked: readonly AskedPartition[];
  readonly #link: FeedLink;
  readonly #isOurs: (feed: PartitionFeed) => boolean;
  readonly #byId = new Map<string, AskedPartition>();
  readonly #byName = new Map<string, AskedPartition>();

  constructor(
    feeds: readonly PartitionFeed[],
    parts: { link: FeedLink; isOurs: (feed: PartitionFeed) => boolean },
  ) {
    this.#link = parts.link;
    this.#isOurs = parts.isOurs;
    this.asked = feeds.map((feed) => new AskedPartition(feed));
    for (const asked of this.asked) {
      const { sourceTopic, sourceTopicId, partition } = asked.feed;
      this.#byName.set(partitionKey(sourceTopic, partition), asked);
      this.#byId.set(partitionKey(sourceTopicId, partition), asked);
    }
  }

  get tookSomething(): boolean {
    return this.asked.some(({ takenBytes }) => takenBytes > 0);
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

  /** Who takes batches of a partition that begins to come in. */
  takerOf(partition: ArrivingPartition): TakeBatches | null {
    const { topicName: topic, topicId = zeroUuid, preferredReadReplica } = partition;
    const asked = this.find({ topic, topicId }, partition.partition);
    if (asked === undefined || preferredReadReplica >= 0) return null;
    // Asked by its name, it may be another topic.
    if (topicId === zeroUuid && !asked.feed.isProved) return null;
    return (batches, lastAt) => {
      return this.#take(asked, { batches, lastAt, highWatermark: partition.highWatermark });
    };
  }

  #take(
    asked: AskedPartition,
    arrived: { batches: Buffer; lastAt: number; highWatermark: bigint },
  ): boolean {
    const { feed } = asked;
    const { batches, lastAt, highWatermark } = arrived;
    if (!this.#isOurs(feed) || !this.#link.mayAct()) return false;
    if (feed.position !== asked.position || feed.startOverride !== null) return false;
    try {
      assertWithinSource(nextOffset(readBatchHeader(batches, lastAt)), highWatermark);
      if (!feed.appendNow(batches)) return false;
    } catch {
      // They are appended once more in their turn, where a fault is told and dealt with.
      return false;
    }
    asked.position = feed.position;
    asked.takenBytes += batches.length;
    return true;
  }
}
