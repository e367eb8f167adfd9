/**
 * The header of a record batch (magic 2): read, verify, shift, walk; and the few batches that we
 * build ourselves. It never looks inside records. Base offset and leader epoch lie before the
 * checksummed part, so they can be patched in place; nothing else can.
 *
 *    0 baseOffset int64      21 attributes int16       43 producerId int64
 *    8 batchLength int32     23 lastOffsetDelta int32  51 producerEpoch int16
 *   12 leaderEpoch int32     27 baseTimestamp int64    53 baseSequence int32
 *   16 magic int8            35 maxTimestamp int64     57 recordsCount int32
 *   17 crc uint32 (CRC-32C of everything from 21 on)   61 records
 *
 * attributes: bits 0-2 compression, 3 log-append time, 4 transactional, 5 control, 6 delete horizon
 */
import { Reader } from './bytes/reader.ts';
import { Writer } from './bytes/writer.ts';
import { crc32c } from './crc32c.ts';
import { ProtocolError } from './errors.ts';

export const batchHeaderBytes = 61;
/** What `batchLength` does not count: base offset and the length itself. */
export const batchOverheadBytes = 12;

const crcPosition = 17;
const attributesPosition = 21;
const leaderEpochPosition = 12;
const magicPosition = 16;

const compressionMask = 0x07;
const logAppendTimeBit = 0x08;
const transactionalBit = 0x10;
const controlBit = 0x20;

export type Compression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

