// Local snapshots of the state: the last one as a file that `causeway state import` reads. Owns
// that file and the order write, fsync, rename. Refuses to decide when; writes that pile up are
// merged into the last.
// Invariant: the file under its name is always a whole one, whatever moment we die at.
import { copyFile, mkdir, open, rename } from 'node:fs/promises';
import path from 'node:path';

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

export class SnapshotWriter {
  readonly file: string;
  readonly #onFault: (error: unknown) => void;
  #next: (() => string) | undefined;
  #isPreviousKept = false;
  #writing: Promise<void> | undefined;

  constructor(directory: string, onFault: (error: unknown) => void) {
    this.file = path.join(directory, snapshotFileName);
    this.#onFault = onFault;
  }

  /** `format` is called when the file is written, so it always writes the latest state. */
  request(format: () => string): void {
    this.#next = format;
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined;
    });
  }

  /** Resolves when what was requested has been written, or has failed. */
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
    while (this.#next !== undefined) {
      const format = this.#next;
      this.#next = undefined;
      try {
        if (!this.#isPreviousKept) await this.#keepPrevious();
        await writeFileDurably(this.file, format());
      } catch (error) {
        this.#onFault(error);
      }
    }
  }
}
