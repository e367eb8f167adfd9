// Sealing: what is known of a full segment goes from memory into its index files.
//
// Owns: when a segment is sealed (it is wholly durable and no longer written to) and the order of
// writes. It refuses to know how indexes are read. Invariants: it runs only where no cut can
// overlap it; a segment that cannot be sealed (a full disk) stays in memory and is reported, and
// the log goes on.

import { type Disk, joinPath } from './device.ts';
import type { FileTable } from './file-table.ts';
import type { IndexCache } from './index-cache.ts';
import type { LogState } from './log-state.ts';
import type { OnReport } from './reports.ts';
import { SealFile, sealFileName } from './seal-file.ts';
import { type Segment, segmentSuffix } from './segment.ts';
import {
  describeFile,
  type IndexContents,
  indexContents,
  writeIndexFiles,
} from './segment-indexes.ts';

export interface LogSealerOptions {
  readonly state: LogState;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly onReport: OnReport;
}

export class LogSealer {
  readonly #options: LogSealerOptions;
  readonly #file: SealFile;
  #isDue = false;

  constructor(options: LogSealerOptions, file: SealFile) {
    this.#options = options;
    this.#file = file;
  }

  /** A segment has become full. */
  note(): void {
    this.#isDue = true;
  }

  /** Seals what is full and durable. Never rejects. */
  async run(): Promise<void> {
    if (!this.#isDue) return;
    const { state, onReport } = this.#options;
    this.#isDue = false;
    try {
      for (const [index, segment] of state.segments.slice(0, -1).entries()) {
        if (segment.index === null) continue;
        if (segment.baseOffset < state.durable.segment) await this.#seal(index, segment);
        else this.#isDue = true;
      }
    } catch (error) {
      onReport({ kind: 'index-unwritten', id: state.id, error });
    }
  }

  async #seal(index: number, segment: Segment): Promise<void> {
    const { state, disk, indexes } = this.#options;
    const { baseOffset, size, endOffset, largest, openAtStart } = segment;
    const next = state.segments[index + 1];
    if (next === undefined) return;
    const contents = indexContents({ segment, tracker: state.transactions });
    this.#forget(indexes, segment);
    await writeIndexFiles(disk, segment, contents);
    const sealed = { baseOffset, size, endOffset, largest, openAtStart, ...describe(contents) };
    await this.#file.append({
      ...sealed,
      lastEpoch: state.epochs.epochBelow(endOffset),
      openAtEnd: next.openAtStart,
      epochs: state.epochs.startsWithin(baseOffset, endOffset),
    });
    segment.seal(sealed);
    state.transactions.forgetAborted(baseOffset, endOffset);
  }

  #forget(indexes: IndexCache, segment: Segment): void {
    for (const suffix of [segmentSuffix.offsets, segmentSuffix.times, segmentSuffix.aborts]) {
      indexes.forget(segment.pathOf(suffix));
    }
  }

  /**
   * The checkpoint names a new generation: only segments that are still sealed keep their entries.
   * Never rejects: without the file a restart reads the segments.
   */
  async restart(): Promise<void> {
    const { state, onReport } = this.#options;
    const sealed = new Set(
      state.segments.filter((segment) => segment.sealed !== null).map((each) => each.baseOffset),
    );
    try {
      await this.#file.restart(state.sealGeneration, (baseOffset) => sealed.has(baseOffset));
    } catch (error) {
      onReport({ kind: 'index-unwritten', id: state.id, error });
    }
  }
}

function describe(contents: IndexContents) {
  return {
    offsets: describeFile(contents.offsets),
    times: describeFile(contents.times),
    aborts: describeFile(contents.aborts),
  };
}

export function sealFileOf(options: { disk: Disk; files: FileTable; directory: string }): SealFile {
  const { disk, files, directory } = options;
  return new SealFile({ disk, files, path: joinPath(directory, sealFileName) });
}
