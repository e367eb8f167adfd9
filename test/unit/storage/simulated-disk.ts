// A disk in memory that forgets, on a crash, what a real one may forget.
//
// Fault model: content of a file survives up to its last sync; each write or truncation after it
// may be dropped, kept, or (a write) be kept in part, independently of the others. Names in a
// directory survive up to its last sync; of the changes after it a prefix is kept, as a journal
// would. Every step can be made the last one (`crashAfter`), and single operations can be made to
// fail. Knows nothing of logs. All choices come from one seeded source.

import {
  type DirectoryIdentity,
  type Disk,
  DiskError,
  type DiskErrorCode,
  type DiskFile,
  type DiskSpace,
  type HostProcess,
  parentPath,
} from '../../../storage/disk/device.ts';

/** Uniform numbers in [0, 1) from a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export class SimulatedCrash extends Error {}

type Change = { at: number; bytes: Buffer } | { size: number };

class FileNode {
  content: Buffer;
  durable: Buffer;
  pending: Change[] = [];

  constructor(content: Buffer) {
    this.content = content;
    this.durable = content;
  }
}

type Node = FileNode | DirectoryNode;
type NameChange = { name: string; node: Node | null }[];

class DirectoryNode {
  readonly inode: number;
  names: Map<string, Node>;
  durable: Map<string, Node>;
  pending: NameChange[] = [];

  constructor(inode: number, names = new Map<string, Node>()) {
    this.inode = inode;
    this.names = names;
    this.durable = new Map(names);
  }
}

function applyChange(content: Buffer, change: Change): Buffer {
  if ('size' in change) {
    const resized = Buffer.alloc(change.size);
    content.copy(resized, 0, 0, Math.min(content.length, change.size));
    return resized;
  }
  const end = change.at + change.bytes.length;
  const grown = Buffer.alloc(Math.max(content.length, end));
  content.copy(grown);
  change.bytes.copy(grown, change.at);
  return grown;
}

function applyNames(names: Map<string, Node>, change: NameChange): void {
  for (const { name, node } of change) {
    if (node === null) names.delete(name);
    else names.set(name, node);
  }
}

export type Operation =
  | 'open'
  | 'read'
  | 'write'
  | 'truncate'
  | 'sync'
  | 'rename'
  | 'link'
  | 'remove'
  | 'makeDirectory'
  | 'syncDirectory'
  | 'list'
  | 'space';

export interface Fault {
  readonly operation: Operation;
  readonly pathIncludes: string;
  readonly code: DiskErrorCode;
  /** How often it strikes; for ever when absent. */
  times?: number;
  /** Of a write: how many bytes reach the file before it fails. */
  readonly writtenBytes?: number;
}

let nextInode = 2;
let starts = 1;

export class SimulatedDisk implements Disk {
  readonly process: HostProcess;
  /** Start times of living processes. */
  readonly processes = new Map<number, string>([[1, 'start-1']]);
  readonly faults: Fault[] = [];
  /** Every changing step so far, by name: what a test may want to count. */
  readonly steps: { operation: Operation; path: string }[] = [];
  space_: DiskSpace = { freeBytes: 50e9, totalBytes: 100e9 };
  openFiles = 0;
  openFilesMax = 0;
  #root: DirectoryNode;
  #crashAfter = Number.POSITIVE_INFINITY;
  #crashed = false;
  /** The file whose last change a crash may have left half done. */
  #cutShort: FileNode | null = null;
  readonly #random: () => number;

  constructor(random: () => number, root: DirectoryNode = new DirectoryNode(1)) {
    this.#random = random;
    this.#root = root;
    let nextId = 0;
    this.process = {
      pid: 1,
      startTime: async (pid) => this.processes.get(pid) ?? null,
      randomId: () => `directory${String(++nextId).padStart(13, '0')}`,
    };
  }

  /** The given number of changing steps from now succeed, the next one ends everything. */
  crashAfter(steps: number): void {
    this.#crashAfter = this.steps.length + steps;
  }

  get hasCrashed(): boolean {
    return this.#crashed;
  }

  /** What is found after a power cut, by a process with the same pid and another start. */
  powerCut(): SimulatedDisk {
    return this.#successor(this.#survivingDirectory(this.#root));
  }

  /** What is found after only the process was killed: the page cache has everything. */
  processKill(): SimulatedDisk {
    // The step that it was killed in did not take place.
    this.#cutShort?.pending.pop();
    return this.#successor(this.#root);
  }

  #successor(root: DirectoryNode): SimulatedDisk {
    this.#crashed = true;
    const successor = new SimulatedDisk(this.#random, root);
    starts += 1;
    successor.processes.set(1, `start-${starts}`);
    return successor;
  }

