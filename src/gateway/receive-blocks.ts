// Memory that sockets are read into, used again and again. Owns the blocks and who still refers to
// them; refuses to know sockets. Invariants: a block is filled anew only when nobody but its reader
// refers to it; all blocks together stay below the limit but for the smallest, of which each
// socket needs one.
import { receiveBlockSizes, receiveBytesMax } from './limits.ts';

export interface Block {
  readonly bytes: Buffer;
  readonly sizeClass: number;
  /** The reader, and each write that has not left yet. */
  references: number;
}

/** Free blocks that are kept, per size. */
const freeBytesMax = 8 * 1024 * 1024;

export class ReceiveBlocks {
  readonly #bytesMax: number;
  readonly #byMemory = new Map<ArrayBufferLike, Block>();
  readonly #free: readonly Block[][] = receiveBlockSizes.map(() => []);
  #usedBytes = 0;

  constructor(bytesMax = receiveBytesMax) {
    this.#bytesMax = bytesMax;
  }

  /** Of all blocks that somebody refers to. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** There are only small blocks from now on. */
  get isShort(): boolean {
    return this.#usedBytes + sizeOf(1) > this.#bytesMax;
  }

  /** A block for one reader; smaller than wished for when the limit is reached. */
  take(sizeClassWished: number): Block {
    let sizeClass = Math.min(sizeClassWished, receiveBlockSizes.length - 1);
    while (sizeClass > 0 && this.#usedBytes + sizeOf(sizeClass) > this.#bytesMax) sizeClass--;
    this.#usedBytes += sizeOf(sizeClass);
    const free = this.#free[sizeClass]?.pop();
    if (free !== undefined) {
      free.references = 1;
      this.#byMemory.set(free.bytes.buffer, free);
      return free;
    }
    const block = { bytes: Buffer.allocUnsafeSlow(sizeOf(sizeClass)), sizeClass, references: 1 };
    this.#byMemory.set(block.bytes.buffer, block);
    return block;
  }

  /** The block that a view lies in, now with one reference more; null for other memory. */
  retain(view: Buffer): Block | null {
    const block = this.#byMemory.get(view.buffer);
    if (block === undefined) return null;
    block.references++;
    return block;
  }

  release(block: Block): void {
    block.references--;
    if (block.references > 0) return;
    if (block.references < 0) throw new Error('a block was released more often than taken');
    this.#usedBytes -= block.bytes.length;
    this.#byMemory.delete(block.bytes.buffer);
    const free = this.#free[block.sizeClass];
    const size = block.bytes.length;
    if (free !== undefined && (free.length + 1) * size <= freeBytesMax) free.push(block);
  }

  /** The same bytes for keeping: a copy when they lie in a block. */
  owned(view: Buffer): Buffer {
    return this.#byMemory.has(view.buffer) ? Buffer.from(view) : view;
  }
}

function sizeOf(sizeClass: number): number {
  return receiveBlockSizes[sizeClass] ?? 0;
}
