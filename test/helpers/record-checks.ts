// What a stream of consumed records has to satisfy, whoever consumed it.
//
// Owns: order, uniqueness and completeness for each partition. Knows nothing of clients.
// Invariant: a check that finds fault names partition, offset and neighbour.

import assert from 'node:assert/strict';
import type { ConsumedRecord } from './foreign-clients.ts';

export function byPartition(records: readonly ConsumedRecord[]): Map<string, ConsumedRecord[]> {
  const groups = new Map<string, ConsumedRecord[]>();
  for (const record of records) {
    const name = `${record.topic}-${record.partition}`;
    const group = groups.get(name);
    if (group) group.push(record);
    else groups.set(name, [record]);
  }
  return groups;
}

/** Each record once and in order: offsets rise strictly within each partition. */
export function assertEachOnceInOrder(records: readonly ConsumedRecord[]): void {
  for (const [name, group] of byPartition(records)) {
    group.reduce((previous, record) => {
      const isAfter = record.offset > previous.offset;
      assert.ok(isAfter, `${name}: offset ${record.offset} came after ${previous.offset}`);
      return record;
    });
  }
}

/**
 * The values consumed, sorted, are exactly those expected: none lost, none twice, none invented.
 */
export function assertSameValues(
  records: readonly ConsumedRecord[],
  expected: Iterable<string>,
): void {
  const consumed = records.map((record) => record.value ?? '').sort();
  assert.deepEqual(consumed, [...expected].sort());
}
