// One generation of a log: its files' state in memory and the parts that work on it.
//
// Owns: how the parts are put together, and their end. It refuses to know which generation readers
// see. Invariant: once retired or closed nothing is written to its files any more.

import type { Clock } from '../clock.ts';
import type { AppendResult, LogId } from '../mirror-log.ts';
import type { Disk } from './device.ts';
import type { DiskPace } from './disk-pace.ts';
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
import { type RecoveredLog, recoverLog } from './recovery.ts';
import type { OnReport } from './reports.ts';
import type { IndexInterval } from './segment-index.ts';
import { SegmentIndexes } from './segment-indexes.ts';
import type { SpaceGuard } from './space-guard.ts';
import { TimeLookup } from './time-lookup.ts';

/** What all logs of a storage share. */
export interface LogSurroundings {
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly indexInterval: IndexInterval;
  readonly clock: Clock;
  readonly pace: DiskPace;
  readonly scheduler: FlushScheduler;
  readonly space: SpaceGuard;
  readonly segmentBytesMax: number;
  readonly verifyReads: boolean;
  readonly acceptLoss: boolean;
  readonly onReport: OnReport;
}

export interface GenerationListeners {
  /** What readers see of the generation may have changed, or it is gone. */
  readonly onChanged: (generation: LogGeneration) => void;
  readonly onDamage: (generation: LogGeneration) => void;
}

export class LogGeneration {
  readonly state: LogState;
  readonly durability: LogDurability;
  readonly cutter: LogCutter;
  readonly reader: LogReader;
  readonly times: TimeLookup;
  readonly indexes: SegmentIndexes;
  readonly damages: LogDamages;
  readonly #appender: LogAppender;
  readonly #listeners: GenerationListeners;

  constructor(recovered: RecoveredLog, around: LogSurroundings, listeners: GenerationListeners) {
    const { state, checkpoint, sealer } = recovered;
    this.state = state;
    this.#listeners = listeners;
    const onDurable = (): void => this.advance();
    this.durability = new LogDurability({ ...around, state, checkpoint, sealer, onDurable });
    const parts = { ...around, state, sealer, durability: this.durability };
    this.#appender = new LogAppender(parts);
    this.cutter = new LogCutter({ ...parts, onChanged: () => listeners.onChanged(this) });
    this.indexes = new SegmentIndexes(parts);
    const reading = { ...parts, indexes: this.indexes };
    this.damages = new LogDamages({ ...reading, onDamage: () => listeners.onDamage(this) });
    this.reader = new LogReader({ ...reading, damages: this.damages });
    this.times = new TimeLookup({ ...reading, damages: this.damages, reader: this.reader });
  }

  static async open(
    place: { readonly id: LogId; readonly directory: string },
    around: LogSurroundings,
    listeners: GenerationListeners,
  ): Promise<LogGeneration> {
    try {
      const recovered = await recoverLog({ ...around, ...place });
      return new LogGeneration(recovered, around, listeners);
    } catch (error) {
      throw storageError(error);
    }
  }

  /** Only one at a time, and no cut meanwhile. */
  append(records: Buffer): Promise<AppendResult> {
    return this.#appender.append(records);
  }

  /** Only while no append and no cut is under way. */
  appendNow(records: Buffer): AppendResult | null {
    return this.#appender.appendNow(records);
  }

  advance(): void {
    if (this.state.advance()) this.#listeners.onChanged(this);
  }

  /** Makes everything durable, and the checkpoint that says so. */
  async settle(): Promise<void> {
    await this.durability.flush();
    await this.durability.exclusive(() => this.durability.saveCheckpoint());
  }

  /** Makes everything durable, then refuses all further use. Only behind all changes. */
  async close(): Promise<void> {
    if (this.state.closed) return;
    try {
      if (this.state.failure === null) await this.settle();
    } finally {
      this.#end();
    }
  }

  /** Its files are about to go: whatever is under way ends, nothing is written any more. */
  retire(): Promise<void> {
    return this.durability.exclusive(async () => this.#end());
  }

  #end(): void {
    this.state.closed = true;
    this.state.generation += 1;
    this.durability.release();
    this.#listeners.onChanged(this);
  }
}
