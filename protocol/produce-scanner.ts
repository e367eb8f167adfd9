/**
 * Walks a ProduceRequest while its bytes come in, at any split, and tells the transactional id,
 * acks and topics without keeping records. It stops as soon as the last topic's name (or id) is
 * known: nothing behind it is looked at. Owns one small piece that came in part, at most a name.
 * Invariant: `areTopicsKnown` only after each topic was told, in order; a request that cannot be
 * walked throws.
 *
 *   header (skipped), transactional id, acks int16, timeout int32,
 *   topics [name (3-12) or id (13), partitions [index int32, records, tags 9+], tags 9+]
 */
import { emptyBytes } from './bytes/reader.ts';
import { zeroUuid } from './bytes/uuid.ts';
import { ProtocolError } from './errors.ts';
import { ShortCursor } from './short-cursor.ts';

const flexibleFrom = 9;
const topicIdsFrom = 13;
const nameBytesMax = 32767;
const lengthMax = 0x7fffffff;

export interface ScannedTopic {
  /** Empty from version 13 on. */
  readonly name: string;
  /** The zero id before version 13. */
  readonly topicId: string;
}

export interface ProduceScannerOptions {
  readonly version: number;
  /** Where the body begins in the frame. */
  readonly bodyOffset: number;
}

/** What comes next. */
type Step =
  | 'transactionalId'
  | 'acks'
  | 'topics'
  | 'topic'
  | 'partitions'
  | 'partition'
  | 'partitionTags'
  | 'tag'
  | 'partitionEnd'
  | 'topicTags'
  | 'topicEnd';

export class ProduceScanner {
  readonly topics: ScannedTopic[] = [];
  /** Empty without one. */
  transactionalId = '';
  acks = 0;
  areTopicsKnown = false;
  /** How far into the frame it looked: nothing behind it had a part in what is known. */
  scannedBytes = 0;
  readonly #isFlexible: boolean;
  readonly #hasIds: boolean;
  readonly #cursor = new ShortCursor();
  #step: Step = 'transactionalId';
  /** After the tags that are being walked. */
  #stepAfterTags: Step = 'topicEnd';
  /** Bytes that nobody wants. */
  #toSkip: number;
  /** A piece of which the rest is still to come. */
  #rest: Buffer = emptyBytes;
  #topicsLeft = 0;
  #partitionsLeft = 0;
  #tagsLeft = 0;

  constructor({ version, bodyOffset }: ProduceScannerOptions) {
    this.#isFlexible = version >= flexibleFrom;
    this.#hasIds = version >= topicIdsFrom;
    this.#toSkip = bodyOffset;
  }

  /** Feeds the next bytes of the frame (without its prefix); true when all topics are known. */
  push(view: Buffer): boolean {
    if (this.areTopicsKnown) return true;
    const bytes = this.#rest.length === 0 ? view : Buffer.concat([this.#rest, view]);
    this.#rest = emptyBytes;
    let position = 0;
    while (!this.areTopicsKnown) {
      const skipped = Math.min(this.#toSkip, bytes.length - position);
      this.#toSkip -= skipped;
      this.scannedBytes += skipped;
      position += skipped;
      if (this.#toSkip > 0) return false;
      this.#cursor.begin(bytes, position);
      const next = this.#take();
      if (this.#cursor.isShort) {
        if (position < bytes.length) this.#rest = Buffer.from(bytes.subarray(position));
        return false;
      }
      this.#step = next;
      this.scannedBytes += this.#cursor.offset - position;
      position = this.#cursor.offset;
    }
    return true;
  }

  /** Reads one piece, which counts only if the cursor had all of it; returns what comes next. */
  #take(): Step {
    const cursor = this.#cursor;
    switch (this.#step) {
      case 'transactionalId':
        this.transactionalId = this.#name('transactional id');
        return 'acks';
      case 'acks': {
        const acks = cursor.int16();
        // The timeout.
        cursor.skip(4);
        if (!cursor.isShort) this.acks = acks;
        return 'topics';
      }
      case 'topics':
        this.#topicsLeft = this.#length(4);
        if (!cursor.isShort && this.#topicsLeft === 0) this.areTopicsKnown = true;
        return 'topic';
      case 'topic':
        return this.#topic();
      case 'partitions':
        this.#partitionsLeft = this.#length(4);
        return this.#afterPartition();
      case 'partition':
        cursor.skip(4);
        return this.#skipThen(this.#length(4), this.#isFlexible ? 'partitionTags' : 'partitionEnd');
      case 'partitionTags':
        return this.#tags('partitionEnd');
      case 'partitionEnd':
        this.#partitionsLeft--;
        return this.#afterPartition();
      case 'topicTags':
        return this.#tags('topicEnd');
      case 'tag':
        return this.#tag();
      case 'topicEnd':
        return 'topic';
    }
  }

  #topic(): Step {
    const cursor = this.#cursor;
    let topic: ScannedTopic;
    if (this.#hasIds) {
      topic = { name: '', topicId: cursor.uuid() };
    } else {
      topic = { name: this.#name('topic name'), topicId: zeroUuid };
    }
    if (cursor.isShort) return 'topic';
    this.topics.push(topic);
    if (--this.#topicsLeft === 0) this.areTopicsKnown = true;
    return 'partitions';
  }

  #afterPartition(): Step {
    if (this.#partitionsLeft > 0) return 'partition';
    return this.#isFlexible ? 'topicTags' : 'topicEnd';
  }

  #tags(after: Step): Step {
    this.#tagsLeft = this.#uvarint();
    this.#stepAfterTags = after;
    return this.#tagsLeft > 0 ? 'tag' : after;
  }

  #tag(): Step {
    this.#uvarint();
    const length = this.#uvarint();
    if (this.#cursor.isShort) return 'tag';
    this.#tagsLeft--;
    return this.#skipThen(length, this.#tagsLeft > 0 ? 'tag' : this.#stepAfterTags);
  }

  /** Empty for null. */
  #name(what: string): string {
    const cursor = this.#cursor;
    const length = this.#length(2);
    if (length > nameBytesMax) throw tooLong(what, length);
    const start = cursor.skip(length);
    return cursor.isShort ? '' : cursor.bytes.toString('utf8', start, cursor.offset);
  }

  #skipThen(count: number, next: Step): Step {
    if (!this.#cursor.isShort) this.#toSkip = count;
    return next;
  }

  /** Of a string, bytes or an array; 0 for null. `width`: of the form that is not compact. */
  #length(width: 2 | 4): number {
    const cursor = this.#cursor;
    if (this.#isFlexible) return Math.max(0, this.#uvarint() - 1);
    const length = width === 2 ? cursor.int16() : cursor.int32();
    if (length < -1) throw tooLong('length', length);
    return Math.max(0, length);
  }

  #uvarint(): number {
    const value = this.#cursor.uvarint();
    // Java's ints wrap above this: a broker would see another number than we do.
    if (value > lengthMax) throw tooLong('varint', value);
    return value;
  }
}

function tooLong(what: string, value: number): ProtocolError {
  return new ProtocolError('INVALID_LENGTH', `ProduceRequest: ${what} ${value}`);
}
