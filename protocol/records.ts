/**
 * Opens the records of one batch: for time look-ups, tools and tests, never on the mirror path.
 * Decompression happens at once and is capped; records are parsed one by one as they are asked
 * for. Invariant: exactly the announced number of records, filling the data exactly, or an error.
 *
 *   record: length varint | attributes int8 | timestamp delta varlong | offset delta varint |
 *           key length varint, key | value length varint, value | header count varint | headers
 */
import { Reader } from './bytes/reader.ts';
import { decompress } from './compression.ts';
import { ProtocolError } from './errors.ts';
import { decompressedBytesMaxDefault } from './limits.ts';
import {
  type BatchHeader,
  batchHeaderBytes,
  compression,
  isLogAppendTime,
  readBatchHeader,
} from './record-batch.ts';

export interface RecordHeader {
  key: string;
  value: Buffer | null;
}

/** Key, value and header values are views of the (decompressed) batch. */
export interface OpenedRecord {
  offset: bigint;
  timestamp: bigint;
  key: Buffer | null;
  value: Buffer | null;
  headers: RecordHeader[];
}

export interface OpenRecordsOptions {
  decompressedBytesMax?: number;
}

/** `batch`: one whole batch from its first byte; anything after it is not looked at. */
export async function openRecords(
  batch: Buffer,
  options: OpenRecordsOptions = {},
): Promise<Iterable<OpenedRecord>> {
  const header = readBatchHeader(batch, 0);
  if (header.sizeInBytes > batch.length) {
    const detail = `batch of ${header.sizeInBytes} bytes, ${batch.length} are here`;
    throw new ProtocolError('INVALID_BATCH', detail, { messageName: 'RecordBatch' });
  }
  const packed = batch.subarray(batchHeaderBytes, header.sizeInBytes);
  const bytesMax = options.decompressedBytesMax ?? decompressedBytesMaxDefault;
  const plain = await decompress(compression(header), packed, bytesMax);
  return { [Symbol.iterator]: () => parseRecords(header, plain) };
}

function* parseRecords(header: BatchHeader, plain: Buffer): Generator<OpenedRecord> {
  const reader = new Reader(plain);
  reader.beginMessage('Record', 2, 2, 2);
  for (let left = header.recordsCount; left > 0; left--) yield parseRecord(reader, header);
  if (reader.remaining > 0) {
    const detail = `${reader.remaining} bytes after the last of ${header.recordsCount} records`;
    throw reader.error('CORRUPT_RECORDS', detail);
  }
}

function parseRecord(reader: Reader, header: BatchHeader): OpenedRecord {
  const length = reader.readVarint('Record.length');
  if (length < 0 || length > reader.remaining) {
    const detail = `record of ${length} bytes, ${reader.remaining} remain`;
    throw reader.error('INVALID_LENGTH', detail, 'Record.length');
  }
  const end = reader.offset + length;
  reader.readInt8('Record.attributes');
  const timestampDelta = reader.readVarlong('Record.timestampDelta');
  const offsetDelta = reader.readVarint('Record.offsetDelta');
  const key = readVarintBytes(reader, 'Record.key');
  const value = readVarintBytes(reader, 'Record.value');
  const headers = readHeaders(reader);
  if (reader.offset !== end) {
    const detail = `record ends at ${reader.offset}, its length says ${end}`;
    throw reader.error('CORRUPT_RECORDS', detail, 'Record.length');
  }
  return {
    offset: header.baseOffset + BigInt(offsetDelta),
    timestamp: isLogAppendTime(header)
      ? header.maxTimestamp
      : header.baseTimestamp + timestampDelta,
    key,
    value,
    headers,
  };
}

function readVarintBytes(reader: Reader, field: string): Buffer | null {
  const length = reader.readVarint(field);
  return length < 0 ? null : reader.readRaw(length, field);
}

function readHeaders(reader: Reader): RecordHeader[] {
  const count = reader.readVarint('Record.headers');
  // A header takes at least a length for its key and one for its value.
  if (count < 0 || count * 2 > reader.remaining) {
    const detail = `${count} headers, ${reader.remaining} bytes remain`;
    throw reader.error('INVALID_LENGTH', detail, 'Record.headers');
  }
  const headers: RecordHeader[] = [];
  for (let left = count; left > 0; left--) {
    const key = readVarintBytes(reader, 'RecordHeader.key');
    if (key === null) throw reader.error('UNEXPECTED_NULL', 'header without a key');
    headers.push({
      key: key.toString('utf8'),
      value: readVarintBytes(reader, 'RecordHeader.value'),
    });
  }
  return headers;
}
