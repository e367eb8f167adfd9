// The directories of the logs: their names, which generation of a log counts, how one appears and
// goes.
//
// Owns: everything about names below `logs/`. It never looks into a log's files, but for the mark
// of a generation that is still being built. Invariants: a log appears whole or not at all; of the
// generations of a log the highest one without the mark counts, and it is the only one that is left
// after a start.
//
//   TOPICID-PARTITION        the first generation of a log
//   TOPICID-PARTITION.N      a later one; with a file `building` in it, one that does not count yet
//   .creating-*, .deleting-* what a crash left of a creation or deletion

import { StorageError } from '../errors.ts';
import type { LogId } from '../mirror-log.ts';
import { type Disk, DiskError, joinPath, parentPath } from './device.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import { createLogFiles, type NewLog } from './recovery.ts';

const creatingPrefix = '.creating-';
const deletingPrefix = '.deleting-';
const buildingFileName = 'building';

export function logName({ topicId, partition }: LogId): string {
  return `${topicId}-${partition}`;
}

interface Parsed {
  readonly name: string;
  readonly id: LogId;
  readonly generation: number;
}

/** Topic ids are base64url and may hold dashes: the last one separates. */
function parse(directoryName: string): Parsed | null {
  const match = /^(([A-Za-z0-9_-]{22})-(\d+))(?:\.(\d+))?$/.exec(directoryName);
  const [, name, topicId, partition, generation = '0'] = match ?? [];
  if (name === undefined || topicId === undefined) return null;
  return { name, id: { topicId, partition: Number(partition) }, generation: Number(generation) };
}

/** @throws TypeError for what is not the id of a log */
export function checkedName(id: LogId): string {
  const name = logName(id);
  const parsed = parse(name);
  if (parsed !== null && parsed.id.partition === id.partition) return name;
  throw new TypeError(`not the id of a log: ${name}`);
}

export class LogDirectories {
  readonly root: string;
  readonly #disk: Disk;
  readonly #files: FileTable;
  /** Of logs that have been rebuilt. */
  readonly #generations = new Map<string, number>();

  constructor(options: { root: string; disk: Disk; files: FileTable }) {
    this.root = options.root;
    this.#disk = options.disk;
    this.#files = options.files;
  }

  /** Removes what a crash left, and learns which generation of each log counts. */
  async settle(): Promise<void> {
    const disk = this.#disk;
    await disk.makeDirectory(this.root);
    // What a killed process has created and renamed counts from now on, so it has to stay.
    await disk.syncDirectory(parentPath(this.root));
    await disk.syncDirectory(this.root);
    const found: Parsed[] = [];
    for (const directoryName of await disk.list(this.root)) {
      const isLeft =
        directoryName.startsWith(creatingPrefix) || directoryName.startsWith(deletingPrefix);
      if (isLeft) await disk.removeTree(joinPath(this.root, directoryName));
      const parsed = parse(directoryName);
      if (parsed !== null) found.push(parsed);
    }
    for (const { name, generation } of found) {
      if (generation === 0) continue;
      const mark = joinPath(this.#path(name, generation), buildingFileName);
      if ((await disk.fileSize(mark)) !== null) continue;
      if (generation > this.#current(name)) this.#generations.set(name, generation);
    }
    for (const { name, generation } of found) {
      if (generation === this.#current(name)) continue;
      // One that was being built, or one that was built anew: then the mark must not come back.
      await disk.syncDirectory(this.pathOf(name));
      await this.#remove(this.#path(name, generation));
    }
  }

  pathOf(name: string): string {
    return this.#path(name, this.#current(name));
  }

  async exists(name: string): Promise<boolean> {
    return (await this.#listOf(this.pathOf(name))) !== null;
  }

  async list(): Promise<readonly LogId[]> {
    const names = await this.#disk.list(this.root);
    return names.sort().flatMap((directoryName) => {
      const parsed = parse(directoryName);
      return parsed?.generation === this.#current(parsed?.name ?? '') ? [parsed.id] : [];
    });
  }

  async sizeOf(name: string): Promise<number> {
    const path = this.pathOf(name);
    let bytes = 0;
    for (const file of await this.#disk.list(path)) {
      bytes += (await this.#disk.fileSize(joinPath(path, file))) ?? 0;
    }
    return bytes;
  }

  /** The files of a new log, under its name, durable when it resolves. */
  create(name: string, logStart: bigint): Promise<void> {
    return this.#make(this.pathOf(name), { logStart, headEpoch: -1, extraFile: null });
  }

  async remove(name: string): Promise<void> {
    const current = this.#current(name);
    // The one that counts last: after a crash the log is there or not, and never an older one.
    if (current > 0) await this.#remove(this.#path(name, current - 1));
    await this.#remove(this.#path(name, current + 1));
    await this.#remove(this.#path(name, current));
    this.#generations.delete(name);
  }

  /** The files of the next generation, which does not count before `commit`. Returns its path. */
  async begin(name: string, log: { logStart: bigint; headEpoch: number }): Promise<string> {
    const path = this.#path(name, this.#current(name) + 1);
    await this.#make(path, { ...log, extraFile: buildingFileName });
    return path;
  }

  /** The next generation counts: after a crash too, when it resolves. */
  async commit(name: string): Promise<void> {
    const next = this.#current(name) + 1;
    const path = this.#path(name, next);
    await this.#disk.remove(joinPath(path, buildingFileName));
    await this.#disk.syncDirectory(path);
    this.#generations.set(name, next);
  }

  /** Removes the generation before the one that counts. */
  removePrevious(name: string): Promise<void> {
    return this.#remove(this.#path(name, this.#current(name) - 1));
  }

  /** Removes a generation that does not count yet. */
  removeNext(name: string): Promise<void> {
    return this.#remove(this.#path(name, this.#current(name) + 1));
  }

  #current(name: string): number {
    return this.#generations.get(name) ?? 0;
  }

  #path(name: string, generation: number): string {
    return joinPath(this.root, generation === 0 ? name : `${name}.${generation}`);
  }

  #aside(path: string, prefix: string): string {
    return joinPath(this.root, `${prefix}${path.slice(path.lastIndexOf('/') + 1)}`);
  }

  async #make(path: string, log: NewLog): Promise<void> {
    const disk = this.#disk;
    const aside = this.#aside(path, creatingPrefix);
    try {
      await disk.removeTree(aside);
      await createLogFiles(disk, aside, log);
      await disk.rename(aside, path);
      await disk.syncDirectory(this.root);
    } catch (error) {
      throw storageError(error);
    }
  }

  async #remove(path: string): Promise<void> {
    const disk = this.#disk;
    const aside = this.#aside(path, deletingPrefix);
    try {
      const files = await this.#listOf(path);
      if (files === null) return;
      for (const file of files) this.#files.forget(joinPath(path, file));
      await disk.removeTree(aside);
      await disk.rename(path, aside);
      await disk.syncDirectory(this.root);
      await disk.removeTree(aside);
    } catch (error) {
      throw storageError(error);
    }
  }

  async #listOf(path: string): Promise<readonly string[] | null> {
    try {
      return await this.#disk.list(path);
    } catch (error) {
      if (error instanceof DiskError && error.code === 'NOT_FOUND') return null;
      throw error instanceof StorageError ? error : storageError(error);
    }
  }
}
