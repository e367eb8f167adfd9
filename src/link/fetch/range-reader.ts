// Reads the backlog of one partition over a long line: ranges of offsets asked for one behind the
// other without waiting, appended in order. Owns the ranges under way and their memory. Refuses to
// know sessions, and to decide about the history: whatever is not as it should be ends the reading,
// and the partition's own fetcher, which sends the last epoch, finds out why. Invariants: all
// answers are of one leader's term, whose epochs have been confirmed to reach as far as what is
// appended; each answer is appended only if the log has come to where it was asked from; the bytes
// under way are bounded.
import {
  ErrorCode,
  forEachBatch,
  nextOffset,
  ProtocolError,
  wholeBatches,
} from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { FrameBuffer } from '../../cluster/frame-buffer.ts';
import { heldBackMsMax } from '../../cluster/held-back.ts';
import type { LinkClock } from '../context.ts';
import { Signal } from '../signal.ts';
import type { ByteThrottle } from './byte-throttle.ts';
import { rangeAnswerBytesMax, rangesMax } from './limits.ts';
import type { PartitionFeed } from './partition-feed.ts';
import { endOfEpoch, fetchRange, type RangeAnswer, type RangeSource } from './range-requests.ts';
import type { FeedLink } from './source-link.ts';

export interface RangeSettings {
  /** Of one answer. */
  readonly chunkBytes: number;
  /** Of all answers under way. */
  readonly windowBytes: number;
  readonly bytesPerSecond: number | null;
}

export interface RangeReading {
  readonly feed: PartitionFeed;
  readonly link: FeedLink;
  readonly clock: LinkClock;
  readonly settings: () => RangeSettings;
  readonly throttle: ByteThrottle;
  readonly mayFetch: () => boolean;
  readonly lane: string;
  /** As the answer before told: from here on, up to there, so dense. */
  readonly highWatermark: bigint;
  readonly bytesPerOffset: number;
}

interface Range {
  readonly from: bigint;
  readonly to: bigint;
  /** What has arrived goes so far. */
  reached: bigint;
  /** What of it waits to be appended. */
  readonly parts: {
    readonly from: bigint;
    readonly records: Buffer;
    readonly frame: FrameBuffer;
  }[];
  isUnderWay: boolean;
}

const waitMs = 200;
const extraBytes = 16 * 1024;

export class RangeReader {
  readonly #parts: RangeReading;
  readonly #source: RangeSource;
  readonly #signal = new Signal();
  readonly #ranges: Range[] = [];
  readonly #frames: FrameBuffer[] = [];
  #framesCount = 0;
  /** Epoch -> how far it is known to reach at the source. */
  readonly #confirmed = new Map<number, bigint>();
  #next: bigint;
  #highWatermark: bigint;
  #bytesPerOffset: number;
  #batchBytesMax = extraBytes;
  #pausedUntilMs = 0;
  /** When something came last. */
  #arrivedAtMs: number;
  #isOver = false;
  /** One of ours: told by whoever began the reading. */
  #fault: unknown;

  constructor(parts: RangeReading) {
    const { feed } = parts;
    this.#parts = parts;
    const { sourceTopic, sourceTopicId, partition, leaderId, leaderEpoch } = feed;
    this.#source = { sourceTopic, sourceTopicId, partition, leaderId, leaderEpoch };
    this.#next = feed.log.end;
    this.#highWatermark = parts.highWatermark;
    this.#bytesPerOffset = Math.max(1, parts.bytesPerOffset);
    this.#arrivedAtMs = parts.clock.monotonicMs();
  }

