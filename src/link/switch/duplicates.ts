// Records that groups will be given again after a switch: per group and partition the offsets
// from where it goes on up to what the source is known to have of it (expected), and up to the
// end of the copy (possible: what it may have read at the source since that was seen). Pure.
// Refuses to know how offsets are read or written. Invariant: what is not known is -1, never 0;
// offsets are counted, so that it is never too few: gaps of compaction and markers of
// transactions are among them.
import type { ReceiptDuplicateGroup, ReceiptDuplicates } from '../../state/records.ts';
import type { GroupPosition } from '../service.ts';

/** The others are left as they are at the destination, whatever the source has. */
const followed: ReadonlySet<string | null> = new Set([null, 'clamped']);

export interface SwitchedEnd {
  /** S. */
  readonly virtualEnd: bigint;
  /** End of what came from the source. */
  readonly mirroredEnd: bigint;
}

/** Null: it is given nothing again that it could have read at the source. */
function duplicatesOf(
  { group, partition, sourceOffset, destinationOffset, held }: GroupPosition,
  end: SwitchedEnd,
): ReceiptDuplicateGroup | null {
  const { virtualEnd, mirroredEnd } = end;
  const clamped = sourceOffset < virtualEnd ? sourceOffset : virtualEnd;
  const position = followed.has(held) ? clamped : destinationOffset;
  if (position < 0n) return { group, partition, position: -1n, expected: -1n, possible: -1n };
  const read = sourceOffset < mirroredEnd ? sourceOffset : mirroredEnd;
  const expected = read > position ? read - position : 0n;
  const possible = mirroredEnd > position ? mirroredEnd - position : 0n;
  return possible === 0n ? null : { group, partition, position, expected, possible };
}

/** Those that nothing is known of first, then those with the most. */
function byWeight(left: ReceiptDuplicateGroup, right: ReceiptDuplicateGroup): number {
  const isUnknown = Number(right.position < 0n) - Number(left.position < 0n);
  if (isUnknown !== 0) return isUnknown;
  const expected = right.expected - left.expected;
  const difference = expected === 0n ? right.possible - left.possible : expected;
  if (difference === 0n) return left.group < right.group ? -1 : 1;
  return difference < 0n ? -1 : 1;
}

/** Of one topic. `readTimeMs` is -1 when the source's groups were never read, or are not synced. */
export function expectedDuplicates(
  positions: readonly GroupPosition[],
  ends: ReadonlyMap<number, SwitchedEnd>,
  options: { readonly readTimeMs: number; readonly listedMax: number },
): ReceiptDuplicates {
  const { readTimeMs, listedMax } = options;
  if (readTimeMs < 0) {
    return { expected: -1n, possible: -1n, readTimeMs, groups: [], groupsCount: 0 };
  }
  const groups = positions
    .flatMap((position) => {
      const end = ends.get(position.partition);
      return (end === undefined ? null : duplicatesOf(position, end)) ?? [];
    })
    .sort(byWeight);
  const sum = (field: 'expected' | 'possible') =>
    groups.reduce((total, one) => (one[field] < 0n ? total : total + one[field]), 0n);
  return {
    expected: sum('expected'),
    possible: sum('possible'),
    readTimeMs,
    groups: groups.slice(0, listedMax),
    groupsCount: groups.length,
  };
}
