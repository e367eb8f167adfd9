// The disk as the mirror log needs it: positioned reads and writes, syncs, names in directories.
//
// Owns: the contract that the node adapter and the simulated disk of the tests both keep. It knows
// nothing of logs. Invariant that callers may build on: bytes written before a resolved `sync` and
// names changed before a resolved `syncDirectory` survive a crash; nothing else is promised, not
// even that unsynced writes are kept in order.

/** NO_HANDLE: the process, or the machine, may open no more files. Nothing has been done then. */
export type DiskErrorCode = 'NOT_FOUND' | 'EXISTS' | 'FULL' | 'READ_ONLY' | 'NO_HANDLE' | 'IO';

export class DiskError extends Error {
  readonly code: DiskErrorCode;

  constructor(code: DiskErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DiskError';
    this.code = code;
  }
}

export interface DiskFile {
  size(): Promise<number>;
  /**
   * Fills `target` from `position` on; the answer is smaller than it only at the end of the file.
   */
  read(target: Buffer, position: number): Promise<number>;
  /** Writes all the bytes, or rejects with an unknown part of them written. */
  write(bytes: Buffer, position: number): Promise<void>;
  /**
   * As `write`, before it returns: for bytes that are in the processor's cache still, where the
   * disk is known not to make the caller wait. @throws DiskError with an unknown part written
   */
  writeNow(bytes: Buffer, position: number): void;
  truncate(size: number): Promise<void>;
  /** @throws DiskError */
  truncateNow(size: number): void;
  /** fdatasync: content and size survive a crash when it has resolved. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface DirectoryIdentity {
  readonly realPath: string;
  /** Changes when the directory is copied, and stays when it is only read again. */
  readonly inode: string;
}

export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

export interface Disk {
  /** Opens for reading and writing (reading only where the file system is read-only). */
  openFile(path: string, options: { readonly create: boolean }): Promise<DiskFile>;
  /** Size of a file, or null when it is not there. */
  fileSize(path: string): Promise<number | null>;
  /** Names in a directory, without `.` and `..`; NOT_FOUND when it is not there. */
  list(directory: string): Promise<string[]>;
  /** With its parents, and durable when it resolves; nothing happens when it is there. */
  makeDirectory(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** A second name for a file, atomically; EXISTS when the name is taken. */
  link(from: string, to: string): Promise<void>;
  /** Removes a file; nothing happens when it is not there. */
  remove(path: string): Promise<void>;
  /** Removes a directory with its content; nothing happens when it is not there. */
  removeTree(path: string): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  space(path: string): Promise<DiskSpace>;
  directoryIdentity(path: string): Promise<DirectoryIdentity>;
  readonly process: HostProcess;
}

/** The process that uses the disk, for the directory's lock, and its source of randomness. */
export interface HostProcess {
  readonly pid: number;
  /**
   * Start of a process, as text that no later process with the same pid has; null when it is dead.
   */
  startTime(pid: number): Promise<string | null>;
  /** 128 random bits as 22 characters of base64url. */
  randomId(): string;
}

export function joinPath(directory: string, name: string): string {
  return directory.endsWith('/') ? `${directory}${name}` : `${directory}/${name}`;
}

export function parentPath(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash <= 0 ? '/' : path.slice(0, slash);
}

/** Whole text of a small file, or null when it is not there. */
export async function readText(disk: Disk, path: string): Promise<string | null> {
  let file: DiskFile;
  try {
    file = await disk.openFile(path, { create: false });
  } catch (error) {
    if (error instanceof DiskError && error.code === 'NOT_FOUND') return null;
    throw error;
  }
  try {
    const buffer = Buffer.alloc(await file.size());
    const bytes = await file.read(buffer, 0);
    return buffer.toString('utf8', 0, bytes);
  } finally {
    await file.close();
  }
}

/** Writes a small file under a name of its own, synced but not yet under its final name. */
export async function writeAside(disk: Disk, path: string, content: Buffer): Promise<void> {
  const file = await disk.openFile(path, { create: true });
  try {
    await file.truncate(0);
    await file.write(content, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Replaces a small file: readers and crashes see the old content or the new, never a mix. */
export async function replaceFile(disk: Disk, path: string, content: Buffer): Promise<void> {
  const aside = `${path}.new`;
  await writeAside(disk, aside, content);
  await disk.rename(aside, path);
  await disk.syncDirectory(parentPath(path));
}
