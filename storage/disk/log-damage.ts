// Ranges of a log whose bytes are not what was written, and their repair.
//
// Owns: which ranges are known to be damaged, what may replace one, and the write. It refuses to
// know where the replacement comes from. Invariants: a range lies between two indexed batches (or
// ends of a segment), so that its length and the offsets around it are known without its bytes; it
// is replaced only by batches of exactly that length that pass every check of an append, fit
// between their neighbours and repeat, byte for byte, whatever is still sound.

import { ProtocolError } from '../../protocol/errors.ts';
import {
  type BatchHeader,
  batchHeaderBytes,
  lastOffset,
  nextOffset,
  readBatchHeader,
  verifyBatchCrc,
} from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';
import { type BatchMeta, checkBatches } from './batch-check.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { LogDurability } from './log-durability.ts';
import type { DamagedRange, LogState } from './log-state.ts';
import type { OnReport } from './reports.ts';
import type { Segment } from './segment.ts';
import { placeAbovePosition, placeAtPosition } from './segment-index.ts';
import type { SegmentIndexes } from './segment-indexes.ts';

/** Of more than these the oldest are forgotten: the next read that meets one finds it again. */
export const damageMax = 1_000;

/** Base offset, length, leader epoch and magic of a batch are not in its CRC. */
const uncheckedBytes = 17;

export interface LogDamagesOptions {
  readonly state: LogState;
  readonly files: FileTable;
  readonly indexes: SegmentIndexes;
  readonly onReport: OnReport;
  /** Called when a range is added. */
  readonly onDamage: () => void;
}

export class LogDamages {
  readonly #options: LogDamagesOptions;

  constructor(options: LogDamagesOptions) {
    this.#options = options;
  }

  /** Takes note that what is at `position` is not what was written there. */
  async note(segment: Segment, position: number, reason: string): Promise<void> {
    const { state, indexes, onReport, onDamage } = this.#options;
    const offsets = await indexes.offsets(segment);
    const first = placeAtPosition(offsets, position);
    const next = placeAbovePosition(offsets, position);
    const start = first?.position ?? 0;
    const end = next?.position ?? segment.size;
    const { baseOffset, endOffset } = segment;
    const from = baseOffset + BigInt(first?.relative ?? 0);
    if (state.damage.has(from)) return;
    for (const oldest of state.damage.keys()) {
      if (state.damage.size < damageMax) break;
      state.damage.delete(oldest);
    }
    const to = next === null ? endOffset : baseOffset + BigInt(next.relative);
    const bytes = end - start;
    const range = {
      from,
      to,
      bytes,
      reason,
      segment,
      start,
      end,
      first,
      endsSegment: next === null,
    };
    state.damage.set(from, range);
    onReport({ kind: 'damage-found', id: state.id, from, to, reason });
    onDamage();
  }

  /** Only where no cut or append can overlap. See `MirrorLog.repair`. */
  async repair(from: bigint, records: Buffer, durability: LogDurability): Promise<void> {
    const { state, files, onReport } = this.#options;
    durability.assertWritable();
    const range = state.damage.get(from);
    if (range === undefined || !state.segments.includes(range.segment)) {
      throw refused(`no damage is known at offset ${from}`);
    }
    const { segment, start, to } = range;
    const held = Buffer.alloc(range.bytes + batchHeaderBytes);
    const filled = await files.use(segment.path, (file) => file.read(held, start));
    this.#check(range, records, held.subarray(0, Math.min(filled, segment.size - start)));
    try {
      await durability.exclusive(() =>
        files.use(segment.path, async (file) => {
          await file.write(records, start);
          await file.sync();
        }),
      );
    } catch (error) {
      throw storageError(error);
    }
    state.damage.delete(from);
    onReport({ kind: 'damage-repaired', id: state.id, from, to });
  }

  #check(range: DamagedRange, records: Buffer, held: Buffer): void {
    if (records.length !== range.bytes) {
      throw refused(`${records.length} bytes where ${range.bytes} were written`);
    }
    const { segment, first } = range;
    const batches = checkBatches(records, { end: segment.baseOffset, lastEpoch: -1 });
    const [head] = batches;
    const last = batches.at(-1);
    if (head === undefined || last === undefined) throw refused('no batches');
    if (first !== null && lastOffset(head.header) !== segment.baseOffset + BigInt(first.relative)) {
      throw refused(`the first batch ends at offset ${lastOffset(head.header)}`);
    }
    const end = nextOffset(last.header);
    const limit = followerBase(range, held);
    if (limit === null && end !== range.to) {
      throw refused(`it ends at offset ${end}, not ${range.to}`);
    }
    if (limit !== null && end > limit) {
      throw refused(`it ends at offset ${end}, beyond ${limit}, where the next batch begins`);
    }
    for (const batch of batches) assertRepeats(batch, records, held);
  }
}

/**
 * Where the batch behind a range begins; null when there was none. That one may be damaged too:
 * then only the last offset that the index has of it is known.
 */
function followerBase({ end, to, bytes, endsSegment }: DamagedRange, held: Buffer): bigint | null {
  if (endsSegment) return null;
  if (held.length < bytes + batchHeaderBytes) {
    throw new StorageError('CORRUPT', `the segment ends before byte ${end}`);
  }
  let header: BatchHeader;
  try {
    header = readBatchHeader(held, bytes);
  } catch (error) {
    if (error instanceof ProtocolError) return to;
    throw error;
  }
  return lastOffset(header) === to ? header.baseOffset : to;
}

/** What is still sound on disk must come back as it is. */
function assertRepeats({ header, position }: BatchMeta, records: Buffer, held: Buffer): void {
  const { sizeInBytes, baseOffset } = header;
  const end = position + sizeInBytes;
  if (held.length < end || !verifyBatchCrc(held, position, sizeInBytes)) return;
  const from = position + uncheckedBytes;
  if (records.subarray(from, end).equals(held.subarray(from, end))) return;
  throw refused(`the batch at offset ${baseOffset} is another one than ours, which is sound`);
}

function refused(detail: string): StorageError {
  return new StorageError('CORRUPT_BATCH', `not a repair: ${detail}`);
}
