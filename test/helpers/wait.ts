// Waiting in tests: always on a condition, always with a deadline, never for a time to pass.
//
// Owns: `until`, `stalls`, and unique names. Knows nothing of what is waited for.
// Invariant: a wait either returns the value asked for or throws, naming what did not happen and
// what was seen last.

import { randomBytes } from 'node:crypto';

/** Thrown by a probe when waiting on makes no sense. */
export class GiveUp extends Error {}

export interface UntilOptions {
  deadlineMs?: number;
  intervalMs?: number;
  /** Added to the message when the deadline passes. */
  describe?: () => string;
}

/**
 * Calls `probe` until it returns something truthy, and returns that. A probe that throws counts as
 * "not yet"; its last error becomes the cause when the deadline passes. `GiveUp` ends the wait.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<NonNullable<T>> {
  const deadlineMs = options.deadlineMs ?? 30_000;
  const intervalMs = options.intervalMs ?? 50;
  const startedAt = performance.now();
  let lastError: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value) return value;
      lastError = undefined;
    } catch (error) {
      if (error instanceof GiveUp) throw error;
      lastError = error;
    }
    if (performance.now() - startedAt > deadlineMs) {
      const seen = options.describe ? `; ${options.describe()}` : '';
      const reason = lastError instanceof Error ? `; last error: ${lastError.message}` : '';
      throw new Error(`not within ${deadlineMs} ms: ${what}${seen}${reason}`, { cause: lastError });
    }
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/** Until something that has begun to grow grows no more. */
export async function stalls(measure: () => number): Promise<void> {
  let last = -1;
  await until(
    'no more progress',
    () => {
      const now = measure();
      const isStill = now === last && now > 0;
      last = now;
      return isStill;
    },
    { intervalMs: 300 },
  );
}

/** A name that no other test, process or earlier run uses. */
export function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(5).toString('hex')}`;
}