  /** A copy of a directory under another name, as `cp -a` makes it. */
  copyDirectory(from: string, to: string): void {
    const copy = (node: Node): Node => {
      if (node instanceof FileNode) return new FileNode(Buffer.from(node.content));
      const names = [...node.names].map(([name, child]) => [name, copy(child)] as const);
      return new DirectoryNode(nextInode++, new Map(names));
    };
    this.#parent(to).names.set(baseName(to), copy(this.#directory(from)));
  }

  content(path: string): Buffer {
    return this.#file(path).content;
  }

  /** Changes content behind everybody's back, durably. */
  tamper(path: string, change: (content: Buffer) => Buffer): void {
    const file = this.#file(path);
    file.content = change(Buffer.from(file.content));
    file.durable = file.content;
    file.pending = [];
  }

  tamperRemove(path: string): void {
    this.#parent(path).names.delete(baseName(path));
    this.#parent(path).durable.delete(baseName(path));
  }

  async openFile(path: string, { create }: { create: boolean }): Promise<DiskFile> {
    this.#check('open', path);
    const parent = this.#parent(path);
    let node = parent.names.get(baseName(path));
    if (node === undefined) {
      if (!create) throw new DiskError('NOT_FOUND', `no file ${path}`);
      this.#step('open', path);
      node = new FileNode(Buffer.alloc(0));
      this.#rename(parent, [{ name: baseName(path), node }]);
    }
    if (!(node instanceof FileNode)) throw new DiskError('IO', `${path} is a directory`);
    this.openFiles += 1;
    this.openFilesMax = Math.max(this.openFilesMax, this.openFiles);
    return this.#handle(path, node);
  }

