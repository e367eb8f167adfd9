// Takes in a Fetch answer whose records can be used up while they come in. Owns how the bytes lie
// meanwhile: batches that somebody has taken leave the frame, and the length that stands before
// them is set anew, so that what is left decodes as a Fetch answer with the rest. Batches are
// offered a few hundred kibibytes at a time, while the processor's cache still has them. Refuses
// to know logs and mirrors. Invariants: batches are offered whole, in order, and only when every
// one before them in their partition was taken; without takers the frame stays as it is; it never
// holds more than the frame's size.
import {
  FetchWalk,
  type PartitionStart,
  type PartitionVisitor,
} from '../../../protocol/fetch-walk.ts';
import { ErrorCode, wholeBatches } from '../../../protocol/index.ts';
import type { FrameBuffer } from '../../cluster/frame-buffer.ts';
import type { FrameIntake, FrameReceiver, FrameStart } from '../../cluster/frame-intake.ts';

/** What is held of an answer that is used up as it comes in. */
const heldBytesMax = 512 * 1024;
/** Batches are offered when so much of them is there, or their partition's last. */
const offeredBytesMin = 256 * 1024;
/** A read into less room than this is not worth its call. */
const roomBytesMin = 128 * 1024;

export interface ArrivingPartition {
  /** Empty from Fetch 13 on. */
  readonly topicName: string;
  /** Undefined before Fetch 13. */
  readonly topicId: string | undefined;
  readonly partition: number;
  readonly highWatermark: bigint;
  readonly preferredReadReplica: number;
}

/**
 * Whole batches by their lengths, the last of them at `lastAt`, valid during the call. False: not
 * now; they are offered again when more has come, and stay in the answer when all has.
 */
export type TakeBatches = (batches: Buffer, lastAt: number) => boolean;

/** Asked once for each partition that has records and no error; null: they stay in the answer. */
export type TakerOf = (partition: ArrivingPartition) => TakeBatches | null;

/** For one answer, which is received into `memory` as far as it is not taken. */
export function arrivingFetch(memory: FrameBuffer, takerOf: TakerOf): FrameReceiver {
  return { begin: (frame) => new ArrivingFrame(frame, memory, takerOf) };
}

/**
 * The buffer: what stays of the frame up to `kept`, nothing of use up to `parsed`, what has come
 * and was not looked at up to `filled`.
 */
class ArrivingFrame implements FrameIntake {
  readonly #memory: FrameBuffer;
  readonly #walk: FetchWalk;
  #buffer: Buffer;
  #kept = 0;
  #parsed = 0;
  #filled = 0;
  /** Of the records at hand; null when they stay. */
  #take: TakeBatches | null = null;
  /** Their length field in what stays, and how many of their bytes stay. */
  #lengthAt = 0;
  #lengthEnd = 0;
  #staying = 0;

  constructor({ sizeInBytes, version }: FrameStart, memory: FrameBuffer, takerOf: TakerOf) {
    this.#memory = memory;
    this.#buffer = memory.claim(Math.min(sizeInBytes, heldBytesMax), sizeInBytes);
    this.#walk = new FetchWalk(version, (bytes, start) => this.#visit(bytes, start, takerOf));
  }

  room(missingBytes: number): Buffer {
    const wanted = Math.min(missingBytes, roomBytesMin);
    if (this.#buffer.length - this.#filled < wanted) this.#makeRoom(wanted, missingBytes);
    return this.#buffer.subarray(this.#filled, this.#filled + missingBytes);
  }

  filled(bytesCount: number): void {
    this.#filled += bytesCount;
    while (this.#parsed < this.#filled) {
      const isGoingOn = this.#walk.bytesToPass > 0 ? this.#passRecords() : this.#step();
      if (!isGoingOn) break;
    }
  }

  finish(): Buffer {
    this.#walk.finish();
    return this.#buffer.subarray(0, this.#kept);
  }

  #visit(bytes: Buffer, start: PartitionStart, takerOf: TakerOf): PartitionVisitor | null {
    const { topicName, topicId, partition, errorCode } = start;
    const isWell = errorCode === ErrorCode.NONE && this.#walk.errorCode === ErrorCode.NONE;
    if (!isWell) return null;
    const highWatermark = bytes.readBigInt64BE(start.highWatermarkAt);
    return {
      records: (_bytes, span) => {
        if (span.sizeInBytes === 0) return;
        const { preferredReadReplica } = span;
        const found = { topicName, topicId, partition, highWatermark, preferredReadReplica };
        this.#take = takerOf(found);
        this.#staying = span.sizeInBytes;
        // Where it lies once this step's bytes have been kept.
        this.#lengthAt = this.#kept + span.lengthAt - this.#parsed;
        this.#lengthEnd = this.#kept + span.at - this.#parsed;
      },
    };
  }

  /** Returns whether it can go on. */
  #step(): boolean {
    const end = this.#walk.take(this.#buffer.subarray(0, this.#filled), this.#parsed);
    if (end >= 0) this.#keep(end - this.#parsed);
    return end >= 0;
  }

  /** Returns whether it can go on. */
  #passRecords(): boolean {
    const { bytesToPass } = this.#walk;
    const bytes = Math.min(bytesToPass, this.#filled - this.#parsed);
    const isAll = bytes === bytesToPass;
    if (this.#take === null) {
      this.#walk.passed(bytes);
      this.#keep(bytes);
      return true;
    }
    if (!isAll && bytes < offeredBytesMin) return false;
    const records = this.#buffer.subarray(this.#parsed, this.#parsed + bytes);
    const { bytes: whole, last } = wholeBatches(records);
    // A batch that is longer than what is there: the rest has to come.
    if (whole === 0 && !isAll) return false;
    const isTaken = whole > 0 && this.#take(records.subarray(0, whole), last);
    if (isTaken) {
      this.#walk.passed(whole);
      this.#parsed += whole;
      this.#staying -= whole;
      this.#setLength();
    }
    if (isAll) this.#take = null;
    return isTaken || isAll;
  }

  #keep(bytesCount: number): void {
    if (this.#kept !== this.#parsed) {
      this.#buffer.copyWithin(this.#kept, this.#parsed, this.#parsed + bytesCount);
    }
    this.#kept += bytesCount;
    this.#parsed += bytesCount;
  }

  /** Of the records that stay, in the field's own width: a varint may have empty high groups. */
  #setLength(): void {
    if (!this.#walk.isFlexible) {
      this.#buffer.writeInt32BE(this.#staying, this.#lengthAt);
      return;
    }
    let value = this.#staying + 1;
    for (let at = this.#lengthAt; at < this.#lengthEnd; at++) {
      const isLast = at === this.#lengthEnd - 1;
      this.#buffer[at] = isLast ? value : (value & 0x7f) | 0x80;
      value >>>= 7;
    }
  }

  #makeRoom(wanted: number, missingBytes: number): void {
    const pending = this.#filled - this.#parsed;
    this.#buffer.copyWithin(this.#kept, this.#parsed, this.#filled);
    this.#parsed = this.#kept;
    this.#filled = this.#kept + pending;
    if (this.#buffer.length - this.#filled >= wanted) return;
    // Something stays, or a batch is long: from now on there is room for all that may come.
    const sizeInBytes = this.#filled + missingBytes;
    this.#buffer = this.#memory.grow(this.#buffer, this.#filled, sizeInBytes);
  }
}
