// Commits that wait for their turn at the state topic. Owns their order; refuses to know how they
// are written. Those that wait at the same time go into one transaction: each transaction costs
// five round trips, and none of who waits has seen the outcome of another. Invariants: no commit
// is ever split; changes keep the order in which they came; all of one transaction have one
// outcome.

import type { KeyValue } from './partition-writer.ts';
import type { StateChange } from './state.ts';

interface Waiting {
  readonly changes: readonly StateChange[];
  readonly records: readonly KeyValue[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export interface JointCommit {
  readonly changes: readonly StateChange[];
  readonly records: readonly KeyValue[];
}

/** Of one transaction, unless a single commit has more. */
const recordsMax = 2_000;

export class WaitingCommits {
  #waiting: Waiting[] = [];

  /** Settles when `write` has taken it along. */
  add(changes: readonly StateChange[], records: readonly KeyValue[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ changes, records, resolve, reject });
    });
  }

  /** Writes who came first and as many of those behind as fit; none is fine. Never throws. */
  async write(transact: (commit: JointCommit) => Promise<void>): Promise<void> {
    const taken = this.#take();
    if (taken.length === 0) return;
    try {
      await transact({
        changes: taken.flatMap(({ changes }) => changes),
        records: taken.flatMap(({ records }) => records),
      });
      for (const { resolve } of taken) resolve();
    } catch (error) {
      for (const { reject } of taken) reject(error);
    }
  }

  /** Two commits of one record are two transactions: whoever looks on sees both. */
  #take(): readonly Waiting[] {
    const keys = new Set<string>();
    let count = 0;
    for (const { records } of this.#waiting) {
      const isFull = keys.size + records.length > recordsMax;
      if (count > 0 && (isFull || records.some(({ key }) => keys.has(key)))) break;
      for (const { key } of records) keys.add(key);
      count++;
    }
    return this.#waiting.splice(0, count);
  }
}
