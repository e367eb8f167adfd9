// Opening a log: what its files hold is compared with what its checkpoint promises.
//
// Owns: the verdict on a log's directory after any kind of stop. A sealed segment that lies wholly
// below the durable end of the checkpoint is taken over as its entry in the list of sealed segments
// says, if the file has that size; of all others batch headers are read, and CRCs above the durable
// end (below it they were checked and synced before). Invariant: a log is never shorter than its
// checkpoint says, unless an operator accepted the loss; what lies above and is not sound is cut,
// reported, and fetched from the source again.

import { StorageError } from '../errors.ts';
import type { LogId } from '../mirror-log.ts';
import type { LogTail } from './batch-check.ts';
import {
  Checkpoint,
  type CheckpointState,
  checkpointFileName,
  type DurablePoint,
} from './checkpoint.ts';
import { type Disk, DiskError, joinPath } from './device.ts';
import { storageError } from './failures.ts';
import type { FileTable } from './file-table.ts';
import type { IndexCache } from './index-cache.ts';
import { LogSealer, sealFileOf } from './log-sealer.ts';
import { LogState } from './log-state.ts';
import { larger, smaller } from './offsets.ts';
import type { OnReport } from './reports.ts';
import type { SealEntry, SealFile } from './seal-file.ts';
import {
  parseIndexFileName,
  parseSegmentFileName,
  relativeOffsetMax,
  Segment,
  segmentFileName,
} from './segment.ts';
import type { IndexInterval } from './segment-index.ts';
import { scanSegment } from './segment-scan.ts';

/** Entries of deleted segments that a restart leaves in the list of sealed ones. */
const goneEntriesMax = 100;

export interface RecoveryOptions {
  readonly id: LogId;
  readonly directory: string;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly indexInterval: IndexInterval;
  readonly acceptLoss: boolean;
  readonly onReport: OnReport;
}

export interface RecoveredLog {
  readonly state: LogState;
  readonly checkpoint: Checkpoint;
  readonly sealer: LogSealer;
}

/** Where the files stop being sound: everything from `position` of segment `index` on. */
interface Break {
  readonly index: number;
  readonly position: number;
  readonly reason: string;
  /** Offsets go back here: the batch before may be the one that is wrong. */
  readonly isOutOfOrder: boolean;
}

interface FoundSegment {
  readonly baseOffset: bigint;
  readonly path: string;
  readonly size: number;
}

export function recoverLog(options: RecoveryOptions): Promise<RecoveredLog> {
  return new Recovery(options).run();
}

class Recovery {
  readonly #options: RecoveryOptions;
  readonly #doubts: string[] = [];
  readonly #sealFile: SealFile;
  #seals: ReadonlyMap<bigint, SealEntry> = new Map();
  readonly #indexNames: { readonly baseOffset: bigint; readonly path: string }[] = [];
  /** End offset of the batches before the durable position, once the scan has been there. */
  #endAtDurable: bigint | null = null;

  constructor(options: RecoveryOptions) {
    this.#options = options;
    this.#sealFile = sealFileOf(options);
  }

