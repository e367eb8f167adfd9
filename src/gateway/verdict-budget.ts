// How many answers about rights the connections of a gateway keep together (R14): a client may name
// any topic, so it must not cost memory to have asked. Owns the count and its limit; refuses to
// know answers. Invariant: whoever keeps answers has told how many, and tells 0 when it is over;
// while the limit is reached each connection keeps a few all the same, so that nobody asks for the
// same topic with each request.
import { verdictsAlways, verdictsMax } from './limits.ts';

export class VerdictBudget {
  readonly #max: number;
  #used = 0;

  constructor(max = verdictsMax) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** How many a connection may keep that keeps so many now. */
  most(kept: number): number {
    return Math.max(verdictsAlways, kept + this.#max - this.#used);
  }

  /** One connection keeps so many more, or fewer. */
  change(by: number): void {
    this.#used += by;
  }
}