  #handle(path: string, node: FileNode): DiskFile {
    let closed = false;
    const live = (): void => {
      if (closed) throw new Error(`use of a closed handle of ${path}`);
    };
    return {
      size: async () => {
        live();
        this.#check('read', path);
        return node.content.length;
      },
      read: async (target, position) => {
        live();
        this.#check('read', path);
        if (position >= node.content.length) return 0;
        return node.content.copy(target, 0, position, position + target.length);
      },
      write: async (content, position) => {
        live();
        const bytes = Buffer.from(content);
        this.#change('write', path, node, { at: position, bytes });
      },
      writeNow: (content, position) => {
        live();
        this.#change('write', path, node, { at: position, bytes: Buffer.from(content) });
      },
      truncate: async (size) => {
        live();
        this.#change('truncate', path, node, { size });
      },
      truncateNow: (size) => {
        live();
        this.#change('truncate', path, node, { size });
      },
      sync: async () => {
        live();
        this.#check('sync', path);
        this.#step('sync', path);
        node.durable = node.content;
        node.pending = [];
      },
      close: async () => {
        live();
        closed = true;
        this.openFiles -= 1;
      },
    };
  }

  #change(operation: Operation, path: string, node: FileNode, change: Change): void {
    const fault = this.#faultOf(operation, path);
    if (fault !== undefined) {
      const written = fault.writtenBytes ?? 0;
      if ('bytes' in change && written > 0) {
        const part = { at: change.at, bytes: change.bytes.subarray(0, written) };
        node.content = applyChange(node.content, part);
        node.pending.push(part);
      }
      throw new DiskError(fault.code, `${operation} of ${path}: injected`);
    }
    const crashes = this.#crashed || this.steps.length >= this.#crashAfter;
    if (!this.#crashed) node.pending.push(change);
    if (!this.#crashed && crashes) this.#cutShort = node;
    if (!crashes) node.content = applyChange(node.content, change);
    this.#step(operation, path);
  }

  async fileSize(path: string): Promise<number | null> {
    this.#check('read', path);
    const node = this.#find(path);
    return node instanceof FileNode ? node.content.length : null;
  }

  async list(directory: string): Promise<string[]> {
    this.#check('list', directory);
    return [...this.#directory(directory).names.keys()];
  }

  async makeDirectory(path: string): Promise<void> {
    if (this.#find(path) !== undefined) return;
    if (parentPath(path) !== '/') await this.makeDirectory(parentPath(path));
    this.#check('makeDirectory', path);
    this.#step('makeDirectory', path);
    const node = new DirectoryNode(nextInode++);
    this.#rename(this.#parent(path), [{ name: baseName(path), node }]);
    await this.syncDirectory(parentPath(path));
  }

  async rename(from: string, to: string): Promise<void> {
    this.#check('rename', from);
    const parent = this.#parent(from);
    if (parent !== this.#parent(to)) throw new Error('renames across directories are not modelled');
    const node = parent.names.get(baseName(from));
    if (node === undefined) throw new DiskError('NOT_FOUND', `no ${from}`);
    this.#step('rename', from);
    this.#rename(parent, [
      { name: baseName(from), node: null },
      { name: baseName(to), node },
    ]);
  }

  async link(from: string, to: string): Promise<void> {
    this.#check('link', to);
    const parent = this.#parent(to);
    if (parent.names.has(baseName(to))) throw new DiskError('EXISTS', `${to} exists`);
    this.#step('link', to);
    this.#rename(parent, [{ name: baseName(to), node: this.#file(from) }]);
  }

  async remove(path: string): Promise<void> {
    this.#check('remove', path);
    if (this.#find(path) === undefined) return;
    this.#step('remove', path);
    this.#rename(this.#parent(path), [{ name: baseName(path), node: null }]);
  }

  async removeTree(path: string): Promise<void> {
    const node = this.#find(path);
    if (node instanceof DirectoryNode) {
      for (const name of [...node.names.keys()]) await this.removeTree(`${path}/${name}`);
    }
    await this.remove(path);
  }

  async syncDirectory(path: string): Promise<void> {
    this.#check('syncDirectory', path);
    const directory = this.#directory(path);
    this.#step('syncDirectory', path);
    directory.durable = new Map(directory.names);
    directory.pending = [];
  }

  async space(path: string): Promise<DiskSpace> {
    this.#check('space', path);
    return this.space_;
  }

  async directoryIdentity(path: string): Promise<DirectoryIdentity> {
    return { realPath: path, inode: String(this.#directory(path).inode) };
  }

  #rename(directory: DirectoryNode, change: NameChange): void {
    applyNames(directory.names, change);
    directory.pending.push(change);
  }

  #survivingDirectory(directory: DirectoryNode): DirectoryNode {
    const names = new Map(directory.durable);
    const kept = Math.floor(this.#random() * (directory.pending.length + 1));
    for (const change of directory.pending.slice(0, kept)) applyNames(names, change);
    for (const [name, node] of names) {
      const survivor =
        node instanceof FileNode ? this.#survivingFile(node) : this.#survivingDirectory(node);
      names.set(name, survivor);
    }
    return new DirectoryNode(directory.inode, names);
  }

  #survivingFile(file: FileNode): FileNode {
    let content = file.durable;
    // Often all or nothing, since mixes of many independent choices nearly never give either.
    const fate = this.#random();
    for (const change of file.pending) {
      const luck = fate < 0.2 ? 1 : fate < 0.4 ? 0 : this.#random();
      if (luck < 0.35) continue;
      if (luck < 0.6 && 'bytes' in change) {
        const bytes = change.bytes.subarray(0, Math.floor(this.#random() * change.bytes.length));
        content = applyChange(content, { at: change.at, bytes });
      } else {
        content = applyChange(content, change);
      }
    }
    return new FileNode(content);
  }

  #faultOf(operation: Operation, path: string): Fault | undefined {
    const index = this.faults.findIndex(
      (fault) => fault.operation === operation && path.includes(fault.pathIncludes),
    );
    const fault = this.faults[index];
    if (fault?.times !== undefined) {
      fault.times -= 1;
      if (fault.times <= 0) this.faults.splice(index, 1);
    }
    return fault;
  }

  #check(operation: Operation, path: string): void {
    if (this.#crashed) throw new SimulatedCrash(`${operation} of ${path} after the crash`);
    const fault = this.#faultOf(operation, path);
    if (fault !== undefined) throw new DiskError(fault.code, `${operation} of ${path}: injected`);
  }

  #step(operation: Operation, path: string): void {
    if (this.#crashed || this.steps.length >= this.#crashAfter) {
      this.#crashed = true;
      throw new SimulatedCrash(`crash in ${operation} of ${path}`);
    }
    this.steps.push({ operation, path });
  }

  #find(path: string): Node | undefined {
    let node: Node | undefined = this.#root;
    for (const name of path.split('/').filter((part) => part !== '')) {
      if (!(node instanceof DirectoryNode)) return undefined;
      node = node.names.get(name);
    }
    return node;
  }

  #directory(path: string): DirectoryNode {
    const node = this.#find(path);
    if (node instanceof DirectoryNode) return node;
    throw new DiskError('NOT_FOUND', `no directory ${path}`);
  }

  #file(path: string): FileNode {
    const node = this.#find(path);
    if (node instanceof FileNode) return node;
    throw new DiskError('NOT_FOUND', `no file ${path}`);
  }

  #parent(path: string): DirectoryNode {
    return this.#directory(parentPath(path));
  }
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
