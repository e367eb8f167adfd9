/**
 * A bounds-checked cursor over one frame. It owns the position and every check; it refuses to know
 * any message. Bytes and records come out as views of the buffer, never as copies. Each read takes
 * the field's name as a constant, used only when it fails. Invariant: 0 <= offset <= end, and no
 * read looks beyond `end`; counts are checked against the remaining bytes before anything is built.
 */
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts';
import { arrayElementsMax, stringBytesMax, tagsMax } from '../limits.ts';
import { uuidBytes } from './uuid.ts';
import { unzigzag32, unzigzag64 } from './varint.ts';

/** A tagged field that our schema does not know: kept as it came, written back in its place. */
export interface RawTag {
  tag: number;
  data: Buffer;
}

/** The default of fields of type bytes. */
export const emptyBytes: Buffer = Buffer.alloc(0);

export class Reader {
  readonly buffer: Buffer;
  readonly end: number;
  offset: number;
  private readonly view: DataView;
  private messageName: string | undefined;
  private version: number | undefined;

  constructor(buffer: Buffer, offset = 0, end = buffer.length) {
    if (!(offset >= 0 && offset <= end && end <= buffer.length)) {
      throw new ProtocolError(
        'INVALID_LENGTH',
        `range ${offset}..${end} of ${buffer.length} bytes`,
      );
    }
    this.buffer = buffer;
    this.offset = offset;
    this.end = end;
    this.view = new DataView(buffer.buffer, buffer.byteOffset, end);
    this.messageName = undefined;
    this.version = undefined;
  }

  get remaining(): number {
    return this.end - this.offset;
  }

  /** Names what is decoded from here on, for errors, and refuses versions that do not exist. */
  beginMessage(name: string, version: number, versionMin: number, versionMax: number): void {
    this.messageName = name;
    this.version = version;
    if (!(version >= versionMin && version <= versionMax)) {
      throw this.error('UNSUPPORTED_VERSION', `known versions are ${versionMin}-${versionMax}`);
    }
  }

  error(code: ProtocolErrorCode, detail: string, field?: string): ProtocolError {
    return new ProtocolError(code, detail, {
      messageName: this.messageName,
      version: this.version,
      field,
      offset: this.offset,
    });
  }

  /** Moves past `length` bytes after checking that they exist; returns where they begin. */
  private take(length: number, field: string | undefined): number {
    const start = this.offset;
    if (length > this.end - start) {
      throw this.error('TRUNCATED', `${length} bytes needed, ${this.end - start} remain`, field);
    }
    this.offset = start + length;
    return start;
  }

  readBoolean(field?: string): boolean {
    return this.view.getInt8(this.take(1, field)) !== 0;
  }

  readInt8(field?: string): number {
    return this.view.getInt8(this.take(1, field));
  }

  readInt16(field?: string): number {
    return this.view.getInt16(this.take(2, field));
  }

  readUint16(field?: string): number {
    return this.view.getUint16(this.take(2, field));
  }

  readInt32(field?: string): number {
    return this.view.getInt32(this.take(4, field));
  }

  readUint32(field?: string): number {
    return this.view.getUint32(this.take(4, field));
  }

  readInt64(field?: string): bigint {
    return this.view.getBigInt64(this.take(8, field));
  }

  readFloat64(field?: string): number {
    return this.view.getFloat64(this.take(8, field));
  }

  readUuid(field?: string): string {
    const start = this.take(uuidBytes, field);
    return this.buffer.toString('base64url', start, start + uuidBytes);
  }

