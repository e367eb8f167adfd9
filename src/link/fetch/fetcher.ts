// The fetch loop of one connection to one source broker: one long poll at a time, over a fetch
// session, for the partitions that were given to it. Of an answer most is in the logs when it has
// come in (fetch-round.ts); while the rest is appended the next one is asked for. Refuses to know
// what an answer means for a partition (fetch-response.ts). Invariants: at most three answers of
// bounded size are held, each in memory that is used again when all of it has been worked off; a
// broker that does not answer is tried for ever with a growing delay; a partition that cannot be
// fetched, or is slow to append, is left out, not waited for.
import type { FetchResponse, PartitionData } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { fetchApi } from '../../cluster/apis.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { FrameBuffer } from '../../cluster/frame-buffer.ts';
import type { FrameReceiver } from '../../cluster/frame-intake.ts';
import { isHeldBack } from '../../cluster/held-back.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import type { LinkClock } from '../context.ts';
import { messageOf, Signal } from '../signal.ts';
import { positionBehind } from './answered-records.ts';
import { arrivingFetch } from './arriving-fetch.ts';
import type { ByteThrottle } from './byte-throttle.ts';
import { acceptPartition } from './fetch-response.ts';
import { FetchRound } from './fetch-round.ts';
import { type FetchOptions, FetchSession, fetchTopicIdsFrom } from './fetch-session.ts';
import { framesMax } from './limits.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { RangeReaders } from './range-readers.ts';
import type { FeedLink } from './source-link.ts';

const idleWaitMs = 1_000;
const blockedWaitMs = 200;
/** Beyond what the broker may wait by itself. */
const answerTimeoutMs = 30_000;
const backoffMinMs = 50;
const backoffMaxMs = 2_000;
const throttleMaxMs = 30_000;
/** When all answers have waited so long for some partition, the others get one more. */
const spareAfterMs = 1_000;
const waitMsPerFeed = 0.2;
const waitMsMax = 2_000;

export interface FetcherSettings extends FetchOptions {
  /** Of the whole link; null does not limit. */
  readonly bytesPerSecond: number | null;
}

function saysNothing({ responses }: FetchResponse): boolean {
  return responses.every(({ partitions }) =>
    partitions.every(
      ({ errorCode, records, preferredReadReplica, divergingEpoch }) =>
        errorCode === ErrorCode.NONE &&
        (records?.length ?? 0) === 0 &&
        preferredReadReplica < 0 &&
        divergingEpoch.endOffset < 0n,
    ),
  );
}

export class BrokerFetcher {
  readonly nodeId: number;
  readonly #link: FeedLink;
  readonly #clock: LinkClock;
  readonly #settings: () => FetcherSettings;
  readonly #mayFetch: () => boolean;
  readonly #throttle: ByteThrottle;
  readonly #ranges: RangeReaders;
  readonly #lane: string;
  readonly #feeds = new Set<PartitionFeed>();
  readonly #session = new FetchSession<PartitionFeed>();
  readonly #signal = new Signal();
  readonly #freeFrames = Array.from({ length: framesMax }, () => new FrameBuffer());
  /** Used while all others are held by partitions that are slow to append; null: in use. */
  #spareFrame: FrameBuffer | null = new FrameBuffer();
  /** When the last free frame was taken. */
  #heldUpSinceMs = 0;
  #failures = 0;
  #turn = 0;
  #notBeforeMs = 0;
  #isClosed = false;
  #done: Promise<void> = Promise.resolve();

