// Reading whole batches by offset, in one positioned read wherever one is enough.
//
// Owns: the way from an offset to a slice of a segment file. It never decodes records. Invariants:
// only whole batches below the end that was asked for are returned; bytes that should be there and
// are not, or do not follow each other, are a StorageError; a truncation during a read starts it
// over.

import {
  type BatchHeader,
  batchHeaderBytes,
  nextOffset,
  verifyBatchCrc,
} from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';
import type { ReadInto, ReadOptions, ReadResult } from '../mirror-log.ts';
import { followingHeader, type LogTail } from './batch-check.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { LogDamages } from './log-damage.ts';
import type { LogState } from './log-state.ts';
import { smaller } from './offsets.ts';
import type { Segment } from './segment.ts';
import { placeAtOrBelow, placeFrom } from './segment-index.ts';
import type { SegmentIndexes } from './segment-indexes.ts';

export interface LogReaderOptions {
  readonly state: LogState;
  readonly files: FileTable;
  readonly indexes: SegmentIndexes;
  readonly damages: LogDamages;
  /** Checks the CRC of every batch that is returned. */
  readonly verifyReads: boolean;
}

interface Range {
  readonly offset: bigint;
  readonly end: bigint;
  readonly bytesMax: number;
  readonly atLeastOneBatch: boolean;
  readonly memory: ReadInto;
}

/** Where in a buffer the wanted batches are, and how far they reach. */
interface Slice {
  readonly kind: 'slice';
  readonly start: number;
  readonly end: number;
  readonly baseOffset: bigint;
  readonly nextOffset: bigint;
  /** Where the last of them begins, and its epoch. */
  readonly lastStart: number;
  readonly lastEpoch: number;
}

/** Where a walk begins, and what is known of it. */
interface Start {
  readonly position: number;
  /** Last offset of the batch at the position, as the index says; null when it does not. */
  readonly lastOffset: bigint | null;
  readonly tail: LogTail;
}

/** What was read does not reach far enough: at least `bytes` are needed from `start` on. */
interface More {
  readonly kind: 'more';
  readonly start: Start;
  readonly bytes: number;
}

type Outcome = Slice | More | { readonly kind: 'none' };

/** Bytes that are not what was written. */
class Unsound extends StorageError {
  readonly segment: Segment;
  /** Where the fault may be. */
  readonly positions: readonly number[];

  constructor(segment: Segment, positions: readonly number[], detail: string) {
    super('CORRUPT', `${segment.path} at byte ${positions.at(-1)}: ${detail}`);
    this.segment = segment;
    this.positions = positions;
  }
}

export class LogReader {
  readonly #state: LogState;
  readonly #files: FileTable;
  readonly #indexes: SegmentIndexes;
  readonly #damages: LogDamages;
  readonly #verifyReads: boolean;

  constructor(options: LogReaderOptions) {
    this.#state = options.state;
    this.#files = options.files;
    this.#indexes = options.indexes;
    this.#damages = options.damages;
    this.#verifyReads = options.verifyReads;
  }

