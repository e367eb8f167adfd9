/**
 * One step after the other through the frame of a FetchResponse, whole or with the rest still
 * coming, and shows what lies at a fixed width in it: offsets, epochs, the span of records, the
 * headers of batches. Owns where in the layout it stands; refuses to keep bytes. Whoever patches
 * what it is shown changes no length, so the frame stays whole. Invariants: every position lies
 * inside the bytes; of records only batch headers are looked at, and only in partitions that
 * somebody wants to see.
 *
 *   header:    correlation id int32, tags (12+)
 *   body:      throttle time int32, error int16 (7+), session id int32 (7+), topics,
 *              tags (12+): 0 node endpoints (16+)
 *   topic:     name (4-12) or id (13+), partitions, tags (12+)
 *   partition: index int32, error int16, high watermark int64, last stable offset int64,
 *              log start int64 (5+), aborted [producer id int64, first offset int64, tags 12+],
 *              preferred replica int32 (11+), records, tags (12+):
 *              0 diverging epoch {int32, int64}, 1 current leader {id int32, epoch int32},
 *              2 snapshot id {int64, int32}
 */
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { arrayElementsMax } from './limits.ts';
import { batchHeaderBytes, checkBatchHeader } from './record-batch.ts';
import { ShortCursor } from './short-cursor.ts';

const versionMin = 4;
const versionMax = 18;
const flexibleFrom = 12;
const topicIdsFrom = 13;
const endpointsFrom = 16;
/** The least that one element takes. */
const topicBytesMin = 3;
const partitionBytesMin = 4 + 2 + 8 + 8;
const abortedBytesMin = 16;

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
   * A batch's header, or what there is of it: the last batch may be cut anywhere. Without this
   * function the records are passed over unseen.
   */
  batch?(head: Buffer): void;
  tags?(bytes: Buffer, tags: PartitionTags): void;
}

/** Null: nothing in the partition needs to be seen. */
export type VisitPartition = (bytes: Buffer, start: PartitionStart) => PartitionVisitor | null;

export type FetchStep =
  | 'header'
  | 'body'
  | 'topic'
  | 'partition'
  | 'aborted'
  | 'records'
  | 'batch'
  | 'tags'
  | 'end';

export class FetchWalk {
  readonly #version: number;
  /** Lengths are varints, and tags follow. */
  readonly isFlexible: boolean;
  readonly #visit: VisitPartition;
  readonly #cursor = new ShortCursor();
  #step: FetchStep = 'header';
  /** Of the response as a whole; 0 before version 7. */
  #errorCode = 0;
  #sessionId = 0;
  #nodeEndpoints = 0;
  /** The step behind the one at hand, when all of its list is done. */
  #topicsLeft = 0;
  #partitionsLeft = 0;
  #abortedLeft = 0;
  #recordsBytesLeft = 0;
  #bytesToPass = 0;
  #topicName = '';
  #topicId: string | undefined;
  #visitor: PartitionVisitor | null = null;
  /** Of the partition at hand. */
  #divergingEpochAt = -1;
  #currentLeaderAt = -1;

  constructor(version: number, visit: VisitPartition) {
    if (!(version >= versionMin && version <= versionMax)) {
      const known = `known versions are ${versionMin}-${versionMax}`;
      throw fault('UNSUPPORTED_VERSION', `version ${version}, ${known}`);
    }
    this.#version = version;
    this.isFlexible = version >= flexibleFrom;
    this.#visit = visit;
  }

  get step(): FetchStep {
    return this.#step;
  }

  get errorCode(): number {
    return this.#errorCode;
  }

  /** 0 before version 7. */
  get sessionId(): number {
    return this.#sessionId;
  }

  /** How many brokers' addresses the answer names, known at its end; 0 before version 16. */
  get nodeEndpoints(): number {
    return this.#nodeEndpoints;
  }

  /** Bytes that pass unseen before the next step. */
  get bytesToPass(): number {
    return this.#bytesToPass;
  }

  passed(bytesCount: number): void {
    this.#bytesToPass -= bytesCount;
  }

  /**
   * All steps of a response that is there as a whole, from behind its header to the end of `bytes`.
   * Counts and lengths are held against what remains, so that none promises more.
   */
  walkBody(bytes: Buffer, bodyOffset: number): void {
    this.#cursor.isWhole = true;
    this.#step = 'body';
    for (let position = bodyOffset; position < bytes.length; ) {
      position = this.take(bytes, position) + this.#bytesToPass;
      this.#bytesToPass = 0;
    }
    this.finish();
  }

