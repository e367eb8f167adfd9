// Whether the disk takes writes without making anybody wait.
//
// Owns: what the last writes and flushes took. It knows no files. A write into the page cache takes
// microseconds until the kernel holds writers back, which it does when the disk cannot keep up, and
// without an end when the disk has gone. Invariant: after one write that took long, or while a
// flush takes long, nobody is told for a while that waiting for a write is short.

import type { Clock } from '../clock.ts';

/** A mebibyte into the page cache takes a tenth of a millisecond to one. */
const writeMsMax = 20;
/** So many times what a slow write took nobody waits for the next: a hundredth of the time. */
const distrustTimes = 100;
/** A disk that does not answer shows in a flush first: while records come in one is always near. */
const flushMsMax = 200;

export class DiskPace {
  readonly #clock: Clock;
  readonly #flushes = new Set<{ readonly sinceMs: number }>();
  #distrustedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A write may be waited for by whoever has other things to do. */
  get isPrompt(): boolean {
    const nowMs = this.#clock.nowMs();
    if (nowMs < this.#distrustedUntilMs) return false;
    for (const { sinceMs } of this.#flushes) if (nowMs - sinceMs > flushMsMax) return false;
    return true;
  }

  /** Runs a write that is waited for. */
  write(write: () => void): void {
    const begunMs = this.#clock.nowMs();
    try {
      write();
    } finally {
      const nowMs = this.#clock.nowMs();
      const tookMs = nowMs - begunMs;
      if (tookMs > writeMsMax) this.#distrustedUntilMs = nowMs + tookMs * distrustTimes;
    }
  }

  /** Runs whatever makes a log durable: any step of it may be the one that does not end. */
  async flush(flush: () => Promise<void>): Promise<void> {
    const begun = { sinceMs: this.#clock.nowMs() };
    this.#flushes.add(begun);
    try {
      await flush();
    } finally {
      this.#flushes.delete(begun);
    }
  }
}
