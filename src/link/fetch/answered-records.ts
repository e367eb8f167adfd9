// What the batches of a Fetch answer say of themselves before anything is appended: where they
// lead, and whether they can be the source's at all. Pure; refuses to know logs.
import {
  nextOffset,
  ProtocolError,
  readBatchHeader,
  wholeBatches,
} from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { FetchPosition } from './partition-feed.ts';

/** Where fetching can go on once `records` are appended; null when no whole batch is in them. */
export function positionBehind(records: Buffer | null): FetchPosition | null {
  if (records === null || records.length === 0) return null;
  const { last } = wholeBatches(records);
  if (last < 0) return null;
  try {
    const header = readBatchHeader(records, last);
    return { offset: nextOffset(header), epoch: header.partitionLeaderEpoch };
  } catch (error) {
    // Another format, or a header that lies: it is said when it comes to appending.
    if (error instanceof ProtocolError) return null;
    throw error;
  }
}

/**
 * A broker gives readers nothing beyond its high watermark: what it sends there is not its log.
 * @throws StorageError OFFSET_OUT_OF_ORDER
 */
export function assertWithinSource(end: bigint, highWatermark: bigint): void {
  if (highWatermark < 0n || end <= highWatermark) return;
  throw new StorageError(
    'OFFSET_OUT_OF_ORDER',
    `offset ${end - 1n} is beyond the source's own end ${highWatermark}`,
  );
}
