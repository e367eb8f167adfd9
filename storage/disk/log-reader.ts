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
import type { ReadOptions, ReadResult } from '../mirror-log.ts';
import { followingHeader } from './batch-check.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { LogState } from './log-state.ts';
import { smaller } from './offsets.ts';
import { activeIndexIntervalBytes, type Segment, sealedIndexIntervalBytes } from './segment.ts';

export interface LogReaderOptions {
  readonly state: LogState;
  readonly files: FileTable;
  /** Checks the CRC of every batch that is returned. */
  readonly verifyReads: boolean;
}

interface Range {
  readonly offset: bigint;
  readonly end: bigint;
  readonly bytesMax: number;
  readonly atLeastOneBatch: boolean;
}

/** Where in a buffer the wanted batches are, and how far they reach. */
interface Slice {
  readonly kind: 'slice';
  readonly start: number;
  readonly end: number;
  readonly baseOffset: bigint;
  readonly nextOffset: bigint;
}

/** What was read does not reach far enough: at least `bytes` are needed from `position` on. */
interface More {
  readonly kind: 'more';
  readonly position: number;
  readonly bytes: number;
}

type Outcome = Slice | More | { readonly kind: 'none' };

export class LogReader {
  readonly #state: LogState;
  readonly #files: FileTable;
  readonly #verifyReads: boolean;

  constructor(options: LogReaderOptions) {
    this.#state = options.state;
    this.#files = options.files;
    this.#verifyReads = options.verifyReads;
  }

  async read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    const state = this.#state;
    for (;;) {
      this.#assertInRange(offset);
      const { endOffset = state.visibleEnd, bytesMax, atLeastOneBatch } = options;
      const end = smaller(endOffset, state.visibleEnd);
      const generation = state.generation;
      try {
        const result = await this.#readRange({ offset, end, bytesMax, atLeastOneBatch });
        if (generation === state.generation) return result;
      } catch (error) {
        if (generation === state.generation) throw storageError(error);
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
    const relative = Number(range.offset - segment.baseOffset);
    const position = segment.index.positionFor(relative);
    const limit = this.#positionLimit(segment, range.end);
    const sealed = segment !== this.#state.active;
    const slack = sealed ? sealedIndexIntervalBytes : activeIndexIntervalBytes;
    let more: More = { kind: 'more', position, bytes: batchHeaderBytes + slack };
    for (;;) {
      // Larger than the caller's limit only for the walk to the batch, or for a single large batch.
      const wanted = Math.max(more.bytes, range.bytesMax + slack);
      const bytes = Math.min(wanted, limit - more.position);
      const buffer = await this.#readAt(segment, more.position, bytes);
      const found = this.#find(segment, buffer, more.position, range);
      if (found.kind === 'none') return emptyResult(range.offset);
      if (found.kind === 'slice') return sliceResult(buffer, found);
      if (found.bytes > limit - found.position) {
        throw unsound(segment, found.position, 'the segment ends inside a batch');
      }
      if (found.bytes > range.bytesMax && !range.atLeastOneBatch) return emptyResult(range.offset);
      more = found;
    }
  }

  /** No batch that ends at or below `end` reaches beyond this position. */
  #positionLimit(segment: Segment, end: bigint): number {
    if (end >= segment.endOffset) return segment.size;
    return segment.index.positionAfter(Number(end - segment.baseOffset)) ?? segment.size;
  }

  async #readAt(segment: Segment, position: number, bytes: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(bytes);
    const filled = await this.#files.use(segment.path, (file) => file.read(buffer, position));
    if (filled < bytes) {
      throw unsound(segment, position, `${filled} bytes where ${bytes} should be`);
    }
    return buffer;
  }

  /** Finds the wanted batches in what was read from `filePosition` on. */
  #find(segment: Segment, buffer: Buffer, filePosition: number, range: Range): Outcome {
    let position = 0;
    let first: { start: number; baseOffset: bigint } | null = null;
    let tail = { end: segment.baseOffset, lastEpoch: -1 };
    while (buffer.length - position >= batchHeaderBytes) {
      const header = followingHeader(buffer, position, tail);
      if (typeof header === 'string') throw unsound(segment, filePosition + position, header);
      const next = nextOffset(header);
      const batchEnd = position + header.sizeInBytes;
      if (next > range.end) {
        if (first === null) return { kind: 'none' };
        break;
      }
      if (next > range.offset) {
        if (first === null) {
          if (batchEnd > buffer.length) {
            const bytes = header.sizeInBytes;
            return { kind: 'more', position: filePosition + position, bytes };
          }
          if (header.sizeInBytes > range.bytesMax && !range.atLeastOneBatch) {
            return { kind: 'none' };
          }
          first = { start: position, baseOffset: header.baseOffset };
        } else if (batchEnd > buffer.length || batchEnd - first.start > range.bytesMax) {
          break;
        }
        this.#verify(segment, buffer, position, header);
      }
      tail = { end: next, lastEpoch: header.partitionLeaderEpoch };
      position = batchEnd;
    }
    if (first !== null) {
      return { kind: 'slice', ...first, end: position, nextOffset: tail.end };
    }
    const reached = filePosition + position;
    if (reached >= this.#positionLimit(segment, range.end)) return { kind: 'none' };
    return { kind: 'more', position: reached, bytes: batchHeaderBytes };
  }

  #verify(segment: Segment, buffer: Buffer, position: number, header: BatchHeader): void {
    if (!this.#verifyReads) return;
    if (verifyBatchCrc(buffer, position, header.sizeInBytes)) return;
    const detail = `CRC-32C of offset ${header.baseOffset} does not match`;
    throw unsound(segment, position, detail);
  }
}

function emptyResult(offset: bigint): ReadResult {
  return { chunks: [], bytes: 0, baseOffset: offset, nextOffset: offset };
}

function sliceResult(buffer: Buffer, found: Slice): ReadResult {
  const { start, end, baseOffset, nextOffset: next } = found;
  const chunks = [buffer.subarray(start, end)];
  return { chunks, bytes: end - start, baseOffset, nextOffset: next };
}

function unsound(segment: Segment, position: number, detail: string): StorageError {
  return new StorageError('CORRUPT', `${segment.path} at byte ${position}: ${detail}`);
}
