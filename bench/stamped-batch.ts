// Batches that carry the time at which they were made, for measuring how long records take from one
// process to another on one machine. Owns where in a batch the time is; refuses to know who sends
// and who reads. Invariant: all batches are of one shape, so the time is read without opening a
// record, and what is in the batch is a record like any other.
import { batchHeaderBytes, buildBatch, crc32c } from '../protocol/index.ts';

export const recordBytes = 1024;
export const recordsPerBatch = 16;

const crcAt = 17;
const checkedFrom = 21;
const stampBytes = 8;

const template = buildBatch({
  baseOffset: 0n,
  records: Array.from({ length: recordsPerBatch }, () => ({
    key: null,
    value: Buffer.alloc(recordBytes, 'x'),
    timestamp: BigInt(Date.now()),
  })),
});
const stampAt = template.indexOf('x'.repeat(stampBytes), batchHeaderBytes);

/** Milliseconds on a clock that all processes of a machine share. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The first record's value begins with the time. */
export function stampedBatch(atMs: number): Buffer {
  const batch = Buffer.from(template);
  batch.writeDoubleBE(atMs, stampAt);
  batch.writeUInt32BE(crc32c(batch.subarray(checkedFrom)), crcAt);
  return batch;
}

/** `position`: where the batch begins. */
export function stampOf(records: Buffer, position: number): number {
  return records.readDoubleBE(position + stampAt);
}
