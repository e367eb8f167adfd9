// The order of answers on one client connection (R13). Owns a FIFO of slots, one per request that
// has an answer; refuses to know sockets and messages. Only the oldest slot writes through; later
// ones hold what they are given until their turn. Invariant: bytes reach the sink in the order in
// which slots were opened, and `heldBytes` is exactly what waits here.

import type { HeldCount } from './held-bytes.ts';

export interface ResponseSlot {
  /** What is written now goes to the sink at once. */
  readonly isOldest: boolean;
  write(chunk: Buffer): void;
  /** Bytes that are only valid now: copied when they have to wait. */
  pass(view: Buffer): void;
  /** No more bytes; a slot may finish without any. */
  finish(): void;
}

class Slot implements ResponseSlot {
  readonly #queue: ResponseQueue;
  /** Null until something has to wait: hardly any does. */
  held: Buffer[] | null = null;
  isFinished = false;

  constructor(queue: ResponseQueue) {
    this.#queue = queue;
  }

  get isOldest(): boolean {
    return this.#queue.isOldest(this);
  }

  write(chunk: Buffer): void {
    this.#queue.writeTo(this, chunk);
  }

  pass(view: Buffer): void {
    this.#queue.passTo(this, view);
  }

  finish(): void {
    this.#queue.finish(this);
  }
}

export class ResponseQueue {
  readonly #sink: (chunk: Buffer) => void;
  readonly #owned: (view: Buffer) => Buffer;
  readonly #held: HeldCount;
  readonly #slots: Slot[] = [];
  #heldBytes = 0;
  #isClosed = false;

  /** `owned` gives the same bytes for keeping. */
  constructor(sink: (chunk: Buffer) => void, owned: (view: Buffer) => Buffer, held: HeldCount) {
    this.#sink = sink;
    this.#owned = owned;
    this.#held = held;
  }

  /** Nothing that waits, or still comes, will go out. */
  close(): void {
    this.#isClosed = true;
    for (const slot of this.#slots) slot.held = null;
    this.#held.remove(this.#heldBytes);
    this.#heldBytes = 0;
  }

  /** Answers that are still owed. */
  get length(): number {
    return this.#slots.length;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  open(): ResponseSlot {
    const slot = new Slot(this);
    this.#slots.push(slot);
    return slot;
  }

  /** Only `Slot` calls the next four. */
  isOldest(slot: Slot): boolean {
    return this.#slots[0] === slot;
  }

  writeTo(slot: Slot, chunk: Buffer): void {
    if (slot.isFinished) throw new Error('a finished response was written to');
    if (this.#slots[0] === slot) {
      this.#sink(chunk);
      return;
    }
    if (this.#isClosed) return;
    slot.held ??= [];
    slot.held.push(chunk);
    this.#heldBytes += chunk.length;
    this.#held.add(chunk.length);
  }

  passTo(slot: Slot, view: Buffer): void {
    this.writeTo(slot, this.#slots[0] === slot ? view : this.#owned(view));
  }

  finish(slot: Slot): void {
    if (slot.isFinished) throw new Error('a response was finished twice');
    slot.isFinished = true;
    while (this.#slots[0]?.isFinished) {
      this.#slots.shift();
      this.#release(this.#slots[0]);
    }
  }

  #release(slot: Slot | undefined): void {
    if (slot === undefined || slot.held === null) return;
    for (const chunk of slot.held) {
      this.#heldBytes -= chunk.length;
      this.#held.remove(chunk.length);
      this.#sink(chunk);
    }
    slot.held = null;
  }
}
