// What the state is opened with, and what is opened. Owns the meaning of each option; refuses to
// know how the state is kept. Invariant: nothing here has a default but where it says so.
import type { Cluster } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import type { StateLimits } from './limits.ts';
import type { State } from './state.ts';

export interface StateClock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Unix milliseconds. */
  wallMs(): number;
}

export interface StateOptions {
  /** The instance's name; the topic and the transactional id are called after it. */
  readonly name: string;
  /** The destination. Not closed by the state. */
  readonly cluster: Cluster;
  readonly clock: StateClock;
  readonly events: Events;
  readonly snapshotDirectory: string;
  /** There are mirror logs: then a missing or empty state topic is a loss, not a first start. */
  readonly mirrorStorageExists: boolean;
  readonly limits?: Partial<StateLimits>;
  /** Default: random. */
  readonly instanceId?: string;
  /** An operator's word that an owner that lives may be fenced. */
  readonly takeOver?: boolean;
}

export interface OpenedState extends State {
  /**
   * When it returns, the view is as new as the destination was when it was called: for decisions
   * that rest on the absence of a record. Reads only when this instance is not the one that writes.
   * @throws StateError UNAVAILABLE
   */
  refresh(): Promise<void>;
}
