// The lease by arithmetic alone: from when to when an instance may act, on the monotonic clock.
// Owns the moment of the last confirmed renewal. Refuses to renew anything itself.
// Why it is safe: a renewal counts from the moment *before* its first request was sent, and none is
// confirmed after a successor has fenced us; so at most one lease after the fence nobody acts on
// the old one.
import type { LeaseRecord } from './records.ts';
import { type Lease, StateError } from './state.ts';

export const leaseMsDefault = 3_000;
export const renewMsDefault = 1_000;

export class InstanceLease implements Lease {
  readonly instanceId: string;
  readonly leaseMs: number;
  readonly #now: () => number;
  #confirmedMs = Number.NEGATIVE_INFINITY;
  #actsFromMs = Number.POSITIVE_INFINITY;
  #endedBecause: string | undefined;

  constructor(options: { instanceId: string; leaseMs: number; now: () => number }) {
    this.instanceId = options.instanceId;
    this.leaseMs = options.leaseMs;
    this.#now = options.now;
  }

  isValid(): boolean {
    return this.#whyNot() === undefined;
  }

  check(): void {
    const reason = this.#whyNot();
    if (reason !== undefined) throw new StateError('NOT_OWNER', reason);
  }

  /** True until fenced or released, even while the lease has run out for lack of an answer. */
  get isHeld(): boolean {
    return this.#endedBecause === undefined;
  }

  /** May act from this moment of the monotonic clock on, if the lease is renewed then. */
  actFrom(timeMs: number): void {
    this.#actsFromMs = timeMs;
  }

  /** `startedMs`: before the first request of the renewal was sent. */
  confirm(startedMs: number): void {
    this.#confirmedMs = Math.max(this.#confirmedMs, startedMs);
  }

  /** For good. */
  end(reason: string): void {
    this.#endedBecause ??= reason;
  }

  #whyNot(): string | undefined {
    if (this.#endedBecause !== undefined) return this.#endedBecause;
    const now = this.#now();
    if (now < this.#actsFromMs)
      return 'not the owner yet: waiting for the lease before ours to end';
    if (now - this.#confirmedMs < this.leaseMs) return undefined;
    return 'the lease has run out: the destination did not confirm its renewal in time';
  }
}

/**
 * How long a new owner waits, from the moment of its fence, given the last lease record found after
 * it.
 */
export function waitBeforeActingMs(last: LeaseRecord | undefined, leaseMs: number): number {
  return last === undefined || last.released ? 0 : leaseMs;
}
