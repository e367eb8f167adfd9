// Whom a starting instance takes for alive, and from when on it may act after one that is silent.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import os from 'node:os';
import { test } from 'node:test';
import { ownProcess } from '../../../src/state/own-process.ts';
import {
  awaitSilence,
  isGoneHere,
  lastRenewedMs,
  type Watch,
} from '../../../src/state/predecessor.ts';
import type { LeaseRecord } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';

function lease(parts: Partial<LeaseRecord> = {}): LeaseRecord {
  const base = { kind: 'lease', instanceId: 'theirs', host: 'elsewhere', pid: 7 } as const;
  return { ...base, renewedTimeMs: 1, released: false, ...parts };
}

/** Each look takes a second and finds the next of the leases, the last one for good. */
function watched(leases: readonly (LeaseRecord | undefined)[], parts: Partial<Watch> = {}) {
  let looks = 0;
  const watch: Watch = {
    name: 'causeway',
    read: async () => {
      looks++;
    },
    lease: () => leases[Math.min(looks, leases.length) - 1],
    leaseMs: 3_000,
    now: () => looks * 1_000,
    signal: new AbortController().signal,
    isDead: () => false,
    ...parts,
  };
  return { watch, looks: () => looks };
}

const renewed = (renewedTimeMs: number) => lease({ renewedTimeMs });

test('R12: an owner that renews its lease is not fenced, and is named', async () => {
  const { watch } = watched([renewed(1), renewed(2), renewed(3)]);
  await assert.rejects(awaitSilence(watch), (error: unknown) => {
    assert.ok(error instanceof StateError && error.code === 'NOT_OWNER');
    assert.match(error.message, /'causeway'.*theirs on elsewhere \(process 7\).*--take-over/);
    return true;
  });
});

test('R12: one renewal may have been under way when its writer died', async () => {
  const { watch } = watched([renewed(1), renewed(2)]);
  assert.deepEqual(await awaitSilence(watch), { lease: renewed(2), atMs: 2_000 });
});

test('R12: a silent owner is waited for as long as its lease lasts, and not once more', async () => {
  const { watch, looks } = watched([renewed(1)]);
  const seen = await awaitSilence(watch);
  assert.equal(looks(), 4);
  assert.equal(lastRenewedMs(seen, renewed(1), 9_000), 1_000);
  assert.equal(lastRenewedMs(seen, renewed(2), 9_000), 9_000, 'renewed before the fence after all');
  assert.equal(lastRenewedMs(null, renewed(1), 9_000), 9_000);
});

test('nobody is waited for who is not there, gave up, or is dead', async () => {
  for (const [first, isDead] of [
    [undefined, false],
    [lease({ released: true }), false],
    [lease(), true],
  ] as const) {
    const { watch, looks } = watched([first], { isDead: () => isDead });
    assert.equal(await awaitSilence(watch), null);
    assert.equal(looks(), 1);
  }
  const { watch } = watched([renewed(1), lease({ renewedTimeMs: 2, released: true })]);
  assert.equal(await awaitSilence(watch), null, 'gave up meanwhile');
});

test('a process that we would see and that has ended is dead, one of another host never', () => {
  const own = { host: os.hostname(), pid: process.pid, place: 'here' };
  const { pid } = spawnSync(process.execPath, ['--version']);
  assert.equal(isGoneHere(lease({ ...own, pid }), own), true);
  assert.equal(isGoneHere(lease({ ...own, pid: process.ppid }), own), false);
  assert.equal(isGoneHere(lease({ ...own }), own), true, 'our own number: we are its successor');
  assert.equal(isGoneHere(lease({ ...own, host: 'elsewhere', pid }), own), false);
});

test('R12: the owner in another container of the same host name is not taken for dead', () => {
  const own = { host: os.hostname(), pid: process.pid, place: 'boot pid:[1]' };
  const { pid } = spawnSync(process.execPath, ['--version']);
  for (const other of [pid, process.pid]) {
    assert.equal(isGoneHere(lease({ ...own, pid: other, place: 'boot pid:[2]' }), own), false);
    const { place: _place, ...older } = own;
    assert.equal(isGoneHere(lease({ ...older, pid: other }), own), false, 'it does not say where');
    assert.equal(isGoneHere(lease({ ...own, pid: other }), older), false, 'we do not know where');
  }
});

test('this process knows its place, which all of its machine and container share', () => {
  if (process.platform !== 'linux') return;
  const { stdout } = spawnSync('readlink', ['/proc/self/ns/pid'], { encoding: 'utf8' });
  assert.ok(ownProcess.place?.endsWith(stdout.trim()));
  assert.deepEqual([ownProcess.host, ownProcess.pid], [os.hostname(), process.pid]);
});
