// The list of sealed segments of one log, so that a restart need not read them.
//
// Owns: the format of the file `sealed`, how entries are added, and what is believed of it. It
// refuses to know index files and logs. Nothing is ever synced: whatever a crash loses is found by
// reading the segment again. Invariants: an entry counts only whole (CRC-32C) and only in a file of
// the generation that the log's checkpoint names; a truncation that reaches a sealed segment raises
// the generation first, so that no entry outlives the bytes that it describes.
//
//   head   0 magic "CWSL"  4 format int32  8 generation int64  16 CRC-32C uint32 of bytes 0 to 15
//   entry  0 length int32 of the payload   4 CRC-32C uint32 of the payload   8 payload:
//          0 base offset int64   8 size int64   16 end offset int64   24 last epoch int32
//         28 largest timestamp int64   36 its last offset int64 (-1: the segment is empty)
//         44 .index bytes int32, CRC uint32   52 .timeindex the same   60 .txnindex the same
//         68 counts int32 of: open at start, open at end, epochs that begin here; then these
//            open: producer id int64, epoch int32, first offset int64, last offset int64
//            epoch: epoch int32, start offset int64, end of its first batch int64

import { crc32c } from '../../protocol/crc32c.ts';
import type { OpenTransaction } from '../mirror-log.ts';
import { type Disk, DiskError } from './device.ts';
import type { EpochStart } from './epoch-history.ts';
import type { FileTable } from './file-table.ts';
import type { LargestTimestamp } from './segment-index.ts';

export const sealFileName = 'sealed';

/** Length and CRC-32C of an index file: another content is not believed. */
export interface IndexFile {
  readonly bytes: number;
  readonly crc: number;
}

/** What stays in memory of a segment whose indexes are in files. */
export interface SealedSegment {
  readonly baseOffset: bigint;
  readonly size: number;
  readonly endOffset: bigint;
  readonly largest: LargestTimestamp | null;
  readonly offsets: IndexFile;
  readonly times: IndexFile;
  readonly aborts: IndexFile;
  readonly openAtStart: readonly OpenTransaction[];
}

export interface SealEntry extends SealedSegment {
  /** Leader epoch of the last batch, or -1. */
  readonly lastEpoch: number;
  readonly openAtEnd: readonly OpenTransaction[];
  /** Epochs whose first batch is in the segment. */
  readonly epochs: readonly EpochStart[];
}

const magic = 0x4357534c;
const formatVersion = 1;
const headBytes = 20;
const frameBytes = 8;
const fixedBytes = 80;
const openBytes = 28;
const epochBytes = 20;

const noOpen: readonly OpenTransaction[] = [];

/** Fields one after the other; the layout is drawn once, above. */
class Cursor {
  readonly buffer: Buffer;
  at = 0;

  constructor(buffer: Buffer) {
    this.buffer = buffer;
  }

  putInt32(value: number): void {
    this.at = this.buffer.writeInt32BE(value, this.at);
  }

  putUInt32(value: number): void {
    this.at = this.buffer.writeUInt32BE(value, this.at);
  }

  putInt64(value: bigint): void {
    this.at = this.buffer.writeBigInt64BE(value, this.at);
  }

  int32(): number {
    this.at += 4;
    return this.buffer.readInt32BE(this.at - 4);
  }

  uint32(): number {
    this.at += 4;
    return this.buffer.readUInt32BE(this.at - 4);
  }

  int64(): bigint {
    this.at += 8;
    return this.buffer.readBigInt64BE(this.at - 8);
  }
}

function putOpen(cursor: Cursor, transactions: readonly OpenTransaction[]): void {
  for (const { producerId, producerEpoch, firstOffset, lastOffset } of transactions) {
    cursor.putInt64(producerId);
    cursor.putInt32(producerEpoch);
    cursor.putInt64(firstOffset);
    cursor.putInt64(lastOffset);
  }
}

function readOpen(cursor: Cursor, count: number): readonly OpenTransaction[] {
  if (count === 0) return noOpen;
  return Array.from({ length: count }, () => ({
    producerId: cursor.int64(),
    producerEpoch: cursor.int32(),
    firstOffset: cursor.int64(),
    lastOffset: cursor.int64(),
  }));
}

function encodeEntry(entry: SealEntry): Buffer {
  const open = entry.openAtStart.length + entry.openAtEnd.length;
  const bytes = fixedBytes + open * openBytes + entry.epochs.length * epochBytes;
  const framed = Buffer.alloc(frameBytes + bytes);
  const payload = framed.subarray(frameBytes);
  const cursor = new Cursor(payload);
  cursor.putInt64(entry.baseOffset);
  cursor.putInt64(BigInt(entry.size));
  cursor.putInt64(entry.endOffset);
  cursor.putInt32(entry.lastEpoch);
  cursor.putInt64(entry.largest?.timestamp ?? 0n);
  cursor.putInt64(entry.largest?.lastOffset ?? -1n);
  for (const file of [entry.offsets, entry.times, entry.aborts]) {
    cursor.putInt32(file.bytes);
    cursor.putUInt32(file.crc);
  }
  for (const list of [entry.openAtStart, entry.openAtEnd, entry.epochs]) {
    cursor.putInt32(list.length);
  }
  putOpen(cursor, entry.openAtStart);
  putOpen(cursor, entry.openAtEnd);
  for (const { epoch, startOffset, firstBatchEnd } of entry.epochs) {
    cursor.putInt32(epoch);
    cursor.putInt64(startOffset);
    cursor.putInt64(firstBatchEnd);
  }
  framed.writeInt32BE(bytes, 0);
  framed.writeUInt32BE(crc32c(payload), 4);
  return framed;
}

