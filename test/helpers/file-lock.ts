// Locks between test processes: one file per lock, holding the pid of its owner.
//
// Owns: taking, waiting for and releasing such files, and recognising those left by a dead process.
// Refuses to know what is protected. Users write into a temporary place and rename, so that the one
// unavoidable race (two waiters clearing the same dead lock) costs double work and never a torn
// result.

import { readFileSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { until } from './wait.ts';

const held = new Set<string>();

process.on('exit', () => {
  for (const file of held) rmSync(file, { force: true });
});

function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/** Removes the lock when its owner is dead. An empty file is one that is just being written. */
function clearIfDead(file: string): void {
  let owner: string;
  try {
    owner = readFileSync(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  if (owner === '' || isAlive(Number(owner))) return;
  const aside = `${file}.dead-${process.pid}`;
  try {
    renameSync(file, aside);
    unlinkSync(aside);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

/** Takes the lock if nobody alive holds it. The directory must exist. */
export function tryLock(file: string): boolean {
  for (const isSecondTry of [false, true]) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      held.add(file);
      return true;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
      if (!isSecondTry) clearIfDead(file);
    }
  }
  return false;
}

export function unlock(file: string): void {
  if (held.delete(file)) rmSync(file, { force: true });
}

/** Runs `work` while holding the lock; other processes and callers wait for their turn. */
export async function withFileLock<T>(
  file: string,
  work: () => Promise<T>,
  deadlineMs = 600_000,
): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true });
  await until(`lock ${file}`, () => tryLock(file), { deadlineMs, intervalMs: 200 });
  try {
    return await work();
  } finally {
    unlock(file);
  }
}