  async run(): Promise<RecoveredLog> {
    const { id, directory, indexInterval: interval } = this.#options;
    let found = await this.#findSegments();
    const opened = await this.#openCheckpoint(found[0]?.baseOffset ?? 0n);
    const promised = opened.state;
    // A loss that was accepted leaves nothing to be believed: everything is read.
    const seals = await this.#sealFile.load(promised.sealGeneration);
    if (!this.#options.acceptLoss) this.#seals = seals;
    found = await this.#removeBelow(found, promised.logStart);
    const head = found[0];
    let { logStart, headEpoch } = promised;
    if (head === undefined) {
      this.#doubt(`no segment is left of offsets ${logStart} to ${promised.durable.end}`);
      found = [await this.#createSegment(logStart)];
    } else if (head.baseOffset > logStart) {
      this.#doubt(`the log starts at ${logStart}, its first segment at ${head.baseOffset}`);
      logStart = head.baseOffset;
      headEpoch = -1;
    }
    // Offsets below a start that had to move are gone: nothing is promised of them any more.
    const kept = { ...promised, logStart, headEpoch };
    let state = new LogState({ id, directory, interval }, kept);
    let torn: Break | null = await this.#scan(state, found, promised.durable);
    if (!this.#isAsPromised(state, found, torn, promised.durable)) {
      // The loss was accepted, and it cannot be said which offsets are wrong: none is kept.
      state = new LogState({ id, directory, interval }, kept);
      state.segments.push(state.newSegment(found[0]?.baseOffset ?? logStart));
      const reason = 'offsets and positions disagree';
      torn = { index: 0, position: 0, reason, isOutOfOrder: true };
    }
    if (torn !== null) await this.#cut(state, found, torn);
    await this.#settle(state, opened.checkpoint, promised.durable);
    const sealer = await this.#sealRest(state, opened.checkpoint, seals);
    return { state, checkpoint: opened.checkpoint, sealer };
  }

  /**
   * What had to be read is sealed now. When the list says anything that is not so (of segments that
   * are still there) it is begun anew, under another generation.
   */
  async #sealRest(
    state: LogState,
    checkpoint: Checkpoint,
    seals: ReadonlyMap<bigint, SealEntry>,
  ): Promise<LogSealer> {
    const { disk, files, indexes, onReport } = this.#options;
    const sealer = new LogSealer({ state, disk, files, indexes, onReport }, this.#sealFile);
    const sealed = new Set(
      state.segments.filter((segment) => segment.sealed !== null).map((each) => each.baseOffset),
    );
    const first = state.segments[0]?.baseOffset ?? 0n;
    const isStale = [...seals.keys()].some((base) => base >= first && !sealed.has(base));
    if (isStale) {
      state.sealGeneration += 1n;
      await checkpoint.write(state.checkpoint(), { sync: true });
    }
    const gone = [...seals.keys()].filter((base) => base < first).length;
    if (isStale || gone > sealed.size + goneEntriesMax) await sealer.restart();
    try {
      for (const { baseOffset, path } of this.#indexNames) {
        if (!sealed.has(baseOffset)) await disk.remove(path);
      }
    } catch (error) {
      onReport({ kind: 'index-unwritten', id: state.id, error });
    }
    sealer.note();
    await sealer.run();
    return sealer;
  }

  /**
   * The durable end must be where the checkpoint says, both as an offset and as a position. False
   * when the two disagree; bytes that are missing are cut by the caller.
   */
  #isAsPromised(
    state: LogState,
    found: readonly FoundSegment[],
    torn: Break | null,
    durable: DurablePoint,
  ): boolean {
    const index = found.findIndex(({ baseOffset }) => baseOffset === durable.segment);
    // Nothing is promised at or above the start, and the rest may have been removed with the head.
    if (index < 0 && durable.end <= state.logStart) return true;
    const why = torn === null ? '' : ` (${torn.reason})`;
    if (index < 0) this.#doubt(`segment ${durable.segment} is missing${why}`);
    const before = torn !== null && torn.index <= index;
    if (before && (torn.index < index || torn.position < durable.position)) {
      this.#doubt(`it is not sound below its durable end ${durable.end} (${torn.reason})`);
      return !torn.isOutOfOrder;
    }
    if (this.#endAtDurable === null) {
      const place = `byte ${durable.position} of segment ${durable.segment}`;
      this.#doubt(`no batch ends at ${place}, its durable end${why}`);
      return index < 0 || (found[index]?.size ?? 0) < durable.position;
    }
    if (larger(this.#endAtDurable, state.logStart) === durable.end) return true;
    this.#doubt(`its durable end ${durable.end} is found at offset ${this.#endAtDurable}`);
    return false;
  }

  /** Bytes that should be there cannot be vouched for: an error, unless the loss was accepted. */
  #doubt(reason: string): void {
    const { id, acceptLoss, onReport } = this.#options;
    if (!acceptLoss) {
      onReport({ kind: 'log-corrupt', id, reason });
      throw new StorageError('CORRUPT', `log ${id.topicId}-${id.partition}: ${reason}`);
    }
    this.#doubts.push(reason);
  }

  async #findSegments(): Promise<FoundSegment[]> {
    const { id, disk, directory } = this.#options;
    let names: string[];
    try {
      names = await disk.list(directory);
    } catch (error) {
      if (error instanceof DiskError && error.code === 'NOT_FOUND') {
        const detail = `log ${id.topicId}-${id.partition} is not in the directory`;
        throw new StorageError('MISSING', detail, { cause: error });
      }
      throw error;
    }
    const found: FoundSegment[] = [];
    for (const name of names) {
      const path = joinPath(directory, name);
      const indexed = parseIndexFileName(name);
      if (indexed !== null) this.#indexNames.push({ baseOffset: indexed, path });
      const baseOffset = parseSegmentFileName(name);
      if (baseOffset === null) continue;
      found.push({ baseOffset, path, size: (await disk.fileSize(path)) ?? 0 });
    }
    return found.sort((a, b) => (a.baseOffset < b.baseOffset ? -1 : 1));
  }

  async #openCheckpoint(
    firstOffset: bigint,
  ): Promise<{ checkpoint: Checkpoint; state: CheckpointState }> {
    const { disk, directory, files } = this.#options;
    const path = joinPath(directory, checkpointFileName);
    if ((await disk.fileSize(path)) !== null) {
      const opened = await Checkpoint.open(path, files.use);
      if (opened !== null) return opened;
    }
    this.#doubt('its checkpoint is missing or unreadable');
    const logStart = firstOffset;
    const durable = { end: logStart, segment: logStart, position: 0 };
    const state = { logStart, durable, hold: null, headEpoch: -1, ...newLogState };
    await Checkpoint.create(disk, path, state);
    await disk.syncDirectory(directory);
    const opened = await Checkpoint.open(path, files.use);
    if (opened === null) throw new StorageError('IO', `${path} reads back otherwise than written`);
    return opened;
  }

