// Transactions of one log, from batch headers and control records: open, ended, aborted.
//
// Owns: what read_committed readers need (last stable offset, aborted list). It knows no files and
// no records but end markers. Invariant: a transaction is open for readers until its marker is
// visible to them, so the last stable offset never passes a transaction whose outcome they cannot
// see.

import { type BatchHeader, isTransactional, lastOffset } from '../../protocol/record-batch.ts';
import type { AbortedTransaction, OpenTransaction } from '../mirror-log.ts';
import type { ControlType } from './batch-check.ts';

interface EndedTransaction {
  readonly firstOffset: bigint;
  readonly marker: bigint;
}

export interface IndexedAbort extends AbortedTransaction {
  /** Nothing below was undecided behind the marker: later aborts begin at or above it. */
  readonly stableAfter: bigint;
}

export class TransactionTracker {
  /**
   * By producer id, in the order of first offsets, since a transaction enters with its first batch.
   */
  #open = new Map<bigint, OpenTransaction>();
  /** Ended, but the marker is not visible yet. In the order of markers. */
  #ended: EndedTransaction[] = [];
  /** Of segments whose index files are not written yet. In the order of markers. */
  #aborted: IndexedAbort[] = [];

  apply(header: BatchHeader, control: ControlType | null): void {
    if (control !== null) {
      if (control !== 'OTHER') this.#end(header, control);
    } else if (isTransactional(header)) {
      const open = this.#open.get(header.producerId);
      this.#open.set(header.producerId, {
        producerId: header.producerId,
        producerEpoch: header.producerEpoch,
        firstOffset: open?.firstOffset ?? header.baseOffset,
        lastOffset: lastOffset(header),
      });
    }
  }

  /** A marker without data before it ends nothing, as in Kafka. */
  #end(header: BatchHeader, control: ControlType): void {
    const open = this.#open.get(header.producerId);
    if (open === undefined) return;
    this.#open.delete(header.producerId);
    const { producerId, firstOffset } = open;
    const marker = header.baseOffset;
    this.#ended.push({ firstOffset, marker });
    if (control !== 'ABORT') return;
    const stableAfter = this.#firstOpen()?.firstOffset ?? marker + 1n;
    this.#aborted.push({ producerId, firstOffset, lastOffset: marker, stableAfter });
  }

  #firstOpen(): OpenTransaction | undefined {
    return this.#open.values().next().value;
  }

  open(): readonly OpenTransaction[] {
    return [...this.#open.values()];
  }

  /** First offset of the earliest transaction that is open below `visibleEnd`, or `visibleEnd`. */
  lastStableOffset(visibleEnd: bigint): bigint {
    const seen = this.#ended.findIndex((ended) => ended.marker >= visibleEnd);
    this.#ended.splice(0, seen < 0 ? this.#ended.length : seen);
    let stable = visibleEnd;
    const open = this.#firstOpen();
    if (open !== undefined && open.firstOffset < stable) stable = open.firstOffset;
    for (const { firstOffset } of this.#ended) {
      if (firstOffset < stable) stable = firstOffset;
    }
    return stable;
  }

  /** Aborted transactions whose markers are within [from, to), as far as they are kept here. */
  abortedWithin(from: bigint, to: bigint): readonly IndexedAbort[] {
    return this.#aborted.filter(({ lastOffset: marker }) => marker >= from && marker < to);
  }

  /** They are in an index file now. */
  forgetAborted(from: bigint, to: bigint): void {
    this.#aborted = this.#aborted.filter(({ lastOffset }) => lastOffset < from || lastOffset >= to);
  }

  /**
   * Forgets markers at or above `end`. `last` knows the segment that the log now ends with, up to
   * there: what is open, and what was aborted in it.
   */
  truncate(
    end: bigint,
    last: { readonly from: bigint; readonly tracker: TransactionTracker },
  ): void {
    this.#ended = this.#ended.filter(({ marker }) => marker < end);
    const before = this.#aborted.filter((abort) => abort.lastOffset < last.from);
    this.#aborted = [...before, ...last.tracker.#aborted];
    this.replaceOpen(last.tracker.open());
  }

  replaceOpen(open: readonly OpenTransaction[]): void {
    this.#open = new Map(open.map((transaction) => [transaction.producerId, transaction]));
  }

  /** Forgets transactions of which nothing is left at or above the log start. */
  trimHead(logStart: bigint): void {
    this.#aborted = this.#aborted.filter((abort) => abort.lastOffset >= logStart);
    this.#ended = this.#ended.filter(({ marker }) => marker >= logStart);
    for (const [producerId, open] of this.#open) {
      if (open.lastOffset < logStart) this.#open.delete(producerId);
    }
  }

  clear(): void {
    this.#open.clear();
    this.#ended = [];
    this.#aborted = [];
  }
}
