/**
 * A growing cursor that ends as a list of chunks, which is what writev wants. It owns the layout of
 * primitives and of tagged sections; it refuses to know any message. Large byte fields are spliced
 * in as chunks of their own, not copied: the caller must not change them until they are sent.
 * Invariant: what was flushed into `chunks` is never moved; inside a tagged field nothing is
 * flushed, because its length is patched in front of it at the end.
 */
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts';
import { spliceBytesMin, stringBytesMax } from '../limits.ts';
import type { RawTag } from './reader.ts';
import { isUuid, uuidBytes } from './uuid.ts';
import { uvarintBytes, zigzag32, zigzag64 } from './varint.ts';

export class Writer {
  private buffer: Buffer;
  private view: DataView;
  private offset: number;
  /** Where the part of `buffer` that is not yet in `chunks` begins. */
  private segmentStart: number;
  private chunks: Buffer[];
  private flushedBytes: number;
  private openTags: number;
  private messageName: string | undefined;
  private version: number | undefined;

  constructor(initialBytes = 512) {
    this.buffer = Buffer.allocUnsafe(initialBytes);
    this.view = new DataView(this.buffer.buffer, this.buffer.byteOffset, this.buffer.length);
    this.offset = 0;
    this.segmentStart = 0;
    this.chunks = [];
    this.flushedBytes = 0;
    this.openTags = 0;
    this.messageName = undefined;
    this.version = undefined;
  }

  /** Bytes written so far, spliced ones included. */
  get sizeInBytes(): number {
    return this.flushedBytes + this.offset - this.segmentStart;
  }

  /** All of it, in order. Views: valid as long as nothing more is written. */
  toChunks(): Buffer[] {
    if (this.offset === this.segmentStart) return this.chunks.slice();
    return [...this.chunks, this.buffer.subarray(this.segmentStart, this.offset)];
  }

  toBuffer(): Buffer {
    if (this.chunks.length === 0) return this.buffer.subarray(this.segmentStart, this.offset);
    return Buffer.concat(this.toChunks(), this.sizeInBytes);
  }

