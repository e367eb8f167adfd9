// The way into disk storage: judge the directory, lock it, and hand out the logs in it.
//
// Owns: the order of these steps and the defaults. Invariant: a directory is judged again after it
// has been locked, so that two first starts at the same time do not both make it.

import type { Clock } from '../clock.ts';
import type { StorageError } from '../errors.ts';
import type { MirrorStorage } from '../mirror-log.ts';
import type { Disk } from './device.ts';
import {
  type ExpectedIdentity,
  judgeDirectory,
  type Verdict,
  writeIdentity,
} from './directory-identity.ts';
import { type DirectoryLock, lockDirectory } from './directory-lock.ts';
import { DiskPace } from './disk-pace.ts';
import { DiskStorage } from './disk-storage.ts';
import { storageError } from './failures.ts';
import { FileTable } from './file-table.ts';
import { FlushScheduler } from './flush-scheduler.ts';
import { IndexCache } from './index-cache.ts';
import { RefusedStorage } from './refused-storage.ts';
import type { OnReport } from './reports.ts';
import { defaultIndexInterval, type IndexInterval } from './segment-index.ts';
import { type MinFree, SpaceGuard } from './space-guard.ts';

export interface DiskStorageOptions {
  readonly directory: string;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly clusterId: string;
  readonly instanceName: string;
  /** The directory that the state names; null when it has never had one. */
  readonly expectedDirectoryId: string | null;
  /**
   * An operator's word that what is missing is lost: a foreign or empty directory is adopted, a
   * missing log begins empty at offset 0, a corrupt one keeps what can be vouched for.
   */
  readonly acceptLoss?: boolean;
  /** Longest time between an append and its fdatasync. Default 50. */
  readonly flushIntervalMs?: number;
  /** Default 128 MiB. */
  readonly segmentBytesMax?: number;
  /** Default 5 percent. */
  readonly minFree?: MinFree;
  /** File handles kept open besides those in use. Default 512. */
  readonly handlesMax?: number;
  /** Memory for index files that have been read lately. Default 32 MiB. */
  readonly indexBytesMax?: number;
  /** How close the entries of offset indexes are. Default: 4 KiB, of sealed segments 32 KiB. */
  readonly indexInterval?: IndexInterval;
  /** Checks the CRC of every batch that is read, at the price of one pass over it. Default true. */
  readonly verifyReads?: boolean;
  readonly onReport?: OnReport;
}

export interface OpenedStorage extends MirrorStorage {
  /** True when this start made or adopted the directory: its id has to be recorded in the state. */
  readonly isNew: boolean;
  /** Why no log can be opened, or null. */
  readonly refusal: StorageError | null;
}

/** Memory for index files, of all logs together. */
export const indexBytesMaxDefault = 32 << 20;

const defaults = {
  flushIntervalMs: 50,
  segmentBytesMax: 128 << 20,
  handlesMax: 512,
  minFree: { kind: 'percent', value: 5 },
} as const;

function ignoreReport(): void {
  // A caller that asks for no reports gets none.
}

/**
 * Opens the mirror logs of a directory. A directory that is not what the state says, or that cannot
 * be written, gives a storage whose every use throws the reason (`refusal`), so that the service
 * starts.
 * @throws StorageError LOCKED when another live process has the directory open
 */
export async function openDiskStorage(options: DiskStorageOptions): Promise<OpenedStorage> {
  const { directory, expectedDirectoryId, onReport = ignoreReport } = options;
  try {
    return await openDirectory(options, onReport);
  } catch (cause) {
    const error = storageError(cause);
    if (error.code === 'LOCKED') throw error;
    onReport({ kind: 'directory-refused', directory, error });
    return new RefusedStorage(expectedDirectoryId ?? '', error);
  }
}

async function openDirectory(
  options: DiskStorageOptions,
  onReport: OnReport,
): Promise<OpenedStorage> {
  const { directory, disk, clusterId, instanceName, acceptLoss = false } = options;
  const expected = { clusterId, instanceName, directoryId: options.expectedDirectoryId };
  // Before anything is written, not even the lock.
  assertUsable(await judgeDirectory(disk, directory, expected), acceptLoss);
  await disk.makeDirectory(directory);
  const lock = await lockDirectory(disk, directory, onReport);
  try {
    const verdict = assertUsable(await judgeDirectory(disk, directory, expected), acceptLoss);
    const directoryId = await settleIdentity(options, expected, verdict, onReport);
    const isNew = verdict.kind !== 'ours';
    const shared = makeShared(options, onReport);
    const storage = new DiskStorage({ directory, directoryId, isNew, lock, shared });
    await storage.settle();
    await shared.space.refresh();
    return storage;
  } catch (error) {
    await releaseQuietly(lock);
    throw error;
  }
}

function assertUsable(verdict: Verdict, acceptLoss: boolean): Verdict {
  if (verdict.kind === 'refused' && !acceptLoss) throw verdict.error;
  return verdict;
}

/** Writes the identity of a directory that is new or adopted. The answer is the directory's id. */
async function settleIdentity(
  options: DiskStorageOptions,
  expected: ExpectedIdentity,
  verdict: Verdict,
  onReport: OnReport,
): Promise<string> {
  if (verdict.kind === 'ours') return verdict.identity.directoryId;
  const { directory, disk } = options;
  const { clusterId, instanceName } = expected;
  const directoryId = disk.process.randomId();
  await writeIdentity(disk, directory, { clusterId, instanceName, directoryId });
  if (verdict.kind === 'new') onReport({ kind: 'directory-created', directory, directoryId });
  else onReport({ kind: 'directory-adopted', directory, reason: verdict.error.message });
  return directoryId;
}

function makeShared(options: DiskStorageOptions, onReport: OnReport) {
  const { disk, clock, directory, acceptLoss = false, verifyReads = true } = options;
  const { handlesMax = defaults.handlesMax, minFree = defaults.minFree } = options;
  const {
    flushIntervalMs: intervalMs = defaults.flushIntervalMs,
    segmentBytesMax = defaults.segmentBytesMax,
  } = options;
  const { indexInterval = defaultIndexInterval } = options;
  const onCloseFailed = (path: string, error: unknown): void =>
    onReport({ kind: 'file-close-failed', path, error });
  return {
    disk,
    clock,
    files: new FileTable({ disk, handlesMax, onCloseFailed }),
    indexes: new IndexCache({ bytesMax: options.indexBytesMax ?? indexBytesMaxDefault }),
    indexInterval,
    pace: new DiskPace(clock),
    // A written log keeps its file open until it is flushed, on top of the handles in the table.
    scheduler: new FlushScheduler({ clock, intervalMs, dirtyMax: handlesMax }),
    space: new SpaceGuard({ disk, directory, clock, minFree, onReport }),
    segmentBytesMax,
    verifyReads,
    acceptLoss,
    onReport,
  };
}

/** The error that led here is the one to tell; a lock that stays behind is stale by itself. */
async function releaseQuietly(lock: DirectoryLock): Promise<void> {
  try {
    await lock.release();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}
