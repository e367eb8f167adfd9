// The decision per committed offset: the cases of design §8 by name, and its bounds for everything
// else.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Comparison, decide } from '../../../src/tasks/group-diff.ts';

const renewalMs = 1_000;

function compare(parts: {
  source: bigint;
  end?: bigint;
  actual?: bigint | null;
  synced?: bigint | null;
  ageMs?: number;
  metadata?: string;
  mayHaveExpired?: boolean;
  isDeleted?: boolean;
}) {
  const { source, end = 1000n, actual = null, synced = null, ageMs = 0, metadata = 'm' } = parts;
  const { mayHaveExpired = false, isDeleted = false } = parts;
  const comparison: Comparison = {
    source: { offset: source, metadata },
    mirrorEnd: end,
    actual: actual === null ? null : { offset: actual, metadata: 'm' },
    synced: synced === null ? null : { offset: synced, atMs: 0, isDeleted },
    nowMs: ageMs,
    renewalMs,
    mayHaveExpired,
  };
  const decision = decide(comparison);
  return decision.kind === 'commit'
    ? `${decision.why} ${decision.position.offset} ${decision.position.metadata}`
    : decision.kind;
}

describe('a committed offset', () => {
  const cases: readonly [string, Parameters<typeof compare>[0], string][] = [
    ['is made where there is none', { source: 5n }, 'new 5 m'],
    ['is made again when it expired', { source: 5n, synced: 5n, mayHaveExpired: true }, 'new 5 m'],
    ['stays deleted when somebody deleted it', { source: 5n, synced: 5n }, 'deleted'],
    [
      'stays deleted for ever',
      { source: 5n, synced: 5n, mayHaveExpired: true, isDeleted: true },
      'deleted',
    ],
    [
      'is made again when the source commits anew',
      { source: 6n, synced: 5n, isDeleted: true },
      'new 6 m',
    ],
    ['follows', { source: 9n, actual: 5n, synced: 5n }, 'follow 9 m'],
    ['follows a reset at the source', { source: 2n, actual: 5n, synced: 5n }, 'follow 2 m'],
    ['is bounded by the mirror', { source: 9n, end: 7n, actual: 5n, synced: 5n }, 'follow 7 m'],
    ['goes on when the mirror has', { source: 9n, end: 8n, actual: 7n, synced: 7n }, 'follow 8 m'],
    ['is in step', { source: 5n, actual: 5n, synced: 5n }, 'in-step'],
    ['is renewed in time', { source: 5n, actual: 5n, synced: 5n, ageMs: 1_000 }, 'renew 5 m'],
    ['is renewed when nobody knows its age', { source: 5n, actual: 5n }, 'renew 5 m'],
    [
      'takes new metadata of the same offset',
      { source: 5n, actual: 5n, synced: 5n, metadata: 'n' },
      'follow 5 n',
    ],
    ['is not rewound when it moved on', { source: 6n, actual: 8n, synced: 5n }, 'moved'],
    ['is not advanced when it was set back', { source: 6n, actual: 2n, synced: 5n }, 'moved'],
    ['is passed by its source again', { source: 9n, actual: 8n, synced: 5n }, 'follow 9 m'],
    ['is not rewound after a restart', { source: 6n, actual: 8n }, 'moved'],
    ['is advanced after a restart', { source: 8n, actual: 6n }, 'follow 8 m'],
    [
      'is lowered when it lies above the end',
      { source: 9n, end: 4n, actual: 8n, synced: 8n },
      'above-end 4 m',
    ],
    ['is lowered also when unknown', { source: 3n, end: 4n, actual: 8n }, 'above-end 3 m'],
  ];
  for (const [name, parts, expected] of cases) {
    test(name, () => assert.equal(compare(parts), expected));
  }
});

test('R5: whatever happens, nothing above the end or the source is written', () => {
  const offset = fc.bigInt(0n, 20n);
  const optional = fc.option(offset, { nil: null });
  fc.assert(
    fc.property(
      offset,
      offset,
      optional,
      optional,
      fc.nat(2_000),
      (source, end, actual, synced, ageMs) => {
        const text = compare({ source, end, actual, synced, ageMs });
        const written = /^\S+ (\d+) /.exec(text)?.[1];
        if (written === undefined) return;
        assert.ok(BigInt(written) <= end, text);
        assert.ok(BigInt(written) <= source, text);
      },
    ),
  );
});

test('a decision is reached: what was written is in step at the next look', () => {
  const offset = fc.bigInt(0n, 20n);
  const optional = fc.option(offset, { nil: null });
  fc.assert(
    fc.property(offset, offset, optional, optional, (source, end, actual, synced) => {
      const written = /^\S+ (\d+) /.exec(compare({ source, end, actual, synced }))?.[1];
      if (written === undefined) return;
      const now = BigInt(written);
      assert.equal(compare({ source, end, actual: now, synced: now }), 'in-step');
    }),
  );
});
