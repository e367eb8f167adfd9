// How fast a link may read: bytes per second over all its fetchers, changeable at any time. Pure
// arithmetic; the caller brings the clock and does the waiting. Invariant: over any time the bytes
// taken exceed rate x time by no more than the answers that were under way.

export class ByteThrottle {
  /** Bytes taken that the rate has not paid for yet, as of `#atMs`. */
  #debtBytes = 0;
  #atMs = 0;

  /** So many bytes have arrived. */
  take(bytes: number, at: { nowMs: number; bytesPerSecond: number | null }): void {
    this.#pay(at);
    if (at.bytesPerSecond !== null) this.#debtBytes += bytes;
  }

  /** How long to wait, at the present rate, until more may be asked for. */
  waitMs(at: { nowMs: number; bytesPerSecond: number | null }): number {
    this.#pay(at);
    return at.bytesPerSecond === null ? 0 : (this.#debtBytes * 1000) / at.bytesPerSecond;
  }

  #pay({ nowMs, bytesPerSecond }: { nowMs: number; bytesPerSecond: number | null }): void {
    const paidBytes = ((nowMs - this.#atMs) * (bytesPerSecond ?? 0)) / 1000;
    this.#atMs = nowMs;
    this.#debtBytes = bytesPerSecond === null ? 0 : Math.max(0, this.#debtBytes - paidBytes);
  }
}
