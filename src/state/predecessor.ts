// Whether another instance of the same name lives: whoever fences a living owner ends it for good.
// Owns the watch for renewals of its lease before the fence. Refuses to write anything.
// Invariants: an owner that was seen to renew its lease twice is never fenced without an operator's
// word; one that was silent for a lease cannot act any more, so that its successor need not wait
// once more.
import { pauseMs } from '../cluster/pause.ts';
import type { OwnProcess } from './own-process.ts';
import type { LeaseRecord } from './records.ts';
import { StateError } from './state.ts';

const lookMs = 250;
/** The first one may have been under way when its writer died. */
const renewalsOfTheLiving = 2;

export interface Watch {
  readonly name: string;
  /** Reads on; afterwards `lease` is as new as the topic was. */
  readonly read: () => Promise<void>;
  readonly lease: () => LeaseRecord | undefined;
  readonly leaseMs: number;
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Certainly no process that could still act: one of this host that is gone. */
  readonly isDead: (lease: LeaseRecord) => boolean;
}

/** A lease, and the monotonic moment by which it had been renewed for the last time. */
export interface SeenLease {
  readonly lease: LeaseRecord;
  readonly atMs: number;
}

/**
 * Null when there is nobody to wait for; else the lease that was not renewed for as long as it
 * lasts.
 * @throws StateError NOT_OWNER when its owner lives; UNAVAILABLE
 */
export async function awaitSilence(watch: Watch): Promise<SeenLease | null> {
  await watch.read();
  let seen = look(watch);
  let renewals = 0;
  while (seen !== null && watch.now() - seen.atMs < watch.leaseMs) {
    await pauseMs(lookMs, watch.signal);
    await watch.read();
    if (watch.signal.aborted) throw new StateError('UNAVAILABLE', 'the state is being closed');
    const next = look(watch);
    if (next === null) return null;
    if (next.lease.renewedTimeMs === seen.lease.renewedTimeMs) continue;
    seen = next;
    renewals++;
    if (renewals >= renewalsOfTheLiving) throw living(watch.name, seen.lease);
  }
  return seen;
}

function look({ lease, isDead, now }: Watch): SeenLease | null {
  const found = lease();
  if (found === undefined || found.released || isDead(found)) return null;
  return { lease: found, atMs: now() };
}

function living(name: string, { host, pid, instanceId }: LeaseRecord): StateError {
  return new StateError(
    'NOT_OWNER',
    `another instance of '${name}' is at work: ${instanceId} on ${host} (process ${pid}) renews ` +
      'its lease. Stop it first, give this one another name, or take over with "serve --take-over"',
  );
}

/** From when the lease before ours runs out: it is the one that was watched, or it is not. */
export function lastRenewedMs(
  seen: SeenLease | null,
  found: LeaseRecord | undefined,
  fencedMs: number,
): number {
  const isSame =
    seen !== null &&
    found?.instanceId === seen.lease.instanceId &&
    found.renewedTimeMs === seen.lease.renewedTimeMs;
  return isSame ? seen.atMs : fencedMs;
}

/**
 * A process that is not there among those that we see, or that has our own number: we were started
 * in its place. Of one in another container nothing is known, whatever its host is called.
 */
export function isGoneHere({ host, pid, place }: OwnProcess, own: OwnProcess): boolean {
  if (place === undefined || place !== own.place || host !== own.host) return false;
  if (pid === own.pid) return true;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}
