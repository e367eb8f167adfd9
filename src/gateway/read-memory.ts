// Memory that mirrors are read into for answers, used again: memory of its own for each megabyte
// has the kernel clear its pages and the collector look at the whole heap every few answers. Owns
// what is kept free; refuses to know who reads. Invariants: nobody gets memory that is in use; what
// is not given back is the collector's, so a forgotten answer costs time and never memory; what is
// kept and by how much it is larger than asked for are bounded.
import type { ReadInto } from '../../storage/mirror-log.ts';
import { keptReadBytesMax, readRoundingPart } from './limits.ts';

/** Smaller reads get memory from Node, which makes little of them. */
const pooledBytesMin = 64 * 1024;

/** To a few sizes, so that reads of nearly one size share memory. */
function roundedUp(bytes: number): number {
  const step = 2 ** Math.floor(Math.log2(bytes)) * readRoundingPart;
  return Math.ceil(bytes / step) * step;
}

export class ReadMemory {
  readonly #keptBytesMax: number;
  /** The latest last: its pages are the likeliest to be in the processor's cache. */
  readonly #free: ArrayBufferLike[] = [];
  #freeBytes = 0;

  constructor(keptBytesMax = keptReadBytesMax) {
    this.#keptBytesMax = keptBytesMax;
  }

  /** What nobody uses, and is kept. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Of one answer. */
  forAnswer(): AnswerMemory {
    return new AnswerMemory(this);
  }

  /** Only `AnswerMemory` calls the next two. */
  take(bytes: number): ArrayBufferLike {
    const size = roundedUp(bytes);
    const index = this.#free.findLastIndex(({ byteLength }) => byteLength === size);
    const [memory] = index < 0 ? [] : this.#free.splice(index, 1);
    if (memory === undefined) return Buffer.allocUnsafeSlow(size).buffer;
    this.#freeBytes -= size;
    return memory;
  }

  giveBack(memory: ArrayBufferLike): void {
    this.#free.push(memory);
    this.#freeBytes += memory.byteLength;
    while (this.#freeBytes > this.#keptBytesMax) {
      this.#freeBytes -= this.#free.shift()?.byteLength ?? 0;
    }
  }
}

/** What one answer is read into, from the first read until the kernel has the answer. */
export class AnswerMemory {
  readonly #memory: ReadMemory;
  readonly #taken = new Set<ArrayBufferLike>();

  constructor(memory: ReadMemory) {
    this.#memory = memory;
  }

  readonly take = (bytes: number): Buffer => {
    if (bytes < pooledBytesMin) return Buffer.allocUnsafe(bytes);
    const memory = this.#memory.take(bytes);
    this.#taken.add(memory);
    return Buffer.from(memory, 0, bytes);
  };

  /** For one read, which may overlap with others for the answer. */
  forRead(): ReadForAnswer {
    const taken: ArrayBufferLike[] = [];
    const take: ReadInto = (bytes) => {
      const memory = this.take(bytes);
      taken.push(memory.buffer);
      return memory;
    };
    const keepOnly = (records: Buffer): void => {
      for (const memory of taken) if (memory !== records.buffer) this.#giveBack(memory);
    };
    return { take, keepOnly };
  }

  /** Only when no read is under way and nobody refers to what was read. */
  giveBack(): void {
    for (const memory of this.#taken) this.#giveBack(memory);
  }

  #giveBack(memory: ArrayBufferLike): void {
    if (this.#taken.delete(memory)) this.#memory.giveBack(memory);
  }
}

export interface ReadForAnswer {
  readonly take: ReadInto;
  /** The read is over, and nobody refers to anything that it took but to what `records` lies in. */
  keepOnly(records: Buffer): void;
}
