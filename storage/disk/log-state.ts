// What is known in memory about one log: its segments and everything derived from batch headers.
//
// Owns: start, end, durable end, hold, and from them what readers may see. It does no input or
// output. Invariant: `visibleEnd` = the highest value that min(durableEnd, hold) has had since the
// last truncation; listeners hear of each change of it or of the last stable offset, and only then.

import { type BatchHeader, nextOffset } from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';
import type { LogDamage, LogId, RetentionRules } from '../mirror-log.ts';
import type { BatchMeta, ControlType } from './batch-check.ts';
import type { CheckpointState, DurablePoint } from './checkpoint.ts';
import { EpochHistory } from './epoch-history.ts';
import { storageError } from './failures.ts';
import { larger, smaller } from './offsets.ts';
import { Segment } from './segment.ts';
import type { IndexedPlace, IndexInterval } from './segment-index.ts';
import { TransactionTracker } from './transactions.ts';

export interface DamagedRange extends LogDamage {
  readonly segment: Segment;
  readonly start: number;
  readonly end: number;
  /** When it was found, nothing lay behind it in its segment. */
  readonly endsSegment: boolean;
  /** The indexed batch that the range begins with; null at the start of the segment. */
  readonly first: IndexedPlace | null;
}

export class LogState {
  readonly id: LogId;
  readonly directory: string;
  readonly interval: IndexInterval;
  readonly epochs = new EpochHistory();
  readonly transactions = new TransactionTracker();
  /** In the order of offsets; never empty once the log is open. The last one is written to. */
  segments: Segment[] = [];
  logStart: bigint;
  durable: DurablePoint;
  hold: bigint | null;
  headEpoch: number;
  /** Which list of sealed segments counts. Raised before a sealed segment is cut. */
  sealGeneration: bigint;
  /** Raised when bytes that a read may be looking at go away: the read starts over. */
  generation = 0;
  /** What reads have found to be damaged, by the offset that it begins with. */
  readonly damage = new Map<bigint, DamagedRange>();
  /** The log can no longer be written to, and why. */
  failure: StorageError | null = null;
  closed = false;
  /** Of batches that may be gone; what is visible says the rest. */
  #shownEpoch: number;
  #cutEpoch: number;
  #visibleEnd: bigint;
  #lastStableOffset: bigint;

  constructor(
    place: { readonly id: LogId; readonly directory: string; readonly interval: IndexInterval },
    checkpoint: CheckpointState,
  ) {
    this.id = place.id;
    this.directory = place.directory;
    this.interval = place.interval;
    this.logStart = checkpoint.logStart;
    this.durable = checkpoint.durable;
    this.hold = checkpoint.hold;
    this.headEpoch = checkpoint.headEpoch;
    this.sealGeneration = checkpoint.sealGeneration;
    this.#shownEpoch = checkpoint.shownEpoch;
    this.#cutEpoch = checkpoint.cutEpoch;
    this.#visibleEnd = checkpoint.logStart;
    this.#lastStableOffset = checkpoint.logStart;
  }

  /** A segment of this log, empty and not among `segments` yet. */
  newSegment(baseOffset: bigint): Segment {
    return new Segment(this.directory, baseOffset, this.interval);
  }

  get active(): Segment {
    const active = this.segments.at(-1);
    if (active === undefined) throw new StorageError('CORRUPT', 'a log without segments');
    return active;
  }

  get end(): bigint {
    return larger(this.active.endOffset, this.logStart);
  }

  get durableEnd(): bigint {
    return this.durable.end;
  }

  /** Where the log ends now: durable once everything written so far has been synced. */
  get endPoint(): DurablePoint {
    return { end: this.end, segment: this.active.baseOffset, position: this.active.size };
  }

  get visibleEnd(): bigint {
    return this.#visibleEnd;
  }

  get lastStableOffset(): bigint {
    return this.#lastStableOffset;
  }

  get sizeBytes(): number {
    return this.segments.reduce((sum, segment) => sum + segment.size, 0);
  }

