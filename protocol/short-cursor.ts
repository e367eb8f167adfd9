/**
 * A cursor over bytes of which the rest may still be coming: what is not there yet is no error, it
 * makes the cursor short, and everything read from then on is 0. Where the bytes are whole, what is
 * missing is an error. Owns the position and nothing else; refuses to know messages. Invariant: it
 * never looks beyond the bytes, and once it is short it stays so until it begins again.
 */
import { emptyBytes } from './bytes/reader.ts';
import { uuidBytes } from './bytes/uuid.ts';
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { stringBytesMax, tagsMax } from './limits.ts';

export class ShortCursor {
  bytes: Buffer = emptyBytes;
  offset = 0;
  isShort = false;
  /** Nothing comes behind the bytes. */
  isWhole = false;

  begin(bytes: Buffer, offset: number): void {
    this.bytes = bytes;
    this.offset = offset;
    this.isShort = false;
  }

  /** The most that can follow, so that no count and no length promises more. */
  get bytesMax(): number {
    return this.isWhole ? this.bytes.length - this.offset : Number.POSITIVE_INFINITY;
  }

  /** Moves over `length` bytes; returns where they begin. */
  skip(length: number): number {
    const start = this.offset;
    if (this.isShort || length > this.bytes.length - start) this.#runShort(length);
    else this.offset = start + length;
    return start;
  }

  #runShort(length: number): void {
    if (this.isWhole) throw this.#error('TRUNCATED', `${length} bytes needed`);
    this.isShort = true;
  }

  int16(): number {
    const start = this.skip(2);
    return this.isShort ? 0 : this.bytes.readInt16BE(start);
  }

  int32(): number {
    const start = this.skip(4);
    return this.isShort ? 0 : this.bytes.readInt32BE(start);
  }

  uvarint(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const start = this.skip(1);
      if (this.isShort) return 0;
      const byte = this.bytes[start] ?? 0;
      if (shift === 28 && byte > 0x0f) break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw this.#error('INVALID_VARINT', 'longer than 32 bits');
  }

  uuid(): string {
    const start = this.skip(uuidBytes);
    return this.isShort ? '' : this.bytes.toString('base64url', start, start + uuidBytes);
  }

  text(isFlexible: boolean): string {
    const length = isFlexible ? this.uvarint() - 1 : this.int16();
    if (this.isShort) return '';
    if (length < 0) throw this.#error('UNEXPECTED_NULL', 'a string');
    if (length > stringBytesMax) {
      throw this.#error('INVALID_LENGTH', `string of ${length} bytes`);
    }
    const start = this.skip(length);
    return this.isShort ? '' : this.bytes.toString('utf8', start, start + length);
  }

  /** `visit` is told where each tagged field lies; only of those that are there. */
  tags(visit?: (tag: number, at: number, length: number) => void): void {
    const count = this.uvarint();
    if (count > tagsMax || count * 2 > this.bytesMax) {
      throw this.#error('INVALID_LENGTH', `${count} tagged fields`);
    }
    let previous = -1;
    for (let index = 0; index < count && !this.isShort; index++) {
      const tag = this.uvarint();
      if (this.isShort) return;
      if (tag <= previous) throw this.#error('INVALID_TAGS', `tag ${tag} after ${previous}`);
      previous = tag;
      const length = this.uvarint();
      if (length > this.bytesMax) {
        throw this.#error('INVALID_LENGTH', `tagged field of ${length} bytes`);
      }
      const at = this.skip(length);
      if (!this.isShort) visit?.(tag, at, length);
    }
  }

  #error(code: ProtocolErrorCode, detail: string): ProtocolError {
    return new ProtocolError(code, detail, { offset: this.offset });
  }
}
