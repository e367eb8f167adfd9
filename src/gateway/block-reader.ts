// Reads one socket into blocks that are used again. Owns the block that the next read goes into,
// and how large it is; with TLS also what was read and is not given on yet: each record comes as a
// read of its own, and what a client sends at a time takes many. Refuses to know what is read.
// Invariants: what is not given on lies in one piece of one block, and is given on before another
// block is taken; no byte waits past the turn in which it came.
import { receiveBlockSizes } from './limits.ts';
import type { Block, ReceiveBlocks } from './receive-blocks.ts';

/** So many reads in turn that would fit into the next smaller block give up the larger one. */
const smallReadsMax = 64;
/** The longest that TLS allows: whoever has more to send sends these, one behind the other. */
const recordBytesMax = 16 * 1024;

export interface BlockReaderOptions {
  readonly blocks: ReceiveBlocks;
  /** Reads of the longest record are given on together, at the end of the turn at the latest. */
  readonly gathersRecords: boolean;
  /** A view of the block, valid while it runs. */
  onChunk(chunk: Buffer): void;
}

export class BlockReader {
  readonly #blocks: ReceiveBlocks;
  /** What a block must have room for to be read into. */
  readonly #roomBytes: number;
  readonly #onChunk: (chunk: Buffer) => void;
  #block: Block | null = null;
  #sizeClassWished = 0;
  #smallReads = 0;
  /** Of the block, where what was not given on begins, and where the next read goes. */
  #start = 0;
  #end = 0;
  #isToGive = false;
  readonly #giveLater: () => void;

  constructor({ blocks, gathersRecords, onChunk }: BlockReaderOptions) {
    this.#blocks = blocks;
    this.#roomBytes = gathersRecords ? recordBytesMax : Number.POSITIVE_INFINITY;
    this.#onChunk = onChunk;
    this.#giveLater = () => {
      this.#isToGive = false;
      this.give();
    };
  }

  /** Asked for before each read: the same block when everything in it has left. */
  next(): Buffer {
    const block = this.#block;
    if (block === null) return this.#take();
    const hasAllGone = this.#start === this.#end && block.references === 1;
    if (hasAllGone && block.sizeClass === this.#sizeClassWished) {
      this.#start = 0;
      this.#end = 0;
      return block.bytes;
    }
    // What was read is given on in `onRead` where no record has room behind it.
    const hasRoom = this.#end + this.#roomBytes <= block.bytes.length;
    if (hasRoom && !hasAllGone) return block.bytes.subarray(this.#end);
    this.#blocks.release(block);
    this.#smallReads = 0;
    return this.#take();
  }

  /** So many bytes came into what `next` gave last. */
  onRead(count: number): void {
    const block = this.#block;
    if (block === null) return;
    this.#end += count;
    const isFull = this.#end + this.#roomBytes > block.bytes.length;
    if (isFull || count < recordBytesMax) {
      this.give();
    } else if (!this.#isToGive) {
      this.#isToGive = true;
      setImmediate(this.#giveLater);
    }
  }

  /** Gives on what was read. */
  give(): void {
    const block = this.#block;
    if (block === null || this.#start === this.#end) return;
    const chunk = block.bytes.subarray(this.#start, this.#end);
    this.#start = this.#end;
    this.#sizeClassWished = this.#sizeClassAfter(block, chunk.length);
    this.#onChunk(chunk);
  }

  /** Nothing more is read, or given on. */
  release(): void {
    if (this.#block !== null) this.#blocks.release(this.#block);
    this.#block = null;
  }

  #take(): Buffer {
    this.#block = this.#blocks.take(this.#sizeClassWished);
    this.#start = 0;
    this.#end = 0;
    return this.#block.bytes;
  }

  /** Large reads want larger blocks, and connections at rest must not hold them. */
  #sizeClassAfter({ bytes, sizeClass }: Block, count: number): number {
    if (count === bytes.length) {
      this.#smallReads = 0;
      return Math.min(sizeClass + 1, receiveBlockSizes.length - 1);
    }
    if (sizeClass === 0) return 0;
    if (count > (receiveBlockSizes[sizeClass - 1] ?? 0)) this.#smallReads = 0;
    else if (++this.#smallReads >= smallReadsMax) return sizeClass - 1;
    return sizeClass;
  }
}
