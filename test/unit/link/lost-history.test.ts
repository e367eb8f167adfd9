// What a record says of lost history: every offset once, in ranges as long as there is room, in
// sums that stay right beyond it. Compared with a set of all lost offsets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lostTotals, unrecordedLoss, withLosses } from '../../../src/link/mirror/lost-history.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';

type Losses = Pick<TopicRecord, 'lost' | 'lostBefore'>;

function ranges({ lost = [] }: Losses): string[] {
  return lost.map(({ partition, from, to }) => `${partition}: [${from}, ${to})`);
}

function recordsOf(losses: Losses): bigint {
  return lostTotals(losses).reduce((sum, { records }) => sum + records, 0n);
}

test('R10: of a topic of 200 partitions the lost ranges of half were dropped', () => {
  const losses = Array.from({ length: 200 }, (_, partition) => ({ partition, from: 2n, to: 5n }));
  let record: Losses = {};
  for (const loss of losses) record = withLosses(record, [loss], 1);
  assert.equal(record.lost?.length, 200);
  assert.equal(recordsOf(record), 600n);
  // Each loses again, and none drops out of the list.
  record = withLosses(
    record,
    losses.map(({ partition }) => ({ partition, from: 7n, to: 8n })),
    2,
  );
  assert.deepEqual(ranges(record)[0], '0: [7, 8)');
  assert.equal(record.lost?.length, 200);
  assert.equal(recordsOf(record), 800n);
  assert.deepEqual(lostTotals(record)[199], { partition: 199, ranges: 2, records: 4n });
});

test('R10: the sum of lost records fell when the list of ranges was cut off', () => {
  let record: Losses = {};
  for (let at = 0n; at < 1_000n; at++) {
    record = withLosses(record, [{ partition: 3, from: at * 10n, to: at * 10n + 4n }], Number(at));
    assert.equal(recordsOf(record), (at + 1n) * 4n);
  }
  assert.equal(record.lost?.length, 100);
  assert.deepEqual(lostTotals(record), [{ partition: 3, ranges: 1_000, records: 4_000n }]);
});

test('R10: a range that grew while it was dealt with was counted twice', () => {
  let record: Losses = {};
  record = withLosses(record, [{ partition: 0, from: 2n, to: 5n }], 1);
  record = withLosses(record, [{ partition: 0, from: 2n, to: 9n }], 2);
  assert.deepEqual(record.lost, [{ partition: 0, from: 2n, to: 9n, timeMs: 2 }]);
  // The copy goes on at the batch that holds offset 9, which begins at 8.
  record = withLosses(record, [{ partition: 0, from: 8n, to: 12n }], 3);
  assert.deepEqual(ranges(record), ['0: [2, 12)']);
  assert.equal(withLosses(record, [{ partition: 0, from: 8n, to: 12n }], 4), record);
  assert.equal(unrecordedLoss(record, { partition: 0, from: 8n, to: 12n }), null);
  assert.deepEqual(unrecordedLoss(record, { partition: 1, from: 8n, to: 12n }), {
    ...{ partition: 1, from: 8n, to: 12n },
  });
  assert.equal(recordsOf(record), 10n);
});

test('R10: the totals are those of every lost offset, whatever is found again', (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const offsets = new Set<string>();
  const ends = new Map<number, bigint>();
  let record: Losses = {};
  for (let turn = 0; turn < 2_000; turn++) {
    const partition = random.below(7);
    const end = ends.get(partition) ?? 0n;
    // Behind the last one, right at it, or begun within it.
    const step = BigInt(random.below(6) - 2);
    const from = end + step < 0n ? 0n : end + step;
    const to = from + BigInt(1 + random.below(5));
    record = withLosses(record, [{ partition, from, to }], turn);
    for (let at = from > end ? from : end; at < to; at++) offsets.add(`${partition}/${at}`);
    if (to > end) ends.set(partition, to);
    assert.equal(recordsOf(record), BigInt(offsets.size));
  }
  assert.equal(record.lost?.length, 100);
  for (const { partition, to } of record.lost ?? []) {
    assert.ok(to <= (ends.get(partition) ?? 0n));
    assert.ok(offsets.has(`${partition}/${to - 1n}`));
  }
});
