/**
 * One step after the other through the frame of a FetchResponse of which the rest may still be
 * coming, and shows what lies at a fixed width in it: offsets, epochs, the span of records, the
 * headers of batches. Owns where in the layout it stands; refuses to keep bytes. Invariant: of
 * records only batch headers are looked at, and only in partitions that somebody wants to see.
 * `fetch-scanner.ts` says how a partition is laid out; this one must read it alike.
 */
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { batchHeaderBytes, batchOverheadBytes } from './record-batch.ts';
import { ShortCursor } from './short-cursor.ts';

/** Base offset, length, leader epoch and magic. */
const batchHeadBytes = 17;
const magicAt = 16;

export interface PartitionStart {
  /** Empty from version 13 on. */
  readonly topicName: string;
  /** Undefined before version 13. */
  readonly topicId: string | undefined;
  readonly partition: number;
  readonly errorCode: number;
  readonly highWatermarkAt: number;
  readonly lastStableOffsetAt: number;
  /** -1 before version 5. */
  readonly logStartOffsetAt: number;
}

export interface PartitionTags {
  /** Epoch int32, then end offset int64; -1 when absent. */
  readonly divergingEpochAt: number;
  /** Leader id int32, then epoch int32; -1 when absent. */
  readonly currentLeaderAt: number;
}

/** Where the records of a partition begin. */
export interface RecordsSpan {
  /** Their length field: `lengthAt` to `at`. */
  readonly lengthAt: number;
  readonly at: number;
  readonly sizeInBytes: number;
  /** -1 before version 11, and where there is none. */
  readonly preferredReadReplica: number;
}

/** Positions are in `bytes`, which may be changed until the function returns. */
export interface PartitionVisitor {
  abortedFirstOffset?(bytes: Buffer, at: number): void;
  records?(bytes: Buffer, span: RecordsSpan): void;
  /**
   * What there is of a batch's header; the last batch may be cut anywhere. Without this function
   * the records are passed over unseen.
   */
  batch?(head: Buffer): void;
  tags?(bytes: Buffer, tags: PartitionTags): void;
}

/** Null: nothing in the partition needs to be seen. */
export type VisitPartition = (bytes: Buffer, start: PartitionStart) => PartitionVisitor | null;

export type FetchStep =
  | 'header'
  | 'topic'
  | 'partition'
  | 'aborted'
  | 'records'
  | 'batch'
  | 'tags'
  | 'end';

export class FetchWalk {
  readonly #version: number;
  readonly #isFlexible: boolean;
  readonly #visit: VisitPartition;
  readonly #cursor = new ShortCursor();
  #step: FetchStep = 'header';
  /** Of the response as a whole; 0 before version 7. */
  #errorCode = 0;
  /** The step behind the one at hand, when all of its list is done. */
  #topicsLeft = 0;
  #partitionsLeft = 0;
  #abortedLeft = 0;
  #recordsBytesLeft = 0;
  #bytesToPass = 0;
  #topicName = '';
  #topicId: string | undefined;
  #visitor: PartitionVisitor | null = null;

  constructor(version: number, visit: VisitPartition) {
    if (version < 4 || version > 17) throw fault('UNSUPPORTED_VERSION', `version ${version}`);
    this.#version = version;
    this.#isFlexible = version >= 12;
    this.#visit = visit;
  }

  get step(): FetchStep {
    return this.#step;
  }

  get errorCode(): number {
    return this.#errorCode;
  }

  /** Bytes that pass unseen before the next step. */
  get bytesToPass(): number {
    return this.#bytesToPass;
  }

  passed(bytesCount: number): void {
    this.#bytesToPass -= bytesCount;
  }