  readUvarint(field?: string): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.view.getUint8(this.take(1, field));
      if (shift === 28 && byte > 0x0f) break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw this.error('INVALID_VARINT', 'longer than 32 bits', field);
  }

  readVarint(field?: string): number {
    return unzigzag32(this.readUvarint(field));
  }

  readVarlong(field?: string): bigint {
    let low = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.view.getUint8(this.take(1, field));
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt(unzigzag32(low >>> 0));
    }
    let value = BigInt(low);
    for (let shift = 28n; shift < 70n; shift += 7n) {
      const byte = this.view.getUint8(this.take(1, field));
      if (shift === 63n && byte > 1) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return unzigzag64(value);
    }
    throw this.error('INVALID_VARINT', 'longer than 64 bits', field);
  }

  /** A view of the next `length` bytes. */
  readRaw(length: number, field?: string): Buffer {
    if (!(length >= 0)) throw this.error('INVALID_LENGTH', `length ${length}`, field);
    const start = this.take(length, field);
    return this.buffer.subarray(start, start + length);
  }

  private text(length: number, field: string | undefined): string {
    if (length > stringBytesMax) {
      throw this.error('INVALID_LENGTH', `string of ${length} bytes`, field);
    }
    const start = this.take(length, field);
    return this.buffer.toString('utf8', start, start + length);
  }

  private nullError(field: string | undefined): ProtocolError {
    return this.error('UNEXPECTED_NULL', 'null is not allowed here', field);
  }

  readString(field?: string): string {
    const length = this.readInt16(field);
    if (length < 0) throw this.nullError(field);
    return this.text(length, field);
  }

  readNullableString(field?: string): string | null {
    const length = this.readInt16(field);
    return length < 0 ? null : this.text(length, field);
  }

  readCompactString(field?: string): string {
    const length = this.readUvarint(field) - 1;
    if (length < 0) throw this.nullError(field);
    return this.text(length, field);
  }

  readCompactNullableString(field?: string): string | null {
    const length = this.readUvarint(field) - 1;
    return length < 0 ? null : this.text(length, field);
  }

  readBytes(field?: string): Buffer {
    const length = this.readInt32(field);
    if (length < 0) throw this.nullError(field);
    return this.readRaw(length, field);
  }

  readNullableBytes(field?: string): Buffer | null {
    const length = this.readInt32(field);
    return length < 0 ? null : this.readRaw(length, field);
  }

  readCompactBytes(field?: string): Buffer {
    const length = this.readUvarint(field) - 1;
    if (length < 0) throw this.nullError(field);
    return this.readRaw(length, field);
  }

  readCompactNullableBytes(field?: string): Buffer | null {
    const length = this.readUvarint(field) - 1;
    return length < 0 ? null : this.readRaw(length, field);
  }

  /** `elementBytesMin`: the least that one element takes, so that a count cannot promise more. */
  private checkedCount(count: number, elementBytesMin: number, field: string | undefined): number {
    if (count > arrayElementsMax || count * elementBytesMin > this.end - this.offset) {
      const detail = `array of ${count} elements, ${this.end - this.offset} bytes remain`;
      throw this.error('INVALID_LENGTH', detail, field);
    }
    return count;
  }

  readArrayLength(elementBytesMin: number, field?: string): number {
    const count = this.readInt32(field);
    if (count < 0) throw this.nullError(field);
    return this.checkedCount(count, elementBytesMin, field);
  }

  /** -1 stands for null. */
  readNullableArrayLength(elementBytesMin: number, field?: string): number {
    const count = this.readInt32(field);
    return count < 0 ? -1 : this.checkedCount(count, elementBytesMin, field);
  }

  readCompactArrayLength(elementBytesMin: number, field?: string): number {
    const count = this.readUvarint(field) - 1;
    if (count < 0) throw this.nullError(field);
    return this.checkedCount(count, elementBytesMin, field);
  }

  /** -1 stands for null. */
  readCompactNullableArrayLength(elementBytesMin: number, field?: string): number {
    const count = this.readUvarint(field) - 1;
    return count < 0 ? -1 : this.checkedCount(count, elementBytesMin, field);
  }

  /** The byte that leads a nullable struct: negative when it is null. */
  readPresence(field?: string): boolean {
    return this.readInt8(field) >= 0;
  }

  readTagCount(field?: string): number {
    const count = this.readUvarint(field);
    if (count > tagsMax || count * 2 > this.end - this.offset) {
      const detail = `${count} tagged fields, ${this.end - this.offset} bytes remain`;
      throw this.error('INVALID_LENGTH', detail, field);
    }
    return count;
  }

  /** The next tag, which must be above `previous` (-1 at first). */
  readTag(previous: number, field?: string): number {
    const tag = this.readUvarint(field);
    if (tag <= previous) throw this.error('INVALID_TAGS', `tag ${tag} after ${previous}`, field);
    return tag;
  }

  /** Where the tagged field that begins here must end. */
  readTagEnd(field?: string): number {
    const length = this.readUvarint(field);
    if (length > this.end - this.offset) {
      const detail = `tagged field of ${length} bytes, ${this.end - this.offset} remain`;
      throw this.error('INVALID_LENGTH', detail, field);
    }
    return this.offset + length;
  }

  expectTagEnd(tagEnd: number, field?: string): void {
    if (this.offset !== tagEnd) {
      const detail = `tagged field ends at ${this.offset}, its length says ${tagEnd}`;
      throw this.error('INVALID_TAGS', detail, field);
    }
  }

  /** Adds the tagged field between here and `tagEnd` to the unknown ones. */
  keepTag(tags: RawTag[] | undefined, tag: number, tagEnd: number): RawTag[] {
    const kept = tags ?? [];
    kept.push({ tag, data: this.buffer.subarray(this.offset, tagEnd) });
    this.offset = tagEnd;
    return kept;
  }

  /** The tagged section of a struct in which no tag is known. */
  readUnknownTags(field?: string): RawTag[] | undefined {
    let tags: RawTag[] | undefined;
    let previous = -1;
    for (let count = this.readTagCount(field); count > 0; count--) {
      previous = this.readTag(previous, field);
      tags = this.keepTag(tags, previous, this.readTagEnd(field));
    }
    return tags;
  }
}
