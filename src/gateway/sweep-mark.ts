// When to look through something that grows for what nobody needs any more. Owns the size at which
// that is due; refuses to know what is kept. Invariant: a look comes only after as many additions
// as the look before left, so that all of them together cost a fixed amount for each addition.

export class SweepMark {
  readonly #sizeLeast: number;
  #dueAbove: number;

  /** Up to `sizeLeast` nothing is looked through. */
  constructor(sizeLeast: number) {
    this.#sizeLeast = sizeLeast;
    this.#dueAbove = sizeLeast;
  }

  /** To be called with the size after each addition. `sweep` returns what is left. */
  grown(size: number, sweep: () => number): void {
    if (size <= this.#dueAbove) return;
    this.#dueAbove = Math.max(this.#sizeLeast, 2 * sweep());
  }
}
