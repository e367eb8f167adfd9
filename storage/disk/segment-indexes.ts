// The indexes of a log's segments, wherever they are: in memory while a segment is written to, in
// files afterwards.
//
// Owns: the reading of index files, the check of what they hold, and their repair. It never decides
// where in a segment something is. Invariant: the content of an index file is used only if its
// length and CRC-32C are those that the segment was sealed with; otherwise the segment is read
// again, the files are written anew, and that is reported.

import { crc32c } from '../../protocol/crc32c.ts';
import { StorageError } from '../errors.ts';
import type { AbortedTransaction } from '../mirror-log.ts';
import { type AbortQuery, collectAborts, decodeAborts, encodeAborts } from './abort-index.ts';
import { type Disk, DiskError } from './device.ts';
import type { FileTable } from './file-table.ts';
import type { IndexCache } from './index-cache.ts';
import type { LogState } from './log-state.ts';
import type { OnReport } from './reports.ts';
import { type IndexFile, writeWhole } from './seal-file.ts';
import { type Segment, type SegmentSuffix, segmentSuffix } from './segment.ts';
import { type RereadSegment, rereadSegment } from './segment-reread.ts';

const empty = Buffer.alloc(0);

export interface SegmentIndexesOptions {
  readonly state: LogState;
  readonly disk: Disk;
  readonly files: FileTable;
  readonly indexes: IndexCache;
  readonly onReport: OnReport;
}

/** The contents of a sealed segment's index files. */
export interface IndexContents {
  readonly offsets: Buffer;
  readonly times: Buffer;
  readonly aborts: Buffer;
}

export function describeFile(content: Buffer): IndexFile {
  return { bytes: content.length, crc: crc32c(content) };
}

/** What the index files of a segment have to hold. */
export function indexContents({ segment, tracker }: RereadSegment): IndexContents {
  const view = segment.index?.sealed() ?? { offsets: empty, times: empty };
  const aborts = tracker.abortedWithin(segment.baseOffset, segment.endOffset);
  return { offsets: view.offsets, times: view.times, aborts: encodeAborts(aborts) };
}

export async function writeIndexFiles(
  disk: Disk,
  segment: Segment,
  contents: IndexContents,
): Promise<void> {
  for (const kind of ['offsets', 'times', 'aborts'] as const) {
    await writeWhole(disk, segment.pathOf(segmentSuffix[kind]), contents[kind]);
  }
}

export class SegmentIndexes {
  readonly #options: SegmentIndexesOptions;

  constructor(options: SegmentIndexesOptions) {
    this.#options = options;
  }

  async offsets(segment: Segment): Promise<Buffer> {
    if (segment.index !== null) return segment.index.offsets;
    return this.#load(segment, 'offsets');
  }

  async times(segment: Segment): Promise<Buffer> {
    if (segment.index !== null) return segment.index.times;
    return this.#load(segment, 'times');
  }

  /** See `MirrorLog.abortedTransactions`. */
  async aborted(query: AbortQuery): Promise<AbortedTransaction[]> {
    const { state } = this.#options;
    const found: AbortedTransaction[] = [];
    const { segments, transactions } = state;
    for (const segment of segments.slice(state.segmentIndexFor(query.from))) {
      // Whatever ends from here on began at or above the range.
      const isOpen = segment.openAtStart.some(({ firstOffset }) => firstOffset < query.to);
      if (segment.baseOffset >= query.to && !isOpen) break;
      const { baseOffset, endOffset, sealed } = segment;
      const aborts =
        sealed === null
          ? transactions.abortedWithin(baseOffset, endOffset)
          : sealed.aborts.bytes === 0
            ? []
            : decodeAborts(await this.#load(segment, 'aborts'));
      if (collectAborts(aborts, query, found)) break;
    }
    return found;
  }

  #load(segment: Segment, kind: keyof IndexContents): Promise<Buffer> {
    const { sealed } = segment;
    if (sealed === null) throw new StorageError('CORRUPT', `${segment.path} has no index`);
    const expected = sealed[kind];
    if (expected.bytes === 0) return Promise.resolve(empty);
    const path = segment.pathOf(segmentSuffix[kind]);
    return this.#options.indexes.get(path, expected.bytes, async () => {
      const content = await this.#read(path, expected);
      return typeof content === 'string' ? (await this.#rebuild(segment, content))[kind] : content;
    });
  }

  /** The content, or why it cannot be used. A disk that fails otherwise is an error. */
  async #read(path: string, expected: IndexFile): Promise<Buffer | string> {
    let file: Awaited<ReturnType<Disk['openFile']>>;
    try {
      file = await this.#options.disk.openFile(path, { create: false });
    } catch (error) {
      if (error instanceof DiskError && error.code === 'NOT_FOUND') return `${path} is missing`;
      throw error;
    }
    try {
      // One byte more than expected, so that a file that is too long shows.
      const buffer = Buffer.alloc(expected.bytes + 1);
      const filled = await file.read(buffer, 0);
      const content = buffer.subarray(0, filled);
      if (filled !== expected.bytes) return `${path} has ${filled} bytes, not ${expected.bytes}`;
      return crc32c(content) === expected.crc ? content : `${path} is damaged`;
    } finally {
      await file.close();
    }
  }

  async #rebuild(segment: Segment, reason: string): Promise<IndexContents> {
    const { disk, files, state, onReport } = this.#options;
    const { id } = state;
    const read = await rereadSegment(segment, { files, until: null });
    const { size, endOffset } = read.segment;
    if (size !== segment.size || endOffset !== segment.endOffset) {
      const found = `${size} bytes to offset ${endOffset}`;
      const detail = `${segment.path} holds ${found}, not ${segment.size} to ${segment.endOffset}`;
      throw new StorageError('CORRUPT', detail);
    }
    const contents = indexContents(read);
    onReport({ kind: 'index-rebuilt', id, reason });
    try {
      await writeIndexFiles(disk, segment, contents);
    } catch (error) {
      onReport({ kind: 'index-unwritten', id, error });
    }
    return contents;
  }
}

/** Removes the index files of a segment that is gone. They count for nothing if one stays. */
export async function removeIndexFiles(
  options: { readonly disk: Disk; readonly indexes: IndexCache | null },
  directory: { pathOf(suffix: SegmentSuffix): string },
): Promise<void> {
  for (const kind of ['offsets', 'times', 'aborts'] as const) {
    const path = directory.pathOf(segmentSuffix[kind]);
    options.indexes?.forget(path);
    await options.disk.remove(path);
  }
}
