// How fast a link may read, by a clock of the test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteThrottle } from '../../../src/link/fetch/byte-throttle.ts';

test('bytes are paid for at the rate, whoever took them', () => {
  const throttle = new ByteThrottle();
  const at = (nowMs: number, bytesPerSecond: number | null = 1000) => ({ nowMs, bytesPerSecond });
  assert.equal(throttle.waitMs(at(5_000)), 0);
  throttle.take(500, at(5_000));
  throttle.take(1500, at(5_000));
  assert.equal(throttle.waitMs(at(5_000)), 2_000);
  assert.equal(throttle.waitMs(at(6_500)), 500);
  assert.equal(throttle.waitMs(at(6_500, 2_000)), 250, 'a changed rate counts at once');
  assert.equal(throttle.waitMs(at(9_000)), 0);
  throttle.take(1000, at(60_000));
  assert.equal(throttle.waitMs(at(60_000)), 1_000, 'idle time is not saved up');
  assert.equal(throttle.waitMs(at(60_000, null)), 0, 'no rate, no wait');
  assert.equal(throttle.waitMs(at(60_000)), 0, 'and no debt afterwards');
});
