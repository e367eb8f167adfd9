// How far a mirror partition is behind its source: records, bytes, seconds, STALLED, and when it
// last had all that the source had reported. Pure arithmetic over observations, and over what was
// written down of those before a restart; the caller brings the clock. Bytes are an estimate:
// nobody tells the size of what was not read. Invariant: what was not seen lately is UNKNOWN
// (null), never 0, and lag without progress is STALLED, never healthy.

interface SeenEnd {
  readonly offset: bigint;
  readonly atMs: number;
}

/** Ends that we remember to date the oldest missing record; beyond it neighbours are merged. */
const seenEndsMax = 64;
/** What was appended counts half once so much has come after it. */
const meanOverBytes = 16 << 20;

/** A copy as it is on disk: the mean of all of it, where nothing was appended lately. */
export interface CopySize {
  readonly logStart: bigint;
  readonly end: bigint;
  readonly sizeBytes: number;
}

export interface Lag {
  readonly sourceEnd: bigint;
  readonly records: bigint | null;
  readonly seconds: number | null;
  /** Monotonic ms of the last moment at which we had all that was reported; null when never. */
  readonly completeAtMs: number | null;
  /** It was at `completeAtMs` or later: what is known of it was written down before a restart. */
  readonly isCompleteRecorded: boolean;
}

/** What was seen of a partition, in a form that a restart leaves as it is. -1: never. */
export interface SeenPartition {
  readonly sourceEnd: bigint;
  /** Unix ms. */
  readonly contactTimeMs: number;
  /** Unix ms. */
  readonly completeTimeMs: number;
}

interface Now {
  /** Monotonic. */
  readonly nowMs: number;
  readonly unixMs: number;
}

export const neverSeen: SeenPartition = {
  sourceEnd: -1n,
  contactTimeMs: -1,
  completeTimeMs: -1,
};

export class LagTracker {
  /** By whoever was here before a restart. */
  readonly #recorded: SeenPartition;
  /** Monotonic ms of the two times of it. */
  readonly #recordedAtMs: { readonly contact: number; readonly complete: number };
  #sourceEnd = -1n;
  #sampledAtMs = Number.NEGATIVE_INFINITY;
  #contactUnixMs = -1;
  #mirrorEnd: bigint;
  #progressAtMs: number;
  #completeAtMs: number | null = null;
  #changedAtMs: number | null = null;
  #missing: SeenEnd[] = [];
  #appended = { bytes: 0, offsets: 0 };