  /** Names what is encoded from here on, for errors, and refuses versions that do not exist. */
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
      offset: this.sizeInBytes,
    });
  }

  /** For a field that was set although this version has no place for it. */
  unsupportedField(field: string): ProtocolError {
    return this.error('UNSUPPORTED_VERSION', 'set, but this version does not have it', field);
  }

  /** Makes room and moves on; returns where to write. */
  private reserve(length: number): number {
    if (this.offset + length > this.buffer.length) this.grow(length);
    const start = this.offset;
    this.offset = start + length;
    return start;
  }

  private grow(length: number): void {
    const held = this.offset - this.segmentStart;
    const grown = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, held + length, 512));
    this.buffer.copy(grown, 0, this.segmentStart, this.offset);
    this.buffer = grown;
    this.view = new DataView(grown.buffer, grown.byteOffset, grown.length);
    this.offset = held;
    this.segmentStart = 0;
  }

  // `reserve` may replace the buffer, so it always comes before `view` or `buffer` is looked up.

  private putInt8(value: number): void {
    const start = this.reserve(1);
    this.view.setInt8(start, value);
  }

  private putUint8(value: number): void {
    const start = this.reserve(1);
    this.view.setUint8(start, value);
  }

  private putInt16(value: number): void {
    const start = this.reserve(2);
    this.view.setInt16(start, value);
  }

  private putUint16(value: number): void {
    const start = this.reserve(2);
    this.view.setUint16(start, value);
  }

  private putInt32(value: number): void {
    const start = this.reserve(4);
    this.view.setInt32(start, value);
  }

  private putUint32(value: number): void {
    const start = this.reserve(4);
    this.view.setUint32(start, value);
  }

  private putBigInt64(value: bigint): void {
    const start = this.reserve(8);
    this.view.setBigInt64(start, value);
  }

  private putFloat64(value: number): void {
    const start = this.reserve(8);
    this.view.setFloat64(start, value);
  }

  private notHeld(type: string, value: unknown, field: string | undefined): ProtocolError {
    return this.error('INVALID_VALUE', `${String(value)} is not of type ${type}`, field);
  }

  writeBoolean(value: boolean, _field?: string): void {
    this.putInt8(value ? 1 : 0);
  }

  writeInt8(value: number, field?: string): void {
    if ((value << 24) >> 24 !== value) throw this.notHeld('int8', value, field);
    this.putInt8(value);
  }

  writeInt16(value: number, field?: string): void {
    if ((value << 16) >> 16 !== value) throw this.notHeld('int16', value, field);
    this.putInt16(value);
  }

  writeUint16(value: number, field?: string): void {
    if ((value & 0xffff) !== value) throw this.notHeld('uint16', value, field);
    this.putUint16(value);
  }

  writeInt32(value: number, field?: string): void {
    if ((value | 0) !== value) throw this.notHeld('int32', value, field);
    this.putInt32(value);
  }

  writeUint32(value: number, field?: string): void {
    if (value >>> 0 !== value) throw this.notHeld('uint32', value, field);
    this.putUint32(value);
  }

  writeInt64(value: bigint, field?: string): void {
    if (typeof value !== 'bigint' || BigInt.asIntN(64, value) !== value) {
      throw this.notHeld('int64', value, field);
    }
    this.putBigInt64(value);
  }

  writeFloat64(value: number, _field?: string): void {
    this.putFloat64(value);
  }

  writeUuid(value: string, field?: string): void {
    if (!isUuid(value)) throw this.notHeld('uuid', value, field);
    const start = this.reserve(uuidBytes);
    this.buffer.write(value, start, uuidBytes, 'base64url');
  }

  writeUvarint(value: number, field?: string): void {
    if (value >>> 0 !== value) throw this.notHeld('unsigned varint', value, field);
    const start = this.reserve(uvarintBytes(value));
    this.putUvarint(start, value);
  }

  private putUvarint(start: number, value: number): void {
    let at = start;
    let rest = value;
    while (rest > 0x7f) {
      this.view.setUint8(at++, (rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    this.view.setUint8(at, rest);
  }

  writeVarint(value: number, field?: string): void {
    if ((value | 0) !== value) throw this.notHeld('varint', value, field);
    this.writeUvarint(zigzag32(value), field);
  }

  writeVarlong(value: bigint, field?: string): void {
    if (BigInt.asIntN(64, value) !== value) throw this.notHeld('varlong', value, field);
    let rest = zigzag64(value);
    while (rest > 0x7fn) {
      this.putUint8(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.putUint8(Number(rest));
  }

  /** Bytes without any length in front; large ones become a chunk of their own. */
  writeRaw(bytes: Buffer): void {
    if (bytes.length < spliceBytesMin || this.openTags > 0) {
      const start = this.reserve(bytes.length);
      bytes.copy(this.buffer, start);
      return;
    }
    if (this.offset > this.segmentStart) {
      this.chunks.push(this.buffer.subarray(this.segmentStart, this.offset));
    }
    this.chunks.push(bytes);
    this.flushedBytes += this.offset - this.segmentStart + bytes.length;
    this.segmentStart = this.offset;
  }

  nullError(field: string | undefined): ProtocolError {
    return this.error('UNEXPECTED_NULL', 'null is not allowed here', field);
  }

  private checkedTextBytes(value: string, field: string | undefined): number {
    const length = Buffer.byteLength(value, 'utf8');
    if (length > stringBytesMax) {
      throw this.error('INVALID_LENGTH', `string of ${length} bytes`, field);
    }
    return length;
  }

  writeString(value: string | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    const length = this.checkedTextBytes(value, field);
    this.putInt16(length);
    const start = this.reserve(length);
    this.buffer.write(value, start, length, 'utf8');
  }

  writeNullableString(value: string | null, field?: string): void {
    if (value === null) this.putInt16(-1);
    else this.writeString(value, field);
  }

  writeCompactString(value: string | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    const length = this.checkedTextBytes(value, field);
    this.writeUvarint(length + 1);
    const start = this.reserve(length);
    this.buffer.write(value, start, length, 'utf8');
  }

  writeCompactNullableString(value: string | null, field?: string): void {
    if (value === null) this.putUint8(0);
    else this.writeCompactString(value, field);
  }

  writeBytes(value: Buffer | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    this.putInt32(value.length);
    this.writeRaw(value);
  }

  writeNullableBytes(value: Buffer | null, field?: string): void {
    if (value === null) this.putInt32(-1);
    else this.writeBytes(value, field);
  }

  writeCompactBytes(value: Buffer | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    this.writeUvarint(value.length + 1);
    this.writeRaw(value);
  }

  writeCompactNullableBytes(value: Buffer | null, field?: string): void {
    if (value === null) this.putUint8(0);
    else this.writeCompactBytes(value, field);
  }

  writeArrayLength(value: readonly unknown[] | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    this.putInt32(value.length);
  }

  writeNullableArrayLength(value: readonly unknown[] | null, _field?: string): void {
    this.putInt32(value === null ? -1 : value.length);
  }

  writeCompactArrayLength(value: readonly unknown[] | null, field?: string): void {
    if (value === null) throw this.nullError(field);
    this.writeUvarint(value.length + 1);
  }

  writeCompactNullableArrayLength(value: readonly unknown[] | null, _field?: string): void {
    this.writeUvarint(value === null ? 0 : value.length + 1);
  }

  /** The byte that leads a nullable struct. */
  writePresence(value: object | null): void {
    this.putInt8(value === null ? -1 : 1);
  }

  /** Opens a tagged section: `known` tags that will be written here, and all unknown ones. */
  writeTagCount(known: number, unknown: RawTag[] | undefined, field?: string): void {
    if (unknown === undefined) {
      this.writeUvarint(known);
      return;
    }
    let previous = -1;
    for (const { tag } of unknown) {
      if (tag <= previous) throw this.error('INVALID_TAGS', `tag ${tag} after ${previous}`, field);
      previous = tag;
    }
    this.writeUvarint(known + unknown.length);
  }

  /** Writes the unknown tags between two known ones; one that equals a known tag is refused. */
  writeUnknownTags(unknown: RawTag[] | undefined, after: number, before: number): void {
    if (unknown === undefined) return;
    for (const { tag, data } of unknown) {
      if (tag < after || tag >= before) continue;
      if (tag === after) throw this.error('INVALID_TAGS', `tag ${tag} is both known and unknown`);
      this.writeUvarint(tag);
      this.writeUvarint(data.length);
      this.writeRaw(data);
    }
  }

  /** The tagged section of a struct in which no tag is known, or none is set. */
  writeTags(unknown: RawTag[] | undefined, field?: string): void {
    this.writeTagCount(0, unknown, field);
    this.writeUnknownTags(unknown, -1, Number.POSITIVE_INFINITY);
  }

  /** A version without tagged fields cannot carry unknown ones. */
  refuseTags(unknown: RawTag[] | undefined, field: string): void {
    if (unknown !== undefined && unknown.length > 0) throw this.unsupportedField(field);
  }

  /** Begins a known tagged field; pass the result to `endTag`. */
  beginTag(tag: number): number {
    this.writeUvarint(tag);
    this.openTags++;
    this.reserve(1);
    return this.offset - this.segmentStart;
  }

  /** Patches the length in; one byte was kept for it, the content moves when it needs more. */
  endTag(mark: number): void {
    const length = this.offset - this.segmentStart - mark;
    const extra = uvarintBytes(length) - 1;
    this.reserve(extra);
    const start = this.segmentStart + mark;
    if (extra > 0) this.buffer.copyWithin(start + extra, start, start + length);
    this.putUvarint(start - 1, length);
    this.openTags--;
  }
}
