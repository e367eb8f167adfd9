// One thing at a time, in the order of arrival.
//
// Owns: a queue of asynchronous steps. Invariant: a step begins only when the one before has settled,
// and a step that failed does not stop the ones behind it.

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
}
