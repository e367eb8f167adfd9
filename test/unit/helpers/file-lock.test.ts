// Locks between test processes: exclusive among the living, free when the owner is dead.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { tryLock, unlock, withFileLock } from '../../helpers/file-lock.ts';
import { releasePorts, reservePorts } from '../../helpers/ports.ts';

const directory = mkdtempSync(path.join(os.tmpdir(), 'file-lock-'));
after(() => rmSync(directory, { recursive: true }));

test('a lock is held by one only', () => {
  const file = path.join(directory, 'one');
  assert.ok(tryLock(file));
  assert.equal(tryLock(file), false);
  unlock(file);
  assert.ok(tryLock(file));
  unlock(file);
});

test('the lock of a dead process is taken over', () => {
  const file = path.join(directory, 'dead');
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(file, String(pid));
  assert.ok(tryLock(file));
  assert.equal(readFileSync(file, 'utf8'), String(process.pid));
  unlock(file);
});

test('work under a lock does not overlap, and a failure frees it', async () => {
  const file = path.join(directory, 'work');
  let running = 0;
  const work = async (): Promise<void> => {
    running += 1;
    assert.equal(running, 1);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
  };
  await assert.rejects(
    withFileLock(file, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  await Promise.all([withFileLock(file, work), withFileLock(file, work)]);
});

test('reserved ports are distinct, and consecutive when asked', async () => {
  const first = await reservePorts(3);
  const second = await reservePorts(3, { isConsecutive: true });
  assert.equal(new Set([...first, ...second]).size, 6);
  assert.deepEqual(
    second.map((port) => port - (second[0] ?? 0)),
    [0, 1, 2],
  );
  releasePorts([...first, ...second]);
});
