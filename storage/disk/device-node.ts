// The disk of a Node process: the only file of storage that touches node:fs.
//
// Owns: the mapping of Disk to system calls and of errno to DiskError. The callback API is used
// with plain descriptors because it costs less per call than FileHandle. Invariant: a short read or
// write of the system call is continued here, so that callers never see one except at the end of a
// file.

import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { promisify } from 'node:util';
import type { Clock } from '../clock.ts';
import {
  type Disk,
  DiskError,
  type DiskErrorCode,
  type DiskFile,
  type DiskSpace,
  type HostProcess,
  parentPath,
} from './device.ts';

const calls = {
  open: promisify(fs.open),
  close: promisify(fs.close),
  fstat: promisify(fs.fstat),
  ftruncate: promisify(fs.ftruncate),
  fdatasync: promisify(fs.fdatasync),
  fsync: promisify(fs.fsync),
};

const diskErrorCodes: Readonly<Record<string, DiskErrorCode>> = {
  ENOENT: 'NOT_FOUND',
  ENOTDIR: 'NOT_FOUND',
  EEXIST: 'EXISTS',
  ENOSPC: 'FULL',
  EDQUOT: 'FULL',
  EROFS: 'READ_ONLY',
  EACCES: 'READ_ONLY',
  EPERM: 'READ_ONLY',
  EMFILE: 'NO_HANDLE',
  ENFILE: 'NO_HANDLE',
};

/**
 * One write of a page cache gets no more. Linux takes a folio as large as the rest of the call; of
 * 2 MiB and more ones cost four to eight times the CPU per byte where they were measured (ext4 of
 * Linux 6.18, virtual machine), and smaller calls save nothing: 0.31 s/GB at 128 KiB and at 1 MiB.
 */
const writeBytesMax = 1024 * 1024;

function errnoOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function diskError(action: string, path: string, error: unknown): DiskError {
  const reason = error instanceof Error ? error.message : String(error);
  const code = diskErrorCodes[errnoOf(error)] ?? 'IO';
  return new DiskError(code, `cannot ${action} ${path}: ${reason}`, { cause: error });
}

async function attempt<T>(action: string, path: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw diskError(action, path, error);
  }
}

function attemptNow(action: string, path: string, call: () => void): void {
  try {
    call();
  } catch (error) {
    throw diskError(action, path, error);
  }
}

function readOnce(fd: number, target: Buffer, at: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, at, target.length - at, position, (error, bytes) => {
      if (error === null) resolve(bytes);
      else reject(error);
    });
  });
}

function writeOnce(fd: number, bytes: Buffer, at: number, position: number): Promise<number> {
  const length = Math.min(bytes.length - at, writeBytesMax);
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, at, length, position, (error, written) => {
      if (error === null) resolve(written);
      else reject(error);
    });
  });
}

/** A write that writes nothing would be repeated for ever. */
function progress(writtenBytes: number): number {
  if (writtenBytes > 0) return writtenBytes;
  throw new Error('nothing was written');
}

class NodeFile implements DiskFile {
  readonly #fd: number;
  readonly #path: string;

  constructor(fd: number, path: string) {
    this.#fd = fd;
    this.#path = path;
  }

