// The count of lost records, over what the state says from one look to the next.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LostRecords } from '../../../src/observe/lost-records.ts';
import type { ReceiptRecord, ReceiptTopic } from '../../../src/state/records.ts';

function mirror(records: bigint) {
  const lostTotals = records === 0n ? [] : [{ partition: 0, ranges: 1, records }];
  return { link: 'dr', name: 'orders', lostTotals, lostRanges: [] };
}

function receipt(lostRecords: bigint, found: bigint | null = null): ReceiptRecord {
  const partition = {
    ...{ partition: 0, virtualEnd: 5n, nativeEnd: 0n, firstEpoch: 1, sourceEnd: 5n },
    ...{ mirroredEnd: 5n, lostRecords, lostBytes: 0n, lostSeconds: 0, lastContactTimeMs: 1 },
    ...{ abortedTransactions: 0 },
    found: found === null ? null : { sourceEnd: 5n, lostRecords: found },
  };
  const line: ReceiptTopic = {
    ...{ topic: 'orders', link: 'dr', partitions: [partition], groups: [], groupsCount: 0 },
    duplicates: { expected: 0n, possible: 0n, readTimeMs: 1, groups: [], groupsCount: 0 },
    ...{ historyCopies: 1, completedTimeMs: -1 },
  };
  return { kind: 'receipt', id: 'r', command: 'failover', actor: 'x', timeMs: 1, topics: [line] };
}

function total(lost: LostRecords, ...args: Parameters<LostRecords['count']>): bigint | undefined {
  return lost.count(...args).find(({ link, topic }) => link === 'dr' && topic === 'orders')
    ?.records;
}

test('a first loss was not seen as an increase, since nothing was counted before it', () => {
  const lost = new LostRecords();
  assert.equal(total(lost, [mirror(0n)], []), 0n);
  assert.equal(total(lost, [mirror(7n)], []), 7n);
});

test('the count fell when a source came back with less than it had', () => {
  const lost = new LostRecords();
  assert.equal(total(lost, [mirror(0n)], [receipt(10n)]), 10n);
  assert.equal(total(lost, [mirror(0n)], [receipt(10n, 3n)]), 10n);
  assert.equal(total(lost, [mirror(0n)], [receipt(10n, 12n)]), 12n);
  assert.equal(total(new LostRecords(), [], [receipt(10n, 3n)]), 10n, 'after a restart too');
  assert.equal(total(new LostRecords(), [], [receipt(-1n)]), 0n, 'what is unknown');
});

test('the count fell when a mirror was made anew, or its topic left the state', () => {
  const lost = new LostRecords();
  assert.equal(total(lost, [mirror(7n)], [receipt(10n)]), 17n);
  assert.equal(total(lost, [], [receipt(10n)]), 17n);
  assert.equal(total(lost, [mirror(0n)], [receipt(10n)]), 17n);
  assert.equal(total(lost, [mirror(4n)], [receipt(10n)]), 21n);
  assert.equal(total(lost, [], []), undefined, 'what is gone disappears');
  assert.equal(total(lost, [mirror(2n)], []), 2n);
});

test('history that a mirror was FAILED for was counted once more when it was failed over', () => {
  const lost = new LostRecords();
  const failed = {
    ...mirror(40n),
    lostRanges: [{ partition: 0, from: 10n, to: 50n, timeMs: 1 }],
  };
  assert.equal(total(lost, [failed], []), 40n);
  const over = receipt(90n);
  const [line] = over.topics;
  const [partition] = line?.partitions ?? [];
  assert.ok(line !== undefined && partition !== undefined);
  const overAt = (sourceEnd: bigint, lostRecords: bigint) => {
    const ends = { mirroredEnd: 10n, sourceEnd, lostRecords };
    return { ...over, topics: [{ ...line, partitions: [{ ...partition, ...ends }] }] };
  };
  assert.equal(total(new LostRecords(), [failed], [overAt(30n, 20n)]), 40n, 'it began above 30');
  assert.equal(total(lost, [failed], [overAt(100n, 90n)]), 90n);
});
