// How long free space lasts: from growth that was seen, and unknown without.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StorageForecast } from '../../../src/observe/storage-forecast.ts';

test('growth over a known time is carried on', () => {
  let nowMs = 0;
  const forecast = new StorageForecast(() => nowMs);
  const at = (usedBytes: number, freeBytes: number) =>
    forecast.hoursToFull({ usedBytes, freeBytes, minFreeBytes: 1_000 });
  assert.equal(at(0, 101_000), null, 'one sample says nothing');
  nowMs = 1_000;
  assert.equal(at(500, 101_000), null, 'nor does one second');
  nowMs = 1_800_000;
  assert.equal(at(50_000, 101_000), 1);
  assert.equal(at(50_000, 1_000), 0, 'full is full');
  nowMs = 3_600_000;
  assert.equal(at(0, 151_000), null, 'what shrinks is not filling up');
});

test('only the last hour counts', () => {
  let nowMs = 0;
  const forecast = new StorageForecast(() => nowMs);
  let usedBytes = 0;
  let hours: number | null = null;
  for (let minute = 0; minute <= 180; minute++) {
    nowMs = minute * 60_000;
    // Two hours of nothing, then 60 bytes an hour.
    if (minute > 120) usedBytes += 1;
    hours = forecast.hoursToFull({ usedBytes, freeBytes: 120, minFreeBytes: 0 });
  }
  assert.ok(hours !== null && Math.abs(hours - 2) < 0.1, String(hours));
});
