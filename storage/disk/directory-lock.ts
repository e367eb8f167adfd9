// One live process per directory.
//
// Owns: the lock file. Node has no flock, so the file names its holder: process id, the process's
// start (a pid that was given to another process does not count), and the directory's inode and
// real path (a lock that came along with a copy does not count). Invariant: while the holder lives,
// nobody else of the same machine and process namespace gets the lock; a dead holder never blocks a
// start.

import { StorageError } from '../errors.ts';
import { type Disk, DiskError, joinPath, readText, writeAside } from './device.ts';
import type { OnReport } from './reports.ts';

export const lockFileName = '.lock';

interface LockHolder {
  readonly pid: number;
  readonly startTime: string;
  readonly inode: string;
  readonly realPath: string;
}

export interface DirectoryLock {
  release(): Promise<void>;
}

function parseHolder(text: string): LockHolder | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null; // Not a lock that we wrote: nobody is named who could be alive.
  }
  if (typeof value !== 'object' || value === null) return null;
  const { pid, startTime, inode, realPath } = value as Record<string, unknown>;
  const texts = [startTime, inode, realPath];
  if (typeof pid !== 'number' || !texts.every((text) => typeof text === 'string')) return null;
  return { pid, startTime: String(startTime), inode: String(inode), realPath: String(realPath) };
}

/** Why a lock that was found does not count, or null when its holder is alive. */
async function whyStale(disk: Disk, text: string, here: LockHolder): Promise<string | null> {
  const holder = parseHolder(text);
  if (holder === null) return 'it names no holder';
  if (holder.inode !== here.inode && holder.realPath !== here.realPath) {
    return `it was copied from ${holder.realPath}`;
  }
  const startTime = await disk.process.startTime(holder.pid);
  if (startTime === null) return `its holder, process ${holder.pid}, is dead`;
  if (startTime !== holder.startTime) return `process ${holder.pid} is another one by now`;
  return null;
}

/** Puts a stale lock out of the way; false when somebody else was faster. */
async function removeStale(
  disk: Disk,
  path: string,
  text: string,
  aside: string,
): Promise<boolean> {
  try {
    await disk.rename(path, aside);
  } catch (error) {
    if (error instanceof DiskError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
  const taken = await readText(disk, aside);
  if (taken === text) {
    await disk.remove(aside);
    return true;
  }
  // It was a fresh lock by the time it was renamed: it is given back, and respected.
  await disk.link(aside, path);
  await disk.remove(aside);
  return false;
}

const attemptsMax = 5;

export async function lockDirectory(
  disk: Disk,
  directory: string,
  onReport: OnReport,
): Promise<DirectoryLock> {
  const path = joinPath(directory, lockFileName);
  const { pid } = disk.process;
  const own = `${path}.${pid}`;
  const startTime = (await disk.process.startTime(pid)) ?? 'unknown';
  const here = { pid, startTime, ...(await disk.directoryIdentity(directory)) };
  const content = JSON.stringify(here);
  // Of a process that had our pid and was killed while it locked: it may be the lock's other name.
  await disk.remove(own);
  await writeAside(disk, own, Buffer.from(content, 'utf8'));
  try {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      try {
        await disk.link(own, path);
        return { release: () => releaseLock(disk, path, content) };
      } catch (error) {
        if (!(error instanceof DiskError) || error.code !== 'EXISTS') throw error;
      }
      const text = await readText(disk, path);
      if (text === null) continue;
      const reason = await whyStale(disk, text, here);
      if (reason === null) {
        const detail = `${directory} is in use by another process: ${text}`;
        throw new StorageError('LOCKED', detail);
      }
      if (await removeStale(disk, path, text, `${own}.stale`)) {
        onReport({ kind: 'lock-taken-over', directory, reason });
      }
    }
    throw new StorageError('LOCKED', `${directory}: its lock changes hands all the time`);
  } finally {
    await disk.remove(own);
  }
}

/** Removes the lock if it is still ours. */
async function releaseLock(disk: Disk, path: string, content: string): Promise<void> {
  if ((await readText(disk, path)) === content) await disk.remove(path);
}
