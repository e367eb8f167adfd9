// One timer that makes all logs durable together.
//
// Owns: when logs that were written to are flushed: at most once per interval, a bounded number at
// a time, nothing at all while nobody writes; what is written after a rest hardly waits. It knows
// no files. Invariant: a log that was marked is flushed within one interval plus the time that the
// disk takes.

import type { Clock } from '../clock.ts';

export interface Flushable {
  /** Rejects when the log has failed or waits for the next time; it has reported that then. */
  flush(): Promise<void>;
}

/** Node has four threads for files: a slow disk must leave one to readers and appends. */
const flushesAtOnceMax = 3;
/** After a rest: the partitions of one answer are flushed together. */
const groupingMs = 2;

export class FlushScheduler {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #dirtyMax: number;
  #dirty = new Set<Flushable>();
  #cancelTimer: (() => void) | null = null;
  #running: Promise<void> | null = null;
  #restingSinceMs: number;

  /**
   * More than `dirtyMax` marked logs (each keeps files open) are flushed before the interval ends.
   */
  constructor(options: {
    readonly clock: Clock;
    readonly intervalMs: number;
    readonly dirtyMax: number;
  }) {
    this.#clock = options.clock;
    this.#intervalMs = options.intervalMs;
    this.#dirtyMax = options.dirtyMax;
    this.#restingSinceMs = options.clock.nowMs();
  }

  mark(log: Flushable): void {
    this.#dirty.add(log);
    if (this.#running !== null) return;
    if (this.#dirty.size >= this.#dirtyMax) this.#start();
    else this.#arm();
  }

  /** Flushes what is marked, and stops the timer. */
  async close(): Promise<void> {
    await this.#running;
    this.#start();
    await this.#running;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  #arm(): void {
    if (this.#cancelTimer !== null) return;
    const restedMs = this.#clock.nowMs() - this.#restingSinceMs;
    const leftMs = Math.max(this.#intervalMs - restedMs, Math.min(groupingMs, this.#intervalMs));
    this.#cancelTimer = this.#clock.setTimer(leftMs, () => this.#start());
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#running ??= this.#flushMarked().finally(() => {
      this.#running = null;
      this.#restingSinceMs = this.#clock.nowMs();
      if (this.#dirty.size > 0) this.#arm();
    });
  }

  async #flushMarked(): Promise<void> {
    const marked = this.#dirty.values();
    this.#dirty = new Set();
    const worker = async (): Promise<void> => {
      for (const log of marked) await Promise.allSettled([log.flush()]);
    };
    await Promise.all(Array.from({ length: flushesAtOnceMax }, worker));
  }
}