  async read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    const state = this.#state;
    for (;;) {
      this.#assertInRange(offset);
      const { endOffset = state.visibleEnd, bytesMax, atLeastOneBatch, memory = fresh } = options;
      const end = smaller(endOffset, state.visibleEnd);
      const generation = state.generation;
      try {
        const result = await this.#readRange({ offset, end, bytesMax, atLeastOneBatch, memory });
        if (generation === state.generation) return result;
      } catch (error) {
        if (generation !== state.generation) continue;
        if (error instanceof Unsound) {
          for (const position of error.positions) {
            await this.#damages.note(error.segment, position, error.message);
          }
        }
        throw storageError(error);
      }
    }
  }

  #assertInRange(offset: bigint): void {
    const { logStart, visibleEnd, closed } = this.#state;
    if (closed) throw new StorageError('CLOSED', 'the log is closed');
    if (offset < logStart || offset > visibleEnd) {
      const detail = `offset ${offset} is not within ${logStart} to ${visibleEnd}`;
      throw new StorageError('OFFSET_OUT_OF_RANGE', detail);
    }
  }

  async #readRange(range: Range): Promise<ReadResult> {
    const { segments } = this.#state;
    let index = this.#state.segmentIndexFor(range.offset);
    // An offset in a gap at the end of a segment is answered from the next one.
    while (range.offset < range.end && index < segments.length) {
      const segment = segments[index];
      if (segment === undefined || segment.baseOffset >= range.end) break;
      if (range.offset < segment.endOffset) return this.#readSegment(segment, range);
      index += 1;
    }
    return emptyResult(range.offset);
  }

  async #readSegment(segment: Segment, range: Range): Promise<ReadResult> {
    const { baseOffset, size } = segment;
    const offsets = await this.#indexes.offsets(segment);
    const place = placeAtOrBelow(offsets, Number(range.offset - baseOffset));
    const start: Start = {
      position: place?.position ?? 0,
      lastOffset: place === null ? null : baseOffset + BigInt(place.relative),
      tail: { end: baseOffset, lastEpoch: -1 },
    };
    const limit = positionLimit(segment, offsets, range.end);
    const { activeBytes, sealedBytes } = segment.interval;
    const slack = segment.sealed !== null ? sealedBytes : activeBytes;
    let more: More = { kind: 'more', start, bytes: batchHeaderBytes + slack };
    for (;;) {
      const { position } = more.start;
      // Larger than the caller's limit only for the walk to the batch, or for a single large batch.
      const wanted = Math.max(more.bytes, range.bytesMax + slack);
      const buffer = range.memory(Math.min(wanted, limit - position));
      await this.#readInto(buffer, segment, position);
      const found = this.#find(segment, buffer, { from: more.start, range, limit });
      if (found.kind === 'none') return emptyResult(range.offset);
      if (found.kind === 'slice') {
        await this.#checkFollower(segment, size, { buffer, position, found });
        return sliceResult(buffer, found);
      }
      if (found.bytes > limit - found.start.position) {
        const { position: cut } = found.start;
        throw new Unsound(segment, [cut], 'the segment ends inside a batch');
      }
      if (found.bytes > range.bytesMax && !range.atLeastOneBatch) return emptyResult(range.offset);
      more = found;
    }
  }

  /**
   * Base offsets are not in the CRC of batches: that of the last one is vouched for by the batch
   * behind it, or by the end of the segment. Nearly always that one was read along.
   */
  async #checkFollower(
    segment: Segment,
    size: number,
    read: { buffer: Buffer; position: number; found: Slice },
  ): Promise<void> {
    const { buffer, found } = read;
    const position = read.position + found.end;
    if (buffer.length - found.end >= batchHeaderBytes) return;
    if (position >= size) {
      const end = position === segment.size ? segment.endOffset : found.nextOffset;
      if (found.nextOffset === end) return;
      const last = read.position + found.lastStart;
      throw new Unsound(segment, [last], `it ends at ${found.nextOffset}, the segment at ${end}`);
    }
    const next = fresh(Math.min(batchHeaderBytes, size - position));
    await this.#readInto(next, segment, position);
    const tail = { end: found.nextOffset, lastEpoch: found.lastEpoch };
    const header = followingHeader(next, 0, tail);
    if (typeof header !== 'string') return;
    throw new Unsound(segment, [read.position + found.lastStart, position], header);
  }

  async #readInto(buffer: Buffer, segment: Segment, position: number): Promise<void> {
    const filled = await this.#files.use(segment.path, (file) => file.read(buffer, position));
    if (filled === buffer.length) return;
    throw new Unsound(segment, [position], `${filled} bytes where ${buffer.length} should be`);
  }

  /** Finds the wanted batches in what was read from `from` on. */
  #find(
    segment: Segment,
    buffer: Buffer,
    options: { readonly from: Start; readonly range: Range; readonly limit: number },
  ): Outcome {
    const { from, range, limit } = options;
    let position = 0;
    let first: { start: number; baseOffset: bigint } | null = null;
    let lastStart = 0;
    let { tail } = from;
    while (buffer.length - position >= batchHeaderBytes) {
      const header = this.#headerAt(segment, buffer, { position, from, tail, lastStart });
      const next = nextOffset(header);
      const batchEnd = position + header.sizeInBytes;
      if (next > range.end) {
        if (first === null) return { kind: 'none' };
        break;
      }
      if (next > range.offset) {
        if (first === null) {
          if (batchEnd > buffer.length) {
            const start = startAt(from, position, tail);
            return { kind: 'more', start, bytes: header.sizeInBytes };
          }
          if (header.sizeInBytes > range.bytesMax && !range.atLeastOneBatch) {
            return { kind: 'none' };
          }
          first = { start: position, baseOffset: header.baseOffset };
        } else if (batchEnd > buffer.length || batchEnd - first.start > range.bytesMax) {
          break;
        }
        this.#verify(segment, buffer, from.position + position, { header, position });
      }
      tail = { end: next, lastEpoch: header.partitionLeaderEpoch };
      lastStart = position;
      position = batchEnd;
    }
    if (first !== null) {
      const { end: next, lastEpoch } = tail;
      return { kind: 'slice', ...first, end: position, nextOffset: next, lastStart, lastEpoch };
    }
    if (from.position + position >= limit) return { kind: 'none' };
    return { kind: 'more', start: startAt(from, position, tail), bytes: batchHeaderBytes };
  }

  /** The header of a batch that follows the walk so far and is the one that the index names. */
  #headerAt(
    segment: Segment,
    buffer: Buffer,
    at: { position: number; from: Start; tail: LogTail; lastStart: number },
  ): BatchHeader {
    const { position, from, tail } = at;
    const filePosition = from.position + position;
    const header = followingHeader(buffer, position, tail);
    if (typeof header === 'string') {
      // Either of the two may be the wrong one.
      throw new Unsound(segment, [from.position + at.lastStart, filePosition], header);
    }
    const expected = position === 0 ? from.lastOffset : null;
    const last = nextOffset(header) - 1n;
    if (expected !== null && last !== expected) {
      const detail = `the batch ends at ${last}, its index says ${expected}`;
      throw new Unsound(segment, [filePosition], detail);
    }
    if (header.baseOffset < segment.baseOffset || last >= segment.endOffset) {
      throw new Unsound(segment, [filePosition], `offset ${last} is outside of the segment`);
    }
    this.#checkEpoch(segment, filePosition, { header, tail });
    return header;
  }

  /** Epochs are not in the CRC either: where one begins is known from the time of the append. */
  #checkEpoch(
    segment: Segment,
    filePosition: number,
    { header, tail }: { readonly header: BatchHeader; readonly tail: LogTail },
  ): void {
    const { partitionLeaderEpoch: epoch, baseOffset } = header;
    if (epoch === tail.lastEpoch || baseOffset < this.#state.logStart) return;
    const expected = this.#state.epochs.epochAt(baseOffset);
    if (expected < 0 || epoch === expected) return;
    const detail = `leader epoch ${epoch} at offset ${baseOffset}, where ${expected} was written`;
    throw new Unsound(segment, [filePosition], detail);
  }

  #verify(
    segment: Segment,
    buffer: Buffer,
    filePosition: number,
    batch: { readonly header: BatchHeader; readonly position: number },
  ): void {
    const { header, position } = batch;
    if (!this.#verifyReads) return;
    if (verifyBatchCrc(buffer, position, header.sizeInBytes)) return;
    const detail = `CRC-32C of offset ${header.baseOffset} does not match`;
    throw new Unsound(segment, [filePosition], detail);
  }
}

const fresh: ReadInto = (bytes) => Buffer.allocUnsafe(bytes);

/** No batch that ends at or below `end` reaches beyond this position. */
function positionLimit(segment: Segment, offsets: Buffer, end: bigint): number {
  if (end >= segment.endOffset) return segment.size;
  return placeFrom(offsets, Number(end - segment.baseOffset))?.position ?? segment.size;
}

function startAt(from: Start, position: number, tail: LogTail): Start {
  return {
    position: from.position + position,
    lastOffset: position === 0 ? from.lastOffset : null,
    tail,
  };
}

function emptyResult(offset: bigint): ReadResult {
  return { chunks: [], bytes: 0, baseOffset: offset, nextOffset: offset };
}

function sliceResult(buffer: Buffer, found: Slice): ReadResult {
  const { start, end, baseOffset, nextOffset: next } = found;
  const chunks = [buffer.subarray(start, end)];
  return { chunks, bytes: end - start, baseOffset, nextOffset: next };
}
