// One segment of a log: a file of whole batches, named as Kafka names it.
//
// Owns: the name, size, end offset and sparse index of one `.log` file. It does no input or output.
// Invariant: a segment's base offset is the end offset of the one before it, so that a segment that
// is missing in the middle shows as a break (only a gap too wide for an index lets the two differ).

import { type BatchHeader, lastOffset, nextOffset } from '../../protocol/record-batch.ts';
import type { OpenTransaction } from '../mirror-log.ts';
import { joinPath } from './device.ts';
import { SparseIndex } from './sparse-index.ts';

/** One index entry per this many bytes of the segment that is written to, as in Kafka. */
export const activeIndexIntervalBytes = 4096;
/** Sealed segments keep a coarser index: 16 bytes of memory per 64 KiB of disk. */
export const sealedIndexIntervalBytes = 65_536;
/** Offsets in a segment are kept relative to its base, as 31 bits, as in Kafka's index files. */
export const relativeOffsetMax = 2n ** 31n - 1n;

const logSuffix = '.log';
const offsetDigits = 20;

export function segmentFileName(baseOffset: bigint): string {
  return `${baseOffset.toString().padStart(offsetDigits, '0')}${logSuffix}`;
}

/** Base offset that a file name says, or null when it is not a segment's name. */
export function parseSegmentFileName(name: string): bigint | null {
  const match = /^(\d{20})\.log$/.exec(name);
  return match?.[1] === undefined ? null : BigInt(match[1]);
}

export class Segment {
  readonly baseOffset: bigint;
  readonly path: string;
  readonly index = new SparseIndex(activeIndexIntervalBytes);
  /** Transactions that were open where the segment begins: a truncation starts over from here. */
  openAtStart: readonly OpenTransaction[] = [];
  #size = 0;
  #endOffset: bigint;
  #maxTimestamp: bigint | null = null;

  constructor(directory: string, baseOffset: bigint) {
    this.baseOffset = baseOffset;
    this.path = joinPath(directory, segmentFileName(baseOffset));
    this.#endOffset = baseOffset;
  }

  get size(): number {
    return this.#size;
  }

  /** Offset after the last batch, or the base offset when there is none. */
  get endOffset(): bigint {
    return this.#endOffset;
  }

  /** Largest timestamp of any batch, or null when there is none. */
  get maxTimestamp(): bigint | null {
    return this.#maxTimestamp;
  }

  /** Takes note of a batch that is written at the segment's end. */
  add(header: BatchHeader): void {
    const relative = Number(header.baseOffset - this.baseOffset);
    this.index.add(relative, this.#size, header.maxTimestamp);
    this.#size += header.sizeInBytes;
    this.#endOffset = nextOffset(header);
    if (this.#maxTimestamp === null || header.maxTimestamp > this.#maxTimestamp) {
      this.#maxTimestamp = header.maxTimestamp;
    }
  }

  /** True when a batch can be appended without breaking the limits of a segment. */
  hasRoomFor(header: BatchHeader, at: { size: number; bytesMax: number }): boolean {
    if (lastOffset(header) - this.baseOffset > relativeOffsetMax) return false;
    // A batch larger than a segment may be has one of its own.
    return at.size === 0 || at.size + header.sizeInBytes <= at.bytesMax;
  }

  seal(): void {
    this.index.thin(sealedIndexIntervalBytes);
  }
}
