// What the connections of a gateway hold together of answers and of requests that are being dealt
// with (R14). Owns the sum and its limit; refuses to know who holds what. Invariants: whoever holds
// bytes has added them and takes them out again; while the limit is reached a connection may hold
// its little (`heldBytesAlways`) of each kind and no more: it is not read, gets smaller answers, or
// ends where only more would do. So one slow or greedy client costs others size, never their turn.
// Each connection has an account: what it miscounts ends it, and never reaches the sum.
import { heldBytesMax } from './limits.ts';

/** A new answer gets this part of what is left, so that there is something left for the next. */
const grantedPart = 8;

/** What a part of a connection does with what it holds. */
export interface HeldCount {
  /** Of all. */
  readonly usedBytes: number;
  readonly isOver: boolean;
  add(bytes: number): void;
  remove(bytes: number): void;
  during<T>(bytes: number, work: () => Promise<T>): Promise<T>;
}

export class HeldBytes implements HeldCount {
  readonly bytesMax: number;
  #usedBytes = 0;

  constructor(bytesMax = heldBytesMax) {
    this.bytesMax = bytesMax;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get isOver(): boolean {
    return this.#usedBytes >= this.bytesMax;
  }

  add(bytes: number): void {
    this.#usedBytes += bytes;
  }

  remove(bytes: number): void {
    this.#usedBytes -= bytes;
    if (this.#usedBytes < 0) throw new Error('more held bytes were given back than were taken');
  }

  /** `onMiscount`: more was given back than was taken; the connection cannot be trusted. */
  account(onMiscount: (message: string) => void): HeldCount {
    return new HeldAccount(this, onMiscount);
  }

  /** How large an answer may be that somebody is about to make; 0 when there is no room. */
  room(wantedBytes: number): number {
    const left = Math.max(0, this.bytesMax - this.#usedBytes);
    return Math.max(0, Math.min(wantedBytes, Math.ceil(left / grantedPart)));
  }

  during<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    return countedDuring(this, bytes, work);
  }
}

/** Counted while `work` runs, which may not take more than it was given. */
async function countedDuring<T>(
  held: HeldCount,
  bytes: number,
  work: () => Promise<T>,
): Promise<T> {
  held.add(bytes);
  try {
    return await work();
  } finally {
    held.remove(bytes);
  }
}

/** Of one connection. */
class HeldAccount implements HeldCount {
  readonly #all: HeldBytes;
  readonly #onMiscount: (message: string) => void;
  #ownBytes = 0;

  constructor(all: HeldBytes, onMiscount: (message: string) => void) {
    this.#all = all;
    this.#onMiscount = onMiscount;
  }

  get usedBytes(): number {
    return this.#all.usedBytes;
  }

  get isOver(): boolean {
    return this.#all.isOver;
  }

  add(bytes: number): void {
    this.#ownBytes += bytes;
    this.#all.add(bytes);
  }

  remove(bytes: number): void {
    // The others' part stays right whatever is wrong here.
    const own = Math.min(bytes, this.#ownBytes);
    this.#ownBytes -= own;
    this.#all.remove(own);
    if (own < bytes) this.#onMiscount(`${bytes} held bytes were given back, ${own} were taken`);
  }

  during<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    return countedDuring(this, bytes, work);
  }
}