  /** As it is once everything up to `durable` is durable, and may be shown. */
  checkpoint(durable: DurablePoint = this.durable): CheckpointState {
    const { logStart, hold, headEpoch, sealGeneration } = this;
    const shownEnd = hold === null ? durable.end : smaller(durable.end, hold);
    // Before it is: of what is shown and then lost, nobody else would know the epoch.
    const shownEpoch = Math.max(this.shownEpoch, this.epochs.visibleEpoch(shownEnd));
    const cutEpoch = this.isCut ? this.#cutEpoch : -1;
    return { logStart, durable, hold, headEpoch, sealGeneration, shownEpoch, cutEpoch };
  }

  get visibleEpoch(): number {
    return this.epochs.visibleEpoch(this.#visibleEnd);
  }

  /** See `MirrorLog.shownEpoch`. */
  get shownEpoch(): number {
    return Math.max(this.#shownEpoch, this.visibleEpoch);
  }

  /** See `MirrorLog.isCut`. */
  get isCut(): boolean {
    return this.#cutEpoch >= 0 && this.visibleEpoch <= this.#cutEpoch;
  }

  /** To be called before batches go for good: their epochs have been shown. */
  keepShownEpoch(): void {
    const { isCut } = this;
    this.#shownEpoch = this.shownEpoch;
    if (!isCut) this.#cutEpoch = -1;
  }

  /** To be called before the tail goes. */
  noteCut(end: bigint): void {
    this.keepShownEpoch();
    if (end < this.#visibleEnd) this.#cutEpoch = this.#shownEpoch;
  }

  /** Takes the place of another generation, whose readers are its own now. */
  inheritShown(before: LogState): void {
    this.#shownEpoch = before.shownEpoch;
    this.#cutEpoch = before.isCut ? before.#cutEpoch : -1;
  }

  /** The segment that holds the offset, or would. */
  segmentIndexFor(offset: bigint): number {
    let low = 0;
    let high = this.segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.segments[middle]?.baseOffset ?? 0n) <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  /** Takes note of batches that have been written at the end of `segment`. */
  applyAppend(segment: Segment, batches: readonly BatchMeta[]): void {
    for (const { header, control } of batches) this.applyBatch(segment, header, control);
  }

  applyBatch(segment: Segment, header: BatchHeader, control: ControlType | null): void {
    segment.add(header);
    this.epochs.assign(header.partitionLeaderEpoch, header.baseOffset, nextOffset(header));
    this.transactions.apply(header, control);
  }

  /** Damage in what has been deleted is none any more. */
  forgetDamage(): void {
    for (const [from, { segment }] of this.damage) {
      if (!this.segments.includes(segment)) this.damage.delete(from);
    }
  }

  /** See `MirrorLog.retentionStart`. */
  retentionStart({ oldestTimestamp, bytesMax }: RetentionRules): bigint {
    let start = this.logStart;
    let leftBytes = this.sizeBytes;
    for (const segment of this.segments) {
      if (segment.endOffset > this.#visibleEnd) break;
      leftBytes -= segment.size;
      const isOld = oldestTimestamp !== null && (segment.maxTimestamp ?? -1n) < oldestTimestamp;
      const isMuch = bytesMax !== null && leftBytes >= bytesMax;
      if (!isOld && !isMuch) break;
      start = larger(start, segment.endOffset);
    }
    return start;
  }

  /** Recomputes what readers see. True when it changed. */
  advance(): boolean {
    const allowed = this.hold === null ? this.durableEnd : smaller(this.durableEnd, this.hold);
    return this.#see(larger(larger(this.#visibleEnd, allowed), this.logStart));
  }

  /** Follows a truncation down. True when what readers see changed. */
  retreat(end: bigint): boolean {
    return this.#see(larger(smaller(this.#visibleEnd, end), this.logStart));
  }

  /** Runs a search. A truncation or a deleted head meanwhile starts it over. */
  async undisturbed<T>(search: () => Promise<T>): Promise<T> {
    for (;;) {
      if (this.closed) throw new StorageError('CLOSED', 'the log is closed');
      const { generation } = this;
      try {
        const result = await search();
        if (generation === this.generation) return result;
      } catch (error) {
        if (generation === this.generation) throw storageError(error);
      }
    }
  }

  #see(visibleEnd: bigint): boolean {
    const stable = larger(this.transactions.lastStableOffset(visibleEnd), this.logStart);
    const changed = visibleEnd !== this.#visibleEnd || stable !== this.#lastStableOffset;
    this.#visibleEnd = visibleEnd;
    this.#lastStableOffset = stable;
    return changed;
  }
}
