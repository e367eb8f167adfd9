// One segment of a log: a file of whole batches, named as Kafka names it.
//
// Owns: name, size, end offset and largest timestamp of one `.log` file, and the index while the
// segment is written to; later the index is in files and only a description of them stays. It does
// no input or output. Invariant: a segment's base offset is the end offset of the one before it, so
// that a segment that is missing in the middle shows as a break (only a gap too wide for an index
// lets the two differ).

import { type BatchHeader, lastOffset, nextOffset } from '../../protocol/record-batch.ts';
import type { OpenTransaction } from '../mirror-log.ts';
import { joinPath } from './device.ts';
import type { SealedSegment } from './seal-file.ts';
import {
  GrowingIndex,
  type IndexInterval,
  type LargestTimestamp,
  placeAtOrBelow,
} from './segment-index.ts';

/** Offsets in a segment are kept relative to its base, as 31 bits, as in Kafka's index files. */
export const relativeOffsetMax = 2n ** 31n - 1n;

const offsetDigits = 20;

/** Of the largest size of a segment (1 MiB of 128): less that is dead is not worth a file. */
const deadShareMin = 1 / 128;

export const segmentSuffix = {
  log: '.log',
  offsets: '.index',
  times: '.timeindex',
  aborts: '.txnindex',
} as const;

export type SegmentSuffix = (typeof segmentSuffix)[keyof typeof segmentSuffix];

export function segmentFileName(baseOffset: bigint, suffix: SegmentSuffix = '.log'): string {
  return `${baseOffset.toString().padStart(offsetDigits, '0')}${suffix}`;
}

/** Base offset that a file name says, or null when it is not a segment's name. */
export function parseSegmentFileName(name: string): bigint | null {
  const match = /^(\d{20})\.log$/.exec(name);
  return match?.[1] === undefined ? null : BigInt(match[1]);
}

/** Base offset that the name of an index file says, or null when it is no such name. */
export function parseIndexFileName(name: string): bigint | null {
  const match = /^(\d{20})\.(?:index|timeindex|txnindex)(?:\.new)?$/.exec(name);
  return match?.[1] === undefined ? null : BigInt(match[1]);
}

export class Segment {
  readonly baseOffset: bigint;
  readonly directory: string;
  /** Of its `.log` file; one string, since each append looks its file up by it. */
  readonly path: string;
  /** Transactions that were open where the segment begins: a truncation starts over from here. */
  openAtStart: readonly OpenTransaction[] = [];
  /** While the segment is written to, and until its index files have been written. */
  index: GrowingIndex | null;
  readonly interval: IndexInterval;
  /** What the index files hold, once they have been written. */
  sealed: SealedSegment | null = null;
  #size = 0;
  #endOffset: bigint;
  #largest: LargestTimestamp | null = null;
  /** Below the log start, as of the last time that it moved. */
  #deadBytes = 0;

  constructor(directory: string, baseOffset: bigint, interval: IndexInterval) {
    this.baseOffset = baseOffset;
    this.directory = directory;
    this.path = this.pathOf(segmentSuffix.log);
    this.interval = interval;
    this.index = new GrowingIndex(interval);
    this.#endOffset = baseOffset;
  }

  /** A segment that is known without having been read. */
  static fromSealed(directory: string, sealed: SealedSegment, interval: IndexInterval): Segment {
    const segment = new Segment(directory, sealed.baseOffset, interval);
    segment.openAtStart = sealed.openAtStart;
    segment.index = null;
    segment.sealed = sealed;
    segment.#size = sealed.size;
    segment.#endOffset = sealed.endOffset;
    segment.#largest = sealed.largest;
    return segment;
  }

  pathOf(suffix: SegmentSuffix): string {
    return joinPath(this.directory, segmentFileName(this.baseOffset, suffix));
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
    return this.#largest?.timestamp ?? null;
  }

  get largest(): LargestTimestamp | null {
    return this.#largest;
  }

  /** Takes note of a batch that is written at the segment's end. */
  add(header: BatchHeader): void {
    const last = lastOffset(header);
    this.index?.add(Number(last - this.baseOffset), this.#size, header.maxTimestamp);
    this.#size += header.sizeInBytes;
    this.#endOffset = nextOffset(header);
    if (this.#largest === null || header.maxTimestamp > this.#largest.timestamp) {
      this.#largest = { timestamp: header.maxTimestamp, lastOffset: last };
    }
  }

  /** The log starts here now: nobody reads what lies below. Only while it is written to. */
  noteStart(logStart: bigint): void {
    if (this.index === null || logStart <= this.baseOffset) return;
    const relative = Number(logStart - this.baseOffset);
    this.#deadBytes = placeAtOrBelow(this.index.offsets, relative)?.position ?? 0;
  }

  /** True when a batch can be appended without breaking the limits of a segment. */
  hasRoomFor(header: BatchHeader, at: { size: number; bytesMax: number }): boolean {
    if (lastOffset(header) - this.baseOffset > relativeOffsetMax) return false;
    // Space comes back by whole segments: one that lives on keeps what is dead in it.
    const isOutlived = this.#deadBytes >= at.bytesMax * deadShareMin;
    if (isOutlived && 2 * this.#deadBytes >= at.size) return false;
    // A batch larger than a segment may be has one of its own.
    return at.size === 0 || at.size + header.sizeInBytes <= at.bytesMax;
  }

  /** The index files have been written: the entries are read from there from now on. */
  seal(sealed: SealedSegment): void {
    this.sealed = sealed;
    this.index = null;
  }
}
