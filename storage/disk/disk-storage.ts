// All mirror logs of one instance in one directory of local files.
//
// Owns: the directory (identity, lock, names of logs), which logs are open, and what they share:
// file handles, the flush timer, the look at free space. Invariant: a directory that is not the one
// that the state names serves nothing: every log then answers why, and nothing is written.
//
//   DIRECTORY/causeway.properties            whose directory it is
//   DIRECTORY/.lock                          which process has it open
//   DIRECTORY/logs/TOPICID-PARTITION/        one log: segments `*.log` with their index files,
//                                            `checkpoint`, and `sealed`
//   DIRECTORY/logs/.creating-*, .deleting-*  what a crash left of a creation or deletion; removed

import { StorageError } from '../errors.ts';
import type { LogId, MirrorLog, MirrorStorage, StorageUsage } from '../mirror-log.ts';
import { DiskError, joinPath } from './device.ts';
import { logsDirectoryName } from './directory-identity.ts';
import type { DirectoryLock } from './directory-lock.ts';
import { storageError } from './failures.ts';
import { type DiskMirrorLog, type LogSurroundings, openPartitionLog } from './partition-log.ts';
import { createLogFiles } from './recovery.ts';
import { KeyedSerial } from './serial.ts';

const creatingPrefix = '.creating-';
const deletingPrefix = '.deleting-';

function logName({ topicId, partition }: LogId): string {
  return `${topicId}-${partition}`;
}

/** Topic ids are base64url and may hold dashes: the last one separates. */
function parseLogName(name: string): LogId | null {
  const match = /^([A-Za-z0-9_-]{22})-(\d+)$/.exec(name);
  const [, topicId, partition] = match ?? [];
  return topicId === undefined ? null : { topicId, partition: Number(partition) };
}

function checkedName(id: LogId): string {
  const name = logName(id);
  const parsed = parseLogName(name);
  if (parsed !== null && parsed.partition === id.partition) return name;
  throw new TypeError(`not the id of a log: ${name}`);
}

export class DiskStorage implements MirrorStorage {
  readonly directoryId: string;
  /** True when the directory was made by this start. */
  readonly isNew: boolean;
  readonly refusal = null;
  readonly #directory: string;
  readonly #shared: LogSurroundings;
  readonly #lock: DirectoryLock;
  readonly #logs = new Map<string, Promise<DiskMirrorLog>>();
  readonly #sizes = new Map<string, DiskMirrorLog>();
  /** Creations and deletions, one at a time for each log. */
  readonly #changes = new KeyedSerial();
  #closing: Promise<void> | null = null;

  constructor(options: {
    readonly directory: string;
    readonly directoryId: string;
    readonly isNew: boolean;
    readonly lock: DirectoryLock;
    readonly shared: LogSurroundings;
  }) {
    this.#directory = joinPath(options.directory, logsDirectoryName);
    this.directoryId = options.directoryId;
    this.isNew = options.isNew;
    this.#lock = options.lock;
    this.#shared = options.shared;
  }

  get isFull(): boolean {
    return this.#shared.space.isFull;
  }

