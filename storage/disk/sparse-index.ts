// The sparse offset and time index of one segment, in memory.
//
// Owns: for about every 4 KiB of a segment, where a batch begins and the largest timestamp from
// there to the next entry. It never reads the segment. Invariant: entries ascend in offset and
// position, each names the exact base offset of the batch at its position, and the entry found for
// an offset is at or before the batch that holds it. 16 bytes per entry, in typed arrays, without
// objects.

export interface IndexBlock {
  /** Where the block's first batch begins, and where the next block does (or the segment ends). */
  readonly start: number;
  readonly end: number;
  readonly maxTimestamp: bigint;
}

const initialEntries = 16;

export class SparseIndex {
  #intervalBytes: number;
  #offsets = new Uint32Array(initialEntries);
  #positions = new Uint32Array(initialEntries);
  #timestamps = new BigInt64Array(initialEntries);
  #count = 0;

  constructor(intervalBytes: number) {
    this.#intervalBytes = intervalBytes;
  }

  get count(): number {
    return this.#count;
  }

  /** Takes note of a batch behind all earlier ones. Offsets are relative to the segment's base. */
  add(relativeOffset: number, position: number, maxTimestamp: bigint): void {
    const last = this.#count - 1;
    if (last >= 0 && position - (this.#positions[last] ?? 0) < this.#intervalBytes) {
      if (maxTimestamp > (this.#timestamps[last] ?? 0n)) this.#timestamps[last] = maxTimestamp;
      return;
    }
    if (this.#count === this.#offsets.length) this.#resize(this.#count * 2);
    this.#offsets[this.#count] = relativeOffset;
    this.#positions[this.#count] = position;
    this.#timestamps[this.#count] = maxTimestamp;
    this.#count += 1;
  }

  /** Entry with the greatest offset at or below the asked one; -1 before the first. */
  #floor(relativeOffset: number): number {
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#offsets[middle] ?? 0) <= relativeOffset) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** A position to walk forward from: at or before the batch that holds the offset. */
  positionFor(relativeOffset: number): number {
    const entry = this.#floor(relativeOffset);
    return entry < 0 ? 0 : (this.#positions[entry] ?? 0);
  }

  /** A position that no batch below the offset reaches beyond; null when the index ends before. */
  positionAfter(relativeOffset: number): number | null {
    // The floor of offset - 1 may itself reach over the offset; the entry after it cannot be below.
    const entry = this.#floor(relativeOffset - 1) + 1;
    return entry < this.#count ? (this.#positions[entry] ?? 0) : null;
  }

  block(entry: number, segmentSize: number): IndexBlock {
    const start = this.#positions[entry] ?? 0;
    const end = entry + 1 < this.#count ? (this.#positions[entry + 1] ?? 0) : segmentSize;
    return { start, end, maxTimestamp: this.#timestamps[entry] ?? 0n };
  }

  maxTimestampOf(entry: number): bigint {
    return this.#timestamps[entry] ?? 0n;
  }

  /** Merges entries of a sealed segment to a wider interval and gives unused memory back. */
  thin(intervalBytes: number): void {
    this.#intervalBytes = intervalBytes;
    let kept = 0;
    for (let entry = 0; entry < this.#count; entry++) {
      const position = this.#positions[entry] ?? 0;
      const timestamp = this.#timestamps[entry] ?? 0n;
      const last = kept - 1;
      if (last >= 0 && position - (this.#positions[last] ?? 0) < intervalBytes) {
        if (timestamp > (this.#timestamps[last] ?? 0n)) this.#timestamps[last] = timestamp;
        continue;
      }
      this.#offsets[kept] = this.#offsets[entry] ?? 0;
      this.#positions[kept] = position;
      this.#timestamps[kept] = timestamp;
      kept += 1;
    }
    this.#count = kept;
    this.#resize(Math.max(kept, 1));
  }

  #resize(entries: number): void {
    const offsets = new Uint32Array(entries);
    const positions = new Uint32Array(entries);
    const timestamps = new BigInt64Array(entries);
    offsets.set(this.#offsets.subarray(0, this.#count));
    positions.set(this.#positions.subarray(0, this.#count));
    timestamps.set(this.#timestamps.subarray(0, this.#count));
    this.#offsets = offsets;
    this.#positions = positions;
    this.#timestamps = timestamps;
  }
}
