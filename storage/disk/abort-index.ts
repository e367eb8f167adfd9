// The index of aborted transactions of one segment, in Kafka's format.
//
// Owns: its entries and the search in them. It never reads a file. Invariant: entries are in the
// order of their markers, all of which lie in the segment.
//
//   BASE.txnindex  entries of  0 version int16 (0)    2 producer id int64    10 first offset int64
//                             18 offset of the marker int64    26 last stable offset int64

import type { AbortedTransaction } from '../mirror-log.ts';
import type { IndexedAbort } from './transactions.ts';

const entryBytes = 34;

export function encodeAborts(aborts: readonly IndexedAbort[]): Buffer {
  const buffer = Buffer.alloc(aborts.length * entryBytes);
  for (const [index, abort] of aborts.entries()) {
    const at = index * entryBytes;
    buffer.writeBigInt64BE(abort.producerId, at + 2);
    buffer.writeBigInt64BE(abort.firstOffset, at + 10);
    buffer.writeBigInt64BE(abort.lastOffset, at + 18);
    buffer.writeBigInt64BE(abort.stableAfter, at + 26);
  }
  return buffer;
}

export function decodeAborts(buffer: Buffer): IndexedAbort[] {
  return Array.from({ length: Math.floor(buffer.length / entryBytes) }, (_, index) => {
    const at = index * entryBytes;
    return {
      producerId: buffer.readBigInt64BE(at + 2),
      firstOffset: buffer.readBigInt64BE(at + 10),
      lastOffset: buffer.readBigInt64BE(at + 18),
      stableAfter: buffer.readBigInt64BE(at + 26),
    };
  });
}

export interface AbortQuery {
  readonly from: bigint;
  readonly to: bigint;
  /** Markers at or above are not told. */
  readonly visibleEnd: bigint;
}

/**
 * Adds what overlaps [from, to) to `found`. True when no later entry can: in this segment or the
 * next ones.
 */
export function collectAborts(
  aborts: readonly IndexedAbort[],
  { from, to, visibleEnd }: AbortQuery,
  found: AbortedTransaction[],
): boolean {
  let low = 0;
  let high = aborts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((aborts[middle]?.lastOffset ?? 0n) < from) low = middle + 1;
    else high = middle;
  }
  for (const abort of aborts.slice(low)) {
    const { producerId, firstOffset, lastOffset, stableAfter } = abort;
    if (lastOffset >= visibleEnd) return true;
    if (firstOffset < to) found.push({ producerId, firstOffset, lastOffset });
    if (stableAfter >= to) return true;
  }
  return false;
}