  /** `recorded`: what was seen before a restart, and what time it is now. */
  constructor(
    mirrorEnd: bigint,
    nowMs: number,
    recorded: { readonly seen: SeenPartition; readonly unixMs: number } = {
      seen: neverSeen,
      unixMs: 0,
    },
  ) {
    const { seen, unixMs } = recorded;
    // Of a clock that was set back meanwhile it is not from the future.
    const monotonicOf = (timeMs: number): number => nowMs - Math.max(0, unixMs - timeMs);
    this.#mirrorEnd = mirrorEnd;
    this.#progressAtMs = nowMs;
    this.#recorded = seen;
    this.#recordedAtMs = {
      contact: monotonicOf(seen.contactTimeMs),
      complete: monotonicOf(seen.completeTimeMs),
    };
    if (seen.sourceEnd > mirrorEnd) {
      this.#missing = [{ offset: seen.sourceEnd, atMs: this.#recordedAtMs.contact }];
    }
  }

  /** As it was reported last, before a restart too; -1 when never. */
  get sourceEnd(): bigint {
    return this.#sourceEnd >= 0n ? this.#sourceEnd : this.#recorded.sourceEnd;
  }

  /** Unix ms of the last answer for this partition, before a restart too; -1 when never. */
  get contactUnixMs(): number {
    return Math.max(this.#contactUnixMs, this.#recorded.contactTimeMs);
  }

  /** For a record. */
  seen({ nowMs, unixMs }: Now): SeenPartition {
    const { completeAtMs } = this.#completeness();
    return {
      sourceEnd: this.sourceEnd,
      contactTimeMs: this.contactUnixMs,
      completeTimeMs: completeAtMs === null ? -1 : Math.round(unixMs - (nowMs - completeAtMs)),
    };
  }

  /** Monotonic ms when the source's end was first seen as it is; null before the first answer. */
  get changedAtMs(): number | null {
    return this.#changedAtMs;
  }

  /**
   * Monotonic ms of the last moment at which we had all that was reported to this process; null
   * when never.
   */
  get completeAtMs(): number | null {
    return this.#completeAtMs;
  }

  get sampledAtMs(): number {
    return this.#sampledAtMs;
  }

  /** The source answered for this partition and its end is `sourceEnd` (null: unchanged). */
  observeSource(sourceEnd: bigint | null, at: Now): void {
    const wasComplete = this.#sourceEnd <= this.#mirrorEnd;
    if (sourceEnd !== null && sourceEnd !== this.#sourceEnd) {
      this.#sourceEnd = sourceEnd;
      this.#changedAtMs = at.nowMs;
      this.#remember(sourceEnd, at.nowMs);
      // Time without anything to do is not time without progress.
      if (wasComplete && sourceEnd > this.#mirrorEnd) this.#progressAtMs = at.nowMs;
    }
    if (this.#sourceEnd < 0n) return;
    this.#sampledAtMs = at.nowMs;
    this.#contactUnixMs = at.unixMs;
    if (this.#sourceEnd <= this.#mirrorEnd) this.#completeAtMs = at.nowMs;
  }

  /** The durable end of the mirror. */
  observeMirror(mirrorEnd: bigint, nowMs: number): void {
    if (mirrorEnd !== this.#mirrorEnd) {
      this.#mirrorEnd = mirrorEnd;
      this.#progressAtMs = nowMs;
    }
    this.#missing = this.#missing.filter(({ offset }) => offset > mirrorEnd);
    // Complete as of the sample, not of now: the source may have grown since.
    const hasAll = this.#sourceEnd >= 0n && this.#sourceEnd <= mirrorEnd;
    if (hasAll && this.#sampledAtMs > (this.#completeAtMs ?? Number.NEGATIVE_INFINITY)) {
      this.#completeAtMs = this.#sampledAtMs;
    }
  }

  /** Batches were appended: so many bytes for so many offsets, gaps included. */
  observeAppended(bytes: number, offsets: number): void {
    const before = this.#appended;
    const weight = before.bytes >= meanOverBytes ? 0.5 : 1;
    this.#appended = {
      bytes: before.bytes * weight + bytes,
      offsets: before.offsets * weight + offsets,
    };
  }

  /**
   * About how many bytes so many offsets of the source take: at the mean of what was appended
   * lately, else of the whole copy. Null when there is nothing to tell it by.
   */
  bytesOf(records: bigint, copy: CopySize | null): bigint | null {
    if (records <= 0n) return 0n;
    const { bytes, offsets } = this.#appended;
    if (offsets > 0) return BigInt(Math.round((Number(records) * bytes) / offsets));
    return bytesAtMean(records, copy);
  }

  lag(nowMs: number, ageMaxMs: number): Lag {
    const isKnown = nowMs - this.#sampledAtMs <= ageMaxMs;
    const behind = this.sourceEnd - this.#mirrorEnd;
    const records = behind > 0n ? behind : 0n;
    const oldest = this.#missing[0];
    const ageSeconds = oldest === undefined ? 0 : Math.max(0, nowMs - oldest.atMs) / 1000;
    return {
      sourceEnd: this.sourceEnd,
      records: isKnown ? records : null,
      seconds: isKnown ? ageSeconds : null,
      ...this.#completeness(),
    };
  }

  /** There is lag, and nothing of it was made up for so long. */
  isStalled(nowMs: number, ageMaxMs: number): boolean {
    return nowMs - this.#progressAtMs >= ageMaxMs && this.sourceEnd > this.#mirrorEnd;
  }

  #completeness(): Pick<Lag, 'completeAtMs' | 'isCompleteRecorded'> {
    if (this.#completeAtMs !== null) {
      return { completeAtMs: this.#completeAtMs, isCompleteRecorded: false };
    }
    const { sourceEnd, completeTimeMs } = this.#recorded;
    const { contact, complete } = this.#recordedAtMs;
    // What was missing when it was written down may have come before the restart.
    if (sourceEnd >= 0n && sourceEnd <= this.#mirrorEnd) {
      return { completeAtMs: contact, isCompleteRecorded: true };
    }
    if (completeTimeMs < 0) return { completeAtMs: null, isCompleteRecorded: false };
    return { completeAtMs: complete, isCompleteRecorded: true };
  }

  #remember(offset: bigint, atMs: number): void {
    if (offset <= this.#mirrorEnd) {
      this.#missing = [];
      return;
    }
    this.#missing = this.#missing.filter((seen) => seen.offset < offset);
    this.#missing.push({ offset, atMs });
    // Dropping every second one keeps the oldest and errs towards an older age by merging upwards.
    if (this.#missing.length > seenEndsMax) {
      this.#missing = this.#missing.flatMap((seen, index, all) => {
        if (index % 2 === 1) return [];
        const next = all[index + 1];
        return [{ offset: next?.offset ?? seen.offset, atMs: seen.atMs }];
      });
    }
  }
}

/** About how many bytes so many offsets take at the mean of a whole copy; null when it is empty. */
export function bytesAtMean(records: bigint, copy: CopySize | null): bigint | null {
  const offsets = copy === null ? 0n : copy.end - copy.logStart;
  if (copy === null || offsets <= 0n) return null;
  return (records * BigInt(copy.sizeBytes)) / offsets;
}
