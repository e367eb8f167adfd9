// One thing at a time, in the order of arrival.
//
// Owns: a queue of asynchronous steps. Invariant: a step begins only when the one before has
// settled, and a step that failed does not stop the ones behind it.

export class Serial {
  #last: Promise<unknown> = Promise.resolve();
  #unsettled = 0;

  run<T>(step: () => Promise<T>): Promise<T> {
    this.#unsettled++;
    const result = this.#last.then(step, step);
    const settled = (): void => {
      this.#unsettled--;
    };
    this.#last = result.then(settled, settled);
    return result;
  }

  /** Nothing is under way: what is done before this turn ends comes between no two steps. */
  get isIdle(): boolean {
    return this.#unsettled === 0;
  }

  /** Resolves when everything that was asked for before has settled. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** As Serial, for each key on its own. Keys that are idle are forgotten. */
export class KeyedSerial {
  readonly #last = new Map<string, Promise<void>>();

  run<T>(key: string, step: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const result = before.then(step, step);
    const settled: Promise<void> = result.then(
      () => this.#forget(key, settled),
      () => this.#forget(key, settled),
    );
    this.#last.set(key, settled);
    return result;
  }

  /** Resolves when everything that was asked for before has settled. */
  async idle(): Promise<void> {
    await Promise.all(this.#last.values());
  }

  #forget(key: string, settled: Promise<void>): void {
    if (this.#last.get(key) === settled) this.#last.delete(key);
  }
}
