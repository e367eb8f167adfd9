// The checks of an append, made over the whole buffer before a byte is written.
//
// Owns: what makes bytes from a source acceptable (whole batches, magic 2, CRC-32C, offsets that
// ascend, epochs that do not fall). It refuses to know records and files. Invariant: either every
// batch of the buffer is described, or a StorageError is thrown and nothing has changed.

import {
  type BatchHeader,
  batchHeaderBytes,
  isControl,
  nextOffset,
  readBatchHeader,
  readControlType,
  verifyBatchCrc,
} from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';

export type ControlType = 'ABORT' | 'COMMIT' | 'OTHER';

/** One batch of a buffer. `control` is null for batches with data. */
export interface BatchMeta {
  readonly header: BatchHeader;
  readonly position: number;
  readonly control: ControlType | null;
}

export interface LogTail {
  readonly end: bigint;
  readonly lastEpoch: number;
}

const magicPosition = 16;

/**
 * The header at `position` if it can follow `tail` in a log, else a sentence that says why not.
 * Shared by append, recovery and reads, so that all three have one idea of a sound batch.
 */
export function followingHeader(
  buffer: Buffer,
  position: number,
  tail: LogTail,
): BatchHeader | string {
  let header: BatchHeader;
  try {
    header = readBatchHeader(buffer, position);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  if (header.baseOffset < tail.end) {
    return `base offset ${header.baseOffset} where ${tail.end} or more must follow`;
  }
  if (header.partitionLeaderEpoch < tail.lastEpoch) {
    return `leader epoch ${header.partitionLeaderEpoch} after ${tail.lastEpoch}`;
  }
  return header;
}

function corrupt(position: number, detail: string): StorageError {
  return new StorageError('CORRUPT_BATCH', `batch at byte ${position}: ${detail}`);
}

/** Why `followingHeader` said no, as the error that an append answers. */
function refusal(buffer: Buffer, position: number, tail: LogTail, detail: string): StorageError {
  const magic = buffer.readInt8(position + magicPosition);
  if (magic !== 2) {
    return new StorageError('UNSUPPORTED_MAGIC', `batch at byte ${position} has magic ${magic}`);
  }
  try {
    const header = readBatchHeader(buffer, position);
    if (header.baseOffset < tail.end) return new StorageError('OFFSET_OUT_OF_ORDER', detail);
    return new StorageError('EPOCH_WENT_BACK', detail);
  } catch (error) {
    return new StorageError('CORRUPT_BATCH', `batch at byte ${position}: ${detail}`, {
      cause: error,
    });
  }
}

export function controlTypeAt(
  buffer: Buffer,
  position: number,
  header: BatchHeader,
): ControlType | null {
  return isControl(header) ? readControlType(buffer, position, header) : null;
}

/** Describes the batches of an append, or throws. An empty buffer is an empty list. */
export function checkBatches(records: Buffer, log: LogTail): BatchMeta[] {
  const batches: BatchMeta[] = [];
  let tail = log;
  let position = 0;
  while (position < records.length) {
    const rest = records.length - position;
    if (rest <= magicPosition) throw corrupt(position, `only ${rest} bytes are left`);
    const header = followingHeader(records, position, tail);
    if (typeof header === 'string') throw refusal(records, position, tail, header);
    if (header.sizeInBytes > rest || rest < batchHeaderBytes) {
      throw corrupt(position, `${header.sizeInBytes} bytes long where ${rest} are left`);
    }
    if (!verifyBatchCrc(records, position, header.sizeInBytes)) {
      throw corrupt(position, `CRC-32C of offset ${header.baseOffset} does not match`);
    }
    let control: ControlType | null;
    try {
      control = controlTypeAt(records, position, header);
    } catch (error) {
      throw new StorageError('CORRUPT_BATCH', `control batch ${header.baseOffset} is unreadable`, {
        cause: error,
      });
    }
    batches.push({ header, position, control });
    tail = { end: nextOffset(header), lastEpoch: header.partitionLeaderEpoch };
    position += header.sizeInBytes;
  }
  return batches;
}
