// A mirror log in an array: the naive second implementation that the gateway's tests read from. It
// keeps whole batches and looks through all of them every time.
import {
  type BatchHeader,
  buildBatch,
  buildControlBatch,
  forEachBatch,
  readControlType,
} from '../../../protocol/index.ts';
import { StorageError, type StorageErrorCode } from '../../../storage/errors.ts';
import type {
  AbortedTransaction,
  AppendResult,
  EpochEnd,
  MirrorLog,
  OpenTransaction,
  ReadOptions,
  ReadResult,
  TimestampOffset,
} from '../../../storage/mirror-log.ts';

interface Stored {
  readonly header: BatchHeader;
  readonly bytes: Buffer;
  readonly last: bigint;
  readonly control: 'ABORT' | 'COMMIT' | 'OTHER' | null;
}

export interface BatchOptions {
  readonly epoch?: number;
  readonly producerId?: bigint;
  readonly isTransactional?: boolean;
  readonly timestamp?: bigint;
  readonly valueBytes?: number;
}

/** One batch of `count` records from `baseOffset` on. */
export function batch(baseOffset: bigint, count: number, options: BatchOptions = {}): Buffer {
  const timestamp = options.timestamp ?? 1000n;
  return buildBatch({
    baseOffset,
    partitionLeaderEpoch: options.epoch ?? 0,
    ...(options.producerId === undefined
      ? {}
      : { producerId: options.producerId, producerEpoch: 0, baseSequence: 0 }),
    isTransactional: options.isTransactional ?? false,
    records: Array.from({ length: count }, (_, index) => ({
      key: null,
      value: Buffer.alloc(options.valueBytes ?? 10, Number(baseOffset) + index),
      timestamp,
    })),
  });
}

export function marker(
  baseOffset: bigint,
  producerId: bigint,
  type: 'ABORT' | 'COMMIT',
  epoch = 0,
): Buffer {
  return buildControlBatch({
    baseOffset,
    producerId,
    producerEpoch: 0,
    partitionLeaderEpoch: epoch,
    timestamp: 1000n,
    type,
    coordinatorEpoch: 0,
  });
}

export class MemoryMirrorLog implements MirrorLog {
  readonly id = { topicId: 'BAAAAAAAAAAAAAAAAAAAAA', partition: 0 };
  readonly #listeners = new Set<() => void>();
  #batches: Stored[] = [];
  #logStart: bigint;
  #hold: bigint | null = null;
  /** Every read fails with it. */
  failure: StorageErrorCode | null = null;
  /** Appended, but not durable yet: above it nothing is visible. */
  durableLimit: bigint | null = null;

  constructor(logStart = 0n, ...batches: readonly Buffer[]) {
    this.#logStart = logStart;
    for (const one of batches) this.put(one);
  }