  /** Removes what a crash left of creations and deletions. */
  async cleanUp(): Promise<void> {
    const { disk } = this.#shared;
    await disk.makeDirectory(this.#directory);
    for (const name of await disk.list(this.#directory)) {
      if (!name.startsWith(creatingPrefix) && !name.startsWith(deletingPrefix)) continue;
      await disk.removeTree(joinPath(this.#directory, name));
    }
  }

  create(id: LogId, logStart: bigint): Promise<MirrorLog> {
    return this.#changes.run(logName(id), async () => {
      this.#assertOpen();
      const name = checkedName(id);
      if (await this.#exists(name)) {
        const log = await this.open(id);
        if (log.logStart === logStart && log.end === logStart) return log;
        if (log.end > log.logStart) {
          throw new StorageError('EXISTS', `log ${name} exists and holds records`);
        }
        await this.#remove(name);
      }
      await this.#make(name, logStart);
      return this.open(id);
    });
  }

  /** A log appears whole, under its name, or not at all. */
  async #make(name: string, logStart: bigint): Promise<void> {
    const { disk } = this.#shared;
    const aside = joinPath(this.#directory, `${creatingPrefix}${name}`);
    try {
      await disk.removeTree(aside);
      await createLogFiles(disk, aside, logStart);
      await disk.rename(aside, joinPath(this.#directory, name));
      await disk.syncDirectory(this.#directory);
    } catch (error) {
      throw storageError(error);
    }
  }

  open(id: LogId): Promise<MirrorLog> {
    let name: string;
    try {
      this.#assertOpen();
      name = checkedName(id);
    } catch (error) {
      return Promise.reject(error);
    }
    const known = this.#logs.get(name);
    if (known !== undefined) return known;
    const opening = this.#open(id, name);
    this.#logs.set(name, opening);
    opening.then(
      (log) => this.#sizes.set(name, log),
      () => this.#logs.delete(name),
    );
    return opening;
  }

  async #open(id: LogId, name: string): Promise<DiskMirrorLog> {
    const directory = joinPath(this.#directory, name);
    const { acceptLoss, onReport } = this.#shared;
    if (acceptLoss && !(await this.#exists(name))) {
      await this.#make(name, 0n);
      const reason = 'the log is missing';
      onReport({ kind: 'loss-accepted', id, logStart: 0n, end: 0n, reason });
    }
    return openPartitionLog(id, directory, this.#shared);
  }

  async #exists(name: string): Promise<boolean> {
    try {
      await this.#shared.disk.list(joinPath(this.#directory, name));
      return true;
    } catch (error) {
      if (error instanceof DiskError && error.code === 'NOT_FOUND') return false;
      throw storageError(error);
    }
  }

  delete(id: LogId): Promise<void> {
    return this.#changes.run(logName(id), async () => {
      this.#assertOpen();
      await this.#remove(checkedName(id));
    });
  }

  #assertOpen(): void {
    if (this.#closing !== null) throw new StorageError('CLOSED', 'the storage is closed');
  }

  async #remove(name: string): Promise<void> {
    const { disk, files } = this.#shared;
    const opened = this.#logs.get(name);
    if (opened !== undefined) {
      await opened.then((log) => log.abandon()).catch(ignoreUnopened);
      this.#logs.delete(name);
      this.#sizes.delete(name);
    }
    const path = joinPath(this.#directory, name);
    const aside = joinPath(this.#directory, `${deletingPrefix}${name}`);
    try {
      if (!(await this.#exists(name))) return;
      for (const file of await disk.list(path)) files.forget(joinPath(path, file));
      await disk.removeTree(aside);
      await disk.rename(path, aside);
      await disk.syncDirectory(this.#directory);
      await disk.removeTree(aside);
    } catch (error) {
      throw storageError(error);
    }
  }

  async list(): Promise<readonly LogId[]> {
    try {
      const names = await this.#shared.disk.list(this.#directory);
      return names.sort().flatMap((name) => parseLogName(name) ?? []);
    } catch (error) {
      throw storageError(error);
    }
  }

  async usage(): Promise<StorageUsage> {
    const { disk, space } = this.#shared;
    try {
      const { freeBytes, totalBytes } = await disk.space(this.#directory);
      let usedBytes = 0;
      for (const id of await this.list()) usedBytes += await this.#sizeOf(logName(id));
      const minFreeBytes = space.minFreeBytes(totalBytes);
      return { usedBytes, freeBytes, totalBytes, minFreeBytes };
    } catch (error) {
      throw storageError(error);
    }
  }

  async #sizeOf(name: string): Promise<number> {
    const open = this.#sizes.get(name);
    if (open !== undefined) return open.sizeBytes;
    const { disk } = this.#shared;
    const path = joinPath(this.#directory, name);
    let bytes = 0;
    for (const file of await disk.list(path)) {
      bytes += (await disk.fileSize(joinPath(path, file))) ?? 0;
    }
    return bytes;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { scheduler, files } = this.#shared;
    const failures: unknown[] = [];
    await this.#changes.idle();
    await scheduler.close();
    for (const opened of this.#logs.values()) {
      try {
        await (await opened).close();
      } catch (error) {
        failures.push(error);
      }
    }
    await files.close();
    await this.#lock.release();
    const [first] = failures;
    if (first !== undefined) throw storageError(first);
  }
}

/** A log that could not be opened has told whoever opened it; it can be deleted all the same. */
function ignoreUnopened(error: unknown): void {
  if (!(error instanceof StorageError)) throw error;
}
