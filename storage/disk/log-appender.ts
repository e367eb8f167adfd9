// Appending: checks, the split into segments, the writes, and the way back when one fails.
//
// Owns: one append from the caller's buffer to the page cache, by a thread for files or at once. It
// knows nothing of durability but to mark it. Invariant: the log's end moves only when all batches
// of an append have been written; after a failed write the files are as before, and durably so
// before the next, or the log is marked as failed.

import { nextOffset } from '../../protocol/record-batch.ts';
import type { AppendResult } from '../mirror-log.ts';
import { type BatchMeta, checkBatches } from './batch-check.ts';
import type { Disk } from './device.ts';
import type { DiskPace } from './disk-pace.ts';
import { storageError } from './failures.ts';
import type { FileLease, FileTable } from './file-table.ts';
import type { LogDurability } from './log-durability.ts';
import type { LogSealer } from './log-sealer.ts';
import type { LogState } from './log-state.ts';
import { relativeOffsetMax, type Segment } from './segment.ts';
import type { SpaceGuard } from './space-guard.ts';

/** Batches of one append that go to one segment, in one write. */
interface Run {
  readonly segment: Segment;
  readonly created: boolean;
  readonly batches: BatchMeta[];
  size: number;
}

export interface LogAppenderOptions {
  readonly state: LogState;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly durability: LogDurability;
  readonly pace: DiskPace;
  readonly sealer: LogSealer;
  readonly space: SpaceGuard;
  readonly segmentBytesMax: number;
}

export class LogAppender {
  readonly #options: LogAppenderOptions;

  constructor(options: LogAppenderOptions) {
    this.#options = options;
  }

  /** Only one at a time. */
  async append(records: Buffer): Promise<AppendResult> {
    const { state, durability, space } = this.#options;
    durability.assertWritable();
    const { end } = state;
    const batches = this.#checked(records);
    if (batches.length === 0) return { batches: 0, bytes: 0, end };
    // Fetching stops when the disk is full; the few bytes that end transactions at failover do not.
    if (batches.some(({ control }) => control === null)) await space.assertRoom();
    await durability.settle();
    await this.#write(records, this.#plan(batches));
    return { batches: batches.length, bytes: records.length, end: state.end };
  }

  /**
   * Only while no append is under way. Null when something would have to be waited for: a disk that
   * is slow, a file that is not open yet, a segment to begin.
   */
  appendNow(records: Buffer): AppendResult | null {
    const { state, durability, space, pace, files } = this.#options;
    durability.assertWritable();
    if (!durability.isSettled || !space.hasRoom || !pace.isPrompt) return null;
    const { active } = state;
    const lease = files.acquireOpen(active.path);
    if (lease === null) return null;
    let batches: BatchMeta[];
    try {
      batches = this.#checked(records);
      const [run, another] = this.#plan(batches);
      if (run === undefined || run.created || another !== undefined) {
        lease.release();
        return null;
      }
    } catch (error) {
      lease.release();
      throw error;
    }
    this.#writeNow(lease, records, active);
    state.applyAppend(active, batches);
    durability.markWritten(active.path, lease);
    return { batches: batches.length, bytes: records.length, end: state.end };
  }

  #checked(records: Buffer): BatchMeta[] {
    const { state } = this.#options;
    return checkBatches(records, { end: state.end, lastEpoch: state.epochs.lastEpoch });
  }

  /** Takes over the lease when it throws. */
  #writeNow(lease: FileLease, records: Buffer, { path, size }: Segment): void {
    const { durability, pace } = this.#options;
    try {
      pace.write(() => lease.file.writeNow(records, size));
    } catch (error) {
      try {
        lease.file.truncateNow(size);
      } catch (undoError) {
        durability.fail(undoError);
      }
      durability.markWritten(path, lease);
      durability.markTakenBack();
      throw storageError(error);
    }
  }

  #plan(batches: readonly BatchMeta[]): Run[] {
    const { state, segmentBytesMax: bytesMax } = this.#options;
    let run: Run = { segment: state.active, created: false, batches: [], size: state.active.size };
    const runs = [run];
    let end = state.active.endOffset;
    for (const batch of batches) {
      const { header } = batch;
      if (!run.segment.hasRoomFor(header, { size: run.size, bytesMax })) {
        // Named by the end before it, so that a missing segment shows; a gap too wide for the
        // index is the exception (then by its first batch).
        const wide = nextOffset(header) - 1n - end > relativeOffsetMax;
        const baseOffset = wide ? header.baseOffset : end;
        // What is open where it begins is filled in when the runs before it have been applied.
        const segment = state.newSegment(baseOffset);
        run = { segment, created: true, batches: [], size: 0 };
        runs.push(run);
      }
      run.batches.push(batch);
      run.size += header.sizeInBytes;
      end = nextOffset(header);
    }
    return runs.filter(({ batches: planned }) => planned.length > 0);
  }

  async #write(records: Buffer, runs: readonly Run[]): Promise<void> {
    const { state, durability } = this.#options;
    const leases: FileLease[] = [];
    try {
      for (const run of runs) {
        const lease = await this.#open(run);
        leases.push(lease);
        await lease.file.write(sliceOf(records, run), run.segment.size);
      }
    } catch (error) {
      await this.#undo(runs, leases);
      throw storageError(error);
    }
    // No await from here on: the end moves and the files count as written in one turn.
    for (const [index, run] of runs.entries()) {
      const lease = leases[index];
      if (run.created) this.#install(run.segment);
      state.applyAppend(run.segment, run.batches);
      if (lease !== undefined) durability.markWritten(run.segment.path, lease);
    }
  }

  async #open({ segment, created }: Run): Promise<FileLease> {
    const { disk, files } = this.#options;
    if (created) {
      const file = await disk.openFile(segment.path, { create: true });
      try {
        await file.truncate(0);
      } finally {
        await file.close();
      }
    }
    return files.acquire(segment.path);
  }

  #install(segment: Segment): void {
    const { state, durability, sealer } = this.#options;
    segment.openAtStart = state.transactions.open();
    state.segments.push(segment);
    durability.markDirectoryChanged();
    sealer.note();
  }

  /** Takes back what may have been written, and the leases. */
  async #undo(runs: readonly Run[], leases: readonly FileLease[]): Promise<void> {
    const { disk, files, durability } = this.#options;
    try {
      for (const [index, { segment, created }] of [...runs.entries()].reverse()) {
        if (created) {
          files.forget(segment.path);
          await disk.remove(segment.path);
        } else {
          // Of a file that could not be opened nothing has changed.
          await leases[index]?.file.truncate(segment.size);
        }
      }
    } catch (undoError) {
      durability.fail(undoError);
    }
    for (const [index, lease] of leases.entries()) {
      const run = runs[index];
      if (run === undefined || run.created) lease.release();
      else durability.markWritten(run.segment.path, lease);
    }
    durability.markDirectoryChanged();
    durability.markTakenBack();
  }
}

function sliceOf(records: Buffer, run: Run): Buffer {
  const first = run.batches[0];
  const last = run.batches.at(-1);
  if (first === undefined || last === undefined) return records.subarray(0, 0);
  return records.subarray(first.position, last.position + last.header.sizeInBytes);
}
