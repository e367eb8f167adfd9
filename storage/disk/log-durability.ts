// The durable end of one log: what has been written, what has been synced, and the record of it.
//
// Owns: the files that were written to since the last flush, and the checkpoint. It decides nothing
// about content. Invariants: the durable end rises only after fdatasync of all that lies below it;
// the checkpoint follows before anybody hears of it; a failed sync ends the log's writing for good,
// since the kernel may have dropped the pages and a second sync would not say so. A sync that could
// not begin, for lack of handles, is made up for.

import type { Clock } from '../clock.ts';
import { StorageError } from '../errors.ts';
import type { Checkpoint, CheckpointState } from './checkpoint.ts';
import type { Disk } from './device.ts';
import type { DiskPace } from './disk-pace.ts';
import { hasDoneNothing, storageError } from './failures.ts';
import type { FileLease } from './file-table.ts';
import type { Flushable, FlushScheduler } from './flush-scheduler.ts';
import type { LogSealer } from './log-sealer.ts';
import type { LogState } from './log-state.ts';
import type { OnReport } from './reports.ts';
import { Serial } from './serial.ts';

/** The checkpoint itself is synced no more often: a crash costs detection, never data. */
const checkpointSyncIntervalMs = 1000;

export interface LogDurabilityOptions {
  readonly state: LogState;
  readonly checkpoint: Checkpoint;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly pace: DiskPace;
  readonly scheduler: FlushScheduler;
  readonly sealer: LogSealer;
  readonly onReport: OnReport;
  /** Called after the durable end rose. */
  readonly onDurable: () => void;
}

export class LogDurability implements Flushable {
  readonly #options: LogDurabilityOptions;
  /** Flushes, and whatever must not meet one. */
  readonly #flushes = new Serial();
  /** Held open from the first write until its sync, so that its errors come to us. */
  #written = new Map<string, FileLease>();
  #directoryChanged = false;
  #holdUnsaved = false;
  #checkpointSyncedAtMs: number;
  #version = 0;
  #flushedVersion = 0;
  /** The version as of which the files are again as before a refused append. */
  #takenBackVersion = 0;
  #isPostponed = false;

  constructor(options: LogDurabilityOptions) {
    this.#options = options;
    this.#checkpointSyncedAtMs = options.clock.nowMs();
  }

