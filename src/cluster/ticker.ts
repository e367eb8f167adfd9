// One coarse tick for all request timeouts of a cluster, instead of a timer per request. Owns the
// interval; the clock is an argument. Invariant: the interval runs only while somebody listens.
export class Ticker {
  readonly now: () => number;
  readonly #tickMs: number;
  readonly #listeners = new Set<(now: number) => void>();
  #interval: NodeJS.Timeout | undefined;

  constructor(now: () => number, tickMs: number) {
    this.now = now;
    this.#tickMs = tickMs;
  }

  add(listener: (now: number) => void): () => void {
    this.#listeners.add(listener);
    this.#interval ??= setInterval(() => this.#tick(), this.#tickMs);
    return () => this.#remove(listener);
  }

  #remove(listener: (now: number) => void): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    clearInterval(this.#interval);
    this.#interval = undefined;
  }

  #tick(): void {
    const now = this.now();
    for (const listener of this.#listeners) listener(now);
  }
}