  /** Finishes a deletion of the head that a crash may have cut short. */
  async #removeBelow(found: FoundSegment[], logStart: bigint): Promise<FoundSegment[]> {
    const first = found.findLastIndex((segment) => segment.baseOffset <= logStart);
    if (first <= 0) return found;
    for (const { path } of found.slice(0, first)) await this.#options.disk.remove(path);
    await this.#options.disk.syncDirectory(this.#options.directory);
    return found.slice(first);
  }

  async #createSegment(baseOffset: bigint): Promise<FoundSegment> {
    const { disk, directory } = this.#options;
    const path = joinPath(directory, segmentFileName(baseOffset));
    const file = await disk.openFile(path, { create: true });
    await file.close();
    await disk.syncDirectory(directory);
    return { baseOffset, path, size: 0 };
  }

  /** Reads all segments into `state`, as far as they are sound. */
  async #scan(
    state: LogState,
    found: readonly FoundSegment[],
    durable: DurablePoint,
  ): Promise<Break | null> {
    let tail: LogTail = { end: found[0]?.baseOffset ?? state.logStart, lastEpoch: -1 };
    for (const [index, { baseOffset, path, size }] of found.entries()) {
      const gap = baseOffset - tail.end;
      const wideGap = gap > relativeOffsetMax && size > 0;
      if (index > 0 && gap !== 0n && !wideGap) {
        const reason = `segment ${baseOffset} does not follow ${tail.end}`;
        return { index, position: 0, reason, isOutOfOrder: gap < 0n };
      }
      const seal = this.#sealOf(state, { found, index, durable });
      if (seal !== null) {
        tail = this.#takeOver(state, seal);
        continue;
      }
      const segment = state.newSegment(baseOffset);
      segment.openAtStart = state.transactions.open();
      const result = await this.#options.files.use(path, (file) =>
        scanSegment(file, {
          start: 0,
          end: size,
          tail,
          offsetMax: baseOffset + relativeOffsetMax,
          // An operator who accepts a loss gets a log without any batch that cannot be read.
          checkFrom: this.#options.acceptLoss ? 0 : checkFrom(baseOffset, durable),
          visit: (header, position, control) => {
            this.#passDurable(segment, position, durable);
            state.applyBatch(segment, header, control);
            return true;
          },
        }),
      );
      const { position, problem, isOutOfOrder } = result;
      this.#passDurable(segment, position, durable);
      if (problem === null || position > 0 || index === 0) state.segments.push(segment);
      // Lets the tracker forget what ended where readers will see it.
      state.transactions.lastStableOffset(smaller(state.hold ?? result.tail.end, result.tail.end));
      if (problem !== null) {
        const reason = `at ${result.tail.end}: ${problem}`;
        return { index, position, reason, isOutOfOrder };
      }
      tail = { end: segment.endOffset, lastEpoch: result.tail.lastEpoch };
    }
    return null;
  }

  /** The entry of a sealed segment, when nothing speaks against it. */
  #sealOf(
    state: LogState,
    at: { found: readonly FoundSegment[]; index: number; durable: DurablePoint },
  ): SealEntry | null {
    const { found, index, durable } = at;
    const segment = found[index];
    const seal = segment === undefined ? undefined : this.#seals.get(segment.baseOffset);
    if (segment === undefined || seal === undefined || index === found.length - 1) return null;
    if (seal.size !== segment.size || segment.baseOffset >= durable.segment) return null;
    // What is hidden is looked at batch by batch: which transactions end where readers see it.
    if (state.hold !== null && seal.endOffset > state.hold) return null;
    return seal;
  }

  #takeOver(state: LogState, seal: SealEntry): LogTail {
    const { epochs, openAtEnd, lastEpoch, ...sealed } = seal;
    state.segments.push(Segment.fromSealed(state.directory, sealed, state.interval));
    for (const { epoch, startOffset, firstBatchEnd } of epochs) {
      state.epochs.assign(epoch, startOffset, firstBatchEnd);
    }
    state.transactions.replaceOpen(openAtEnd);
    return { end: sealed.endOffset, lastEpoch };
  }

  #passDurable(segment: Segment, position: number, durable: DurablePoint): void {
    if (segment.baseOffset !== durable.segment || position !== durable.position) return;
    this.#endAtDurable = segment.endOffset;
  }

  /** Cuts what is not sound: later segments from the last one down, then the torn one. */
  async #cut(state: LogState, found: readonly FoundSegment[], torn: Break): Promise<void> {
    const { disk, directory, files, id, onReport } = this.#options;
    const keepTorn = torn.position > 0 || torn.index === 0;
    const firstRemoved = keepTorn ? torn.index + 1 : torn.index;
    const removed = found.slice(firstRemoved).reverse();
    let bytes = 0;
    for (const { path, size } of removed) {
      files.forget(path);
      await disk.remove(path);
      bytes += size;
    }
    if (removed.length > 0) await disk.syncDirectory(directory);
    const cut = keepTorn ? found[torn.index] : undefined;
    if (cut !== undefined) {
      bytes += cut.size - torn.position;
      await files.use(cut.path, async (file) => {
        await file.truncate(torn.position);
        await file.sync();
      });
    }
    onReport({ kind: 'tail-cut', id, end: state.end, bytes, reason: torn.reason });
  }

  /** Makes what was adopted durable, and writes down what is vouched for from now on. */
  async #settle(state: LogState, checkpoint: Checkpoint, promised: DurablePoint): Promise<void> {
    const { disk, directory, files, id, onReport } = this.#options;
    const adopted = state.segments.filter((segment) => reachesBeyond(segment, promised));
    for (const segment of adopted) await files.use(segment.path, (file) => file.sync());
    state.durable = state.endPoint;
    state.epochs.trimHead(state.logStart);
    state.epochs.restoreHead(state.headEpoch, state.logStart);
    state.transactions.trimHead(state.logStart);
    state.active.noteStart(state.logStart);
    const { segment, position } = state.durable;
    const grown = segment !== promised.segment || position !== promised.position;
    // Of a segment that a killed process had begun there may be nothing yet but the name.
    if (grown) await disk.syncDirectory(directory);
    const changed = grown || this.#doubts.length > 0;
    if (changed) await checkpoint.write(state.checkpoint(), { sync: true });
    state.advance();
    if (this.#doubts.length === 0) return;
    const reason = this.#doubts.join('; ');
    const { logStart, end } = state;
    onReport({ kind: 'loss-accepted', id, logStart, end, reason });
  }
}

