// The bookkeeping of one incremental fetch session (KIP-227) with one source broker: what the
// broker knows of us, and the smallest request that brings it up to date. Pure. Refuses to know
// logs and sockets. Invariant: the broker's view after a request equals what was wanted; in doubt
// the next request is a full one.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  createForgottenTopic,
  type FetchRequest,
} from '../../../protocol/generated/fetch-request.ts';
import { ErrorCode } from '../../../protocol/index.ts';

export interface WantedPartition {
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
  readonly fetchOffset: bigint;
  readonly currentLeaderEpoch: number;
  readonly lastFetchedEpoch: number;
  readonly bytesMax: number;
}

export interface FetchOptions {
  readonly waitMs: number;
  readonly bytesMax: number;
  /** Where we are, for a source that knows which replica is near; empty: we do not say. */
  readonly rackId?: string;
}

const sessionsFrom = 7;
const rackIdFrom = 11;
const lastFetchedEpochFrom = 12;
const epochMax = 0x7fffffff;

export function partitionKey(topic: string, partition: number): string {
  return `${topic}/${partition}`;
}

function isSame(left: WantedPartition, right: WantedPartition): boolean {
  return (
    left.fetchOffset === right.fetchOffset &&
    left.currentLeaderEpoch === right.currentLeaderEpoch &&
    left.lastFetchedEpoch === right.lastFetchedEpoch &&
    left.bytesMax === right.bytesMax &&
    left.topicId === right.topicId
  );
}

export class FetchSession {
  #id = 0;
  #epoch = 0;
  /** What the broker has, by partition, after the last request that it answered. */
  #known = new Map<string, WantedPartition>();
  /** What it will have when the request under way is answered. */
  #pending = new Map<string, WantedPartition>();
  #pendingIsFull = true;

  get isIncremental(): boolean {
    return this.#id !== 0;
  }

  /** The next request. Called again (for another version) before an answer it just starts over. */
  build(wanted: readonly WantedPartition[], version: number, options: FetchOptions): FetchRequest {
    this.#pending = new Map(
      wanted.map((partition) => [partitionKey(partition.topic, partition.partition), partition]),
    );
    this.#pendingIsFull = this.#id === 0 || version < sessionsFrom;
    const changed = this.#pendingIsFull
      ? wanted
      : wanted.filter((partition) => {
          const known = this.#known.get(partitionKey(partition.topic, partition.partition));
          return known === undefined || !isSame(known, partition);
        });
    const forgotten = this.#pendingIsFull ? [] : this.#forgotten();
    return createFetchRequest({
      maxWaitMs: options.waitMs,
      minBytes: 1,
      maxBytes: options.bytesMax,
      isolationLevel: 0,
      rackId: version >= rackIdFrom ? (options.rackId ?? '') : '',
      sessionId: this.#pendingIsFull ? 0 : this.#id,
      sessionEpoch: this.#pendingIsFull ? 0 : this.#epoch,
      topics: byTopic(changed).map(({ topic, topicId, partitions }) =>
        createFetchTopic({
          topic,
          topicId,
          partitions: partitions.map((partition) => toRequest(partition, version)),
        }),
      ),
      forgottenTopicsData: byTopic(forgotten).map(({ topic, topicId, partitions }) =>
        createForgottenTopic({
          topic,
          topicId,
          partitions: partitions.map(({ partition }) => partition),
        }),
      ),
    });
  }

  /** Partitions of the session that are not wanted any more, or are under another topic id now. */
  #forgotten(): WantedPartition[] {
    return [...this.#known].flatMap(([key, known]) =>
      this.#pending.get(key)?.topicId === known.topicId ? [] : [known],
    );
  }

  /**
   * Takes the answer's top level. False: the answer carries nothing and the next request is a full
   * one.
   */
  received(answer: { readonly errorCode: number; readonly sessionId: number }): boolean {
    if (answer.errorCode !== ErrorCode.NONE) {
      this.reset();
      return false;
    }
    if (answer.sessionId === 0) {
      // The broker has no slot for us; the answer itself is complete.
      this.reset();
      return true;
    }
    const next = this.#epoch >= epochMax ? 1 : this.#epoch + 1;
    this.#epoch = this.#pendingIsFull ? 1 : next;
    this.#id = answer.sessionId;
    this.#known = this.#pending;
    return true;
  }

  /** After a lost connection or answer: nobody knows what the broker has. */
  reset(): void {
    this.#id = 0;
    this.#epoch = 0;
    this.#known = new Map();
  }
}

function byTopic(
  partitions: readonly WantedPartition[],
): { topic: string; topicId: string; partitions: WantedPartition[] }[] {
  const topics = new Map<
    string,
    { topic: string; topicId: string; partitions: WantedPartition[] }
  >();
  for (const partition of partitions) {
    const key = `${partition.topicId}/${partition.topic}`;
    const known = topics.get(key);
    if (known) known.partitions.push(partition);
    else {
      const { topic, topicId } = partition;
      topics.set(key, { topic, topicId, partitions: [partition] });
    }
  }
  return [...topics.values()];
}

function toRequest(wanted: WantedPartition, version: number) {
  return createFetchPartition({
    partition: wanted.partition,
    currentLeaderEpoch: wanted.currentLeaderEpoch,
    fetchOffset: wanted.fetchOffset,
    lastFetchedEpoch: version >= lastFetchedEpochFrom ? wanted.lastFetchedEpoch : -1,
    partitionMaxBytes: wanted.bytesMax,
  });
}
