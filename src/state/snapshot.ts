// The local snapshot of the state: a file that `causeway state import` reads. Owns that file: all
// records, written anew by write, fsync, rename, and behind them each commit since, so that one
// costs what it changes and not what there is. Refuses to know what records mean; commits that
// pile up are written together.
// Invariant: the file under its name always has all records as of one commit and every commit since
// up to another, whatever moment we die at; only behind that may there be part of one more.
import { constants, copyFile, mkdir, open, rename } from 'node:fs/promises';
import path from 'node:path';
import { formatCommit } from './export-file.ts';
import type { KeyValue } from './partition-writer.ts';

export const snapshotFileName = 'state-snapshot.jsonl';
/** What the process before us left: kept, so that a start with a wrong state overwrites nothing. */
export const previousFileName = 'state-snapshot.previous.jsonl';

/** Durable under `file` when it returns: temporary file, fsync, rename, fsync of the directory. */
export async function writeFileDurably(file: string, text: string): Promise<void> {
  const directory = path.dirname(file);
  await mkdir(directory, { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  const handle = await open(temporary, 'w', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  const parent = await open(directory, 'r');
  try {
    await parent.sync();
  } finally {
    await parent.close();
  }
}

/** With less behind the records than this they are not written anew. */
const commitsBytesMin = 1024 * 1024;

export interface SnapshotOptions {
  readonly directory: string;
  /** Called when the file is written anew: all records as they are then. */
  readonly whole: () => string;
  readonly onFault: (error: unknown) => void;
}

export class SnapshotWriter {
  readonly file: string;
  readonly #options: SnapshotOptions;
  #waiting: (readonly KeyValue[])[] = [];
  /** Of the records in the file; 0 while it is not known to be ours and right. */
  #wholeBytes = 0;
  #commitsBytes = 0;
  #isPreviousKept = false;
  #writing: Promise<void> | undefined;

  constructor(options: SnapshotOptions) {
    this.file = path.join(options.directory, snapshotFileName);
    this.#options = options;
  }

  /** After a commit, which `whole` has in it from now on. */
  add(commit: readonly KeyValue[]): void {
    this.#waiting.push(commit);
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined;
    });
  }

  /** The state has changed by something else: the next commit writes all of it. */
  invalidate(): void {
    this.#wholeBytes = 0;
  }

  /** Resolves when what was added has been written, or has failed. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async #keepPrevious(): Promise<void> {
    try {
      await copyFile(this.file, path.join(path.dirname(this.file), previousFileName));
    } catch (error) {
      const isFirst = error instanceof Error && 'code' in error && error.code === 'ENOENT';
      if (!isFirst) throw error;
    }
    this.#isPreviousKept = true;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const commits = this.#waiting;
      this.#waiting = [];
      try {
        await this.#write(commits);
      } catch (error) {
        this.#wholeBytes = 0;
        this.#options.onFault(error);
      }
    }
  }

  async #write(commits: readonly (readonly KeyValue[])[]): Promise<void> {
    const commitsBytesMax = Math.max(commitsBytesMin, 2 * this.#wholeBytes);
    if (this.#wholeBytes === 0 || this.#commitsBytes > commitsBytesMax) return this.#writeWhole();
    try {
      await this.#append(Buffer.from(commits.map(formatCommit).join('')));
    } catch {
      // Part of it may be there now, or somebody took the file away: what counts is the next line.
      await this.#writeWhole();
    }
  }

  async #append(bytes: Buffer): Promise<void> {
    this.#commitsBytes += bytes.length;
    const handle = await open(this.file, constants.O_WRONLY | constants.O_APPEND);
    try {
      await handle.appendFile(bytes);
      await handle.datasync();
    } finally {
      await handle.close();
    }
  }

  async #writeWhole(): Promise<void> {
    if (!this.#isPreviousKept) await this.#keepPrevious();
    const text = this.#options.whole();
    // What came meanwhile is in it, and must not stand behind what came after it.
    this.#waiting = [];
    this.#wholeBytes = Buffer.byteLength(text);
    this.#commitsBytes = 0;
    await writeFileDurably(this.file, text);
  }
}
