// Open files, bounded: an LRU of handles, shared by all logs of a storage.
//
// Owns: when a handle is opened and closed. It knows paths and nothing of their content. Invariant:
// a handle is never closed while somebody uses it; at most `handlesMax` are open besides those in
// use.

import { LRUCache } from 'lru-cache';
import type { Disk, DiskFile } from './device.ts';

interface Entry {
  readonly file: Promise<DiskFile>;
  /** Once it is open. */
  opened: DiskFile | null;
  leases: number;
  evicted: boolean;
}

export interface FileLease {
  readonly file: DiskFile;
  /** To be called once. */
  release(): void;
}

export interface FileTableOptions {
  readonly disk: Disk;
  readonly handlesMax: number;
  /** A handle that could not be closed: nothing is lost by it (durability is asked for by sync). */
  readonly onCloseFailed: (path: string, error: unknown) => void;
}

export class FileTable {
  readonly #disk: Disk;
  readonly #entries: LRUCache<string, Entry>;
  readonly #closing = new Set<Promise<void>>();
  readonly #onCloseFailed: FileTableOptions['onCloseFailed'];

  constructor(options: FileTableOptions) {
    this.#disk = options.disk;
    this.#onCloseFailed = options.onCloseFailed;
    this.#entries = new LRUCache<string, Entry>({
      max: options.handlesMax,
      dispose: (entry, path) => {
        entry.evicted = true;
        this.#closeUnused(path, entry);
      },
    });
  }

  async acquire(path: string): Promise<FileLease> {
    let entry = this.#entries.get(path);
    if (entry === undefined) {
      const file = this.#disk.openFile(path, { create: false });
      entry = { file, opened: null, leases: 0, evicted: false };
      this.#entries.set(path, entry);
    }
    const held = entry;
    held.leases += 1;
    try {
      const file = await held.file;
      held.opened = file;
      return { file, release: () => this.#release(path, held) };
    } catch (error) {
      // A file that failed to open must not stay in the table as the answer for ever.
      held.leases -= 1;
      held.evicted = true;
      if (this.#entries.peek(path) === held) this.#entries.delete(path);
      throw error;
    }
  }

  /** As `acquire`, of a file that is open already; null when it is not: it is being opened then. */
  acquireOpen(path: string): FileLease | null {
    const entry = this.#entries.get(path);
    const file = entry?.opened ?? null;
    if (entry === undefined) {
      // Whoever comes next for a file that cannot be opened is told why.
      void this.acquire(path).then(
        (lease) => lease.release(),
        () => undefined,
      );
    }
    if (entry === undefined || file === null) return null;
    entry.leases += 1;
    return { file, release: () => this.#release(path, entry) };
  }

  readonly use = async <T>(path: string, use: (file: DiskFile) => Promise<T>): Promise<T> => {
    const lease = await this.acquire(path);
    try {
      return await use(lease.file);
    } finally {
      lease.release();
    }
  };

  /** To be called when a path stops naming its file. Readers that hold a lease may finish. */
  forget(path: string): void {
    this.#entries.delete(path);
  }

  async close(): Promise<void> {
    this.#entries.clear();
    await Promise.all(this.#closing);
  }

  #release(path: string, entry: Entry): void {
    entry.leases -= 1;
    if (entry.evicted) this.#closeUnused(path, entry);
  }

  #closeUnused(path: string, entry: Entry): void {
    if (entry.leases > 0) return;
    const closing = this.#closeEntry(path, entry).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  async #closeEntry(path: string, entry: Entry): Promise<void> {
    let file: DiskFile;
    try {
      file = await entry.file;
    } catch {
      return; // It never opened; whoever asked for it has been told.
    }
    try {
      await file.close();
    } catch (error) {
      this.#onCloseFailed(path, error);
    }
  }
}
