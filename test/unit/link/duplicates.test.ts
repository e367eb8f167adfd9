// What groups are given again after a switch, against a list of what they have read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GroupPosition } from '../../../src/link/service.ts';
import { expectedDuplicates } from '../../../src/link/switch/duplicates.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';

const options = { readTimeMs: 7, listedMax: 100 };

function position(parts: Partial<GroupPosition>): GroupPosition {
  return {
    ...{ group: 'app', topic: 't', partition: 0, held: null },
    ...{ sourceOffset: 0n, destinationOffset: 0n },
    ...parts,
  };
}

/** S = 102: two ABORT batches follow 100 offsets of the source. */
const ends = new Map([[0, { virtualEnd: 102n, mirroredEnd: 100n }]]);

function one(parts: Partial<GroupPosition>) {
  const { groups } = expectedDuplicates([position(parts)], ends, options);
  const [row] = groups;
  return row === undefined ? null : [row.position, row.expected, row.possible];
}

test('a group that is followed goes on where the source had it: again comes only what is not known', () => {
  assert.deepEqual(one({ sourceOffset: 90n, destinationOffset: 40n }), [90n, 0n, 10n]);
  assert.equal(one({ sourceOffset: 100n, destinationOffset: 40n }), null);
  assert.equal(one({ sourceOffset: 150n, destinationOffset: 60n, held: 'clamped' }), null);
});

test('a group that keeps its own offsets is given what it had read at the source', () => {
  assert.deepEqual(one({ sourceOffset: 90n, destinationOffset: 40n, held: 'live' }), [
    40n,
    50n,
    60n,
  ]);
  assert.deepEqual(one({ sourceOffset: 150n, destinationOffset: 40n, held: 'error' }), [
    40n,
    60n,
    60n,
  ]);
  assert.deepEqual(one({ sourceOffset: 10n, destinationOffset: 95n, held: 'moved' }), [
    95n,
    0n,
    5n,
  ]);
});

test('without a committed offset it is not known, and not in the sums', () => {
  const gone = position({ group: 'gone', destinationOffset: -1n, held: 'deleted' });
  const live = position({ sourceOffset: 90n, destinationOffset: 40n, held: 'live' });
  const found = expectedDuplicates([live, gone], ends, options);
  assert.deepEqual([found.expected, found.possible, found.groupsCount], [50n, 60n, 2]);
  assert.deepEqual(
    found.groups.map(({ group, position: at, expected }) => [group, at, expected]),
    [
      ['gone', -1n, -1n],
      ['app', 40n, 50n],
    ],
  );
});

test('where groups are not synchronised nothing is known', () => {
  const found = expectedDuplicates([position({})], ends, { ...options, readTimeMs: -1 });
  assert.deepEqual([found.expected, found.possible, found.groups], [-1n, -1n, []]);
});

test('a list that is cut off keeps its sums', () => {
  const many = Array.from({ length: 9 }, (_, index) =>
    position({ group: `g${index}`, sourceOffset: BigInt(90 + index), destinationOffset: 0n }),
  );
  const found = expectedDuplicates(many, ends, { ...options, listedMax: 2 });
  assert.deepEqual([found.possible, found.groupsCount], [54n, 9]);
  assert.deepEqual(
    found.groups.map(({ group }) => group),
    ['g0', 'g1'],
  );
});

test('it is never too few, whatever a group has read at the source', () => {
  const random = new SeededRandom();
  const heldBy = [null, 'clamped', 'live', 'moved', 'error'] as const;
  for (let round = 0; round < 2_000; round++) {
    const mirroredEnd = random.below(50);
    const aborts = random.below(3);
    const sourceOffset = random.below(60);
    const destinationOffset = random.below(mirroredEnd + 1);
    const held = random.pick(heldBy);
    const end = { virtualEnd: BigInt(mirroredEnd + aborts), mirroredEnd: BigInt(mirroredEnd) };
    const found = expectedDuplicates(
      [position({ ...offsets(sourceOffset, destinationOffset), held })],
      new Map([[0, end]]),
      options,
    );
    const begins =
      held === null || held === 'clamped'
        ? Math.min(sourceOffset, mirroredEnd + aborts)
        : destinationOffset;
    // By its commit, and by whatever it has read since.
    const again = (read: number) =>
      Array.from({ length: mirroredEnd }, (_, offset) => offset).filter(
        (offset) => offset >= begins && offset < read,
      ).length;
    const message = random.describe();
    assert.equal(Number(found.expected), again(sourceOffset), message);
    assert.ok(Number(found.possible) >= again(sourceOffset + random.below(60)), message);
  }
});

function offsets(sourceOffset: number, destinationOffset: number) {
  return { sourceOffset: BigInt(sourceOffset), destinationOffset: BigInt(destinationOffset) };
}
