// Offsets by time: the first record at or after a timestamp, and the one with the largest.
//
// Owns: the narrowing from segment to index block to batch to record. Only the batch that holds the
// answer is decompressed. Invariant: exact within what readers may see (log start to visible end),
// as a broker answers, control records included; never a guess from batch headers alone.

import { type BatchHeader, lastOffset, nextOffset } from '../../protocol/record-batch.ts';
import { openRecords } from '../../protocol/records.ts';
import { StorageError } from '../errors.ts';
import type { TimestampOffset } from '../mirror-log.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';
import { scanSegment } from './segment-scan.ts';

interface FoundBatch {
  readonly header: BatchHeader;
  readonly position: number;
}

interface Candidate {
  readonly segment: Segment;
  readonly entry: number;
  /** Upper bound of the block's visible timestamps. */
  bound: bigint;
  /** The record that attains the bound, once the block has been looked at. */
  exact: TimestampOffset | null;
}

export class TimeLookup {
  readonly #state: LogState;
  readonly #files: FileTable;

  constructor(options: { readonly state: LogState; readonly files: FileTable }) {
    this.#state = options.state;
    this.#files = options.files;
  }

  offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null> {
    return this.#undisturbed(() => this.#firstAtOrAfter(timestamp));
  }

  offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    return this.#undisturbed(() => this.#largest());
  }

  /** A truncation or a deleted head during the search starts it over. */
  async #undisturbed<T>(search: () => Promise<T>): Promise<T> {
    const state = this.#state;
    for (;;) {
      if (state.closed) throw new StorageError('CLOSED', 'the log is closed');
      const { generation } = state;
      try {
        const result = await search();
        if (generation === state.generation) return result;
      } catch (error) {
        if (generation === state.generation) throw storageError(error);
      }
    }
  }

  async #firstAtOrAfter(timestamp: bigint): Promise<TimestampOffset | null> {
    for (const segment of this.#visibleSegments()) {
      if (segment.maxTimestamp === null || segment.maxTimestamp < timestamp) continue;
      for (let entry = 0; entry < segment.index.count; entry++) {
        if (segment.index.maxTimestampOf(entry) < timestamp) continue;
        for (const batch of await this.#batches(segment, entry, timestamp)) {
          const found = await this.#firstRecord(segment, batch, timestamp);
          if (found !== null) return found;
        }
      }
    }
    return null;
  }

  /**
   * Blocks in the order of their upper bounds: a block that was looked at has an exact bound, and
     the
   * first exact one at the top is the answer. Nearly always one block is read.
   */
  async #largest(): Promise<TimestampOffset | null> {
    const refused = new Set<Segment>();
    let best: TimestampOffset | null = null;
    for (;;) {
      const segment = this.#segmentWithLargest(refused);
      if (segment === null) return best;
      if (best !== null && (segment.maxTimestamp ?? 0n) < best.timestamp) return best;
      refused.add(segment);
      const found = await this.#largestIn(segment);
      if (found === null) continue;
      const earlier = best === null || found.timestamp > best.timestamp;
      if (earlier || (found.timestamp === best?.timestamp && found.offset < best.offset)) {
        best = found;
      }
    }
  }

  #segmentWithLargest(except: ReadonlySet<Segment>): Segment | null {
    let largest: Segment | null = null;
    for (const segment of this.#visibleSegments()) {
      if (segment.maxTimestamp === null || except.has(segment)) continue;
      if (largest === null || segment.maxTimestamp > (largest.maxTimestamp ?? 0n)) {
        largest = segment;
      }
    }
    return largest;
  }

  async #largestIn(segment: Segment): Promise<TimestampOffset | null> {
    const candidates: Candidate[] = [];
    for (let entry = 0; entry < segment.index.count; entry++) {
      const bound = segment.index.maxTimestampOf(entry);
      candidates.push({ segment, entry, bound, exact: null });
    }
    while (candidates.length > 0) {
      const top = candidates.reduce((a, b) => (b.bound > a.bound ? b : a));
      if (top.exact !== null) return top.exact;
      const exact = await this.#largestInBlock(top);
      if (exact === null) candidates.splice(candidates.indexOf(top), 1);
      else Object.assign(top, { exact, bound: exact.timestamp });
    }
    return null;
  }

  async #largestInBlock({ segment, entry }: Candidate): Promise<TimestampOffset | null> {
    let best: TimestampOffset | null = null;
    for (const batch of await this.#batches(segment, entry, null)) {
      if (best !== null && batch.header.maxTimestamp <= best.timestamp) continue;
      for (const record of await this.#records(segment, batch)) {
        if (best === null || record.timestamp > best.timestamp) best = record;
      }
    }
    return best;
  }

  #visibleSegments(): Segment[] {
    const { segments, visibleEnd } = this.#state;
    return segments.filter((segment) => segment.baseOffset < visibleEnd);
  }

  /** Visible batches of a block whose largest timestamp is not below `timestamp`. */
  async #batches(segment: Segment, entry: number, timestamp: bigint | null): Promise<FoundBatch[]> {
    const { logStart, visibleEnd } = this.#state;
    const block = segment.index.block(entry, segment.size);
    const found: FoundBatch[] = [];
    const result = await this.#files.use(segment.path, (file) =>
      scanSegment(file, {
        start: block.start,
        end: block.end,
        tail: { end: segment.baseOffset, lastEpoch: -1 },
        checkFrom: null,
        visit: (header, position) => {
          if (nextOffset(header) > visibleEnd) return false;
          const late = timestamp === null || header.maxTimestamp >= timestamp;
          if (late && lastOffset(header) >= logStart) found.push({ header, position });
          return true;
        },
      }),
    );
    if (result.problem !== null) {
      throw new StorageError('CORRUPT', `${segment.path}: ${result.problem}`);
    }
    return found;
  }

  async #firstRecord(
    segment: Segment,
    batch: FoundBatch,
    timestamp: bigint,
  ): Promise<TimestampOffset | null> {
    for (const record of await this.#records(segment, batch)) {
      if (record.timestamp >= timestamp) return record;
    }
    return null;
  }

  /** Offsets and timestamps of a batch's records that readers may ask for. */
  async #records(segment: Segment, batch: FoundBatch): Promise<TimestampOffset[]> {
    const { header, position } = batch;
    const bytes = Buffer.allocUnsafe(header.sizeInBytes);
    const filled = await this.#files.use(segment.path, (file) => file.read(bytes, position));
    if (filled < bytes.length) {
      throw new StorageError('CORRUPT', `${segment.path}: the file ends inside a batch`);
    }
    const leaderEpoch = header.partitionLeaderEpoch;
    const found: TimestampOffset[] = [];
    for (const { offset, timestamp } of await openRecords(bytes)) {
      if (offset < this.#state.logStart) continue;
      found.push({ offset, timestamp, leaderEpoch });
    }
    return found;
  }
}