  /** Resolves when the rest is for the partition's own fetcher. Never rejects for the source. */
  async run(): Promise<void> {
    while (this.#mayGoOn()) {
      this.#ask();
      const head = this.#ranges[0];
      if (head === undefined) return;
      if (head.parts.length > 0) {
        if (!(await this.#append(head))) return;
      } else if (head.reached < head.to) await this.#signal.wait(this.#waitMs);
      else this.#ranges.shift();
    }
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** A pause that ends sooner has something to be asked for then. */
  get #waitMs(): number {
    const pausedMs = this.#pausedUntilMs - this.#parts.clock.monotonicMs();
    return pausedMs > 0 ? Math.min(pausedMs, waitMs) : waitMs;
  }

  #mayGoOn(): boolean {
    const { feed, link, mayFetch } = this.#parts;
    const { leaderId, leaderEpoch } = this.#source;
    const isSameTerm = feed.leaderId === leaderId && feed.leaderEpoch === leaderEpoch;
    return !this.#isOver && !feed.isStopped && isSameTerm && link.mayAct() && mayFetch();
  }

  /** Sends what the window has room for: first what is missing of earlier ranges. */
  #ask(): void {
    const { throttle, clock, settings } = this.#parts;
    const { chunkBytes, windowBytes, bytesPerSecond } = settings();
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#pausedUntilMs || throttle.waitMs({ nowMs, bytesPerSecond }) > 0) return;
    const framesMax = rangesMax(chunkBytes, windowBytes);
    const hasRoom = (): boolean => this.#frames.length > 0 || this.#framesCount < framesMax;
    for (const range of this.#ranges) {
      if (range.isUnderWay || range.reached >= range.to) continue;
      // The head may exceed the window: without it nothing behind it can be let go of.
      if (hasRoom() || range === this.#ranges[0]) this.#request(range);
    }
    const length = BigInt(Math.max(1, Math.floor(chunkBytes / this.#bytesPerOffset)));
    while (hasRoom() && this.#next + length <= this.#highWatermark) {
      const [from, to] = [this.#next, this.#next + length];
      const range = { from, to, reached: from, parts: [], isUnderWay: false };
      this.#next = to;
      this.#ranges.push(range);
      this.#request(range);
    }
  }

  #frame(): FrameBuffer {
    const free = this.#frames.pop();
    if (free !== undefined) return free;
    this.#framesCount++;
    return new FrameBuffer();
  }

  #request(range: Range): void {
    const { link, lane } = this.#parts;
    const frame = this.#frame();
    const from = range.reached;
    const bytesMax = this.#bytesOf(range);
    range.isUnderWay = true;
    fetchRange(link.cluster, this.#source, { offset: from, bytesMax, lane, into: frame })
      .then((answer) => {
        if (!this.#accept(range, answer, { from, frame })) this.#isOver = true;
      })
      .catch((error: unknown) => {
        this.#isOver = true;
        if (error instanceof ClusterError) link.lost(error);
        else if (!(error instanceof ProtocolError)) this.#fault = error;
      })
      .finally(() => {
        range.isUnderWay = false;
        this.#signal.notify();
      });
  }

  /** What is missing of a range, but no more than one is meant to have: records may grow. */
  #bytesOf({ to, reached }: Range): number {
    const { chunkBytes } = this.#parts.settings();
    const expected = Math.ceil(Number(to - reached) * this.#bytesPerOffset);
    // The first batch may begin before the range, and the last one end behind it.
    const bytes = Math.min(expected, chunkBytes) + 2 * this.#batchBytesMax;
    return Math.min(bytes, rangeAnswerBytesMax(chunkBytes));
  }

  /** False: nothing can be done with it. */
  #accept(range: Range, answer: RangeAnswer, at: { from: bigint; frame: FrameBuffer }): boolean {
    const { clock, link } = this.#parts;
    const nowMs = clock.monotonicMs();
    link.contacted();
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + answer.throttleTimeMs);
    if (answer.isHeldBack) {
      // Asked for again after the pause, as what is missing of its range.
      this.#frames.push(at.frame);
      return nowMs - this.#arrivedAtMs < heldBackMsMax;
    }
    if (answer.errorCode !== ErrorCode.NONE) return false;
    this.#arrivedAtMs = nowMs;
    this.#highWatermark = answer.highWatermark;
    return this.#take(range, { ...at, records: answer.records });
  }

  /** False: nothing can be done with it. */
  #take(range: Range, part: { from: bigint; records: Buffer; frame: FrameBuffer }): boolean {
    const { throttle, clock, settings } = this.#parts;
    const { bytesPerSecond } = settings();
    throttle.take(part.records.length, { nowMs: clock.monotonicMs(), bytesPerSecond });
    const records = part.records.subarray(0, wholeBatches(part.records).bytes);
    let first: bigint | null = null;
    let end = part.from;
    forEachBatch(records, (header) => {
      first ??= header.baseOffset;
      end = nextOffset(header);
      if (header.sizeInBytes > this.#batchBytesMax) this.#batchBytesMax = header.sizeInBytes;
    });
    if (first === null || end <= part.from) return false;
    const dense = records.length / Number(end - first);
    this.#bytesPerOffset = Math.max(1, (3 * this.#bytesPerOffset + dense) / 4);
    range.parts.push({ ...part, records });
    range.reached = end;
    return true;
  }

  /**
   * What has come of the first range: its rest comes into memory that is free by then. False: it
   * does not go on where the log ends, or the epochs do not prove that it does.
   */
  async #append(range: Range): Promise<boolean> {
    const { feed, link, clock } = this.#parts;
    for (let part = range.parts.shift(); part !== undefined; part = range.parts.shift()) {
      const { from, records, frame } = part;
      const { log } = feed;
      if (from > log.end || feed.startOverride !== null) return false;
      const rest = behind(records, log.end);
      if (rest === null || !(await this.#confirm(rest))) return false;
      if (rest.length > 0) {
        const isDone = await this.#write(rest);
        if (!isDone) return false;
      }
      const at = { nowMs: clock.monotonicMs(), unixMs: clock.unixMs() };
      if (this.#highWatermark >= 0n) feed.lag.observeSource(this.#highWatermark, at);
      this.#frames.push(frame);
    }
    return link.mayAct();
  }

  async #write(records: Buffer): Promise<boolean> {
    const { feed } = this.#parts;
    try {
      await feed.exclusively(async () => {
        if (this.#mayGoOn()) await feed.append(records);
        else this.#isOver = true;
      });
      feed.succeed();
      return !this.#isOver;
    } catch (error) {
      // The fetcher comes upon it too, and says so.
      if (error instanceof StorageError || error instanceof ProtocolError) return false;
      throw error;
    }
  }

  /** Every epoch in `records`, and the one that the log ends with, reaches as far at the source. */
  async #confirm(records: Buffer): Promise<boolean> {
    const { log } = this.#parts.feed;
    const ends = new Map<number, bigint>();
    if (log.lastEpoch >= 0) ends.set(log.lastEpoch, log.end);
    forEachBatch(records, (header) => {
      ends.set(header.partitionLeaderEpoch, nextOffset(header));
    });
    for (const [epoch, end] of ends) {
      // Written in a later term than the one that is read in.
      if (epoch > this.#source.leaderEpoch) return false;
      if ((this.#confirmed.get(epoch) ?? -1n) >= end) continue;
      const known = await this.#endOfEpoch(epoch);
      if (known === null || known < end) return false;
      this.#confirmed.set(epoch, known);
    }
    return true;
  }

  async #endOfEpoch(epoch: number): Promise<bigint | null> {
    const { link } = this.#parts;
    try {
      return await endOfEpoch(link.cluster, this.#source, epoch);
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      link.lost(error);
      return null;
    }
  }
}

/** The batches from `end` on; null when one straddles it: another history has other batches. */
function behind(records: Buffer, end: bigint): Buffer | null {
  let start = records.length;
  let straddles = false;
  forEachBatch(records, (header, position) => {
    if (nextOffset(header) <= end) return true;
    straddles = header.baseOffset < end;
    start = position;
    return false;
  });
  return straddles ? null : records.subarray(start);
}
