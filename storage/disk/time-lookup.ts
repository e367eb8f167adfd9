// Offsets by time: the first record at or after a timestamp, and the one with the largest.
//
// Owns: the narrowing from segment to index entry to batch to record. As a rule only the batch
// that holds the answer is decompressed. Invariant: exact within what readers may see (log start to
// visible end), as a broker answers, control records included; never a guess from batch headers
// alone, nor from bytes that a read would refuse.

import { type BatchHeader, lastOffset, nextOffset } from '../../protocol/record-batch.ts';
import { openRecords } from '../../protocol/records.ts';
import { StorageError } from '../errors.ts';
import type { TimestampOffset } from '../mirror-log.ts';
import type { FileTable } from './file-table.ts';
import type { LogDamages } from './log-damage.ts';
import type { LogReader } from './log-reader.ts';
import type { LogState } from './log-state.ts';
import { larger } from './offsets.ts';
import type { Segment } from './segment.ts';
import { placeAtOrBelow, relativeBelowTime } from './segment-index.ts';
import type { SegmentIndexes } from './segment-indexes.ts';
import { scanSegment } from './segment-scan.ts';

/** A look-up reads a few batches, seldom many. */
const stepBytes = 64 << 10;

interface FoundBatch {
  readonly header: BatchHeader;
  readonly position: number;
}

export interface TimeLookupOptions {
  readonly state: LogState;
  readonly files: FileTable;
  readonly indexes: SegmentIndexes;
  readonly damages: LogDamages;
  readonly reader: LogReader;
  /** Checks the CRC of every batch that is passed. */
  readonly verifyReads: boolean;
}

export class TimeLookup {
  readonly #options: TimeLookupOptions;
  readonly #state: LogState;
  readonly #indexes: SegmentIndexes;

  constructor(options: TimeLookupOptions) {
    this.#options = options;
    this.#state = options.state;
    this.#indexes = options.indexes;
  }

  offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null> {
    return this.#state.undisturbed(() => this.#firstAtOrAfter(timestamp));
  }

  offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    return this.#state.undisturbed(() => this.#largest());
  }

  async #firstAtOrAfter(timestamp: bigint): Promise<TimestampOffset | null> {
    for (const segment of this.#visibleSegments()) {
      if (segment.maxTimestamp === null || segment.maxTimestamp < timestamp) continue;
      let position = await this.#positionForTime(segment, timestamp);
      for (;;) {
        const isLate = ({ maxTimestamp }: BatchHeader): boolean => maxTimestamp >= timestamp;
        const batch = await this.#findBatch(segment, position, isLate);
        if (batch === null) break;
        const records = await this.#records(batch);
        const found = records.find((record) => record.timestamp >= timestamp);
        if (found !== undefined) return found;
        position = batch.position + batch.header.sizeInBytes;
      }
    }
    return null;
  }

  /** A position before which every timestamp of the segment is below the asked one. */
  async #positionForTime(segment: Segment, timestamp: bigint): Promise<number> {
    const below = relativeBelowTime(await this.#indexes.times(segment), timestamp);
    if (below < 0) return 0;
    return placeAtOrBelow(await this.#indexes.offsets(segment), below)?.position ?? 0;
  }

  /**
   * Segments in the order of their upper bounds: the largest timestamp that was found in one ends
   * the search among those that cannot hold a larger one. Nearly always one batch is read.
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
      const isLarger = best === null || found.timestamp > best.timestamp;
      if (isLarger || (found.timestamp === best?.timestamp && found.offset < best.offset)) {
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

  /** The batch that the segment names first; if its records do not bear it out, all of them. */
  async #largestIn(segment: Segment): Promise<TimestampOffset | null> {
    const { largest, baseOffset } = segment;
    if (largest === null) return null;
    const offsets = await this.#indexes.offsets(segment);
    const place = placeAtOrBelow(offsets, Number(largest.lastOffset - baseOffset));
    const named = await this.#findBatch(segment, place?.position ?? 0, (header) => {
      return lastOffset(header) >= largest.lastOffset;
    });
    if (named !== null && lastOffset(named.header) === largest.lastOffset) {
      const found = latestOf(await this.#records(named));
      if (found?.timestamp === largest.timestamp) return found;
    }
    return this.#largestByWalk(segment);
  }

  /** For segments of which readers see a part, and batches whose headers promise too much. */
  async #largestByWalk(segment: Segment): Promise<TimestampOffset | null> {
    let best: TimestampOffset | null = null;
    let position = 0;
    for (;;) {
      const known: bigint | null = best === null ? null : best.timestamp;
      const batch = await this.#findBatch(segment, position, ({ maxTimestamp }) => {
        return known === null || maxTimestamp > known;
      });
      if (batch === null) return best;
      const found = latestOf(await this.#records(batch));
      if (found !== null && (known === null || found.timestamp > known)) best = found;
      position = batch.position + batch.header.sizeInBytes;
    }
  }

  #visibleSegments(): Segment[] {
    const { segments, visibleEnd } = this.#state;
    return segments.filter((segment) => segment.baseOffset < visibleEnd);
  }

  /** The first visible batch from a position on that is wanted. */
  async #findBatch(
    segment: Segment,
    start: number,
    isWanted: (header: BatchHeader) => boolean,
  ): Promise<FoundBatch | null> {
    const { files, damages, verifyReads } = this.#options;
    const { logStart, visibleEnd, generation } = this.#state;
    const from = Math.max(start, await this.#positionOfStart(segment, logStart));
    const found: FoundBatch[] = [];
    const result = await files.use(segment.path, (file) =>
      scanSegment(file, {
        start: from,
        end: segment.size,
        tail: { end: segment.baseOffset, lastEpoch: -1 },
        offsetMax: segment.endOffset - 1n,
        // A timestamp that flipped would hide a batch from the search.
        checkFrom: verifyReads ? from : null,
        stepBytes,
        visit: (header, position) => {
          if (nextOffset(header) > visibleEnd) return false;
          if (lastOffset(header) < logStart || !isWanted(header)) return true;
          found.push({ header, position });
          return false;
        },
      }),
    );
    const { problem, position } = result;
    if (problem !== null) {
      const detail = `${segment.path} at byte ${position}: ${problem}`;
      if (generation === this.#state.generation) await damages.note(segment, position, detail);
      throw new StorageError('CORRUPT', detail);
    }
    return found[0] ?? null;
  }

  /** Nobody asks for what lies before it, whatever became of it. */
  async #positionOfStart(segment: Segment, logStart: bigint): Promise<number> {
    if (logStart <= segment.baseOffset) return 0;
    const offsets = await this.#indexes.offsets(segment);
    return placeAtOrBelow(offsets, Number(logStart - segment.baseOffset))?.position ?? 0;
  }

  /** Offsets and timestamps of a batch's records that readers may ask for. */
  async #records({ header }: FoundBatch): Promise<TimestampOffset[]> {
    const { logStart } = this.#state;
    // As anybody reads it: with its offset and epoch held against what lies around it.
    const from = larger(header.baseOffset, logStart);
    const options = { bytesMax: header.sizeInBytes, atLeastOneBatch: true };
    const { chunks } = await this.#options.reader.read(from, options);
    const [bytes] = chunks;
    if (bytes === undefined) throw new StorageError('CORRUPT', `offset ${from} cannot be read`);
    const leaderEpoch = header.partitionLeaderEpoch;
    const found: TimestampOffset[] = [];
    for (const { offset, timestamp } of await openRecords(bytes)) {
      if (offset < logStart) continue;
      found.push({ offset, timestamp, leaderEpoch });
    }
    return found;
  }
}

/** The record with the largest timestamp; the first one among equals. */
function latestOf(records: readonly TimestampOffset[]): TimestampOffset | null {
  let best: TimestampOffset | null = null;
  for (const record of records) {
    if (best === null || record.timestamp > best.timestamp) best = record;
  }
  return best;
}
