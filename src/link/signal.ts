// Small waiting aids of the link layer's loops: a signal that ends a wait early, the loop around
// a regular look, a bound on how much goes on at a time, and a lock per name. They refuse to know
// what is waited for. Invariant: a wait always ends, by notice, time or close.

/** What Node's timers can hold; one of more fires at once. Whoever waits longer looks meanwhile. */
const timerMsMax = 0x7fffffff;

/** One waiter or several; `notify` wakes all of them, or makes the next wait return at once. */
export class Signal {
  #isSet = false;
  #wakers = new Set<() => void>();

  notify(): void {
    this.#isSet = true;
    for (const wake of this.#wakers) wake();
    this.#wakers.clear();
  }

  async wait(timeoutMs: number): Promise<void> {
    if (!this.#isSet) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          this.#wakers.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, Math.min(Math.max(0, timeoutMs), timerMsMax));
        this.#wakers.add(wake);
      });
    }
    this.#isSet = false;
  }
}

/**
 * Takes turns until it is closed, one at a time. A turn returns the milliseconds until the next one
 * and must not throw: what can fail in it is its owner's to tell.
 */
export class Loop {
  readonly #turn: () => Promise<number>;
  readonly #signal = new Signal();
  #isClosed = false;
  #done: Promise<void> = Promise.resolve();

  constructor(turn: () => Promise<number>) {
    this.#turn = turn;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  start(firstMs = 0): void {
    this.#done = this.#run(firstMs);
  }

  /** The next turn begins now, or as soon as the one under way has ended. */
  wake(): void {
    this.#signal.notify();
  }

  /** Waits for the turn that is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#signal.notify();
    await this.#done;
  }

  async #run(firstMs: number): Promise<void> {
    if (firstMs > 0) await this.#signal.wait(firstMs);
    while (!this.#isClosed) await this.#signal.wait(await this.#turn());
  }
}

/** Runs no more than so many at a time, in the order in which they were asked for. */
export class AtMost {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Runs what concerns one name (or several) one after the other. */
export class NameLocks {
  readonly #tails = new Map<string, Promise<void>>();

  async run<Result>(
    names: string | readonly string[],
    work: () => Promise<Result>,
  ): Promise<Result> {
    const sorted = typeof names === 'string' ? [names] : [...new Set(names)].sort();
    const before = sorted.map((name) => this.#tails.get(name) ?? Promise.resolve());
    const { promise, resolve } = gate();
    for (const name of sorted) this.#tails.set(name, promise);
    try {
      await Promise.all(before);
      return await work();
    } finally {
      for (const name of sorted) {
        if (this.#tails.get(name) === promise) this.#tails.delete(name);
      }
      resolve();
    }
  }
}

function gate(): { promise: Promise<void>; resolve: () => void } {
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, resolve: () => open() };
}

/**
 * Runs `work` for each item with at most `limit` at a time. After an error nothing more is begun;
 * it is thrown once what was under way has ended, so that nobody is left at work behind it.
 */
export async function forEachLimited<Item>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  let failure: { readonly error: unknown } | null = null;
  const worker = async (): Promise<void> => {
    for (const item of rest) {
      if (failure !== null) return;
      try {
        await work(item);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  const failed = failure as { readonly error: unknown } | null;
  if (failed !== null) throw failed.error;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
