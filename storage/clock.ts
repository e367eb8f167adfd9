// Time as storage sees it: a monotonic reading and one-shot timers, both arguments.
//
// Owns: nothing but the interface. It refuses to know the wall clock: no decision of the mirror log
// may depend on a date. Invariant: `nowMs` never goes back.

export interface Clock {
  /** Monotonic milliseconds from an arbitrary origin. */
  nowMs(): number;
  /** Runs `callback` once after the delay; the answer cancels it. */
  setTimer(delayMs: number, callback: () => void): () => void;
}
