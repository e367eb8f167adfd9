// Randomness that a failed test can repeat.
//
// Owns: the generator (mulberry32) and where the seed comes from: CAUSEWAY_TEST_SEED, else new for
// each run. Invariant: the same seed gives the same numbers; `describe` names the seed for a test's
// messages.

import { randomBytes } from 'node:crypto';

export class SeededRandom {
  readonly seed: number;
  #state: number;

  constructor(seed = seedOfRun()) {
    this.seed = seed;
    this.#state = seed >>> 0;
  }

  /** At least 0, below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0, below `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  describe(): string {
    return `repeat with CAUSEWAY_TEST_SEED=${this.seed}`;
  }
}

function seedOfRun(): number {
  const given = process.env.CAUSEWAY_TEST_SEED;
  if (given === undefined) return randomBytes(4).readUInt32BE(0);
  const seed = Number(given);
  if (!Number.isInteger(seed)) throw new Error(`CAUSEWAY_TEST_SEED is no whole number: ${given}`);
  return seed;
}