  size(): Promise<number> {
    return attempt('stat', this.#path, async () => (await calls.fstat(this.#fd)).size);
  }

  read(target: Buffer, position: number): Promise<number> {
    return attempt('read', this.#path, async () => {
      let filled = 0;
      while (filled < target.length) {
        const bytes = await readOnce(this.#fd, target, filled, position + filled);
        if (bytes === 0) break;
        filled += bytes;
      }
      return filled;
    });
  }

  write(bytes: Buffer, position: number): Promise<void> {
    return attempt('write', this.#path, async () => {
      let written = 0;
      while (written < bytes.length) {
        written += progress(await writeOnce(this.#fd, bytes, written, position + written));
      }
    });
  }

  writeNow(bytes: Buffer, position: number): void {
    attemptNow('write', this.#path, () => {
      let written = 0;
      while (written < bytes.length) {
        const length = Math.min(bytes.length - written, writeBytesMax);
        written += progress(fs.writeSync(this.#fd, bytes, written, length, position + written));
      }
    });
  }

  truncate(size: number): Promise<void> {
    return attempt('truncate', this.#path, () => calls.ftruncate(this.#fd, size));
  }

  truncateNow(size: number): void {
    attemptNow('truncate', this.#path, () => fs.ftruncateSync(this.#fd, size));
  }

  sync(): Promise<void> {
    return attempt('sync', this.#path, () => calls.fdatasync(this.#fd));
  }

  close(): Promise<void> {
    return attempt('close', this.#path, () => calls.close(this.#fd));
  }
}

const nodeProcess: HostProcess = {
  pid: process.pid,

  async startTime(pid) {
    try {
      process.kill(pid, 0);
    } catch (error) {
      if (errnoOf(error) !== 'EPERM') return null;
    }
    try {
      // Field 22 of /proc/PID/stat, counted after the command name, which may contain anything.
      const stat = await fs.promises.readFile(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const boot = await fs.promises.readFile('/proc/sys/kernel/random/boot_id', 'utf8');
      return `${boot.trim()}/${fields[19] ?? ''}`;
    } catch (error) {
      // Systems without /proc: a living pid is all that can be known.
      if (errnoOf(error) === 'ENOENT') return 'alive';
      throw diskError('look up the process', String(pid), error);
    }
  },

  randomId: () => randomBytes(16).toString('base64url'),
};

async function openFile(path: string, create: boolean): Promise<DiskFile> {
  const flags = fs.constants.O_RDWR | (create ? fs.constants.O_CREAT : 0);
  try {
    return new NodeFile(await calls.open(path, flags, 0o640), path);
  } catch (error) {
    const refused = diskErrorCodes[errnoOf(error)] === 'READ_ONLY';
    if (create || !refused) throw diskError('open', path, error);
  }
  return attempt('open', path, async () => new NodeFile(await calls.open(path, 'r'), path));
}

async function syncDirectory(path: string): Promise<void> {
  const fd = await calls.open(path, 'r');
  try {
    await calls.fsync(fd);
  } finally {
    await calls.close(fd);
  }
}

async function makeDirectory(path: string): Promise<void> {
  const first = await fs.promises.mkdir(path, { recursive: true, mode: 0o750 });
  if (first === undefined) return;
  // Each name that was made lies in its parent, up to the parent of the first one.
  const last = parentPath(first);
  for (let parent = parentPath(path); ; parent = parentPath(parent)) {
    await syncDirectory(parent);
    if (parent === last || parent === '/') return;
  }
}

async function fileSize(path: string): Promise<number | null> {
  try {
    return (await fs.promises.stat(path)).size;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw diskError('stat', path, error);
  }
}

async function space(path: string): Promise<DiskSpace> {
  const stats = await fs.promises.statfs(path);
  return { freeBytes: stats.bavail * stats.bsize, totalBytes: stats.blocks * stats.bsize };
}

export const nodeDisk: Disk = {
  process: nodeProcess,
  openFile: (path, { create }) => openFile(path, create),
  fileSize,
  list: (path) => attempt('list', path, () => fs.promises.readdir(path)),
  makeDirectory: (path) => attempt('make', path, () => makeDirectory(path)),
  rename: (from, to) => attempt('rename', from, () => fs.promises.rename(from, to)),
  link: (from, to) => attempt('link', to, () => fs.promises.link(from, to)),
  remove: (path) => attempt('remove', path, () => fs.promises.rm(path, { force: true })),
  removeTree: (path) =>
    attempt('remove', path, () => fs.promises.rm(path, { force: true, recursive: true })),
  syncDirectory: (path) => attempt('sync', path, () => syncDirectory(path)),
  space: (path) => attempt('statfs', path, () => space(path)),
  directoryIdentity: (path) =>
    attempt('identify', path, async () => {
      const realPath = await fs.promises.realpath(path);
      const stats = await fs.promises.stat(realPath, { bigint: true });
      return { realPath, inode: `${stats.dev}:${stats.ino}` };
    }),
};

export const nodeClock: Clock = {
  nowMs: () => performance.now(),
  setTimer(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
