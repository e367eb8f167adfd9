// Cutting a log at either end: truncation of the tail, deletion of the head.
//
// Owns: the order of steps that makes each cut safe at every crash point. Invariants: the
// checkpoint lowers its promise before bytes go away, so that recovery never finds less than was
// promised; new names are durable before anything relies on them; a crash half way leaves the old
// state, the new one, or something between that recovery completes.

import { StorageError } from '../errors.ts';
import type { Disk } from './device.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { IndexCache } from './index-cache.ts';
import type { LogDurability } from './log-durability.ts';
import type { LogSealer } from './log-sealer.ts';
import type { LogState } from './log-state.ts';
import type { Segment } from './segment.ts';
import { removeIndexFiles } from './segment-indexes.ts';
import { type RereadSegment, rereadSegment } from './segment-reread.ts';

export interface LogCutterOptions {
  readonly state: LogState;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly durability: LogDurability;
  readonly sealer: LogSealer;
  /** Called when what readers see has changed. */
  readonly onChanged: () => void;
}

export class LogCutter {
  readonly #options: LogCutterOptions;

  constructor(options: LogCutterOptions) {
    this.#options = options;
  }

  /** Only one cut or append at a time. */
  async truncate(offset: bigint): Promise<void> {
    const { state, durability } = this.#options;
    durability.assertWritable();
    if (offset < state.logStart) {
      const detail = `cannot truncate to ${offset}, the log starts at ${state.logStart}`;
      throw new StorageError('OFFSET_OUT_OF_RANGE', detail);
    }
    await durability.flush();
    if (offset >= state.end) return;
    let index = state.segmentIndexFor(offset);
    let kept = await this.#keep(index, offset);
    if (kept.segment.size === 0 && index > 0) {
      index -= 1;
      kept = await this.#keep(index, offset);
    }
    await durability.exclusive(() => this.#cutTail(index, kept));
  }

  /** Reads a segment again up to the batch that holds the offset. */
  async #keep(index: number, offset: bigint): Promise<RereadSegment> {
    const { state, files } = this.#options;
    const old = state.segments[index];
    if (old === undefined) throw new StorageError('CORRUPT', 'a log without segments');
    try {
      return await rereadSegment(old, { files, until: offset });
    } catch (error) {
      throw storageError(error);
    }
  }

  async #cutTail(index: number, kept: RereadSegment): Promise<void> {
    const { state, disk, files, durability, sealer, onChanged } = this.#options;
    const removed = state.segments.slice(index + 1).reverse();
    const cutsSealed = state.segments.slice(index).some(({ sealed }) => sealed !== null);
    if (cutsSealed) state.sealGeneration += 1n;
    state.segments = [...state.segments.slice(0, index), kept.segment];
    state.generation += 1;
    const { end } = state;
    state.durable = { end, segment: kept.segment.baseOffset, position: kept.segment.size };
    state.noteCut(end);
    state.epochs.truncate(end);
    const { baseOffset: from } = kept.segment;
    state.transactions.truncate(end, { from, tracker: kept.tracker });
    state.damage.clear();
    if (state.retreat(end)) onChanged();
    try {
      await durability.saveCheckpoint();
    } catch (error) {
      // What is in memory is ahead of it, for good.
      throw durability.fail(error);
    }
    if (cutsSealed) await sealer.restart();
    try {
      for (const segment of removed) await this.#removeFiles(segment);
      if (cutsSealed) await removeIndexFiles(this.#options, kept.segment);
      if (removed.length > 0) await disk.syncDirectory(state.directory);
      await files.use(kept.segment.path, async (file) => {
        await file.truncate(kept.segment.size);
        await file.sync();
      });
    } catch (error) {
      throw durability.fail(error);
    }
  }

