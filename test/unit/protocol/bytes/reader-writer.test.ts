// Reader and Writer: every type round trips, and no read goes past the end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isUuid, ProtocolError, Reader, Writer, zeroUuid } from '../../../../protocol/index.ts';

function written(write: (writer: Writer) => void, initialBytes = 1): Buffer {
  const writer = new Writer(initialBytes);
  write(writer);
  assert.equal(writer.sizeInBytes, writer.toBuffer().length);
  assert.ok(Buffer.concat(writer.toChunks()).equals(writer.toBuffer()));
  return writer.toBuffer();
}

function code(expected: string): (error: unknown) => boolean {
  return (error) => error instanceof ProtocolError && error.code === expected;
}

test('varints keep their value at every length', () => {
  const values = [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455, 268435456, 4294967295];
  for (const value of values) {
    const reader = new Reader(written((writer) => writer.writeUvarint(value)));
    assert.equal(reader.readUvarint(), value);
    assert.equal(reader.remaining, 0);
  }
  for (const value of [0, -1, 1, -64, 64, 2147483647, -2147483648]) {
    assert.equal(new Reader(written((writer) => writer.writeVarint(value))).readVarint(), value);
  }
  for (const value of [0n, -1n, 1n, 1n << 27n, -(1n << 28n), 2n ** 63n - 1n, -(2n ** 63n)]) {
    assert.equal(new Reader(written((writer) => writer.writeVarlong(value))).readVarlong(), value);
  }
});

test('varints that are too long or have too many bits are refused', () => {
  const endless = Buffer.alloc(11, 0xff);
  assert.throws(() => new Reader(endless).readUvarint(), code('INVALID_VARINT'));
  assert.throws(() => new Reader(endless).readVarlong(), code('INVALID_VARINT'));
  const bits33 = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x1f]);
  assert.throws(() => new Reader(bits33).readUvarint(), code('INVALID_VARINT'));
  assert.throws(() => new Reader(Buffer.from([0x80])).readUvarint(), code('TRUNCATED'));
});

test('a writer that grows inside any write keeps all bytes', () => {
  for (let initialBytes = 0; initialBytes < 40; initialBytes++) {
    const bytes = written((writer) => {
      writer.writeInt8(-1);
      writer.writeInt16(-2);
      writer.writeUint16(65535);
      writer.writeInt32(-3);
      writer.writeUint32(4294967295);
      writer.writeInt64(-(2n ** 63n));
      writer.writeFloat64(1.5);
      writer.writeUuid('AAECAwQFBgcICQoLDA0ODw');
      writer.writeCompactNullableString('äöü');
      writer.writeNullableBytes(Buffer.from([1, 2, 3]));
    }, initialBytes);
    const reader = new Reader(bytes);
    assert.equal(reader.readInt8(), -1);
    assert.equal(reader.readInt16(), -2);
    assert.equal(reader.readUint16(), 65535);
    assert.equal(reader.readInt32(), -3);
    assert.equal(reader.readUint32(), 4294967295);
    assert.equal(reader.readInt64(), -(2n ** 63n));
    assert.equal(reader.readFloat64(), 1.5);
    assert.equal(reader.readUuid(), 'AAECAwQFBgcICQoLDA0ODw');
    assert.equal(reader.readCompactNullableString(), 'äöü');
    assert.deepEqual(reader.readNullableBytes(), Buffer.from([1, 2, 3]));
    assert.equal(reader.remaining, 0);
  }
});

test('values that a type cannot hold are refused instead of wrapped', () => {
  const writer = new Writer();
  assert.throws(() => writer.writeInt8(128, 'A.b'), /field A\.b.*128 is not of type int8/);
  for (const value of [32768, 1.5, Number.NaN]) {
    assert.throws(() => writer.writeInt16(value), code('INVALID_VALUE'));
  }
  assert.throws(() => writer.writeUint16(-1), code('INVALID_VALUE'));
  assert.throws(() => writer.writeInt32(2147483648), code('INVALID_VALUE'));
  assert.throws(() => writer.writeUint32(-1), code('INVALID_VALUE'));
  assert.throws(() => writer.writeInt64(2n ** 63n), code('INVALID_VALUE'));
  assert.throws(() => writer.writeUuid('not a uuid'), code('INVALID_VALUE'));
  assert.throws(() => writer.writeString('x'.repeat(40_000)), code('INVALID_LENGTH'));
  assert.throws(() => writer.writeString(null), code('UNEXPECTED_NULL'));
  assert.equal(writer.sizeInBytes, 0, 'nothing was written');
});

