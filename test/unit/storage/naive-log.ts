// A mirror log as slow and obvious as it can be: the oracle of the property tests.
//
// Keeps every batch in a list with what its records say, and answers each question by going through
// all of it. Shares nothing with the real log but the batch builder and the smaller of two offsets.

import { larger, smaller } from '../../../storage/disk/offsets.ts';
import type { TimestampOffset } from '../../../storage/mirror-log.ts';
import { dataBatch, marker } from './fixtures.ts';

export interface NaiveBatch {
  readonly bytes: Buffer;
  readonly base: bigint;
  readonly next: bigint;
  readonly epoch: number;
  readonly producerId: bigint | null;
  readonly control: 'ABORT' | 'COMMIT' | null;
  readonly timestamps: readonly bigint[];
}

export interface BatchPlan {
  readonly gap: number;
  readonly records: number;
  readonly epochStep: number;
  readonly kind: 'data' | 'transaction' | 'ABORT' | 'COMMIT';
  readonly producerId: number;
  readonly time: number;
  readonly valueBytes: number;
}

export class NaiveLog {
  batches: NaiveBatch[] = [];
  logStart: bigint;
  durableEnd: bigint;
  visibleEnd: bigint;
  hold: bigint | null = null;
  headEpoch = -1;
  shownEpoch = -1;
  cutEpoch = -1;

  constructor(logStart: bigint) {
    this.logStart = logStart;
    this.durableEnd = logStart;
    this.visibleEnd = logStart;
  }

  get end(): bigint {
    return larger(this.batches.at(-1)?.next ?? this.logStart, this.logStart);
  }

  get lastEpoch(): number {
    return this.batches.at(-1)?.epoch ?? this.headEpoch;
  }

  /** The batches that a plan makes at the log's end. */
  plan(plans: readonly BatchPlan[]): NaiveBatch[] {
    let base = this.end;
    let epoch = Math.max(0, this.lastEpoch);
    return plans.map((plan) => {
      base += BigInt(plan.gap);
      epoch += plan.epochStep;
      const batch = makeBatch(base, epoch, plan);
      base = batch.next;
      return batch;
    });
  }

  append(batches: readonly NaiveBatch[]): void {
    this.batches.push(...batches);
  }

  flush(): void {
    this.durableEnd = this.end;
    this.advance();
  }

  advance(): void {
    const allowed = this.hold === null ? this.durableEnd : smaller(this.durableEnd, this.hold);
    this.visibleEnd = larger(larger(this.visibleEnd, allowed), this.logStart);
    this.shownEpoch = Math.max(this.shownEpoch, this.visibleEpoch());
  }

  /** What readers saw was cut off, and nothing above its epochs has come since. */
  isCut(): boolean {
    return this.cutEpoch >= 0 && this.visibleEpoch() <= this.cutEpoch;
  }

  setHold(offset: bigint | null): void {
    this.hold = offset === null ? null : larger(offset, this.visibleEnd);
    this.advance();
  }

  truncate(offset: bigint): void {
    this.flush();
    if (offset >= this.end) return;
    this.batches = this.batches.filter(({ next }) => next <= offset);
    this.durableEnd = this.end;
    if (this.end >= this.visibleEnd) return;
    this.visibleEnd = this.end;
    this.cutEpoch = this.shownEpoch;
  }

  deleteHead(logStart: bigint): void {
    if (logStart <= this.logStart) return;
    this.flush();
    if (!this.isCut()) this.cutEpoch = -1;
    const below = this.batches.findLast(({ base }) => base < logStart);
    if (logStart > this.end) this.headEpoch = -1;
    else if (below !== undefined) this.headEpoch = below.epoch;
    this.batches = this.batches.filter(({ next }) => next > logStart);
    this.logStart = logStart;
    this.durableEnd = this.end;
    this.advance();
  }

  visible(): NaiveBatch[] {
    return this.batches.filter(({ next }) => next <= this.visibleEnd);
  }

  visibleEpoch(): number {
    return this.visible().at(-1)?.epoch ?? this.headEpoch;
  }

  read(offset: bigint, bytesMax: number, endOffset: bigint): NaiveBatch[] {
    const found: NaiveBatch[] = [];
    let bytes = 0;
    for (const batch of this.batches) {
      if (batch.next <= offset) continue;
      bytes += batch.bytes.length;
      if (batch.next > endOffset || batch.next > this.visibleEnd) break;
      if (found.length > 0 && bytes > bytesMax) break;
      found.push(batch);
    }
    return found;
  }

  /** What became of the transaction that a batch belongs to, as far as readers can know. */
  outcome(batch: NaiveBatch): 'ABORT' | 'COMMIT' | 'open' {
    const end = this.visible().find(
      ({ producerId, control, base }) =>
        producerId === batch.producerId && control !== null && base >= batch.next,
    );
    return end?.control ?? 'open';
  }

  lastStableOffset(): bigint {
    const undecided = this.batches.filter(
      (batch) =>
        batch.base < this.visibleEnd &&
        batch.producerId !== null &&
        batch.control === null &&
        this.outcome(batch) === 'open',
    );
    return larger(undecided[0]?.base ?? this.visibleEnd, this.logStart);
  }

  #records(): TimestampOffset[] {
    return this.visible().flatMap(({ timestamps, base, epoch }) =>
      timestamps.map((timestamp, index) => ({
        offset: base + BigInt(index),
        timestamp,
        leaderEpoch: epoch,
      })),
    );
  }

  offsetForTimestamp(timestamp: bigint): TimestampOffset | null {
    const found = this.#records().find(
      (record) => record.timestamp >= timestamp && record.offset >= this.logStart,
    );
    return found ?? null;
  }

  offsetOfMaxTimestamp(): TimestampOffset | null {
    let best: TimestampOffset | null = null;
    for (const record of this.#records()) {
      if (record.offset < this.logStart) continue;
      if (best === null || record.timestamp > best.timestamp) best = record;
    }
    return best;
  }
}

function makeBatch(base: bigint, epoch: number, plan: BatchPlan): NaiveBatch {
  const producerId = plan.kind === 'data' ? null : BigInt(plan.producerId);
  const timestamp = BigInt(plan.time);
  if (plan.kind === 'ABORT' || plan.kind === 'COMMIT') {
    const { kind: type } = plan;
    const bytes = marker(base, { producerId: BigInt(plan.producerId), type, epoch, timestamp });
    const timestamps = [timestamp];
    return { bytes, base, next: base + 1n, epoch, producerId, control: type, timestamps };
  }
  const timestamps = Array.from({ length: plan.records }, (_, index) => {
    return timestamp + BigInt((index * 7) % 5);
  });
  const transactional = producerId === null ? {} : { producerId };
  const { valueBytes } = plan;
  const bytes = dataBatch(base, { epoch, timestamps, valueBytes, ...transactional });
  const next = base + BigInt(plan.records);
  return { bytes, base, next, epoch, producerId, control: null, timestamps };
}
