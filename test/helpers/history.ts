// What happened to one topic, as its clients saw it: the record that history-checks.ts judges.
//
// Owns: the shapes. Knows nothing of clusters or of who filled them in.
// Invariant: every value was handed to a producer once in the life of a test, so that a value names
// one write; reads, samples and acts are in the order in which they were observed.

import type { LogRecord } from './log-records.ts';

export type Isolation = 'read_uncommitted' | 'read_committed';
export type WriterKind = 'plain' | 'idempotent' | 'transactional';
export type Verb = 'promote' | 'failover';

/** One record that was handed to a producer. */
export interface Write {
  readonly writer: string;
  readonly kind: WriterKind;
  readonly side: 'source' | 'destination';
  readonly partition: number;
  readonly value: string;
  /** `refused`: certainly not written. `unknown`: no answer that proves anything. */
  readonly outcome: 'acknowledged' | 'refused' | 'unknown';
  /** Where it was acknowledged, else null. */
  readonly offset: number | null;
  /** Id of its transaction. */
  readonly transaction: string | null;
}

export type TransactionOutcome = 'committed' | 'aborted' | 'unknown';

/** What one consumer was given of one partition, from one assignment to the next. */
export interface Session {
  readonly reader: string;
  readonly isolation: Isolation;
  readonly partition: number;
  /** The group's last commit that was acknowledged before: it must not begin below. */
  readonly committed: number;
  /** The furthest that the group can have committed before: it must not begin beyond. */
  readonly furthest: number;
  /** Its consumer went on until it had all there is. */
  readonly isLast: boolean;
  readonly reads: readonly { readonly offset: number; readonly value: string | null }[];
}

/** One number that a watching client was told, e.g. the leader epoch in Metadata. */
export interface Told {
  readonly what: string;
  readonly partition: number;
  readonly value: number;
}

/** What an instance of the proxy logged of its ownership, and of what it changed. */
export interface Act {
  readonly instance: string;
  readonly timeMs: number;
  readonly kind: 'acquired' | 'lost' | 'acted';
  readonly what: string;
}

export interface History {
  readonly verb: Verb;
  /** S by partition. */
  readonly switchedAt: readonly number[];
  /** Where the source's records end, by partition: S without ABORT batches of ours. */
  readonly mirroredTo: readonly number[];
  readonly writes: readonly Write[];
  /** By id. */
  readonly transactions: ReadonlyMap<string, TransactionOutcome>;
  readonly sessions: readonly Session[];
  readonly told: readonly Told[];
  readonly acts: readonly Act[];
  /** Epochs of the state's transactional producer, in the order of the state topic's log. */
  readonly stateEpochs: readonly number[];
  /** The topic at the end, opened record by record. */
  readonly log: Readonly<Record<Isolation, readonly LogRecord[]>>;
}
