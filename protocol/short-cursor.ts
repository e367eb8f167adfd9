/**
 * A cursor over bytes of which the rest may still be coming: what is not there yet is no error, it
 * makes the cursor short, and everything read from then on is 0. Owns the position and nothing
 * else; refuses to know messages. Invariant: it never looks beyond the bytes, and once it is short
 * it stays so until it begins again.
 */
import { emptyBytes } from './bytes/reader.ts';
import { uuidBytes } from './bytes/uuid.ts';
import { ProtocolError } from './errors.ts';
import { tagsMax } from './limits.ts';

export class ShortCursor {
  bytes: Buffer = emptyBytes;
  offset = 0;
  isShort = false;

  begin(bytes: Buffer, offset: number): void {
    this.bytes = bytes;
    this.offset = offset;
    this.isShort = false;
  }

  /** Moves over `length` bytes; returns where they begin. */
  skip(length: number): number {
    const start = this.offset;
    if (this.isShort || length > this.bytes.length - start) this.isShort = true;
    else this.offset = start + length;
    return start;
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
    throw new ProtocolError('INVALID_VARINT', 'longer than 32 bits', { offset: this.offset });
  }

  uuid(): string {
    const start = this.skip(uuidBytes);
    return this.isShort ? '' : this.bytes.toString('base64url', start, start + uuidBytes);
  }

  text(isFlexible: boolean): string {
    const length = isFlexible ? this.uvarint() - 1 : this.int16();
    if (this.isShort) return '';
    if (length < 0) throw new ProtocolError('UNEXPECTED_NULL', 'a string', { offset: this.offset });
    const start = this.skip(length);
    return this.isShort ? '' : this.bytes.toString('utf8', start, start + length);
  }

  /** `visit` is told where each tagged field lies; only of those that are there. */
  tags(visit?: (tag: number, at: number, length: number) => void): void {
    const count = this.uvarint();
    if (count > tagsMax) {
      throw new ProtocolError('INVALID_LENGTH', `${count} tagged fields`, { offset: this.offset });
    }
    for (let index = 0; index < count && !this.isShort; index++) {
      const tag = this.uvarint();
      const length = this.uvarint();
      const at = this.skip(length);
      if (!this.isShort) visit?.(tag, at, length);
    }
  }
}
