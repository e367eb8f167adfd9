// The offset index and the time index of one segment, in Kafka's format, in memory or as read from
// their files.
//
// Owns: the entries of both, how they grow with a segment, and the look-ups in them. It never reads
// a segment. Invariants: both ascend strictly; an offset entry names the last offset of the batch
// that begins at its position; a time entry names the last offset of the first batch that reached a
// timestamp above all before it. Any subset of the entries answers rightly, only less closely.
//
//   BASE.index      entries of  0 relative last offset int32   4 position int32
//   BASE.timeindex  entries of  0 timestamp int64              8 relative last offset int32

/** How many bytes of log lie between two offset entries. */
export interface IndexInterval {
  /** Of the segment that is written to. */
  readonly activeBytes: number;
  /** Of sealed segments, whose entries are thinned. */
  readonly sealedBytes: number;
}

/** Kafka's own interval; then 8 + 12 bytes of index per 32 KiB of log. */
export const defaultIndexInterval: IndexInterval = { activeBytes: 4096, sealedBytes: 32_768 };

/** A largest timestamp and the last offset of the first batch that has it. */
export interface LargestTimestamp {
  readonly timestamp: bigint;
  readonly lastOffset: bigint;
}

export const offsetEntryBytes = 8;
export const timeEntryBytes = 12;

const none = Buffer.alloc(0);
const firstBytes = 192;

export interface IndexedPlace {
  /** Of the batch at the position: its last offset, relative to the segment's base. */
  readonly relative: number;
  readonly position: number;
}

/** What can be asked of the indexes of a segment, wherever they are. */
export interface IndexView {
  readonly offsets: Buffer;
  readonly times: Buffer;
}

/** How many entries come before the first one of which `isAtOrAbove` holds. */
function lowerBound(count: number, isAtOrAbove: (entry: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAtOrAbove(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function place(offsets: Buffer, entry: number): IndexedPlace | null {
  const at = entry * offsetEntryBytes;
  if (entry < 0 || at >= offsets.length) return null;
  return { relative: offsets.readInt32BE(at), position: offsets.readInt32BE(at + 4) };
}

function firstEntryFrom(offsets: Buffer, relative: number): number {
  const count = offsets.length / offsetEntryBytes;
  return lowerBound(count, (entry) => offsets.readInt32BE(entry * offsetEntryBytes) >= relative);
}

/** The last indexed batch that ends at or below the offset; null when the walk starts at byte 0. */
export function placeAtOrBelow(offsets: Buffer, relative: number): IndexedPlace | null {
  return place(offsets, firstEntryFrom(offsets, relative + 1) - 1);
}

/** The first indexed batch that reaches to the offset or beyond: none below it lies behind. */
export function placeFrom(offsets: Buffer, relative: number): IndexedPlace | null {
  return place(offsets, firstEntryFrom(offsets, relative));
}

/** The last indexed batch that begins at or below the position. */
export function placeAtPosition(offsets: Buffer, position: number): IndexedPlace | null {
  const count = offsets.length / offsetEntryBytes;
  const above = lowerBound(
    count,
    (entry) => offsets.readInt32BE(entry * offsetEntryBytes + 4) > position,
  );
  return place(offsets, above - 1);
}

/** The first indexed batch that begins above the position. */
export function placeAbovePosition(offsets: Buffer, position: number): IndexedPlace | null {
  const count = offsets.length / offsetEntryBytes;
  const above = lowerBound(
    count,
    (entry) => offsets.readInt32BE(entry * offsetEntryBytes + 4) > position,
  );
  return place(offsets, above);
}

/** Relative offset up to which all timestamps are below the asked one; -1 when none is known. */
export function relativeBelowTime(times: Buffer, timestamp: bigint): number {
  const count = times.length / timeEntryBytes;
  const above = lowerBound(
    count,
    (entry) => times.readBigInt64BE(entry * timeEntryBytes) >= timestamp,
  );
  return above === 0 ? -1 : times.readInt32BE((above - 1) * timeEntryBytes + 8);
}

/** A list of entries of one size that grows by doubling. Empty lists take no memory. */
class Entries {
  readonly #entryBytes: number;
  #buffer: Buffer = none;
  #length = 0;

  constructor(entryBytes: number) {
    this.#entryBytes = entryBytes;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Writes the next entry: in place, since a view for each batch costs more than the writing. */
  add(write: (buffer: Buffer, at: number) => void): void {
    const at = this.#length;
    const end = at + this.#entryBytes;
    if (end > this.#buffer.length) {
      // Not from Node's pool: these live as long as the segment is written to.
      const grown = Buffer.alloc(Math.max(firstBytes, this.#buffer.length * 2));
      this.bytes.copy(grown);
      this.#buffer = grown;
    }
    this.#length = end;
    write(this.#buffer, at);
  }
}

/** The indexes of a segment as it grows. */
export class GrowingIndex implements IndexView {
  readonly #offsets = new Entries(offsetEntryBytes);
  readonly #times = new Entries(timeEntryBytes);
  readonly #interval: IndexInterval;
  #lastPosition = 0;
  #lastTimestamp = -1n;
  #largestTimestamp = -1n;
  #largestAt = 0;

  constructor(interval: IndexInterval) {
    this.#interval = interval;
  }

  get offsets(): Buffer {
    return this.#offsets.bytes;
  }

  get times(): Buffer {
    return this.#times.bytes;
  }

  /** Takes note of a batch behind all earlier ones. */
  add(relative: number, position: number, maxTimestamp: bigint): void {
    if (maxTimestamp > this.#largestTimestamp) {
      this.#largestTimestamp = maxTimestamp;
      this.#largestAt = relative;
    }
    if (position - this.#lastPosition < this.#interval.activeBytes) return;
    this.#lastPosition = position;
    this.#offsets.add((buffer, at) => {
      buffer.writeInt32BE(relative, at);
      buffer.writeInt32BE(position, at + 4);
    });
    this.#noteTime();
  }

  #noteTime(): void {
    if (this.#largestTimestamp <= this.#lastTimestamp) return;
    this.#lastTimestamp = this.#largestTimestamp;
    this.#times.add((buffer, at) => {
      buffer.writeBigInt64BE(this.#largestTimestamp, at);
      buffer.writeInt32BE(this.#largestAt, at + 8);
    });
  }

  /** The final entries, for the files of a sealed segment: coarser, with the largest timestamp. */
  sealed(): IndexView {
    this.#noteTime();
    const { activeBytes, sealedBytes } = this.#interval;
    const every = Math.max(1, Math.round(sealedBytes / activeBytes));
    return { offsets: thinOffsets(this.offsets, sealedBytes), times: thinTimes(this.times, every) };
  }
}

/** Entries whose positions are a sealed interval apart. */
function thinOffsets(offsets: Buffer, intervalBytes: number): Buffer {
  const kept: Buffer[] = [];
  let last = 0;
  for (let at = 0; at < offsets.length; at += offsetEntryBytes) {
    const position = offsets.readInt32BE(at + 4);
    if (position - last < intervalBytes) continue;
    last = position;
    kept.push(offsets.subarray(at, at + offsetEntryBytes));
  }
  return Buffer.concat(kept);
}

/** One entry of so many, and the last one, which holds the largest timestamp. */
function thinTimes(times: Buffer, every: number): Buffer {
  const kept: Buffer[] = [];
  const count = times.length / timeEntryBytes;
  for (let entry = 0; entry < count; entry++) {
    if (entry % every !== 0 && entry !== count - 1) continue;
    kept.push(times.subarray(entry * timeEntryBytes, (entry + 1) * timeEntryBytes));
  }
  return Buffer.concat(kept);
}
