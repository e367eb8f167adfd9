// The mirror log of one partition on local files: the parts, put together.
//
// Owns: the order of operations on one log (one append or cut at a time, reads at any time) and the
// listeners. What each operation does is in the file of its name. Invariant: see MirrorLog.

import type { Clock } from '../clock.ts';
import { StorageError } from '../errors.ts';
import type {
  AbortedTransaction,
  AppendResult,
  EpochEnd,
  LogDamage,
  LogId,
  MirrorLog,
  OpenTransaction,
  ReadOptions,
  ReadResult,
  RetentionRules,
  TimestampOffset,
} from '../mirror-log.ts';
import type { Disk } from './device.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { FlushScheduler } from './flush-scheduler.ts';
import type { IndexCache } from './index-cache.ts';
import { LogAppender } from './log-appender.ts';
import { LogCutter } from './log-cutter.ts';
import { LogDamages } from './log-damage.ts';
import { LogDurability } from './log-durability.ts';
import { LogReader } from './log-reader.ts';
import type { LogState } from './log-state.ts';
import { larger } from './offsets.ts';
import { type RecoveredLog, recoverLog } from './recovery.ts';
import type { OnReport } from './reports.ts';
import type { IndexInterval } from './segment-index.ts';
import { SegmentIndexes } from './segment-indexes.ts';
import { Serial } from './serial.ts';
import type { SpaceGuard } from './space-guard.ts';
import { TimeLookup } from './time-lookup.ts';

/** What all logs of a storage share. */
export interface LogSurroundings {
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly indexInterval: IndexInterval;
  readonly clock: Clock;
  readonly scheduler: FlushScheduler;
  readonly space: SpaceGuard;
  readonly segmentBytesMax: number;
  readonly verifyReads: boolean;
  readonly acceptLoss: boolean;
  readonly onReport: OnReport;
}

export async function openPartitionLog(
  id: LogId,
  directory: string,
  surroundings: LogSurroundings,
): Promise<DiskMirrorLog> {
  try {
    const recovered = await recoverLog({ ...surroundings, id, directory });
    return new DiskMirrorLog(recovered, surroundings);
  } catch (error) {
    throw storageError(error);
  }
}

export class DiskMirrorLog implements MirrorLog {
  readonly #state: LogState;
  readonly #changes = new Serial();
  readonly #durability: LogDurability;
  readonly #appender: LogAppender;
  readonly #cutter: LogCutter;
  readonly #reader: LogReader;
  readonly #times: TimeLookup;
  readonly #indexes: SegmentIndexes;
  readonly #damages: LogDamages;
  readonly #listeners = new Set<() => void>();
  readonly #damageListeners = new Set<() => void>();
  readonly #onReport: OnReport;

