// The room of one answer while several reads for it are under way: one thread reads while the bytes
// of another read are checked here. Owns what is read and what those under way may bring; refuses
// to know what is read. Invariant: a read may bring what is left when all others bring what they
// may, so that an answer is as large as one that was read in turn.

/** As many as keep one busy while the read before is looked at; all clients share the threads. */
const readsMax = 2;

export class AnswerRoom {
  /** What all of it may be, but for the batch that always passes. */
  readonly bytesMax: number;
  #bytes = 0;
  #reservedBytes = 0;
  /** A read that failed stays. */
  readonly #reads = new Set<Promise<void>>();

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Of the reads that are done. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Resolves when a read has begun: when it may have what it wants, or all that is left, which can
   * be nothing. `work` says how many bytes it brought. Rejects with what a read before threw.
   */
  async begin(wantedBytes: number, work: (bytesMax: number) => Promise<number>): Promise<void> {
    const mustWait = (): boolean =>
      this.#reads.size >= readsMax || (this.#reads.size > 0 && this.#left < wantedBytes);
    while (mustWait()) await Promise.race(this.#reads);
    const bytesMax = Math.max(0, Math.min(wantedBytes, this.#left));
    this.#reservedBytes += bytesMax;
    const read = work(bytesMax).then((bytes) => {
      this.#bytes += bytes;
      this.#reservedBytes -= bytesMax;
      this.#reads.delete(read);
    });
    this.#reads.add(read);
  }

  /** All reads are done. Rejects with what the first that failed threw; others go on then. */
  async settled(): Promise<void> {
    await Promise.all(this.#reads);
  }

  get #left(): number {
    return this.bytesMax - this.#bytes - this.#reservedBytes;
  }
}