/** Position from which CRCs are checked in a segment: below the durable end they have been. */
function checkFrom(baseOffset: bigint, durable: DurablePoint): number | null {
  if (baseOffset < durable.segment) return null;
  return baseOffset === durable.segment ? durable.position : 0;
}

function reachesBeyond(segment: Segment, durable: DurablePoint): boolean {
  const from = checkFrom(segment.baseOffset, durable);
  return from !== null && segment.size > from;
}

const newLogState = { sealGeneration: 0n, shownEpoch: -1, cutEpoch: -1 };

export interface NewLog {
  readonly logStart: bigint;
  /** The epoch in force at the start, or -1. */
  readonly headEpoch: number;
  /** An empty file that is there from the first moment on, or null. */
  readonly extraFile: string | null;
}

/** Makes the files of a new, empty log in `directory`, durable but for the directory's own name. */
export async function createLogFiles(
  disk: Disk,
  directory: string,
  { logStart, headEpoch, extraFile }: NewLog,
): Promise<void> {
  try {
    await disk.makeDirectory(directory);
    for (const name of [segmentFileName(logStart), ...(extraFile === null ? [] : [extraFile])]) {
      const file = await disk.openFile(joinPath(directory, name), { create: true });
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    }
    await Checkpoint.create(disk, joinPath(directory, checkpointFileName), {
      logStart,
      durable: { end: logStart, segment: logStart, position: 0 },
      hold: null,
      headEpoch,
      ...newLogState,
    });
    await disk.syncDirectory(directory);
  } catch (error) {
    throw storageError(error);
  }
}
