// How two runs of a foreign suite are held side by side: what counts, and what must be shown.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { refusedFirst } from '../../compat/accepted.ts';
import { compare, type Outcome, report } from '../../compat/comparison.ts';

const run = { suite: 'some', variant: 'plain' as const };

function outcome(
  test: string,
  verdicts: Pick<Outcome, 'direct' | 'proxied'>,
  { seenBytes = 10, said = '' } = {},
): Outcome {
  return { test, ...verdicts, seenBytes, said };
}

describe('a comparison of a suite directly and through the proxy', () => {
  test('shows each difference, also a test that passes only through the proxy', () => {
    const outcomes = [
      outcome('worse', { direct: 'pass', proxied: 'fail' }),
      outcome('better', { direct: 'fail', proxied: 'pass' }),
      outcome('same', { direct: 'pass', proxied: 'pass' }),
    ];
    const { differences, same } = compare(outcomes, { ...run, accepted: [] });
    assert.deepEqual(
      differences.map(({ test }) => test),
      ['worse', 'better'],
    );
    assert.deepEqual(
      same.map(({ test }) => test),
      ['same'],
    );
  });

  test('does not count a test during which the proxy saw nothing', () => {
    const outcomes = [outcome('local', { direct: 'pass', proxied: 'pass' }, { seenBytes: 0 })];
    const comparison = compare(outcomes, { ...run, accepted: [] });
    assert.deepEqual(comparison.same, []);
    assert.match(report(comparison, 'some'), /0 pass both ways.* 1 never reached the proxy/);
  });

  test('knows a difference only for its own suite and variant, and says the cause', () => {
    const entry = { suite: 'some', variants: ['plain'] as const, test: 'worse', cause: 'the moon' };
    const outcomes = [outcome('worse', { direct: 'pass', proxied: 'fail' })];
    const known = compare(outcomes, { ...run, accepted: [entry] });
    assert.deepEqual(known.differences, []);
    assert.match(report(known, 'some'), /known worse: the moon/);
    for (const other of [
      { ...entry, suite: 'another' },
      { ...entry, variants: ['chopped'] as const },
      { ...entry, test: 'other' },
    ]) {
      assert.equal(compare(outcomes, { ...run, accepted: [other] }).differences.length, 1);
    }
  });

  test('knows a cause by what a test says only when that made it fail through the proxy', () => {
    const refused =
      '### Test "0030_offset_commit" failed at test.c:790:test_error_cb() at Mon ###\n' +
      'c#1 rdkafka error: Local: Broker transport failure: [::1]:9/1: Connection refused (0ms)\n';
    const other = '### Test "0030_offset_commit" failed at 0030.c:12:do_test() at Mon ###\n';
    const entry = {
      suite: 'some',
      variants: ['plain'] as const,
      says: refusedFirst,
      cause: 'gone',
    };
    const isKnown = (verdicts: Pick<Outcome, 'direct' | 'proxied'>, said: string): boolean =>
      compare([outcome('t', verdicts, { said })], { ...run, accepted: [entry] }).accepted.length >
      0;
    const worse = { direct: 'pass', proxied: 'fail' } as const;
    assert.ok(isKnown(worse, `begun\n${refused}`));
    assert.ok(!isKnown(worse, other));
    assert.ok(!isKnown(worse, other + refused), 'something else had failed before');
    assert.ok(!isKnown({ direct: 'fail', proxied: 'pass' }, refused));
    const gone = [outcome('t', worse, { said: refused, seenBytes: 0 })];
    const { differences } = compare(gone, { ...run, accepted: [entry] });
    assert.equal(differences.length, 1, 'a proxy that stayed away was a known cause');
    const ofAnother = { ...entry, test: 'another' };
    const outcomes = [outcome('t', worse, { said: refused })];
    assert.deepEqual(compare(outcomes, { ...run, accepted: [ofAnother] }).accepted, []);
  });
});