  constructor(parts: {
    nodeId: number;
    link: FeedLink;
    clock: LinkClock;
    settings: () => FetcherSettings;
    /** `mayAct` and room on the disk. */
    mayFetch: () => boolean;
    throttle: ByteThrottle;
    ranges: RangeReaders;
    /** Which of the connections to the broker this is. */
    index: number;
  }) {
    this.nodeId = parts.nodeId;
    this.#link = parts.link;
    this.#clock = parts.clock;
    this.#settings = parts.settings;
    this.#mayFetch = parts.mayFetch;
    this.#throttle = parts.throttle;
    this.#ranges = parts.ranges;
    this.#lane = `fetch-${parts.link.name}-${parts.index}`;
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
      const frame = this.#freeFrames[0] ?? this.#spare(nowMs);
      const isSpare = frame !== undefined && frame === this.#spareFrame;
      const ready = [...this.#feeds].filter(
        (feed) => feed.isReady(nowMs) && !(isSpare && feed.isAppending),
      );
      // `#release` ends the wait when answers that are being appended are what holds us up.
      if (ready.length === 0 || frame === undefined) {
        await this.#signal.wait(this.#feeds.size === 0 ? idleWaitMs : blockedWaitMs);
        continue;
      }
      const pausedMs = Math.max(this.#throttledMs(), this.#notBeforeMs - nowMs);
      if (pausedMs > 0) {
        await this.#signal.wait(Math.min(pausedMs, blockedWaitMs));
        continue;
      }
      try {
        await this.#round(this.#inTurn(ready), frame);
      } catch (error) {
        this.#fault(messageOf(error));
        this.#pause(idleWaitMs);
      }
    }
  }

  #spare(nowMs: number): FrameBuffer | undefined {
    const isDue = nowMs - this.#heldUpSinceMs >= spareAfterMs;
    return isDue ? (this.#spareFrame ?? undefined) : undefined;
  }

  #throttledMs(): number {
    const { bytesPerSecond } = this.#settings();
    return this.#throttle.waitMs({ nowMs: this.#clock.monotonicMs(), bytesPerSecond });
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

  async #round(feeds: readonly PartitionFeed[], frame: FrameBuffer): Promise<void> {
    const round = new FetchRound({
      session: this.#session,
      link: this.#link,
      clock: this.#clock,
      isOurs: (feed) => this.#feeds.has(feed),
    });
    const askedAtMs = this.#clock.monotonicMs();
    let response: FetchResponse;
    try {
      const into = arrivingFetch(frame, (partition) => round.takerOf(partition));
      response = await this.#fetch(feeds, into);
    } catch (error) {
      round.abandon();
      this.#session.reset();
      // A late answer may still be written to it.
      if (frame === this.#spareFrame) this.#spareFrame = new FrameBuffer();
      else this.#freeFrames[0] = new FrameBuffer();
      if (!(error instanceof ClusterError)) throw error;
      if (this.#isClosed) return;
      this.#lost(feeds, round, error);
      return;
    }
    this.#failures = 0;
    this.#link.contacted();
    if (this.#session.received(response)) {
      this.#accept(feeds, { round, response, frame });
      // A broker waits when it has nothing; one that does not must not be asked without pause.
      const nowMs = this.#clock.monotonicMs();
      const isEarly = nowMs - askedAtMs < this.#settings().waitMs / 2;
      if (isEarly && round.takenBytes === 0 && saysNothing(response)) this.#pause(blockedWaitMs);
    } else if (response.errorCode !== ErrorCode.FETCH_SESSION_ID_NOT_FOUND) {
      // A broker that refuses everything must not be asked without pause.
      this.#pause(blockedWaitMs);
    }
    this.#pause(Math.min(response.throttleTimeMs, throttleMaxMs));
  }

  /** The answer did not come, or not to its end; of what had come, batches may be in the logs. */
  #lost(feeds: readonly PartitionFeed[], round: FetchRound, error: ClusterError): void {
    this.#link.lost(error);
    this.#link.refreshMetadata();
    this.#chargeThrottle(round.takenBytes);
    for (const feed of feeds) {
      if (round.takenOf(feed) > 0) feed.succeed();
      else feed.gotNoAnswer(error.message);
      if (!feed.readAtLeader()) continue;
      this.#link.nearFailed();
      this.#link.reassign(feed);
    }
    // A line that is slow, or is cut again and again, is used as long as it brings something.
    if (round.takenBytes > 0) this.#failures = 0;
    this.#pause(backOffMs(++this.#failures, backoffMinMs, backoffMaxMs));
  }

