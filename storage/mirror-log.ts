// The mirror log: the byte-exact copy of one source partition, as everything above storage sees it.
// Nothing here knows files, sockets or topics of the destination; two implementations are planned:
// local segment files (disk/) and topics of the destination cluster. A log is a series of
// generations, of which readers see one (`rebuild`). Offsets are the source's own
// (= virtual offsets of the mirror). Invariant: what `durableEnd` covers is never lost by a crash,
// and is never answered as absent: bytes that should be there but cannot be read are a StorageError
// (R19).

/**
 * Identifies a mirror log: the shell topic's id (base64url, 22 characters) and the partition index.
 */
export interface LogId {
  readonly topicId: string;
  readonly partition: number;
}

/** A transaction whose end marker is not in the log. */
export interface OpenTransaction {
  readonly producerId: bigint;
  /** Producer epoch of the transaction's last batch. */
  readonly producerEpoch: number;
  readonly firstOffset: bigint;
  /** Last offset written in the transaction so far. */
  readonly lastOffset: bigint;
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: bigint;
  /** Offset of the ABORT marker. */
  readonly lastOffset: bigint;
}

export interface ReadOptions {
  /** Soft limit; at least one whole batch is returned if `atLeastOneBatch`. */
  readonly bytesMax: number;
  readonly atLeastOneBatch: boolean;
  /** Only batches that end at or below this offset (exclusive end). Default: the visible end. */
  readonly endOffset?: bigint;
  /**
   * Gives memory of exactly so many bytes for what is read, in place of fresh memory. The caller
   * decides when it may be used again: not before the call has resolved.
   */
  readonly memory?: ReadInto;
}

export type ReadInto = (bytes: number) => Buffer;

export interface ReadResult {
  /** Whole batches, to be sent as they are (views of fresh buffers, or of the caller's memory). */
  readonly chunks: readonly Buffer[];
  readonly bytes: number;
  /**
   * Base offset of the first batch (can be below the asked offset), or the asked offset if empty.
   */
  readonly baseOffset: bigint;
  /** Offset after the last returned batch; equals the asked offset when nothing was returned. */
  readonly nextOffset: bigint;
}

export interface TimestampOffset {
  readonly offset: bigint;
  readonly timestamp: bigint;
  readonly leaderEpoch: number;
}

export interface EpochEnd {
  /** Largest epoch at or below the asked one that the log has, or -1. */
  readonly epoch: number;
  /** Where the next higher epoch begins (or the log's visible end), or -1. */
  readonly endOffset: bigint;
}

export interface AppendResult {
  readonly batches: number;
  readonly bytes: number;
  /** New end offset. */
  readonly end: bigint;
}

/** A range whose bytes a read has found not to be what was written. */
export interface LogDamage {
  /** An offset in the first batch of the range, or before it. */
  readonly from: bigint;
  /** All batches of the range end at or below. */
  readonly to: bigint;
  /** Length of the batches that were there. */
  readonly bytes: number;
  readonly reason: string;
}

/** As Kafka's retention.ms and retention.bytes; null does not limit. */
export interface RetentionRules {
  /** Pieces without a record at or after this timestamp go. */
  readonly oldestTimestamp: bigint | null;
  /** Pieces go while what is left is at least as large as this. */
  readonly bytesMax: number | null;
}

/**
 * A new generation of a log, built from scratch beside the one that readers see. It costs its own
 * space until it is swapped in or discarded; a crash before the swap discards it.
 */
export interface LogRebuild {
  readonly logStart: bigint;
  readonly end: bigint;
  readonly sizeBytes: number;
  /** As `MirrorLog.append`, to the new generation. */
  append(records: Buffer): Promise<AppendResult>;
  /** As `MirrorLog.read`, of the new generation, up to its end. */
  read(offset: bigint, options: ReadOptions): Promise<ReadResult>;
  /**
   * Makes it durable and puts it in the place of the log's generation, at one instant also for a
   * crash. Readers go on undisturbed; the old one is removed. Nothing may be appended to the log
   * meanwhile.
   * @throws StorageError OFFSET_OUT_OF_ORDER when readers would lose by it: it ends below the log,
   * has another epoch at the log's end, or something is held back. Then nothing has changed.
   */
  swap(): Promise<void>;
  /** Removes it. Idempotent, also after a swap. */
  discard(): Promise<void>;
}

export interface MirrorLog {
  readonly id: LogId;
  /** First offset that readers may ask for. */
  readonly logStart: bigint;
  /** Offset after the last appended batch; may not be durable yet. */
  readonly end: bigint;
  /** Offset after the last batch that survives a crash. */
  readonly durableEnd: bigint;
  /** High watermark for clients: min(durableEnd, hold). Never goes back except by `truncate`. */
  readonly visibleEnd: bigint;
  /** First offset of the earliest transaction open below `visibleEnd`, or `visibleEnd`. */
  readonly lastStableOffset: bigint;
  /** Highest leader epoch among visible batches, or -1 when there is none. */
  readonly visibleEpoch: number;
  /**
   * Highest leader epoch that readers were ever shown, by batches that are gone as well, or -1. It
   * survives a crash and never goes back.
   */
  readonly shownEpoch: number;
  /**
   * `truncate` has taken batches that readers had been shown, and none of a higher epoch than they
   * were shown then is visible yet. It survives a crash.
   */
  readonly isCut: boolean;
  /** Leader epoch of the last appended batch (for LastFetchedEpoch), or -1. */
  readonly lastEpoch: number;
  readonly sizeBytes: number;
  /**
   * The offset given to `hold`, or null. It survives a crash (what it hides must not come to light
   * by a restart), so whoever opens a log decides: the promotion was committed, then `hold(null)`;
   * it was not, then `truncate(heldFrom)` and `hold(null)`.
   */
  readonly heldFrom: bigint | null;

