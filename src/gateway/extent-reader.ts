// The one reader of mirror extents, for the link node and for the copied part of promoted
// partitions. Owns what a copy answers to a fetch: batches up to the extent's end, watermarks,
// aborted transactions. Refuses to know requests and sessions. Invariant (R19): bytes that should
// be there and cannot be read are KAFKA_STORAGE_ERROR, never an absence; OFFSET_OUT_OF_RANGE is
// said only when the copy vouches for it.
import { ErrorCode } from '../../protocol/index.ts';
import { StorageError } from '../../storage/errors.ts';
import type { MirrorLog, ReadInto, ReadResult } from '../../storage/mirror-log.ts';
import type { MirrorExtent } from '../timeline/timeline.ts';
import type { GatewayServices } from './handler.ts';
import { readMemoryPerByteMax } from './limits.ts';

export interface ExtentRead {
  readonly log: MirrorLog;
  readonly extent: MirrorExtent;
  /** In a closed extent: below its end. */
  readonly offset: bigint;
  readonly readCommitted: boolean;
  /** Soft: one whole batch always passes. Zero or less: no records, the rest of the answer only. */
  readonly bytesMax: number;
  /** What the records of the answer lie in; fresh memory by default. */
  readonly memory?: ReadInto;
}

export interface ExtentAnswer {
  readonly errorCode: number;
  readonly highWatermark: bigint;
  readonly lastStableOffset: bigint;
  readonly logStartOffset: bigint;
  readonly records: Buffer;
  /** Null for read_uncommitted. */
  readonly abortedTransactions: readonly { producerId: bigint; firstOffset: bigint }[] | null;
  /**
   * A closed extent has no batch at or after the offset (a gap at its end): the next extent goes
   * on.
   */
  readonly isExhausted: boolean;
}

const noRecords = Buffer.alloc(0);

export const unreadable: ExtentAnswer = failed(ErrorCode.KAFKA_STORAGE_ERROR);

function failed(errorCode: number, logStartOffset = -1n): ExtentAnswer {
  return {
    errorCode,
    highWatermark: -1n,
    lastStableOffset: -1n,
    logStartOffset,
    records: noRecords,
    abortedTransactions: null,
    isExhausted: false,
  };
}

export function outOfRange(logStartOffset: bigint): ExtentAnswer {
  return failed(ErrorCode.OFFSET_OUT_OF_RANGE, logStartOffset);
}

/** @throws StorageError; see `storageErrorCode` for what clients are told then */
export async function readExtent(read: ExtentRead): Promise<ExtentAnswer> {
  const { log, extent, offset } = read;
  if (offset < log.logStart || offset > (extent.end ?? log.end)) {
    return outOfRange(log.logStart);
  }
  const highWatermark = least(extent.end ?? log.visibleEnd, log.visibleEnd);
  if (extent.end !== null && offset >= highWatermark) {
    // The promotion is committed and its ABORT batches come to light in a moment; otherwise a
    // closed copy that is shorter than its extent misses bytes that were once vouched for.
    return log.heldFrom === null ? unreadable : failed(ErrorCode.NOT_LEADER_OR_FOLLOWER);
  }
  const lastStableOffset = least(log.lastStableOffset, highWatermark);
  const readEnd = read.readCommitted ? lastStableOffset : highWatermark;
  const frame = { errorCode: ErrorCode.NONE, highWatermark, lastStableOffset };
  const empty: ExtentAnswer = {
    ...frame,
    logStartOffset: log.logStart,
    records: noRecords,
    abortedTransactions: read.readCommitted ? [] : null,
    isExhausted: false,
  };
  if (offset >= readEnd || read.bytesMax <= 0) return empty;
  const found = await readBatches(log, read, readEnd);
  if (found === undefined) return outOfRange(log.logStart);
  if (found.bytes === 0) return { ...empty, isExhausted: readEnd === extent.end };
  return {
    ...empty,
    records: inOnePiece(found),
    abortedTransactions: read.readCommitted
      ? await log.abortedTransactions(offset, found.nextOffset)
      : null,
  };
}

/** Held for as long as the answer: with what was read along and is not wanted it is not. */
function inOnePiece({ chunks, bytes }: ReadResult): Buffer {
  const [first] = chunks;
  if (first === undefined || chunks.length > 1) return Buffer.concat(chunks, bytes);
  const isTight = first.buffer.byteLength <= bytes * readMemoryPerByteMax;
  return isTight ? first : Buffer.from(first);
}

/** Undefined when the log start has just moved past the offset. */
async function readBatches(log: MirrorLog, read: ExtentRead, endOffset: bigint) {
  const { offset, bytesMax, memory } = read;
  const options = { bytesMax, atLeastOneBatch: true, endOffset };
  try {
    return await log.read(offset, memory === undefined ? options : { ...options, memory });
  } catch (error) {
    const isGone = error instanceof StorageError && error.code === 'OFFSET_OUT_OF_RANGE';
    if (isGone && offset < log.logStart) return undefined;
    throw error;
  }
}

const reportedLogs = new WeakSet<MirrorLog>();

/**
 * What clients are told when a log fails: KAFKA_STORAGE_ERROR, which they retry, and one event for
 * each log. Anything but a StorageError is a fault of ours and goes on up.
 */
export function storageErrorCode(
  services: GatewayServices,
  place: { readonly topic: string; readonly partition: number; readonly log: MirrorLog },
  error: unknown,
): number {
  if (!(error instanceof StorageError)) throw error;
  const { topic, partition, log } = place;
  if (!reportedLogs.has(log)) {
    reportedLogs.add(log);
    services.events.error(
      'mirror_log_unreadable',
      `Mirror log of ${topic}-${partition} cannot be read: ${error.message}`,
      { topic, partition, code: error.code },
    );
  }
  return ErrorCode.KAFKA_STORAGE_ERROR;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
