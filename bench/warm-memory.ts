// Memory that a run of a benchmark can have without waiting for it. A virtual machine gives free
// memory back to its host within moments, and the first touch of it afterwards costs several times
// what copying into it does: whoever writes more to files, or takes longer, would pay for it. So
// a file as large as what a run will write is held in the page cache, and given back piece by
// piece, as fast as the machine's free memory is taken. Owns that file, nothing of the run.
import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';

const chunkBytes = 1 << 20;
/** This much more is free than before the run: what was given back last is what is taken next. */
const spareBytes = 256 * chunkBytes;
const pieceBytes = 64 * chunkBytes;
const lookMs = 5;

/** Pages that hold nothing, in bytes; nothing is known of them on systems other than Linux. */
function freeBytes(): number {
  const found = /^MemFree:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'));
  if (found === null) throw new Error('/proc/meminfo has no line "MemFree: ... kB"');
  return Number(found[1]) * 1024;
}

class HeldMemory {
  readonly #handle: number;
  #held: number;
  readonly #freeAtBegin: number;

  constructor(bytes: number, file: string) {
    this.#handle = openSync(file, 'w');
    const chunk = Buffer.alloc(chunkBytes);
    let written = 0;
    while (written < bytes) written += writeSync(this.#handle, chunk);
    this.#held = written;
    this.#freeAtBegin = freeBytes();
  }

  giveBack(): void {
    const missing = this.#freeAtBegin + spareBytes - freeBytes();
    if (missing < pieceBytes || this.#held === 0) return;
    this.#held = Math.max(0, this.#held - missing);
    ftruncateSync(this.#handle, this.#held);
  }

  close(): void {
    closeSync(this.#handle);
  }
}

/** Runs `work`, which is about to write `bytes` to files, in memory held in `file` until then. */
export async function inWarmMemory<T>(
  { bytes, file }: { bytes: number; file: string },
  work: () => Promise<T>,
): Promise<T> {
  const memory = new HeldMemory(bytes + spareBytes, file);
  memory.giveBack();
  const timer = setInterval(() => memory.giveBack(), lookMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    memory.close();
    rmSync(file);
  }
}