  constructor(recovered: RecoveredLog, surroundings: LogSurroundings) {
    const { state, checkpoint, sealer } = recovered;
    this.#state = state;
    this.#onReport = surroundings.onReport;
    this.#durability = new LogDurability({
      ...surroundings,
      state,
      checkpoint,
      sealer,
      onDurable: () => this.#advance(),
    });
    const parts = { ...surroundings, state, sealer, durability: this.#durability };
    this.#appender = new LogAppender(parts);
    this.#cutter = new LogCutter({ ...parts, onChanged: () => this.#notify() });
    this.#indexes = new SegmentIndexes(parts);
    const reading = { ...parts, indexes: this.#indexes };
    this.#damages = new LogDamages({
      ...reading,
      onDamage: () => this.#tell(this.#damageListeners),
    });
    this.#reader = new LogReader({ ...reading, damages: this.#damages });
    this.#times = new TimeLookup(reading);
  }

  get id(): LogId {
    return this.#state.id;
  }

  get logStart(): bigint {
    return this.#state.logStart;
  }

  get end(): bigint {
    return this.#state.end;
  }

  get durableEnd(): bigint {
    return this.#state.durableEnd;
  }

  get visibleEnd(): bigint {
    return this.#state.visibleEnd;
  }

  get lastStableOffset(): bigint {
    return this.#state.lastStableOffset;
  }

  get visibleEpoch(): number {
    return this.#state.epochs.visibleEpoch(this.#state.visibleEnd);
  }

  get lastEpoch(): number {
    return this.#state.epochs.lastEpoch;
  }

  get sizeBytes(): number {
    return this.#state.sizeBytes;
  }

  get heldFrom(): bigint | null {
    return this.#state.hold;
  }

  append(records: Buffer): Promise<AppendResult> {
    return this.#changes.run(() => this.#appender.append(records));
  }

  flush(): Promise<void> {
    // Behind the appends that were called before, also when they have not begun to write.
    return this.#changes.run(async () => undefined).then(() => this.#durability.flush());
  }

  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    return this.#reader.read(offset, options);
  }

  async abortedTransactions(from: bigint, to: bigint): Promise<readonly AbortedTransaction[]> {
    const state = this.#state;
    for (;;) {
      this.#assertOpen();
      const { generation, visibleEnd } = state;
      const query = { from: larger(from, state.logStart), to, visibleEnd };
      try {
        const found = await this.#indexes.aborted(query);
        if (generation === state.generation) return found;
      } catch (error) {
        if (generation === state.generation) throw storageError(error);
      }
    }
  }

  get damage(): readonly LogDamage[] {
    return [...this.#state.damage.values()].map(({ from, to, bytes, reason }) => {
      return { from, to, bytes, reason };
    });
  }

  onDamage(listener: () => void): () => void {
    this.#damageListeners.add(listener);
    return () => {
      this.#damageListeners.delete(listener);
    };
  }

  repair({ from }: LogDamage, records: Buffer): Promise<void> {
    return this.#changes.run(() => this.#damages.repair(from, records, this.#durability));
  }

  retentionStart(rules: RetentionRules): bigint {
    return this.#state.retentionStart(rules);
  }

  openTransactions(): readonly OpenTransaction[] {
    return this.#state.transactions.open();
  }

  offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null> {
    return this.#times.offsetForTimestamp(timestamp);
  }

  offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    return this.#times.offsetOfMaxTimestamp();
  }

  epochEnd(epoch: number): EpochEnd {
    const { epochs, logStart, visibleEnd } = this.#state;
    return epochs.epochEnd(epoch, logStart, visibleEnd);
  }

  hold(offset: bigint | null): void {
    this.#assertOpen();
    // What was seen stays visible, also after a restart, which knows the hold and not the past.
    const hold = offset === null ? null : larger(offset, this.#state.visibleEnd);
    if (hold === this.#state.hold) return;
    this.#state.hold = hold;
    this.#durability.markHoldChanged();
    this.#advance();
  }

  truncate(offset: bigint): Promise<void> {
    return this.#changes.run(() => this.#cutter.truncate(offset));
  }

  deleteHead(logStart: bigint): Promise<void> {
    return this.#changes.run(() => this.#cutter.deleteHead(logStart));
  }

  /** Makes everything durable, then refuses all further use. */
  async close(): Promise<void> {
    await this.#changes.run(async () => {
      const { state, durability } = { state: this.#state, durability: this.#durability };
      if (state.closed) return;
      try {
        if (state.failure === null) {
          await durability.flush();
          await durability.exclusive(() => durability.saveCheckpoint());
        }
      } finally {
        this.#retire();
      }
    });
  }

  /** The log is being deleted: whatever is under way ends, nothing is written any more. */
  async abandon(): Promise<void> {
    await this.#changes.run(() => this.#durability.exclusive(async () => this.#retire()));
  }

  #retire(): void {
    this.#state.closed = true;
    this.#state.generation += 1;
    this.#durability.release();
    this.#notify();
    this.#listeners.clear();
    this.#damageListeners.clear();
  }

  #assertOpen(): void {
    if (this.#state.closed) throw new StorageError('CLOSED', 'the log is closed');
  }

  #advance(): void {
    if (this.#state.advance()) this.#notify();
  }

  #notify(): void {
    this.#tell(this.#listeners);
  }

  #tell(listeners: ReadonlySet<() => void>): void {
    for (const listener of [...listeners]) {
      try {
        listener();
      } catch (error) {
        this.#onReport({ kind: 'listener-failed', id: this.id, error });
      }
    }
  }
}
