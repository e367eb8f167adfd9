// When something that failed is tried again: one entry per name, with the problem that is shown
// meanwhile. Pure but for the clock that it is given. Refuses to know what failed. Invariant: a
// problem stays visible until the next attempt has succeeded or the name is not wanted any more.

export interface TaskProblem {
  /** Cluster Linking's error codes of tasks; `BROKER_...` is the destination's side. */
  readonly code: string;
  /** With the remedy where there is one. */
  readonly message: string;
  /** Nothing fails for it: told and shown, but no reason to call the link unhealthy. */
  readonly isHarmless?: boolean;
}

interface Failure {
  readonly problem: TaskProblem;
  readonly failuresCount: number;
  readonly retryAtMs: number;
}

interface MonotonicClock {
  monotonicMs(): number;
}

/** Doubles from `firstMs` up to `maxMs`. */
export function backOffMs(failuresCount: number, firstMs: number, maxMs: number): number {
  return Math.min(maxMs, firstMs * 2 ** Math.max(0, Math.min(failuresCount - 1, 30)));
}

export class BackOffs {
  readonly #failures = new Map<string, Failure>();
  readonly #clock: MonotonicClock;
  readonly #firstMs: number;
  readonly #maxMs: number;

  constructor(clock: MonotonicClock, delays: { firstMs: number; maxMs: number }) {
    this.#clock = clock;
    this.#firstMs = delays.firstMs;
    this.#maxMs = delays.maxMs;
  }

  isDue(name: string): boolean {
    const failure = this.#failures.get(name);
    return failure === undefined || this.#clock.monotonicMs() >= failure.retryAtMs;
  }

  failed(name: string, problem: TaskProblem): void {
    const failuresCount = (this.#failures.get(name)?.failuresCount ?? 0) + 1;
    const delayMs = backOffMs(failuresCount, this.#firstMs, this.#maxMs);
    this.#failures.set(name, {
      problem,
      failuresCount,
      retryAtMs: this.#clock.monotonicMs() + delayMs,
    });
  }

  succeeded(name: string): void {
    this.#failures.delete(name);
  }

  /** Forgets what is not wanted any more. */
  keep(isWanted: (name: string) => boolean): void {
    for (const name of this.#failures.keys()) if (!isWanted(name)) this.#failures.delete(name);
  }

  /** Everything is tried at once: the settings have changed. */
  clear(): void {
    this.#failures.clear();
  }

  get problems(): readonly TaskProblem[] {
    return [...this.#failures.values()].map(({ problem }) => problem);
  }
}