  /** One step from `position`; where it ends, or -1 when it has not come whole. */
  take(bytes: Buffer, position: number): number {
    const cursor = this.#cursor;
    cursor.begin(bytes, position);
    if (this.#step === 'header') this.#takeHeader(cursor);
    else if (this.#step === 'topic') this.#takeTopic(cursor);
    else if (this.#step === 'partition') this.#takePartition(cursor);
    else if (this.#step === 'aborted') this.#takeAborted(cursor);
    else if (this.#step === 'records') this.#takeRecords(cursor);
    else if (this.#step === 'batch') this.#takeBatch(cursor);
    else if (this.#step === 'tags') this.#takeTags(cursor);
    else throw fault('INVALID_LENGTH', `${bytes.length - position} bytes behind the response`);
    return cursor.isShort ? -1 : cursor.offset;
  }

  /** All bytes of the frame have been walked over. */
  finish(): void {
    if (this.#step === 'end' && this.#bytesToPass === 0) return;
    throw fault('TRUNCATED', `the frame ends before its ${this.#step}`);
  }

  #takeHeader(cursor: ShortCursor): void {
    cursor.int32();
    if (this.#isFlexible) cursor.tags();
    cursor.int32();
    this.#errorCode = this.#version >= 7 ? cursor.int16() : 0;
    if (this.#version >= 7) cursor.int32();
    const topics = this.#count(cursor);
    if (cursor.isShort) return;
    if (topics < 0) throw fault('UNEXPECTED_NULL', 'no topics');
    this.#topicsLeft = topics;
    this.#step = 'topic';
    if (topics === 0 && !this.#isFlexible) this.#step = 'end';
  }

  /** A topic, or behind the last one the response's own tags. */
  #takeTopic(cursor: ShortCursor): void {
    if (this.#topicsLeft === 0) {
      cursor.tags();
      if (!cursor.isShort) this.#step = 'end';
      return;
    }
    const topicId = this.#version >= 13 ? cursor.uuid() : undefined;
    const topicName = this.#version >= 13 ? '' : cursor.text(this.#isFlexible);
    const partitions = this.#count(cursor);
    if (cursor.isShort) return;
    if (partitions < 0) throw fault('UNEXPECTED_NULL', 'no partitions');
    this.#topicId = topicId;
    this.#topicName = topicName;
    this.#partitionsLeft = partitions;
    this.#topicsLeft--;
    this.#step = 'partition';
    if (partitions === 0 && !this.#isFlexible) this.#afterTopic();
  }

  /** A partition, or behind the last one its topic's tags. */
  #takePartition(cursor: ShortCursor): void {
    if (this.#partitionsLeft === 0) {
      cursor.tags();
      if (!cursor.isShort) this.#afterTopic();
      return;
    }
    const { bytes } = cursor;
    const partition = cursor.int32();
    const errorCode = cursor.int16();
    const highWatermarkAt = cursor.skip(8);
    const lastStableOffsetAt = cursor.skip(8);
    const logStartOffsetAt = this.#version >= 5 ? cursor.skip(8) : -1;
    const aborted = this.#count(cursor);
    if (cursor.isShort) return;
    this.#visitor = this.#visit(bytes, {
      topicName: this.#topicName,
      topicId: this.#topicId,
      partition,
      errorCode,
      highWatermarkAt,
      lastStableOffsetAt,
      logStartOffsetAt,
    });
    this.#partitionsLeft--;
    this.#abortedLeft = Math.max(0, aborted);
    this.#step = this.#abortedLeft > 0 ? 'aborted' : 'records';
  }

  #takeAborted(cursor: ShortCursor): void {
    cursor.skip(8);
    const firstOffsetAt = cursor.skip(8);
    if (this.#isFlexible) cursor.tags();
    if (cursor.isShort) return;
    this.#visitor?.abortedFirstOffset?.(cursor.bytes, firstOffsetAt);
    if (--this.#abortedLeft === 0) this.#step = 'records';
  }

  #takeRecords(cursor: ShortCursor): void {
    const preferredReadReplica = this.#version >= 11 ? cursor.int32() : -1;
    const lengthAt = cursor.offset;
    const length = Math.max(0, this.#count(cursor));
    if (cursor.isShort) return;
    const span = { lengthAt, at: cursor.offset, sizeInBytes: length, preferredReadReplica };
    this.#visitor?.records?.(cursor.bytes, span);
    if (this.#visitor?.batch === undefined || length === 0) {
      this.#bytesToPass = length;
      this.#afterRecords();
      return;
    }
    this.#recordsBytesLeft = length;
    this.#step = 'batch';
  }

  #takeBatch(cursor: ShortCursor): void {
    const left = this.#recordsBytesLeft;
    const headBytes = Math.min(batchHeadBytes, left);
    const at = cursor.skip(headBytes);
    if (cursor.isShort) return;
    const head = cursor.bytes.subarray(at, at + headBytes);
    const sizeInBytes = left < batchHeaderBytes ? left : sizeOfBatch(head);
    this.#visitor?.batch?.(head);
    this.#bytesToPass = Math.min(sizeInBytes, left) - headBytes;
    this.#recordsBytesLeft = Math.max(0, left - sizeInBytes);
    if (this.#recordsBytesLeft === 0) this.#afterRecords();
  }

  #takeTags(cursor: ShortCursor): void {
    let divergingEpochAt = -1;
    let currentLeaderAt = -1;
    cursor.tags((tag, at, length) => {
      if (tag === 0 && length >= 12) divergingEpochAt = at;
      else if (tag === 1 && length >= 8) currentLeaderAt = at;
      else if (tag < 2) throw fault('INVALID_TAGS', `tag ${tag} of ${length} bytes`);
    });
    if (cursor.isShort) return;
    this.#visitor?.tags?.(cursor.bytes, { divergingEpochAt, currentLeaderAt });
    this.#afterPartition();
  }

  #afterRecords(): void {
    if (this.#isFlexible) this.#step = 'tags';
    else this.#afterPartition();
  }

  #afterPartition(): void {
    this.#visitor = null;
    this.#step = 'partition';
    if (this.#partitionsLeft === 0 && !this.#isFlexible) this.#afterTopic();
  }

  #afterTopic(): void {
    this.#step = 'topic';
    if (this.#topicsLeft === 0 && !this.#isFlexible) this.#step = 'end';
  }

  /** Of elements or bytes; -1 stands for null. */
  #count(cursor: ShortCursor): number {
    return this.#isFlexible ? cursor.uvarint() - 1 : cursor.int32();
  }
}

function sizeOfBatch(head: Buffer): number {
  const magic = head.readInt8(magicAt);
  if (magic !== 2)
    throw fault('UNSUPPORTED_MAGIC', `record format magic ${magic}, only 2 is known`);
  const sizeInBytes = head.readInt32BE(8) + batchOverheadBytes;
  if (sizeInBytes < batchHeaderBytes) {
    throw fault('INVALID_BATCH', `batch of ${sizeInBytes} bytes`);
  }
  return sizeInBytes;
}

function fault(code: ProtocolErrorCode, detail: string): ProtocolError {
  return new ProtocolError(code, detail, { messageName: 'FetchResponse' });
}