  /**
   * To be called when a write has ended, in the same turn in which the log's end moves: a flush
   * that ran during the write must not count it as synced. Takes over the lease.
   */
  markWritten(path: string, lease: FileLease): void {
    if (this.#written.has(path)) lease.release();
    else this.#written.set(path, lease);
    this.#version += 1;
    this.#options.scheduler.mark(this);
  }

  /**
   * What a refused append had written was taken back, from files that are marked: it may be back
   * after a power cut until they are synced. What was appended behind it would be cut off with it,
   * or would join it.
   */
  markTakenBack(): void {
    this.#version += 1;
    this.#takenBackVersion = this.#version;
    this.#options.scheduler.mark(this);
  }

  /** A file was created or removed: its name has to be made durable too. */
  markDirectoryChanged(): void {
    this.#directoryChanged = true;
  }

  markHoldChanged(): void {
    this.#holdUnsaved = true;
    this.#version += 1;
    this.#options.scheduler.mark(this);
  }

  /** Unless there is another one by now. */
  #holdSaved(hold: bigint | null): void {
    if (hold === this.#options.state.hold) this.#holdUnsaved = false;
  }

  /** Nothing has to be made durable before the next append. */
  get isSettled(): boolean {
    return !this.#holdUnsaved && this.#flushedVersion >= this.#takenBackVersion;
  }

  /**
   * A hold must be known to recovery before what it hides can be found by it, and what was taken
   * back must be gone for good.
   */
  async settle(): Promise<void> {
    if (this.#flushedVersion < this.#takenBackVersion) await this.flush();
    if (this.#holdUnsaved) await this.exclusive(() => this.saveCheckpoint());
  }

  async flush(): Promise<void> {
    const wanted = this.#version;
    while (this.#flushedVersion < wanted) {
      await this.#flushes.run(async () => {
        if (this.#flushedVersion >= wanted) return;
        await this.#options.pace.flush(() => this.#flushNow());
      });
    }
  }

  /** Runs a step that no flush overlaps. */
  exclusive<T>(step: () => Promise<T>): Promise<T> {
    return this.#flushes.run(step);
  }

  /**
   * Writes and syncs the checkpoint, as it is about to become; only inside `exclusive`. When it
   * rejects the log has failed, or nothing has been done.
   */
  async saveCheckpoint(changes: Partial<CheckpointState> = {}): Promise<void> {
    const { state, checkpoint, clock, pace } = this.#options;
    const { hold } = state;
    try {
      const saved = { ...state.checkpoint(), ...changes };
      await pace.flush(() => checkpoint.write(saved, { sync: true }));
    } catch (error) {
      throw hasDoneNothing(error) ? storageError(error) : this.fail(error);
    }
    this.#holdSaved(hold);
    this.#checkpointSyncedAtMs = clock.nowMs();
  }

  /** Ends the log's writing. Readers go on below what is durable. */
  fail(cause: unknown): StorageError {
    const { state, onReport } = this.#options;
    const error = storageError(cause);
    if (state.failure === null) {
      state.failure = error;
      onReport({ kind: 'log-failed', id: state.id, error });
    }
    return error;
  }

  assertWritable(): void {
    const { state } = this.#options;
    if (state.closed) throw new StorageError('CLOSED', 'the log is closed');
    if (state.failure === null) return;
    const detail = `the log failed earlier: ${state.failure.message}`;
    throw new StorageError(state.failure.code, detail, { cause: state.failure });
  }

  /** Lets go of files that will not be synced any more. */
  release(): void {
    for (const lease of this.#written.values()) lease.release();
    this.#written = new Map();
  }

  /** What was to be made durable still is, at the next attempt. */
  #postpone(
    cause: unknown,
    missed: { readonly written: Map<string, FileLease>; readonly directoryChanged: boolean },
  ): StorageError {
    const { state, scheduler, onReport } = this.#options;
    const error = storageError(cause);
    for (const [path, lease] of missed.written) {
      if (this.#written.has(path)) lease.release();
      else this.#written.set(path, lease);
    }
    this.#directoryChanged ||= missed.directoryChanged;
    if (!this.#isPostponed) onReport({ kind: 'flush-postponed', id: state.id, error });
    this.#isPostponed = true;
    scheduler.mark(this);
    return error;
  }

  async #flushNow(): Promise<void> {
    this.assertWritable();
    const { state, checkpoint, disk, clock } = this.#options;
    const version = this.#version;
    const durable = state.endPoint;
    const written = this.#written;
    this.#written = new Map();
    const directoryChanged = this.#directoryChanged;
    this.#directoryChanged = false;
    const due = clock.nowMs() - this.#checkpointSyncedAtMs >= checkpointSyncIntervalMs;
    const sync = due || this.#holdUnsaved;
    let hold: bigint | null;
    try {
      for (const { file } of written.values()) await file.sync();
      if (directoryChanged) await disk.syncDirectory(state.directory);
      // The one that is written, which may have changed since the flush began.
      hold = state.hold;
      await checkpoint.write(state.checkpoint(durable), { sync });
    } catch (error) {
      if (hasDoneNothing(error)) throw this.#postpone(error, { written, directoryChanged });
      for (const lease of written.values()) lease.release();
      throw this.fail(error);
    }
    for (const lease of written.values()) lease.release();
    this.#isPostponed = false;
    if (sync) {
      this.#holdSaved(hold);
      this.#checkpointSyncedAtMs = clock.nowMs();
    }
    state.durable = durable;
    this.#flushedVersion = version;
    this.#options.onDurable();
    await this.#options.sealer.run();
  }
}