  /** One step from `position`; where it ends, or -1 when it has not come whole. */
  take(bytes: Buffer, position: number): number {
    const cursor = this.#cursor;
    cursor.begin(bytes, position);
    if (this.#step === 'header') this.#takeHeader(cursor);
    else if (this.#step === 'body') this.#takeBody(cursor);
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
    if (this.isFlexible) cursor.tags();
    if (!cursor.isShort) this.#step = 'body';
  }

  #takeBody(cursor: ShortCursor): void {
    cursor.int32();
    this.#errorCode = this.#version >= 7 ? cursor.int16() : 0;
    this.#sessionId = this.#version >= 7 ? cursor.int32() : 0;
    const topics = this.#elements(cursor, topicBytesMin);
    if (cursor.isShort) return;
    if (topics < 0) throw fault('UNEXPECTED_NULL', 'no topics');
    this.#topicsLeft = topics;
    this.#step = 'topic';
    if (topics === 0 && !this.isFlexible) this.#step = 'end';
  }

  /** A topic, or behind the last one the response's own tags. */
  #takeTopic(cursor: ShortCursor): void {
    if (this.#topicsLeft === 0) {
      cursor.tags(this.#seeTopTag);
      if (!cursor.isShort) this.#step = 'end';
      return;
    }
    const hasId = this.#version >= topicIdsFrom;
    const topicId = hasId ? cursor.uuid() : undefined;
    const topicName = hasId ? '' : cursor.text(this.isFlexible);
    const partitions = this.#elements(cursor, partitionBytesMin);
    if (cursor.isShort) return;
    if (partitions < 0) throw fault('UNEXPECTED_NULL', 'no partitions');
    this.#topicId = topicId;
    this.#topicName = topicName;
    this.#partitionsLeft = partitions;
    this.#topicsLeft--;
    this.#step = 'partition';
    if (partitions === 0 && !this.isFlexible) this.#afterTopic();
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
    const aborted = this.#elements(cursor, abortedBytesMin);
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
    if (this.isFlexible) cursor.tags();
    if (cursor.isShort) return;
    this.#visitor?.abortedFirstOffset?.(cursor.bytes, firstOffsetAt);
    if (--this.#abortedLeft === 0) this.#step = 'records';
  }

  #takeRecords(cursor: ShortCursor): void {
    const preferredReadReplica = this.#version >= 11 ? cursor.int32() : -1;
    const lengthAt = cursor.offset;
    const length = Math.max(0, this.#count(cursor));
    if (cursor.isShort) return;
    if (length > cursor.bytesMax) throw fault('TRUNCATED', `records of ${length} bytes`);
    const visitor = this.#visitor;
    if (visitor?.records !== undefined) {
      const span = { lengthAt, at: cursor.offset, sizeInBytes: length, preferredReadReplica };
      visitor.records(cursor.bytes, span);
    }
    if (visitor?.batch === undefined || length === 0) {
      this.#bytesToPass = length;
      this.#afterRecords();
      return;
    }
    this.#recordsBytesLeft = length;
    this.#step = 'batch';
  }

  #takeBatch(cursor: ShortCursor): void {
    const left = this.#recordsBytesLeft;
    const headBytes = Math.min(batchHeaderBytes, left);
    const at = cursor.skip(headBytes);
    if (cursor.isShort) return;
    const head = cursor.bytes.subarray(at, at + headBytes);
    const sizeInBytes = left < batchHeaderBytes ? left : checkBatchHeader(head, 0);
    this.#visitor?.batch?.(head);
    this.#bytesToPass = Math.min(sizeInBytes, left) - headBytes;
    this.#recordsBytesLeft = Math.max(0, left - sizeInBytes);
    if (this.#recordsBytesLeft === 0) this.#afterRecords();
  }

  #takeTags(cursor: ShortCursor): void {
    this.#divergingEpochAt = -1;
    this.#currentLeaderAt = -1;
    cursor.tags(this.#seePartitionTag);
    if (cursor.isShort) return;
    const visitor = this.#visitor;
    if (visitor?.tags !== undefined) {
      const divergingEpochAt = this.#divergingEpochAt;
      visitor.tags(cursor.bytes, { divergingEpochAt, currentLeaderAt: this.#currentLeaderAt });
    }
    this.#afterPartition();
  }

  // Made once for each response, not for each partition.
  readonly #seePartitionTag = (tag: number, at: number, length: number): void => {
    if (tag === 0 && length >= 12) this.#divergingEpochAt = at;
    else if (tag === 1 && length >= 8) this.#currentLeaderAt = at;
    else if (tag < 2) throw fault('INVALID_LENGTH', `tag ${tag} of ${length} bytes`);
  };

  readonly #seeTopTag = (tag: number, at: number, length: number): void => {
    if (tag !== 0 || this.#version < endpointsFrom) return;
    const cursor = this.#cursor;
    const end = at + length;
    cursor.offset = at;
    const count = cursor.uvarint() - 1;
    if (cursor.isShort) return;
    if (count < 0) throw fault('UNEXPECTED_NULL', 'no node endpoints');
    if (count > Math.min(arrayElementsMax, end - cursor.offset)) {
      throw fault('INVALID_LENGTH', `${count} node endpoints in ${length} bytes`);
    }
    this.#nodeEndpoints = count;
    cursor.offset = end;
  };

  #afterRecords(): void {
    if (this.isFlexible) this.#step = 'tags';
    else this.#afterPartition();
  }

  #afterPartition(): void {
    this.#visitor = null;
    this.#step = 'partition';
    if (this.#partitionsLeft === 0 && !this.isFlexible) this.#afterTopic();
  }

  #afterTopic(): void {
    this.#step = 'topic';
    if (this.#topicsLeft === 0 && !this.isFlexible) this.#step = 'end';
  }

  /** -1 or less stands for null. */
  #elements(cursor: ShortCursor, elementBytesMin: number): number {
    const count = this.#count(cursor);
    if (count > arrayElementsMax || count * elementBytesMin > cursor.bytesMax) {
      throw fault('INVALID_LENGTH', `array of ${count} elements`);
    }
    return count;
  }

  /** Of elements or bytes; -1 stands for null. */
  #count(cursor: ShortCursor): number {
    return this.isFlexible ? cursor.uvarint() - 1 : cursor.int32();
  }
}

function fault(code: ProtocolErrorCode, detail: string): ProtocolError {
  return new ProtocolError(code, detail, { messageName: 'FetchResponse' });
}