function decodeEntry(payload: Buffer): SealEntry {
  const cursor = new Cursor(payload);
  const baseOffset = cursor.int64();
  const size = Number(cursor.int64());
  const endOffset = cursor.int64();
  const lastEpoch = cursor.int32();
  const timestamp = cursor.int64();
  const lastOffset = cursor.int64();
  const file = (): IndexFile => ({ bytes: cursor.int32(), crc: cursor.uint32() });
  const files = { offsets: file(), times: file(), aborts: file() };
  const counts = [cursor.int32(), cursor.int32(), cursor.int32()] as const;
  return {
    baseOffset,
    size,
    endOffset,
    lastEpoch,
    largest: lastOffset < 0n ? null : { timestamp, lastOffset },
    ...files,
    openAtStart: readOpen(cursor, counts[0]),
    openAtEnd: readOpen(cursor, counts[1]),
    epochs: Array.from({ length: counts[2] }, () => ({
      epoch: cursor.int32(),
      startOffset: cursor.int64(),
      firstBatchEnd: cursor.int64(),
    })),
  };
}

function encodeHead(generation: bigint): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUInt32BE(magic, 0);
  head.writeInt32BE(formatVersion, 4);
  head.writeBigInt64BE(generation, 8);
  head.writeUInt32BE(crc32c(head.subarray(0, headBytes - 4)), headBytes - 4);
  return head;
}

interface Content {
  readonly generation: bigint;
  /** In the order of the file: a later entry for the same segment replaces an earlier one. */
  readonly entries: ReadonlyMap<bigint, SealEntry>;
  /** Where the sound part ends. */
  readonly bytes: number;
}

function decodeFile(content: Buffer): Content | null {
  if (content.length < headBytes || content.readUInt32BE(0) !== magic) return null;
  if (content.readInt32BE(4) !== formatVersion) return null;
  const crc = content.readUInt32BE(headBytes - 4);
  if (crc !== crc32c(content.subarray(0, headBytes - 4))) return null;
  const entries = new Map<bigint, SealEntry>();
  let at = headBytes;
  while (content.length - at >= frameBytes + fixedBytes) {
    const bytes = content.readInt32BE(at);
    const payload = content.subarray(at + frameBytes, at + frameBytes + bytes);
    if (bytes < fixedBytes || payload.length < bytes) break;
    if (content.readUInt32BE(at + 4) !== crc32c(payload)) break;
    const entry = decodeEntry(payload);
    entries.set(entry.baseOffset, entry);
    at += frameBytes + bytes;
  }
  return { generation: content.readBigInt64BE(8), entries, bytes: at };
}

export class SealFile {
  readonly #disk: Disk;
  readonly #files: FileTable;
  readonly #path: string;
  #generation = -1n;
  /** Where the next entry goes; null while the file is not of the log's generation. */
  #bytes: number | null = null;

  constructor(options: { disk: Disk; files: FileTable; path: string }) {
    this.#disk = options.disk;
    this.#files = options.files;
    this.#path = options.path;
  }

  async #read(): Promise<Content | null> {
    try {
      return await this.#files.use(this.#path, async (file) => {
        const content = Buffer.alloc(await file.size());
        return decodeFile(content.subarray(0, await file.read(content, 0)));
      });
    } catch (error) {
      if (error instanceof DiskError && error.code === 'NOT_FOUND') return null;
      throw error;
    }
  }

  /** The entries that count in `generation`; none when the file is missing, damaged or older. */
  async load(generation: bigint): Promise<ReadonlyMap<bigint, SealEntry>> {
    const content = await this.#read();
    const counts = content !== null && content.generation === generation;
    this.#generation = generation;
    this.#bytes = counts ? content.bytes : null;
    return counts ? content.entries : new Map();
  }

  async append(entry: SealEntry): Promise<void> {
    if (this.#bytes === null) {
      await this.#write(this.#generation, [entry]);
      return;
    }
    const bytes = encodeEntry(entry);
    const position = this.#bytes;
    await this.#files.use(this.#path, (file) => file.write(bytes, position));
    this.#bytes = position + bytes.length;
  }

  /** Begins a new generation with those of the entries that still are true. */
  async restart(generation: bigint, keeps: (baseOffset: bigint) => boolean): Promise<void> {
    const content = await this.#read();
    const isCurrent = content?.generation === this.#generation;
    const entries = isCurrent ? [...content.entries.values()] : [];
    this.#generation = generation;
    this.#bytes = null;
    const kept = entries.filter(({ baseOffset }) => keeps(baseOffset));
    await this.#write(generation, kept);
  }

  async #write(generation: bigint, entries: readonly SealEntry[]): Promise<void> {
    const content = Buffer.concat([encodeHead(generation), ...entries.map(encodeEntry)]);
    const aside = `${this.#path}.new`;
    await writeWhole(this.#disk, aside, content);
    this.#files.forget(this.#path);
    await this.#disk.rename(aside, this.#path);
    this.#files.forget(this.#path);
    this.#bytes = content.length;
  }
}

/** Writes a file that may be lost: without any sync. */
export async function writeWhole(disk: Disk, path: string, content: Buffer): Promise<void> {
  const file = await disk.openFile(path, { create: true });
  try {
    await file.truncate(0);
    if (content.length > 0) await file.write(content, 0);
  } finally {
    await file.close();
  }
}