  /**
   * Appends whole v2 batches as the source sent them. Checked before anything is written: magic 2,
   * CRC-32C, base offset >= end (gaps allowed; a first batch that straddles `end` is refused),
   * epochs that do not fall. A rejected buffer changes nothing. Durability follows within the flush
   * interval (`onAdvance`, `flush`). Batches that only end transactions are taken below the minimum
   * of free space too.
   * @throws StorageError CORRUPT_BATCH, UNSUPPORTED_MAGIC, OFFSET_OUT_OF_ORDER, EPOCH_WENT_BACK,
   * DISK_FULL, IO
   */
  append(records: Buffer): Promise<AppendResult>;
  /**
   * As `append`, before it returns, where nothing has to be waited for: for records that have just
   * been received and need not be kept then. Null: nothing was done, `append` is the way.
   * @throws StorageError as `append`
   */
  appendNow(records: Buffer): AppendResult | null;
  /** Resolves when everything appended before the call is durable. */
  flush(): Promise<void>;
  /** Called after `visibleEnd` or `lastStableOffset` changed. Returns the unsubscribe function. */
  onAdvance(listener: () => void): () => void;

  /**
   * Whole batches from the one that contains `offset` (or the next one after a gap).
   * @throws StorageError OFFSET_OUT_OF_RANGE when offset < logStart or > visibleEnd; CORRUPT/IO
   * when unreadable
   */
  read(offset: bigint, options: ReadOptions): Promise<ReadResult>;
  /** What reads have found and nobody has repaired; of very many, those that were found last. */
  readonly damage: readonly LogDamage[];
  /** Called after a range was added to `damage`. Returns the unsubscribe function. */
  onDamage(listener: () => void): () => void;
  /**
   * Writes a damaged range again, with the batches that the source has there. Accepted only with
   * the same length and offsets, sound, and equal to ours wherever ours are sound; a refused repair
   * changes nothing.
   * @throws StorageError CORRUPT_BATCH and the other codes of `append`
   */
  repair(damage: LogDamage, records: Buffer): Promise<void>;
  /** Aborted transactions that overlap [from, to): marker offset >= from and first offset < to. */
  abortedTransactions(from: bigint, to: bigint): Promise<readonly AbortedTransaction[]>;
  openTransactions(): readonly OpenTransaction[];
  /**
   * First record with timestamp >= the given one (exact, also inside compressed batches), or null.
   */
  offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null>;
  /**
   * The record with the largest timestamp (the earliest offset among equals), or null when empty.
   */
  offsetOfMaxTimestamp(): Promise<TimestampOffset | null>;
  /** Answers OffsetForLeaderEpoch from the epochs of stored batches. */
  epochEnd(epoch: number): EpochEnd;

  /**
   * Hides everything from `offset` on from readers until lifted with null (ABORT batches before a
   * commit). What is already visible stays so. Durable before anything that is appended after it.
   */
  hold(offset: bigint | null): void;
  /**
   * Cuts the tail: batches that reach to `offset` or above go away; the new end (that of the last
   * batch left, so possibly below `offset`) is durable when it resolves.
   * @throws StorageError OFFSET_OUT_OF_RANGE below the log start
   */
  truncate(offset: bigint): Promise<void>;
  /**
   * Moves the log start up (whole segments below it are deleted); offsets above `end` empty the
   * log.
   */
  deleteHead(logStart: bigint): Promise<void>;
  /**
   * Begins a new generation of the log; the first batch appended to it has to lie at or above
   * `logStart`. One at a time.
   * @throws StorageError EXISTS while there is one already
   */
  rebuild(logStart: bigint): Promise<LogRebuild>;
  /**
   * How far a retention of `rules` lets the log start move: over whole pieces of the log that are
   * older, or above the size, and never beyond `visibleEnd`. Changes nothing.
   */
  retentionStart(rules: RetentionRules): bigint;
}

export interface StorageUsage {
  readonly usedBytes: number;
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** Fetching stops below so many free bytes. */
  readonly minFreeBytes: number;
}

/** All mirror logs of one instance. */
export interface MirrorStorage {
  /** The identity recorded in the state; null when the directory is new. */
  readonly directoryId: string;
  /**
   * Creates the empty log of a new mirror partition; durable when it resolves. Idempotent while it
   * is empty.
   * @throws StorageError EXISTS when it holds records
   */
  create(id: LogId, logStart: bigint): Promise<MirrorLog>;
  /**
   * @throws StorageError MISSING when it is not there, CORRUPT when recovery cannot vouch for it
   */
  open(id: LogId): Promise<MirrorLog>;
  /** Removes a log (or what is left of it). Idempotent. */
  delete(id: LogId): Promise<void>;
  list(): Promise<readonly LogId[]>;
  usage(): Promise<StorageUsage>;
  /**
   * Bytes that may be written yet before there is less free space than the configured minimum;
   * below 0 when there is.
   */
  roomBytes(): Promise<number>;
  /** True while free space is below the configured minimum: fetching has to stop. */
  readonly isFull: boolean;
  close(): Promise<void>;
}
