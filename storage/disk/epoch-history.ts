// Which leader epochs the batches of a log carry, and where each begins.
//
// Owns: the list of epochs of one log, rebuilt from its batches. It knows no files. Invariant:
// epochs and start offsets both ascend; the epoch in force at the log start is kept although its
// first batch may be gone, so that a log that lost its head still says which epoch its tail is in.

import type { EpochEnd } from '../mirror-log.ts';
import { smaller } from './offsets.ts';

export interface EpochStart {
  readonly epoch: number;
  readonly startOffset: bigint;
  /** End of the epoch's first batch: readers see the epoch when they see that batch. */
  readonly firstBatchEnd: bigint;
}

export class EpochHistory {
  #entries: EpochStart[] = [];

  /** Takes note of a batch behind all earlier ones. */
  assign(epoch: number, baseOffset: bigint, batchEnd: bigint): void {
    if (epoch < 0 || epoch <= this.lastEpoch) return;
    this.#entries.push({ epoch, startOffset: baseOffset, firstBatchEnd: batchEnd });
  }

  get lastEpoch(): number {
    return this.#entries.at(-1)?.epoch ?? -1;
  }

  /** Highest epoch among batches that end at or below `end`. */
  visibleEpoch(end: bigint): number {
    return this.#lastWhere((entry) => entry.firstBatchEnd <= end)?.epoch ?? -1;
  }

  /**
   * Epoch of the last batch that begins below the offset: what a checkpoint keeps of a lost head.
   */
  epochBelow(offset: bigint): number {
    return this.#lastWhere((entry) => entry.startOffset < offset)?.epoch ?? -1;
  }

  /** Epochs whose first batch begins within [from, to). */
  startsWithin(from: bigint, to: bigint): readonly EpochStart[] {
    return this.#entries.filter(({ startOffset }) => startOffset >= from && startOffset < to);
  }

  /** Epoch of the batch at the offset. */
  epochAt(offset: bigint): number {
    return this.#lastWhere((entry) => entry.startOffset <= offset)?.epoch ?? -1;
  }

  /** Epoch of the batch at the offset; below the first batch that is known, that one's. */
  epochAtOrFirst(offset: bigint): number {
    const found = this.epochAt(offset);
    return found >= 0 ? found : (this.#entries[0]?.epoch ?? -1);
  }

  /** See `MirrorLog.epochEnd`. `end` is the log's visible end. */
  epochEnd(epoch: number, logStart: bigint, end: bigint): EpochEnd {
    const visible = this.#entries.filter((entry) => entry.firstBatchEnd <= end);
    const higher = visible.find((entry) => entry.epoch > epoch);
    const floor = visible.findLast((entry) => entry.epoch <= epoch);
    if (floor === undefined) {
      if (higher === undefined) return { epoch: -1, endOffset: -1n };
      const start = higher.startOffset;
      return { epoch: -1, endOffset: start > logStart ? start : logStart };
    }
    return { epoch: floor.epoch, endOffset: higher?.startOffset ?? end };
  }

  /** Forgets batches at or above the offset; the epoch in force below it stays. */
  truncate(end: bigint): void {
    this.#entries = this.#entries.filter((entry) => entry.startOffset < end);
  }

  /** Forgets epochs but for the last one that began below the log start; that one is seen. */
  trimHead(logStart: bigint): void {
    const first = this.#entries.findLastIndex((entry) => entry.startOffset < logStart);
    if (first > 0) this.#entries.splice(0, first);
    const head = this.#entries[0];
    if (head === undefined || head.startOffset >= logStart) return;
    this.#entries[0] = { ...head, firstBatchEnd: smaller(head.firstBatchEnd, logStart) };
  }

  /**
   * The epoch that a checkpoint kept of a head whose last batch is gone. Earlier ones may still be
   * in the file when a truncation took the batch that the log starts in.
   */
  restoreHead(epoch: number, logStart: bigint): void {
    if (epoch < 0 || this.epochBelow(logStart) >= epoch) return;
    // The head's epoch may go on above the start; it is known without the batches there too.
    const above = this.#entries.filter((one) => one.startOffset >= logStart && one.epoch !== epoch);
    this.#entries = [{ epoch, startOffset: logStart - 1n, firstBatchEnd: logStart }, ...above];
  }

  clear(): void {
    this.#entries = [];
  }

  #lastWhere(matches: (entry: EpochStart) => boolean): EpochStart | undefined {
    return this.#entries.findLast(matches);
  }
}
