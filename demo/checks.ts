// The table of what the demo checked. Owns: names, results and times. A check that throws has
// failed and says why; the story goes on, so that the table is whole.

interface Check {
  readonly what: string;
  readonly result: 'held' | 'FAILED' | 'skipped';
  readonly detail: string;
  readonly seconds: number;
}

export class Checks {
  readonly #checks: Check[] = [];

  /** Runs a check; `body` returns what was seen, or throws what is wrong. */
  async check(what: string, body: () => Promise<string> | string): Promise<void> {
    const begun = performance.now();
    const done = (result: Check['result'], detail: string): void => {
      const seconds = (performance.now() - begun) / 1000;
      this.#checks.push({ what, result, detail, seconds });
      process.stdout.write(`  ${result.padEnd(7)} ${what} (${seconds.toFixed(2)} s)\n`);
    };
    try {
      done('held', await body());
    } catch (error) {
      done('FAILED', error instanceof Error ? error.message : String(error));
    }
  }

  skip(what: string, why: string): void {
    this.#checks.push({ what, result: 'skipped', detail: why, seconds: 0 });
  }

  get hasFailed(): boolean {
    return this.#checks.some((check) => check.result === 'FAILED');
  }

  print(): void {
    const width = Math.max(...this.#checks.map((check) => check.what.length));
    process.stdout.write(`\n${'what was checked'.padEnd(width)}  result   time     seen\n`);
    for (const { what, result, detail, seconds } of this.#checks) {
      const time = `${seconds.toFixed(2)} s`.padStart(7);
      process.stdout.write(`${what.padEnd(width)}  ${result.padEnd(7)}  ${time}  ${detail}\n`);
    }
  }
}

/** Throws unless the condition holds. */
export function ensure(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}
