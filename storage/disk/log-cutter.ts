// Cutting a log at either end: truncation of the tail, deletion of the head.
//
// Owns: the order of steps that makes each cut safe at every crash point. Invariants: the
// checkpoint lowers its promise before bytes go away, so that recovery never finds less than was
// promised; new names are durable before anything relies on them; a crash half way leaves the old
// state, the new one, or something between that recovery completes.

import { lastOffset } from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';
import type { OpenTransaction } from '../mirror-log.ts';
import type { Disk } from './device.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { LogDurability } from './log-durability.ts';
import type { LogState } from './log-state.ts';
import { Segment } from './segment.ts';
import { scanSegment } from './segment-scan.ts';
import { TransactionTracker } from './transactions.ts';

export interface LogCutterOptions {
  readonly state: LogState;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly durability: LogDurability;
  /** Called when what readers see has changed. */
  readonly onChanged: () => void;
}

/** A segment as far as it is kept, and what is open where it then ends. */
interface KeptPart {
  readonly segment: Segment;
  readonly open: readonly OpenTransaction[];
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
  async #keep(index: number, offset: bigint): Promise<KeptPart> {
    const { state, files } = this.#options;
    const old = state.segments[index];
    if (old === undefined) throw new StorageError('CORRUPT', 'a log without segments');
    const segment = new Segment(state.directory, old.baseOffset);
    segment.openAtStart = old.openAtStart;
    const transactions = new TransactionTracker();
    transactions.replaceOpen(old.openAtStart);
    let problem: string | null;
    try {
      const result = await files.use(old.path, (file) =>
        scanSegment(file, {
          start: 0,
          end: old.size,
          tail: { end: old.baseOffset, lastEpoch: -1 },
          checkFrom: null,
          visit: (header, _position, control) => {
            if (lastOffset(header) >= offset) return false;
            segment.add(header);
            transactions.apply(header, control);
            return true;
          },
        }),
      );
      problem = result.problem;
    } catch (error) {
      throw storageError(error);
    }
    if (problem !== null) throw new StorageError('CORRUPT', `${old.path}: ${problem}`);
    return { segment, open: transactions.open() };
  }

  async #cutTail(index: number, kept: KeptPart): Promise<void> {
    const { state, disk, files, durability, onChanged } = this.#options;
    const removed = state.segments.slice(index + 1).reverse();
    state.segments = [...state.segments.slice(0, index), kept.segment];
    state.generation += 1;
    const { end } = state;
    state.durable = { end, segment: kept.segment.baseOffset, position: kept.segment.size };
    state.epochs.truncate(end);
    state.transactions.truncate(end, kept.open);
    if (state.retreat(end)) onChanged();
    await durability.saveCheckpoint();
    try {
      for (const segment of removed) {
        files.forget(segment.path);
        await disk.remove(segment.path);
      }
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
    await durability.saveCheckpoint({ logStart, headEpoch, durable });
    state.headEpoch = headEpoch;
    if (jumped) state.epochs.clear();
    const removed = state.segments.filter(({ path }) => path !== fresh.path);
    state.segments = [fresh];
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
    const segment = new Segment(state.directory, baseOffset);
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
      throw storageError(error);
    }
    return segment;
  }

  /** The log is whole without them: recovery finishes what fails here. */
  async #remove(segments: readonly Segment[]): Promise<void> {
    const { state, disk, files } = this.#options;
    if (segments.length === 0) return;
    try {
      for (const segment of segments) {
        files.forget(segment.path);
        await disk.remove(segment.path);
      }
      await disk.syncDirectory(state.directory);
    } catch (error) {
      throw storageError(error);
    }
  }
}
