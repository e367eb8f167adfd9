// Lag by design §8: unknown is never zero, lag without progress is STALLED, and completeness is as
// old as the sample that proved it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LagTracker } from '../../../src/link/fetch/lag.ts';

const ageMaxMs = 15_000;

function at(nowMs: number) {
  return { nowMs, unixMs: 1_000_000 + nowMs };
}

test('before any sample everything is unknown', () => {
  const lag = new LagTracker(10n, 0).lag(5, ageMaxMs);
  assert.deepEqual(lag, {
    sourceEnd: -1n,
    records: null,
    seconds: null,
    completeAtMs: null,
    isCompleteRecorded: false,
  });
});

test('a first look without an end is no sample', () => {
  const tracker = new LagTracker(0n, 0);
  tracker.observeSource(null, at(10));
  assert.equal(tracker.lag(10, ageMaxMs).records, null);
  assert.equal(tracker.contactUnixMs, -1);
});

test('seconds are the age of the oldest offset that is known and missing', () => {
  const tracker = new LagTracker(0n, 0);
  tracker.observeSource(100n, at(1_000));
  tracker.observeSource(200n, at(5_000));
  assert.equal(tracker.lag(6_000, ageMaxMs).seconds, 5);
  assert.equal(tracker.lag(6_000, ageMaxMs).records, 200n);
  tracker.observeMirror(100n, 6_500);
  assert.equal(tracker.lag(7_000, ageMaxMs).seconds, 2);
  tracker.observeMirror(200n, 7_500);
  assert.equal(tracker.lag(8_000, ageMaxMs).seconds, 0);
  assert.equal(tracker.lag(8_000, ageMaxMs).records, 0n);
});

test('an old sample is unknown, not zero', () => {
  const tracker = new LagTracker(100n, 0);
  tracker.observeSource(100n, at(0));
  assert.equal(tracker.lag(ageMaxMs, ageMaxMs).records, 0n);
  assert.equal(tracker.lag(ageMaxMs + 1, ageMaxMs).records, null);
  tracker.observeSource(null, at(20_000));
  assert.equal(tracker.lag(20_001, ageMaxMs).records, 0n);
});

test('R15: lag without progress is stalled, idle time before it does not count', () => {
  const tracker = new LagTracker(100n, 0);
  tracker.observeSource(100n, at(0));
  tracker.observeSource(150n, at(100_000));
  assert.equal(tracker.isStalled(110_000, ageMaxMs), false);
  assert.equal(tracker.isStalled(115_000, ageMaxMs), true);
  tracker.observeMirror(120n, 116_000);
  assert.equal(tracker.isStalled(117_000, ageMaxMs), false);
  assert.equal(tracker.isStalled(131_000, ageMaxMs), true);
});

test('complete means: all that the last sample reported, as of that sample', () => {
  const tracker = new LagTracker(0n, 0);
  tracker.observeSource(10n, at(1_000));
  assert.equal(tracker.lag(1_000, ageMaxMs).completeAtMs, null);
  tracker.observeMirror(10n, 9_000);
  assert.equal(tracker.lag(9_000, ageMaxMs).completeAtMs, 1_000);
  tracker.observeSource(null, at(9_500));
  assert.equal(tracker.lag(9_500, ageMaxMs).completeAtMs, 9_500);
  tracker.observeSource(20n, at(10_000));
  assert.equal(tracker.lag(12_000, ageMaxMs).completeAtMs, 9_500);
});

test('remembers a bounded number of ends and errs towards an older age', () => {
  const tracker = new LagTracker(0n, 0);
  for (let index = 1; index <= 10_000; index++) tracker.observeSource(BigInt(index), at(index));
  assert.equal(tracker.lag(10_000, ageMaxMs).seconds, (10_000 - 1) / 1000);
  tracker.observeMirror(5_000n, 10_000);
  const seconds = tracker.lag(10_000, ageMaxMs).seconds ?? -1;
  assert.ok(seconds >= (10_000 - 5_001) / 1000, `${seconds}`);
  assert.ok(seconds <= 10, `${seconds}`);
});

test('bytes are an estimate: by what was appended lately, else by the whole copy', () => {
  const tracker = new LagTracker(0n, 0);
  const copy = { logStart: 50n, end: 100n, sizeBytes: 5_000 };
  assert.equal(tracker.bytesOf(0n, null), 0n);
  assert.equal(tracker.bytesOf(7n, null), null, 'nothing tells it');
  assert.equal(tracker.bytesOf(7n, { ...copy, logStart: 100n }), null, 'nor does an empty copy');
  assert.equal(tracker.bytesOf(7n, copy), 700n);
  tracker.observeAppended(3_000, 10);
  assert.equal(tracker.bytesOf(7n, copy), 2_100n, 'the newer records are larger');
});

test('what was appended long ago weighs less and less in the estimate of bytes', () => {
  const tracker = new LagTracker(0n, 0);
  tracker.observeAppended(64 << 20, 64);
  assert.equal(tracker.bytesOf(1n, null), 1n << 20n);
  for (let appended = 0; appended < 64; appended++) tracker.observeAppended(8 << 20, 8_192);
  const now = Number(tracker.bytesOf(1_000n, null));
  assert.ok(Math.abs(now - 1_024_000) < 1_000, `${now} bytes for 1000 records of 1 KiB`);
});

test('what a process before this one saw holds until this one sees more', () => {
  const seen = { sourceEnd: 100n, contactTimeMs: 960_000, completeTimeMs: 950_000 };
  const tracker = new LagTracker(90n, 1_000, { seen, unixMs: 1_000_000 });
  const recalled = tracker.lag(1_000, ageMaxMs);
  assert.deepEqual([recalled.sourceEnd, recalled.records, recalled.seconds], [100n, null, null]);
  assert.deepEqual([recalled.completeAtMs, recalled.isCompleteRecorded], [-49_000, true]);
  assert.deepEqual(tracker.seen({ nowMs: 2_000, unixMs: 1_001_000 }), seen, 'to be recorded again');
  assert.equal(tracker.completeAtMs, null, 'not by this process');
  tracker.observeSource(110n, { nowMs: 3_000, unixMs: 1_002_000 });
  const { records, seconds } = tracker.lag(3_000, ageMaxMs);
  assert.deepEqual(
    [records, seconds],
    [20n, 42],
    'known to be missing for longer than this process',
  );
  tracker.observeMirror(110n, 4_000);
  assert.deepEqual(
    [tracker.lag(4_000, ageMaxMs).completeAtMs, tracker.lag(4_000, ageMaxMs).isCompleteRecorded],
    [3_000, false],
  );
});

test('what was missing when it was recorded may have come before the restart', () => {
  const seen = { sourceEnd: 100n, contactTimeMs: 960_000, completeTimeMs: -1 };
  const at = { seen, unixMs: 1_000_000 };
  assert.equal(new LagTracker(99n, 0, at).lag(0, ageMaxMs).completeAtMs, null);
  assert.equal(new LagTracker(100n, 0, at).lag(0, ageMaxMs).completeAtMs, -40_000);
  const setBack = new LagTracker(100n, 0, { seen, unixMs: 900_000 });
  assert.equal(setBack.lag(0, ageMaxMs).completeAtMs, 0, 'of a clock that was set back');
});
