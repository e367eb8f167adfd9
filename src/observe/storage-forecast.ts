// How long the free space of the storage will last. Owns a few samples of what is used; refuses to
// know who asks and how often. Invariant: without growth over a known time the answer is unknown,
// never a guess from a single sample.

export interface StorageSample {
  readonly usedBytes: number;
  readonly freeBytes: number;
  /** Fetching stops below so many free bytes. */
  readonly minFreeBytes: number;
}

const windowMs = 3_600_000;
const spacingMs = 10_000;

export class StorageForecast {
  readonly #now: () => number;
  readonly #samples: { readonly atMs: number; readonly usedBytes: number }[] = [];

  /** `now` is monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Hours until fetching stops at the growth of the last hour; null when that is not known. */
  hoursToFull(sample: StorageSample): number | null {
    const atMs = this.#now();
    const leftBytes = sample.freeBytes - sample.minFreeBytes;
    const last = this.#samples.at(-1);
    if (last === undefined || atMs - last.atMs >= spacingMs) {
      this.#samples.push({ atMs, usedBytes: sample.usedBytes });
    }
    while ((this.#samples[1]?.atMs ?? atMs) <= atMs - windowMs) this.#samples.shift();
    if (leftBytes <= 0) return 0;
    const first = this.#samples[0];
    if (first === undefined || atMs - first.atMs < spacingMs) return null;
    const bytesPerMs = (sample.usedBytes - first.usedBytes) / (atMs - first.atMs);
    return bytesPerMs > 0 ? leftBytes / bytesPerMs / 3_600_000 : null;
  }
}
