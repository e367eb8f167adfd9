// The bookkeeping of one incremental fetch session (KIP-227) with one source broker: what the
// broker knows of us, and the smallest request that brings it up to date. Refuses to know logs and
// sockets. Invariants: the broker's view after a request equals what was wanted; in doubt the next
// request is a full one; a partition of which nothing has changed costs a look and no memory.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  createForgottenTopic,
  type FetchRequest,
} from '../../../protocol/generated/fetch-request.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { partitionKey } from '../../cluster/partition-key.ts';

/** Where a partition is to be read from, as it stands when it is asked for. */
export interface WantedPartition {
  readonly sourceTopic: string;
  readonly sourceTopicId: string;
  readonly partition: number;
  readonly fetchOffset: bigint;
  readonly leaderEpoch: number;
  readonly fetchEpoch: number;
}

/** What was asked for, of `of`. */
export interface AskedFor<Wanted> {
  readonly of: Wanted;
  readonly fetchOffset: bigint;
  readonly leaderEpoch: number;
  readonly fetchEpoch: number;
  readonly bytesMax: number;
}

interface Known<Wanted> extends AskedFor<Wanted> {
  /** The last request that it was wanted for. */
  build: number;
}

export interface FetchOptions {
  readonly waitMs: number;
  readonly bytesMax: number;
  readonly partitionBytesMax: number;
  /** Where we are, for a source that knows which replica is near; empty: we do not say. */
  readonly rackId?: string;
}

const sessionsFrom = 7;
const rackIdFrom = 11;
const lastFetchedEpochFrom = 12;
/** Topics are named by their ids. */
export const fetchTopicIdsFrom = 13;
const epochMax = 0x7fffffff;

export class FetchSession<Wanted extends WantedPartition> {
  #id = 0;
  #epoch = 0;
  /** Counts requests. */
  #build = 0;
  #isFull = true;
  /** What the broker has once it has answered the last request. */
  readonly #known = new Map<Wanted, Known<Wanted>>();
  readonly #byName = new Map<string, Known<Wanted>>();
  readonly #byId = new Map<string, Known<Wanted>>();
  /** What of it no answer has confirmed: it is said again. */
  #changed = new Set<Known<Wanted>>();
  #forgotten: Known<Wanted>[] = [];

  get isIncremental(): boolean {
    return this.#id !== 0;
  }

  /** The last request named every partition, so that its answer does too. */
  get wasFull(): boolean {
    return this.#isFull;
  }

