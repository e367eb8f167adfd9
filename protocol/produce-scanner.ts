/**
 * Walks a ProduceRequest while its bytes come in, at any split, and tells acks and topics without
 * keeping records. It stops as soon as the last topic's name (or id) is known: nothing behind it is
 * looked at. Invariant: `areTopicsKnown` only after each topic was told, in order; a request that
 * cannot be walked throws.
 *
 *   header (skipped), transactional id, acks int16, timeout int32,
 *   topics [name (3-12) or id (13), partitions [index int32, records, tags 9+], tags 9+]
 */
import { emptyBytes } from './bytes/reader.ts';
import { uuidFromBytes, zeroUuid } from './bytes/uuid.ts';
import { ProtocolError } from './errors.ts';

const flexibleFrom = 9;
const topicIdsFrom = 13;
const topicNameBytesMax = 32767;

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

export class ProduceScanner {
  readonly topics: ScannedTopic[] = [];
  acks = 0;
  areTopicsKnown = false;
  readonly #isFlexible: boolean;
  readonly #hasIds: boolean;
  readonly #walk: Generator<void, void, void>;
  #chunk: Buffer = emptyBytes;
  #position = 0;

  constructor({ version, bodyOffset }: ProduceScannerOptions) {
    this.#isFlexible = version >= flexibleFrom;
    this.#hasIds = version >= topicIdsFrom;
    this.#walk = this.#request(bodyOffset);
  }

  /** Feeds the next bytes of the frame (without its prefix); true when all topics are known. */
  push(view: Buffer): boolean {
    if (this.areTopicsKnown) return true;
    this.#chunk = view;
    this.#position = 0;
    this.#walk.next();
    this.#chunk = emptyBytes;
    return this.areTopicsKnown;
  }

  *#request(bodyOffset: number): Generator<void, void, void> {
    yield* this.#skip(bodyOffset);
    yield* this.#skip(yield* this.#length(2));
    this.acks = (yield* this.#bytes(2)).readInt16BE(0);
    yield* this.#skip(4);
    const topics = yield* this.#length(4);
    for (let topic = 1; topic <= topics; topic++) {
      this.topics.push(yield* this.#topic());
      if (topic < topics) yield* this.#partitions();
    }
    this.areTopicsKnown = true;
  }

  *#topic(): Generator<void, ScannedTopic, void> {
    if (this.#hasIds) {
      const topicId = uuidFromBytes(yield* this.#bytes(16), 0);
      return { name: '', topicId };
    }
    const length = yield* this.#length(2);
    if (length > topicNameBytesMax) throw tooLong('topic name', length);
    const name = (yield* this.#bytes(length)).toString('utf8');
    return { name, topicId: zeroUuid };
  }

  *#partitions(): Generator<void, void, void> {
    for (let left = yield* this.#length(4); left > 0; left--) {
      yield* this.#skip(4);
      yield* this.#skip(yield* this.#length(4));
      if (this.#isFlexible) yield* this.#tags();
    }
    if (this.#isFlexible) yield* this.#tags();
  }

  *#tags(): Generator<void, void, void> {
    for (let left = yield* this.#uvarint(); left > 0; left--) {
      yield* this.#uvarint();
      yield* this.#skip(yield* this.#uvarint());
    }
  }

  /** Of a string, bytes or an array; 0 for null. `width`: of the form that is not compact. */
  *#length(width: 2 | 4): Generator<void, number, void> {
    const length = this.#isFlexible
      ? (yield* this.#uvarint()) - 1
      : (yield* this.#bytes(width)).readIntBE(0, width);
    if (length < -1) throw tooLong('length', length);
    return Math.max(0, length);
  }

  *#uvarint(): Generator<void, number, void> {
    let value = 0;
    for (let factor = 1; factor <= 2 ** 28; factor *= 128) {
      while (this.#position >= this.#chunk.length) yield;
      const byte = this.#chunk[this.#position++] ?? 0;
      value += (byte & 0x7f) * factor;
      // Java's ints wrap above this: a broker would see another number than we do.
      if (byte < 0x80 && value <= 0x7fffffff) return value;
    }
    throw tooLong('varint', value);
  }

  *#skip(count: number): Generator<void, void, void> {
    let left = count;
    while (left > 0) {
      const here = Math.min(left, this.#chunk.length - this.#position);
      this.#position += here;
      left -= here;
      if (left > 0) yield;
    }
  }

  /** Few bytes in one piece; a view unless they came in parts. */
  *#bytes(count: number): Generator<void, Buffer, void> {
    const start = this.#position;
    if (this.#chunk.length - start >= count) {
      this.#position = start + count;
      return this.#chunk.subarray(start, start + count);
    }
    const collected = Buffer.alloc(count);
    let have = 0;
    while (have < count) {
      while (this.#position >= this.#chunk.length) yield;
      const end = Math.min(this.#chunk.length, this.#position + count - have);
      have += this.#chunk.copy(collected, have, this.#position, end);
      this.#position = end;
    }
    return collected;
  }
}

function tooLong(what: string, value: number): ProtocolError {
  return new ProtocolError('INVALID_LENGTH', `ProduceRequest: ${what} ${value}`);
}
