// The lease's arithmetic: when an instance may act, and that two never may at the same time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InstanceLease, waitBeforeActingMs } from '../../../src/state/lease.ts';
import { checkLimits, stateLimitsDefault } from '../../../src/state/limits.ts';
import type { LeaseRecord } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';

const leaseMs = 3_000;

function newLease(time: { ms: number }): InstanceLease {
  return new InstanceLease({ instanceId: 'one', leaseMs, now: () => time.ms });
}

function leaseRecord(released: boolean): LeaseRecord {
  const at = { host: 'proxy-1', pid: 1, renewedTimeMs: 0 };
  return { kind: 'lease', instanceId: 'before', released, ...at };
}

test('R12: nobody acts unrenewed, nor before the turn of the one before is over', () => {
  const time = { ms: 0 };
  const lease = newLease(time);
  assert.equal(lease.isValid(), false);
  lease.actFrom(leaseMs);
  lease.confirm(0);
  assert.equal(lease.isValid(), false);
  time.ms = 2_999;
  lease.confirm(2_000);
  assert.throws(() => lease.check(), /waiting for the lease before ours/);
  time.ms = 3_000;
  assert.equal(lease.isValid(), true);
});

test('R12: a lease counts from the start of its renewal, and runs out to the millisecond', () => {
  const time = { ms: 10_000 };
  const lease = newLease(time);
  lease.actFrom(0);
  lease.confirm(9_000);
  time.ms = 11_999;
  assert.equal(lease.isValid(), true);
  time.ms = 12_000;
  assert.equal(lease.isValid(), false);
  assert.equal(lease.isHeld, true);
  assert.throws(
    () => lease.check(),
    (error: unknown) => error instanceof StateError && error.code === 'NOT_OWNER',
  );
  lease.confirm(11_000);
  assert.equal(lease.isValid(), true);
  lease.confirm(9_500);
  assert.equal(lease.isValid(), true, 'an older renewal must not shorten a newer one');
});

test('R12: an ended lease never comes back, and says the first reason', () => {
  const time = { ms: 0 };
  const lease = newLease(time);
  lease.actFrom(0);
  lease.confirm(0);
  lease.end('fenced');
  lease.end('closed');
  lease.confirm(1);
  assert.equal(lease.isValid(), false);
  assert.equal(lease.isHeld, false);
  assert.throws(() => lease.check(), /fenced/);
});

test('R12: a killed owner is waited for, a released or absent lease is not', () => {
  assert.equal(waitBeforeActingMs(undefined, leaseMs), 0);
  assert.equal(waitBeforeActingMs(leaseRecord(true), leaseMs), 0);
  assert.equal(waitBeforeActingMs(leaseRecord(false), leaseMs), leaseMs);
});

test('R12: whatever the order of renewal and fence, old and new owner never act together', () => {
  // The last renewal of the old one started at or before the fence, or the broker had refused it.
  for (let startedMs = 0; startedMs <= 5_000; startedMs += 250) {
    const time = { ms: 5_000 };
    const old = newLease(time);
    old.actFrom(0);
    old.confirm(startedMs);
    const successor = newLease(time);
    successor.actFrom(5_000 + waitBeforeActingMs(leaseRecord(false), leaseMs));
    for (; time.ms <= 12_000; time.ms += 125) {
      successor.confirm(time.ms);
      assert.ok(!(old.isValid() && successor.isValid()), `both at ${time.ms}`);
    }
  }
});

test('the renewal must leave room for a lost one', () => {
  checkLimits(stateLimitsDefault);
  assert.throws(() => checkLimits({ ...stateLimitsDefault, renewMs: 1_500 }), /too long/);
});