  #chargeThrottle(bytes: number): void {
    const { bytesPerSecond } = this.#settings();
    this.#throttle.take(bytes, { nowMs: this.#clock.monotonicMs(), bytesPerSecond });
  }

  /** Nothing is asked for so long, whatever is heard meanwhile. */
  #pause(forMs: number): void {
    this.#notBeforeMs = Math.max(this.#notBeforeMs, this.#clock.monotonicMs() + forMs);
  }

  #fetch(feeds: readonly PartitionFeed[], into: FrameReceiver): Promise<FetchResponse> {
    const settings = this.#settings();
    // Each round looks at every partition: with thousands of idle ones rounds are made less often.
    // Whatever is new is answered at once all the same; a new partition waits for the round.
    const waitMs = Math.max(
      settings.waitMs,
      Math.min(Math.round(feeds.length * waitMsPerFeed), waitMsMax),
    );
    // A throttled link asks for no more than a second's worth, so that it does not come in bursts.
    const bytesMax = Math.min(settings.bytesMax, settings.bytesPerSecond ?? settings.bytesMax);
    const hasTopicIds = feeds.every((feed) => feed.hasTopicId);
    return this.#link.cluster.send(
      { kind: 'node', nodeId: this.nodeId },
      fetchApi,
      (version) => this.#session.build(feeds, version, { ...settings, bytesMax, waitMs }),
      {
        lane: this.#lane,
        timeoutMs: waitMs + answerTimeoutMs,
        into,
        ...(hasTopicIds ? {} : { versionMax: fetchTopicIdsFrom - 1 }),
      },
    );
  }

  /** Begins to work off what is left of an answer; its memory is free when that has ended. */
  #accept(
    feeds: readonly PartitionFeed[],
    got: { round: FetchRound; response: FetchResponse; frame: FrameBuffer },
  ): void {
    const { round, response, frame } = got;
    const at = { nowMs: this.#clock.monotonicMs(), unixMs: this.#clock.unixMs() };
    const answered = new Set<PartitionFeed>();
    const work: Promise<void>[] = [];
    let bytes = 0;
    for (const topic of response.responses) {
      for (const data of topic.partitions) {
        const found = round.find(topic, data.partitionIndex);
        if (found === undefined || answered.has(found.feed)) continue;
        const { feed, askedFrom, position: from, takenBytes } = found;
        answered.add(feed);
        const arrived = takenBytes + (data.records?.length ?? 0);
        bytes += arrived;
        const ahead = data.errorCode === ErrorCode.NONE ? positionBehind(data.records) : null;
        const answer = { data, from, isByName: topic.topicId === zeroUuid };
        work.push(feed.take({ from, ahead }, () => this.#acceptOne(feed, answer)));
        const end = ahead?.offset ?? from;
        if (end === askedFrom) continue;
        const { highWatermark } = data;
        const offsets = end - askedFrom;
        this.#ranges.consider(feed, { bytes: arrived, offsets, end, highWatermark });
      }
    }
    this.#chargeThrottle(bytes);
    if (isHeldBack(response)) for (const feed of feeds) feed.heldBackAtMs = at.nowMs;
    else if (!this.#session.wasFull) {
      // In a session silence means: nothing new, everything as it was.
      for (const feed of feeds) {
        if (answered.has(feed)) continue;
        feed.lag.observeSource(null, at);
        feed.succeed();
      }
    }
    if (work.length > 0) this.#release(frame, Promise.all(work));
  }

  #release(frame: FrameBuffer, work: Promise<unknown>): void {
    const isSpare = frame === this.#spareFrame;
    if (isSpare) this.#spareFrame = null;
    else {
      this.#freeFrames.splice(this.#freeFrames.indexOf(frame), 1);
      if (this.#freeFrames.length === 0) this.#heldUpSinceMs = this.#clock.monotonicMs();
    }
    // `#acceptOne` does not reject.
    void work.finally(() => {
      if (isSpare) this.#spareFrame = frame;
      else this.#freeFrames.push(frame);
      this.#signal.notify();
    });
  }

  async #acceptOne(
    feed: PartitionFeed,
    answer: { data: PartitionData; from: bigint; isByName: boolean },
  ): Promise<void> {
    if (feed.isStopped || !this.#feeds.has(feed)) return;
    try {
      const { data, ...how } = answer;
      await acceptPartition(feed, data, { link: this.#link, clock: this.#clock, ...how });
    } catch (error) {
      // One partition's fault touches no other.
      this.#fault(`${feed.topic}-${feed.partition}: ${messageOf(error)}`);
      feed.fail(`INTERNAL_ERROR: ${messageOf(error)}`, this.#clock.monotonicMs(), idleWaitMs);
    }
  }
}
