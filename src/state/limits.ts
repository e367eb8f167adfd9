// The state's times and sizes in one place, with the relations that must hold between them.
import { leaseMsDefault, renewMsDefault } from './lease.ts';

export interface StateLimits {
  /** How long an instance may act after the start of its last confirmed renewal. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** Of one commit, all retries included; after it the caller hears UNAVAILABLE or IN_DOUBT. */
  readonly commitTimeoutMs: number;
  /** Of the fence and of the replay at start, each. */
  readonly openTimeoutMs: number;
  readonly tailMs: number;
}

export const stateLimitsDefault: StateLimits = {
  leaseMs: leaseMsDefault,
  renewMs: renewMsDefault,
  commitTimeoutMs: 10_000,
  openTimeoutMs: 60_000,
  tailMs: 1_000,
};

/** One lost renewal must not cost the lease. */
export function checkLimits(limits: StateLimits): void {
  if (limits.renewMs * 2 < limits.leaseMs) return;
  throw new Error(`renewMs ${limits.renewMs} is too long for a lease of ${limits.leaseMs} ms`);
}