const compressions: readonly Compression[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

export interface BatchHeader {
  baseOffset: bigint;
  batchLength: number;
  partitionLeaderEpoch: number;
  magic: number;
  crc: number;
  attributes: number;
  lastOffsetDelta: number;
  baseTimestamp: bigint;
  maxTimestamp: bigint;
  producerId: bigint;
  producerEpoch: number;
  baseSequence: number;
  recordsCount: number;
  /** batchLength + 12: the whole batch. */
  sizeInBytes: number;
}

function invalidBatch(position: number, detail: string): ProtocolError {
  return new ProtocolError('INVALID_BATCH', detail, {
    messageName: 'RecordBatch',
    offset: position,
  });
}

/** The format that begins there; old messages can be shorter than a header. Null: it is cut. */
export function readMagic(buffer: Buffer, position: number): number | null {
  const isThere = buffer.length - position > magicPosition;
  return isThere ? buffer.readInt8(position + magicPosition) : null;
}

/** What a header says that no batch can be is refused; returns the whole batch's size in bytes. */
export function checkBatchHeader(buffer: Buffer, position: number): number {
  const available = buffer.length - position;
  if (!(position >= 0) || available <= magicPosition) {
    throw invalidBatch(position, `${available} bytes, a header takes ${batchHeaderBytes}`);
  }
  checkMagic(buffer, position);
  if (available < batchHeaderBytes) {
    throw invalidBatch(position, `${available} bytes, a header takes ${batchHeaderBytes}`);
  }
  const batchLength = buffer.readInt32BE(position + 8);
  if (batchLength < batchHeaderBytes - batchOverheadBytes) {
    throw invalidBatch(position, `batch length ${batchLength}`);
  }
  const lastOffsetDelta = buffer.readInt32BE(position + 23);
  const recordsCount = buffer.readInt32BE(position + 57);
  if (lastOffsetDelta < 0 || recordsCount < 0) {
    const detail = `last offset delta ${lastOffsetDelta}, ${recordsCount} records`;
    throw invalidBatch(position, detail);
  }
  return batchLength + batchOverheadBytes;
}

/** Of what has come of a batch; one that is cut before its magic passes. */
function checkMagic(buffer: Buffer, position: number): void {
  const magic = readMagic(buffer, position);
  if (magic === null || magic === 2) return;
  throw new ProtocolError('UNSUPPORTED_MAGIC', `record format magic ${magic}, only 2 is known`, {
    messageName: 'RecordBatch',
    offset: position,
  });
}

/** Needs the 61 bytes of the header. Batches before magic 2 are refused by name. */
export function readBatchHeader(buffer: Buffer, position: number): BatchHeader {
  const sizeInBytes = checkBatchHeader(buffer, position);
  const view = new DataView(buffer.buffer, buffer.byteOffset + position, batchHeaderBytes);
  return {
    baseOffset: view.getBigInt64(0),
    batchLength: sizeInBytes - batchOverheadBytes,
    partitionLeaderEpoch: view.getInt32(leaderEpochPosition),
    magic: 2,
    crc: view.getUint32(crcPosition),
    attributes: view.getInt16(attributesPosition),
    lastOffsetDelta: view.getInt32(23),
    baseTimestamp: view.getBigInt64(27),
    maxTimestamp: view.getBigInt64(35),
    producerId: view.getBigInt64(43),
    producerEpoch: view.getInt16(51),
    baseSequence: view.getInt32(53),
    recordsCount: view.getInt32(57),
    sizeInBytes,
  };
}

/** False also when the batch does not lie wholly in the buffer. */
export function verifyBatchCrc(buffer: Buffer, position: number, sizeInBytes: number): boolean {
  const end = position + sizeInBytes;
  if (position < 0 || sizeInBytes < batchHeaderBytes || end > buffer.length) return false;
  const expected = buffer.readUInt32BE(position + crcPosition);
  return crc32c(buffer.subarray(position + attributesPosition, end)) === expected;
}

export function lastOffset(header: BatchHeader): bigint {
  return header.baseOffset + BigInt(header.lastOffsetDelta);
}

/** The offset after the batch, which is where the next one may begin. */
export function nextOffset(header: BatchHeader): bigint {
  return header.baseOffset + BigInt(header.lastOffsetDelta) + 1n;
}

export function isTransactional(header: BatchHeader): boolean {
  return (header.attributes & transactionalBit) !== 0;
}

export function isControl(header: BatchHeader): boolean {
  return (header.attributes & controlBit) !== 0;
}

export function isLogAppendTime(header: BatchHeader): boolean {
  return (header.attributes & logAppendTimeBit) !== 0;
}

export function compression(header: BatchHeader): Compression {
  const name = compressions[header.attributes & compressionMask];
  if (name === undefined) {
    const detail = `compression type ${header.attributes & compressionMask}`;
    throw new ProtocolError('INVALID_BATCH', detail, { messageName: 'RecordBatch' });
  }
  return name;
}

/**
 * Visits the batches that lie wholly in `records`; the last one of a fetch answer may be cut.
 * `false` from `visit` stops after that batch. Returns the bytes that the visited batches cover.
 */
export function forEachBatch(
  records: Buffer,
  visit: (header: BatchHeader, position: number) => unknown,
): number {
  let position = 0;
  while (records.length - position >= batchHeaderBytes) {
    const header = readBatchHeader(records, position);
    if (header.sizeInBytes > records.length - position) break;
    const goOn = visit(header, position);
    position += header.sizeInBytes;
    if (goOn === false) break;
  }
  return position;
}

/**
 * The whole batches that `records` begins with, by their lengths alone: nothing is checked, and it
 * ends before a length that no batch can have. `last` is where the last of them begins, or -1.
 */
export function wholeBatches(records: Buffer): { readonly bytes: number; readonly last: number } {
  let position = 0;
  let last = -1;
  while (records.length - position >= batchHeaderBytes) {
    const size = records.readInt32BE(position + 8) + batchOverheadBytes;
    if (size < batchHeaderBytes || size > records.length - position) break;
    last = position;
    position += size;
  }
  return { bytes: position, last };
}

/**
 * Shifts base offset and leader epoch in place, as far as they are present (the last batch of an
 * answer may be cut anywhere). Sentinels (negative) stay. An older format has other fields there.
 */
export function patchBatch(
  buffer: Buffer,
  position: number,
  shift: { offsetShift: bigint; epochShift: number },
): void {
  if (buffer.length - position < 8) return;
  checkMagic(buffer, position);
  if (shift.offsetShift !== 0n) {
    const baseOffset = buffer.readBigInt64BE(position);
    if (baseOffset >= 0n) buffer.writeBigInt64BE(baseOffset + shift.offsetShift, position);
  }
  if (shift.epochShift === 0 || buffer.length - position < leaderEpochPosition + 4) return;
  const epoch = buffer.readInt32BE(position + leaderEpochPosition);
  if (epoch >= 0) buffer.writeInt32BE(epoch + shift.epochShift, position + leaderEpochPosition);
}

export interface BatchRecord {
  key: Buffer | null;
  value: Buffer | null;
  timestamp: bigint;
  headers?: readonly { key: string; value: Buffer | null }[];
}

export interface BatchToBuild {
  baseOffset: bigint;
  records: readonly BatchRecord[];
  producerId?: bigint;
  producerEpoch?: number;
  baseSequence?: number;
  isTransactional?: boolean;
  partitionLeaderEpoch?: number;
}

/** One uncompressed batch with create-time timestamps and consecutive offsets. */
export function buildBatch(batch: BatchToBuild): Buffer {
  const first = batch.records[0];
  if (first === undefined) throw invalidBatch(0, 'a batch needs at least one record');
  return assemble(batch, batch.isTransactional === true ? transactionalBit : 0, first.timestamp);
}

export interface ControlBatchToBuild {
  baseOffset: bigint;
  producerId: bigint;
  producerEpoch: number;
  partitionLeaderEpoch: number;
  timestamp: bigint;
  type: 'ABORT' | 'COMMIT';
  coordinatorEpoch: number;
}

const controlTypes = { ABORT: 0, COMMIT: 1 } as const;

/** A transaction's end marker: one record, 78 bytes in all. */
export function buildControlBatch(control: ControlBatchToBuild): Buffer {
  const key = Buffer.alloc(4); // version int16 = 0, type int16
  key.writeInt16BE(controlTypes[control.type], 2);
  const value = Buffer.alloc(6); // version int16 = 0, coordinator epoch int32
  value.writeInt32BE(control.coordinatorEpoch, 2);
  const { baseOffset, producerId, producerEpoch, partitionLeaderEpoch, timestamp } = control;
  return assemble(
    {
      baseOffset,
      producerId,
      producerEpoch,
      partitionLeaderEpoch,
      records: [{ key, value, timestamp }],
    },
    transactionalBit | controlBit,
    timestamp,
  );
}

export interface GapBatchToBuild {
  baseOffset: bigint;
  lastOffset: bigint;
  partitionLeaderEpoch: number;
}

/** A batch without records over a range of offsets, as Kafka's log cleaner leaves them. */
export function buildGapBatch(gap: GapBatchToBuild): Buffer {
  const { baseOffset, lastOffset, partitionLeaderEpoch } = gap;
  const lastOffsetDelta = Number(lastOffset - baseOffset);
  return assemble({ baseOffset, partitionLeaderEpoch, lastOffsetDelta, records: [] }, 0, -1n);
}

function assemble(
  batch: BatchToBuild & { lastOffsetDelta?: number },
  attributes: number,
  baseTimestamp: bigint,
): Buffer {
  const writer = new Writer(256);
  let maxTimestamp = baseTimestamp;
  batch.records.forEach((record, offsetDelta) => {
    if (record.timestamp > maxTimestamp) maxTimestamp = record.timestamp;
    writeRecord(writer, record, record.timestamp - baseTimestamp, offsetDelta);
  });
  const records = writer.toBuffer();
  const header = Buffer.alloc(batchHeaderBytes);
  header.writeBigInt64BE(batch.baseOffset, 0);
  header.writeInt32BE(batchHeaderBytes - batchOverheadBytes + records.length, 8);
  header.writeInt32BE(batch.partitionLeaderEpoch ?? -1, leaderEpochPosition);
  header.writeInt8(2, magicPosition);
  header.writeInt16BE(attributes, attributesPosition);
  header.writeInt32BE(batch.lastOffsetDelta ?? batch.records.length - 1, 23);
  header.writeBigInt64BE(baseTimestamp, 27);
  header.writeBigInt64BE(maxTimestamp, 35);
  header.writeBigInt64BE(batch.producerId ?? -1n, 43);
  header.writeInt16BE(batch.producerEpoch ?? -1, 51);
  header.writeInt32BE(batch.baseSequence ?? -1, 53);
  header.writeInt32BE(batch.records.length, 57);
  const whole = Buffer.concat([header, records]);
  whole.writeUInt32BE(crc32c(whole.subarray(attributesPosition)), crcPosition);
  return whole;
}

/**
 * length varint | attributes int8 | timestamp delta varlong | offset delta varint | key | value |
 * header count varint | headers; lengths are varints, -1 for null.
 */
function writeRecord(
  writer: Writer,
  record: BatchRecord,
  timestampDelta: bigint,
  offsetDelta: number,
): void {
  const body = new Writer(128);
  body.writeInt8(0);
  body.writeVarlong(timestampDelta);
  body.writeVarint(offsetDelta);
  writeVarintBytes(body, record.key);
  writeVarintBytes(body, record.value);
  const headers = record.headers ?? [];
  body.writeVarint(headers.length);
  for (const { key, value } of headers) {
    writeVarintBytes(body, Buffer.from(key, 'utf8'));
    writeVarintBytes(body, value);
  }
  writer.writeVarint(body.sizeInBytes);
  for (const chunk of body.toChunks()) writer.writeRaw(chunk);
}

function writeVarintBytes(writer: Writer, bytes: Buffer | null): void {
  writer.writeVarint(bytes === null ? -1 : bytes.length);
  if (bytes !== null) writer.writeRaw(bytes);
}

/**
 * What a control batch says. `header` must be of a control batch at `position`. One without records
 * says nothing any more: the cleaner has emptied it, and keeps it for its producer's epoch.
 */
export function readControlType(
  buffer: Buffer,
  position: number,
  header: BatchHeader,
): 'ABORT' | 'COMMIT' | 'OTHER' {
  if (header.recordsCount === 0) return 'OTHER';
  const end = Math.min(buffer.length, position + header.sizeInBytes);
  const type = controlTypeOf(buffer.subarray(position + batchHeaderBytes, end));
  if (type === controlTypes.ABORT) return 'ABORT';
  return type === controlTypes.COMMIT ? 'COMMIT' : 'OTHER';
}

/** The type in the first record's key; undefined when there is none that can be read. */
function controlTypeOf(records: Buffer): number | undefined {
  const reader = new Reader(records);
  reader.readVarint('Record.length');
  reader.readInt8('Record.attributes');
  reader.readVarlong('Record.timestampDelta');
  reader.readVarint('Record.offsetDelta');
  const keyBytes = reader.readVarint('Record.keyLength');
  if (keyBytes < 4) return undefined;
  reader.readInt16('ControlRecordKey.version');
  return reader.readInt16('ControlRecordKey.type');
}