test('a uuid has one spelling', () => {
  assert.ok(isUuid(zeroUuid));
  assert.ok(!isUuid('AAAAAAAAAAAAAAAAAAAAAB'));
  assert.ok(!isUuid(`${zeroUuid}==`));
});

test('large bytes are spliced as they are, small ones are copied', () => {
  const large = Buffer.alloc(5000, 7);
  const small = Buffer.alloc(10, 8);
  const writer = new Writer(8);
  writer.writeBytes(large);
  writer.writeBytes(small);
  writer.writeInt8(1);
  const chunks = writer.toChunks();
  assert.deepEqual(
    chunks.map((chunk) => chunk.length),
    [4, 5000, 15],
  );
  assert.equal(chunks[1]?.buffer, large.buffer, 'a view of the same memory');
  assert.equal(writer.sizeInBytes, 5019);
});

test('tagged fields get their length, also nested, long, and with large bytes inside', () => {
  for (const inner of [0, 1, 126, 127, 128, 16383, 16384, 70_000]) {
    const bytes = written((writer) => {
      writer.writeInt8(9);
      const outer = writer.beginTag(3);
      writer.writeInt8(1);
      const mark = writer.beginTag(400);
      writer.writeRaw(Buffer.alloc(inner, 5));
      writer.endTag(mark);
      writer.endTag(outer);
      writer.writeInt8(2);
    });
    const reader = new Reader(bytes);
    assert.equal(reader.readInt8(), 9);
    assert.equal(reader.readTag(-1), 3);
    const end = reader.readTagEnd();
    assert.equal(reader.readInt8(), 1);
    assert.equal(reader.readTag(-1), 400);
    const innerEnd = reader.readTagEnd();
    assert.ok(reader.readRaw(inner).equals(Buffer.alloc(inner, 5)));
    reader.expectTagEnd(innerEnd);
    reader.expectTagEnd(end);
    assert.equal(reader.readInt8(), 2);
    assert.equal(reader.remaining, 0);
  }
});

test('unknown tags out of order, or in the place of a known one, are refused', () => {
  const data = Buffer.from('x');
  const writer = new Writer();
  const unordered = [
    { tag: 2, data },
    { tag: 1, data },
  ];
  assert.throws(() => writer.writeTags(unordered), code('INVALID_TAGS'));
  const known = [{ tag: 1, data }];
  assert.throws(() => writer.writeUnknownTags(known, 1, 9), code('INVALID_TAGS'));
  assert.throws(() => writer.refuseTags(known, 'A'), code('UNSUPPORTED_VERSION'));
});

test('counts are checked against the bytes that remain, before anything is built', () => {
  const million = Buffer.from([0x7f, 0xff, 0xff, 0xff, 0]);
  assert.throws(() => new Reader(million).readArrayLength(1, 'A.b'), code('INVALID_LENGTH'));
  assert.throws(() => new Reader(million).readBytes(), code('TRUNCATED'));
  const three = Buffer.from([0, 0, 0, 3, 1, 1, 1]);
  assert.equal(new Reader(three).readArrayLength(1), 3);
  assert.throws(() => new Reader(three).readArrayLength(2), code('INVALID_LENGTH'));
  assert.throws(() => new Reader(Buffer.from([3, 0])).readTagCount(), code('INVALID_LENGTH'));
  assert.throws(() => new Reader(Buffer.alloc(4), 5), code('INVALID_LENGTH'));
});

test('a reader never looks beyond its end, even inside a larger buffer', () => {
  const reader = new Reader(Buffer.from([0, 1, 2, 3, 4, 5]), 1, 4);
  assert.equal(reader.remaining, 3);
  assert.throws(() => reader.readInt32('A.b'), code('TRUNCATED'));
  assert.equal(reader.readInt16(), 0x0102);
  assert.throws(() => reader.readRaw(2), code('TRUNCATED'));
  assert.throws(() => reader.readRaw(-1), code('INVALID_LENGTH'));
});
