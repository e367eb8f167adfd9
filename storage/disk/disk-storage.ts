// All mirror logs of one instance in one directory of local files.
//
// Owns: the directory (identity, lock, names of logs), which logs are open, and what they share:
// file handles, the flush timer, the look at free space. Invariant: a directory that is not the one
// that the state names serves nothing: every log then answers why, and nothing is written.
//
//   DIRECTORY/causeway.properties            whose directory it is
//   DIRECTORY/.lock                          which process has it open
//   DIRECTORY/logs/                          see log-directories.ts; in the directory of one log
//                                            are segments `*.log` with their index files,
//                                            `checkpoint`, and `sealed`

import { StorageError } from '../errors.ts';
import type { LogId, MirrorLog, MirrorStorage, StorageUsage } from '../mirror-log.ts';
import { joinPath } from './device.ts';
import { logsDirectoryName } from './directory-identity.ts';
import type { DirectoryLock } from './directory-lock.ts';
import { storageError } from './failures.ts';
import { checkedName, LogDirectories, logName } from './log-directories.ts';
import type { LogSurroundings } from './log-generation.ts';
import { DiskMirrorLog } from './partition-log.ts';
import { KeyedSerial } from './serial.ts';

export class DiskStorage implements MirrorStorage {
  readonly directoryId: string;
  /** True when the directory was made by this start. */
  readonly isNew: boolean;
  readonly refusal = null;
  readonly #directories: LogDirectories;
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
    const { disk, files } = options.shared;
    const root = joinPath(options.directory, logsDirectoryName);
    this.#directories = new LogDirectories({ root, disk, files });
    this.directoryId = options.directoryId;
    this.isNew = options.isNew;
    this.#lock = options.lock;
    this.#shared = options.shared;
  }

  get isFull(): boolean {
    return this.#shared.space.isFull;
  }

  /** Removes what a crash left of creations, deletions and rebuilds. */
  settle(): Promise<void> {
    return this.#directories.settle();
  }

  create(id: LogId, logStart: bigint): Promise<MirrorLog> {
    return this.#changes.run(logName(id), async () => {
      this.#assertOpen();
      const name = checkedName(id);
      if (await this.#directories.exists(name)) {
        const log = await this.open(id);
        if (log.logStart === logStart && log.end === logStart) return log;
        if (log.end > log.logStart) {
          throw new StorageError('EXISTS', `log ${name} exists and holds records`);
        }
        await this.#remove(name);
      }
      await this.#directories.create(name, logStart);
      return this.open(id);
    });
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
    const { acceptLoss, onReport } = this.#shared;
    const directories = this.#directories;
    if (acceptLoss && !(await directories.exists(name))) {
      await directories.create(name, 0n);
      const reason = 'the log is missing';
      onReport({ kind: 'loss-accepted', id, logStart: 0n, end: 0n, reason });
    }
    return DiskMirrorLog.open({ id, name, directories }, this.#shared);
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
    const opened = this.#logs.get(name);
    if (opened !== undefined) {
      await opened.then((log) => log.abandon()).catch(ignoreUnopened);
      this.#logs.delete(name);
      this.#sizes.delete(name);
    }
    await this.#directories.remove(name);
  }

  async list(): Promise<readonly LogId[]> {
    try {
      return await this.#directories.list();
    } catch (error) {
      throw storageError(error);
    }
  }

  async usage(): Promise<StorageUsage> {
    const { disk, space } = this.#shared;
    try {
      const { freeBytes, totalBytes } = await disk.space(this.#directories.root);
      let usedBytes = 0;
      for (const id of await this.list()) usedBytes += await this.#sizeOf(logName(id));
      const minFreeBytes = space.minFreeBytes(totalBytes);
      return { usedBytes, freeBytes, totalBytes, minFreeBytes };
    } catch (error) {
      throw storageError(error);
    }
  }

  async roomBytes(): Promise<number> {
    const { disk, space } = this.#shared;
    try {
      const { freeBytes, totalBytes } = await disk.space(this.#directories.root);
      return freeBytes - space.minFreeBytes(totalBytes);
    } catch (error) {
      throw storageError(error);
    }
  }

  async #sizeOf(name: string): Promise<number> {
    const open = this.#sizes.get(name);
    if (open === undefined) return this.#directories.sizeOf(name);
    return open.sizeBytes + open.rebuildBytes;
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
