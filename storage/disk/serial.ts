// One thing at a time, in the order of arrival.
//
// Owns: a queue of asynchronous steps. Invariant: a step begins only when the one before has
// settled, and a step that failed does not stop the ones behind it.

export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(step: () => Promise<T>): Promise<T> {
    const result = this.#last.then(step, step);
    this.#last = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
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
