// Tells others what happens to the state: listeners of changes and of ownership, and events for
// operators. Owns the listeners and what was said last. Decides nothing.
// Invariant: a listener that throws is reported, and never looks like a failed commit.
import type { Events } from '../observe/events.ts';
import type { LeaseRecord } from './records.ts';

type ChangeListener = (keys: readonly string[]) => void;
type OwnershipListener = (isOwner: boolean) => void;

export class StateNotices {
  readonly #events: Events;
  readonly #changeListeners = new Set<ChangeListener>();
  readonly #ownershipListeners = new Set<OwnershipListener>();
  #isOwner = false;
  #isUnreachable = false;

  constructor(events: Events) {
    this.#events = events;
  }

  get isOwner(): boolean {
    return this.#isOwner;
  }

  onChange(listener: ChangeListener): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  onOwnership(listener: OwnershipListener): () => void {
    this.#ownershipListeners.add(listener);
    return () => this.#ownershipListeners.delete(listener);
  }

  changed(keys: readonly string[]): void {
    for (const listener of this.#changeListeners) this.#call(() => listener(keys));
  }

  setOwner(isOwner: boolean): void {
    if (this.#isOwner === isOwner) return;
    this.#isOwner = isOwner;
    for (const listener of this.#ownershipListeners) this.#call(() => listener(isOwner));
  }

  leaseAcquired(name: string, instance: string): void {
    this.#events.info('lease_acquired', `this instance owns ${name} now`, { instance });
  }

  leaseLost(instance: string, other: LeaseRecord | undefined): void {
    const by = other
      ? `instance ${other.instanceId} on ${other.host}, pid ${other.pid},`
      : 'another instance, not known yet,';
    const remedy = other ? '' : '. If no other one runs, restart this one';
    const message = `${by} took over; this instance changes nothing any more${remedy}`;
    this.#events.error('lease_lost', message, {
      instance,
      takenOverBy: other?.instanceId ?? null,
      takenOverHost: other?.host ?? null,
      takenOverPid: other?.pid ?? null,
    });
  }

  leaseNotReleased(error: unknown): void {
    const message = `the lease was not released, the next owner waits for its end: ${text(error)}`;
    this.#events.warn('lease_not_released', message);
  }

  takenBack(): void {
    const message =
      'the destination had aborted a transaction of ours; nobody had taken over, so that this ' +
      'instance goes on as the owner';
    this.#events.warn('state_transaction_aborted', message);
  }

  topicReplaced(message: string, topicId: string): void {
    this.#events.error('state_topic_replaced', message, { topicId });
  }

  inDoubt(recordsCount: number): void {
    const fields = { records: recordsCount };
    this.#events.warn('state_commit_in_doubt', "a commit's answer was lost", fields);
  }

  settled(): void {
    this.#events.info('state_settled', 'the state was read to its end after a doubt');
  }

  snapshotFailed(error: unknown): void {
    const message = `no local snapshot of the state: ${text(error)}`;
    this.#events.warn('state_snapshot_failed', message);
  }

  /** Once per outage. */
  unreachable(error: unknown): void {
    if (this.#isUnreachable) return;
    this.#isUnreachable = true;
    const message = `the state cannot be renewed or read: ${text(error)}`;
    this.#events.warn('state_unreachable', message);
  }

  reachable(): void {
    if (!this.#isUnreachable) return;
    this.#isUnreachable = false;
    this.#events.info('state_reachable', 'the state can be renewed and read again');
  }

  #call(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#events.error('state_listener_failed', `after a change of state: ${text(error)}`);
    }
  }
}

export function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