  /** The next request. Called again (for another version) before an answer it just starts over. */
  build(wanted: readonly Wanted[], version: number, options: FetchOptions): FetchRequest {
    this.#isFull = this.#id === 0 || version < sessionsFrom;
    if (this.#isFull) this.#clear();
    this.#build++;
    for (const one of wanted) this.#want(one, options.partitionBytesMax);
    this.#forget(wanted.length);
    return createFetchRequest({
      maxWaitMs: options.waitMs,
      minBytes: 1,
      maxBytes: options.bytesMax,
      isolationLevel: 0,
      rackId: version >= rackIdFrom ? (options.rackId ?? '') : '',
      sessionId: this.#isFull ? 0 : this.#id,
      sessionEpoch: this.#isFull ? 0 : this.#epoch,
      topics: byTopic(this.#changed).map(({ topic, topicId, partitions }) =>
        createFetchTopic({
          topic,
          topicId,
          partitions: partitions.map((asked) => toRequest(asked, version)),
        }),
      ),
      forgottenTopicsData: byTopic(this.#forgottenAt(version)).map(
        ({ topic, topicId, partitions }) =>
          createForgottenTopic({
            topic,
            topicId,
            partitions: partitions.map(({ of }) => of.partition),
          }),
      ),
    });
  }

  /** By their names a broker would forget what it was told just before, of a topic made again. */
  #forgottenAt(version: number): Iterable<Known<Wanted>> {
    if (version >= fetchTopicIdsFrom) return this.#forgotten;
    return this.#forgotten.filter(
      ({ of }) => !this.#byName.has(partitionKey(of.sourceTopic, of.partition)),
    );
  }

  /** Of the last request, whether it said so or left it as it was; undefined: not asked for. */
  find(
    { topic, topicId }: { readonly topic: string; readonly topicId: string },
    partition: number,
  ): AskedFor<Wanted> | undefined {
    return topicId === zeroUuid
      ? this.#byName.get(partitionKey(topic, partition))
      : this.#byId.get(partitionKey(topicId, partition));
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
    this.#epoch = this.#isFull ? 1 : next;
    this.#id = answer.sessionId;
    this.#changed = new Set();
    this.#forgotten = [];
    return true;
  }

  /** After a lost connection or answer: nobody knows what the broker has. */
  reset(): void {
    this.#id = 0;
    this.#epoch = 0;
  }

  #want(of: Wanted, bytesMax: number): void {
    const known = this.#known.get(of);
    if (known !== undefined && isSame(known, bytesMax)) {
      known.build = this.#build;
      return;
    }
    const { sourceTopic, sourceTopicId, partition, fetchOffset, leaderEpoch, fetchEpoch } = of;
    const name = partitionKey(sourceTopic, partition);
    const before = known ?? this.#byName.get(name);
    if (before !== undefined) {
      this.#drop(before);
      // Of a topic that was made again the broker has the old id.
      if (before.of.sourceTopicId !== sourceTopicId) this.#forgotten.push(before);
    }
    const now = { of, fetchOffset, leaderEpoch, fetchEpoch, bytesMax, build: this.#build };
    this.#known.set(of, now);
    this.#byName.set(name, now);
    this.#byId.set(partitionKey(sourceTopicId, partition), now);
    this.#changed.add(now);
  }

  /** Partitions of the session that are not wanted any more. */
  #forget(wantedCount: number): void {
    if (this.#known.size === wantedCount) return;
    for (const known of this.#known.values()) {
      if (known.build === this.#build) continue;
      this.#drop(known);
      this.#forgotten.push(known);
    }
  }

  #drop(known: Known<Wanted>): void {
    const { sourceTopic, sourceTopicId, partition } = known.of;
    this.#known.delete(known.of);
    this.#changed.delete(known);
    this.#byName.delete(partitionKey(sourceTopic, partition));
    this.#byId.delete(partitionKey(sourceTopicId, partition));
  }

  #clear(): void {
    this.#known.clear();
    this.#byName.clear();
    this.#byId.clear();
    this.#changed.clear();
    this.#forgotten = [];
  }
}

function isSame(known: AskedFor<WantedPartition>, bytesMax: number): boolean {
  const { of } = known;
  return (
    known.fetchOffset === of.fetchOffset &&
    known.leaderEpoch === of.leaderEpoch &&
    known.fetchEpoch === of.fetchEpoch &&
    known.bytesMax === bytesMax
  );
}

interface OfTopic<Asked> {
  readonly topic: string;
  readonly topicId: string;
  readonly partitions: Asked[];
}

function byTopic<Asked extends AskedFor<WantedPartition>>(all: Iterable<Asked>): OfTopic<Asked>[] {
  const topics = new Map<string, OfTopic<Asked>>();
  for (const asked of all) {
    const { sourceTopic: topic, sourceTopicId: topicId } = asked.of;
    const key = `${topicId}/${topic}`;
    const known = topics.get(key);
    if (known) known.partitions.push(asked);
    else topics.set(key, { topic, topicId, partitions: [asked] });
  }
  return [...topics.values()];
}

function toRequest(asked: AskedFor<WantedPartition>, version: number) {
  return createFetchPartition({
    partition: asked.of.partition,
    currentLeaderEpoch: asked.leaderEpoch,
    fetchOffset: asked.fetchOffset,
    lastFetchedEpoch: version >= lastFetchedEpochFrom ? asked.fetchEpoch : -1,
    partitionMaxBytes: asked.bytesMax,
  });
}