  get listeners(): number {
    return this.#listeners.size;
  }
  get logStart(): bigint {
    return this.#logStart;
  }
  get end(): bigint {
    const last = this.#batches.at(-1);
    return last === undefined ? this.#logStart : last.last + 1n;
  }
  get durableEnd(): bigint {
    return this.durableLimit ?? this.end;
  }
  get heldFrom(): bigint | null {
    return this.#hold;
  }
  get visibleEnd(): bigint {
    return this.#hold !== null && this.#hold < this.durableEnd ? this.#hold : this.durableEnd;
  }
  get lastStableOffset(): bigint {
    let stable = this.visibleEnd;
    for (const { firstOffset } of this.openTransactions()) {
      if (firstOffset < stable) stable = firstOffset;
    }
    return stable;
  }
  get visibleEpoch(): number {
    return this.#visible().reduce(
      (epoch, { header }) => Math.max(epoch, header.partitionLeaderEpoch),
      -1,
    );
  }
  get shownEpoch(): number {
    return this.visibleEpoch;
  }
  get isCut(): boolean {
    return false;
  }
  get lastEpoch(): number {
    return this.#batches.at(-1)?.header.partitionLeaderEpoch ?? -1;
  }
  get sizeBytes(): number {
    return this.#batches.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  put(records: Buffer): void {
    forEachBatch(records, (header, position) => {
      const bytes = Buffer.from(records.subarray(position, position + header.sizeInBytes));
      const isControl = (header.attributes & 0x20) !== 0;
      this.#batches.push({
        header,
        bytes,
        last: header.baseOffset + BigInt(header.lastOffsetDelta),
        control: isControl ? readControlType(bytes, 0, header) : null,
      });
    });
    this.advance();
  }

  advance(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  async append(records: Buffer): Promise<AppendResult> {
    this.put(records);
    return { batches: 1, bytes: records.length, end: this.end };
  }
  appendNow(records: Buffer): AppendResult {
    this.put(records);
    return { batches: 1, bytes: records.length, end: this.end };
  }
  async flush(): Promise<void> {
    this.durableLimit = null;
    this.advance();
  }
  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    this.#check();
    if (offset < this.#logStart || offset > this.visibleEnd) {
      throw new StorageError('OFFSET_OUT_OF_RANGE', `offset ${offset}`);
    }
    const end = options.endOffset ?? this.visibleEnd;
    const chunks: Buffer[] = [];
    let bytes = 0;
    let nextOffset = offset;
    let baseOffset = offset;
    for (const { header, bytes: one, last } of this.#batches) {
      if (last < offset) continue;
      if (last >= end) break;
      const isFirst = chunks.length === 0 && options.atLeastOneBatch;
      if (!isFirst && bytes + one.length > options.bytesMax) break;
      if (chunks.length === 0) baseOffset = header.baseOffset;
      chunks.push(one);
      bytes += one.length;
      nextOffset = last + 1n;
    }
    const memory = options.memory?.(bytes);
    if (memory === undefined || bytes === 0) return { chunks, bytes, baseOffset, nextOffset };
    Buffer.concat(chunks, bytes).copy(memory);
    return { chunks: [memory], bytes, baseOffset, nextOffset };
  }

  async abortedTransactions(from: bigint, to: bigint): Promise<readonly AbortedTransaction[]> {
    this.#check();
    const open = new Map<bigint, bigint>();
    const aborted: AbortedTransaction[] = [];
    for (const { header, control } of this.#visible()) {
      const { producerId, baseOffset } = header;
      if (control !== null) {
        const firstOffset = open.get(producerId);
        open.delete(producerId);
        if (control === 'ABORT' && firstOffset !== undefined) {
          aborted.push({ producerId, firstOffset, lastOffset: baseOffset });
        }
      } else if ((header.attributes & 0x10) !== 0 && !open.has(producerId)) {
        open.set(producerId, baseOffset);
      }
    }
    return aborted.filter(({ firstOffset, lastOffset }) => lastOffset >= from && firstOffset < to);
  }

  openTransactions(): readonly OpenTransaction[] {
    const open = new Map<bigint, OpenTransaction>();
    for (const { header, control, last } of this.#visible()) {
      const { producerId, producerEpoch, baseOffset } = header;
      if (control !== null) open.delete(producerId);
      else if ((header.attributes & 0x10) !== 0) {
        const firstOffset = open.get(producerId)?.firstOffset ?? baseOffset;
        open.set(producerId, { producerId, producerEpoch, firstOffset, lastOffset: last });
      }
    }
    return [...open.values()];
  }

  /** By batch: the fixtures give all records of a batch one timestamp. */
  async offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null> {
    this.#check();
    const found = this.#visible().find(({ header }) => header.maxTimestamp >= timestamp);
    return found === undefined ? null : toTimestampOffset(found);
  }
  async offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    this.#check();
    let best: Stored | undefined;
    for (const one of this.#visible()) {
      if (best === undefined || one.header.maxTimestamp > best.header.maxTimestamp) best = one;
    }
    return best === undefined ? null : toTimestampOffset(best);
  }

  epochEnd(epoch: number): EpochEnd {
    this.#check();
    const visible = this.#visible();
    const next = visible.find(({ header }) => header.partitionLeaderEpoch > epoch);
    const floor = visible.findLast(({ header }) => header.partitionLeaderEpoch <= epoch);
    if (floor === undefined) return { epoch: -1, endOffset: next?.header.baseOffset ?? -1n };
    return {
      epoch: floor.header.partitionLeaderEpoch,
      endOffset: next?.header.baseOffset ?? this.visibleEnd,
    };
  }

  hold(offset: bigint | null): void {
    this.#hold = offset;
    this.advance();
  }
  async truncate(offset: bigint): Promise<void> {
    this.#batches = this.#batches.filter(({ last }) => last < offset);
  }
  async deleteHead(logStart: bigint): Promise<void> {
    this.#logStart = logStart;
    this.#batches = this.#batches.filter(({ last }) => last >= logStart);
  }

  readonly damage = [];

  onDamage(): () => void {
    return () => undefined;
  }

  async repair(): Promise<void> {
    throw new StorageError('CORRUPT_BATCH', 'not a repair: no damage is known');
  }

  retentionStart(): bigint {
    return this.#logStart;
  }
  async rebuild(): Promise<never> {
    throw new StorageError('IO', 'a log in memory has one generation');
  }

  #visible(): Stored[] {
    return this.#batches.filter(({ last }) => last < this.visibleEnd);
  }

  #check(): void {
    if (this.failure !== null) throw new StorageError(this.failure, 'made to fail');
  }
}

function toTimestampOffset({ header }: Stored): TimestampOffset {
  return {
    offset: header.baseOffset,
    timestamp: header.maxTimestamp,
    leaderEpoch: header.partitionLeaderEpoch,
  };
}