  /** Only one cut or append at a time. */
  async deleteHead(logStart: bigint): Promise<void> {
    const { state, durability } = this.#options;
    durability.assertWritable();
    if (logStart <= state.logStart) return;
    await durability.flush();
    const empties = logStart >= state.end;
    const removed = await durability.exclusive(() =>
      empties ? this.#startOver(logStart) : this.#moveStart(logStart),
    );
    await this.#remove(removed);
  }

  /** The start moves up within the log; segments that lie wholly below it are let go. */
  async #moveStart(logStart: bigint): Promise<readonly Segment[]> {
    const { state, durability, onChanged } = this.#options;
    const headEpoch = state.epochs.epochBelow(logStart);
    await durability.saveCheckpoint({ logStart, headEpoch });
    state.headEpoch = headEpoch;
    state.logStart = logStart;
    state.generation += 1;
    const first = state.segmentIndexFor(logStart);
    const removed = state.segments.slice(0, first);
    state.segments = state.segments.slice(first);
    state.active.noteStart(logStart);
    state.forgetDamage();
    state.epochs.trimHead(logStart);
    state.transactions.trimHead(logStart);
    if (state.advance()) onChanged();
    return removed;
  }

  /**
   * Nothing is left: a new segment begins at the start. When offsets are jumped over, epochs and
   * transactions are forgotten too, since what happened between is not known.
   */
  async #startOver(logStart: bigint): Promise<readonly Segment[]> {
    const { state, durability, onChanged } = this.#options;
    const fresh = await this.#freshSegment(logStart);
    const jumped = logStart > state.end;
    const headEpoch = jumped ? -1 : state.epochs.lastEpoch;
    // Nobody may hear of the new end before it is durable.
    const durable = { end: logStart, segment: fresh.baseOffset, position: 0 };
    try {
      await durability.saveCheckpoint({ logStart, headEpoch, durable });
    } catch (error) {
      if (state.failure === null && fresh !== state.active) await this.#takeBack(fresh);
      throw error;
    }
    state.headEpoch = headEpoch;
    if (jumped) {
      state.keepShownEpoch();
      state.epochs.clear();
    }
    const removed = state.segments.filter(({ path }) => path !== fresh.path);
    state.segments = [fresh];
    state.forgetDamage();
    state.logStart = logStart;
    state.durable = durable;
    state.generation += 1;
    state.epochs.trimHead(logStart);
    state.transactions.clear();
    if (state.advance()) onChanged();
    return removed;
  }

  /** The file exists and its name is durable before the checkpoint tells recovery to expect it. */
  async #freshSegment(baseOffset: bigint): Promise<Segment> {
    const { state, disk } = this.#options;
    const { active } = state;
    if (active.baseOffset === baseOffset && active.size === 0) return active;
    const segment = state.newSegment(baseOffset);
    try {
      const file = await disk.openFile(segment.path, { create: true });
      try {
        await file.truncate(0);
        await file.sync();
      } finally {
        await file.close();
      }
      await disk.syncDirectory(state.directory);
    } catch (error) {
      await this.#takeBack(segment);
      throw storageError(error);
    }
    return segment;
  }

  /** The log grows past its name now: recovery would find it between two that follow each other. */
  async #takeBack(segment: Segment): Promise<void> {
    try {
      await this.#options.disk.remove(segment.path);
    } catch (error) {
      throw this.#options.durability.fail(error);
    }
  }

  /** The log is whole without them: recovery finishes what fails here. */
  async #remove(segments: readonly Segment[]): Promise<void> {
    const { state, disk } = this.#options;
    if (segments.length === 0) return;
    try {
      for (const segment of segments) await this.#removeFiles(segment);
      await disk.syncDirectory(state.directory);
    } catch (error) {
      throw storageError(error);
    }
  }

  async #removeFiles(segment: Segment): Promise<void> {
    const { disk, files } = this.#options;
    files.forget(segment.path);
    await disk.remove(segment.path);
    if (segment.index === null) await removeIndexFiles(this.#options, segment);
  }
}
