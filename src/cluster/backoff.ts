// How long to stay away from what has just failed: doubling, capped, with jitter so that many
// clients do not come back together. Pure: the clock and the dice are arguments.
// Invariant: no failures, no waiting.
export class Backoff {
  readonly #firstMs: number;
  readonly #lastMs: number;
  readonly #random: () => number;
  #failuresCount = 0;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(firstMs: number, lastMs: number, random: () => number) {
    this.#firstMs = firstMs;
    this.#lastMs = lastMs;
    this.#random = random;
  }

  get failuresCount(): number {
    return this.#failuresCount;
  }

  failed(nowMs: number): void {
    const full = Math.min(this.#lastMs, this.#firstMs * 2 ** Math.min(this.#failuresCount, 30));
    this.#failuresCount++;
    this.#notBeforeMs = nowMs + full * (0.8 + 0.4 * this.#random());
  }

  succeeded(): void {
    this.#failuresCount = 0;
    this.#notBeforeMs = Number.NEGATIVE_INFINITY;
  }

  waitMs(nowMs: number): number {
    return Math.max(0, this.#notBeforeMs - nowMs);
  }
}
