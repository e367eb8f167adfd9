// The checkpoint file of one log: what recovery may rely on.
//
// Owns: two slots in one file, written in place; each holds the log start, the durable end, the
// epoch of a deleted head, the hold, and which epochs readers were shown. It refuses to know
// segments. Invariant: a slot that is known to be synced is never overwritten before the other one
// is synced too, so a crash at any point leaves the last synced state whole, or a newer one.
//
// A slot (all big-endian), at position 0 and 4096:
//    0 magic "CWCP"   4 format int32     8 sequence int64   16 logStart int64
//   24 durable: end int64, 32 segment int64, 40 position int64
//   48 hold int64 (-1: none)            56 headEpoch int32
//   60 sealGeneration int64             68 shownEpoch int32     72 cutEpoch int32
//   76 CRC-32C uint32 of bytes 0 to 75
// Format 1 had no sealGeneration, and its CRC at 60; format 2 no shownEpoch and cutEpoch, and its
// CRC at 68. They are read, and written as format 3. A newer format is refused: what it says of the
// log cannot be known.

import { crc32c } from '../../protocol/crc32c.ts';
import { StorageError } from '../errors.ts';
import type { Disk, DiskFile } from './device.ts';

/**
 * Where the part of a log ends that was synced: its end offset, and the same place as a position in
 * a segment. Base offsets are not in the CRC of batches, so offsets alone do not prove that bytes
 * are there; the two must agree.
 */
export interface DurablePoint {
  readonly end: bigint;
  /** Base offset of the segment. */
  readonly segment: bigint;
  readonly position: number;
}

export interface CheckpointState {
  readonly logStart: bigint;
  /** Everything below was synced when this was written. The log must reach at least here. */
  readonly durable: DurablePoint;
  readonly hold: bigint | null;
  /** Leader epoch of the last batch that began below the log start, or -1. */
  readonly headEpoch: number;
  /** Which list of sealed segments counts; see seal-file.ts. */
  readonly sealGeneration: bigint;
  /** Highest leader epoch that readers were ever shown, or -1. */
  readonly shownEpoch: number;
  /** That epoch when a truncation last took what they were shown, unless it is over; or -1. */
  readonly cutEpoch: number;
}

export const checkpointFileName = 'checkpoint';

const slotBytes = 80;
/** By format. */
const crcPositions: Readonly<Record<number, number>> = { 1: 60, 2: 68, 3: 76 };
const slotPositions = [0, 4096] as const;
const magic = 0x43574350;
const formatVersion = 3;
const crcPosition = 76;

function encodeSlot(state: CheckpointState, sequence: bigint): Buffer {
  const slot = Buffer.alloc(slotBytes);
  slot.writeUInt32BE(magic, 0);
  slot.writeInt32BE(formatVersion, 4);
  slot.writeBigInt64BE(sequence, 8);
  slot.writeBigInt64BE(state.logStart, 16);
  slot.writeBigInt64BE(state.durable.end, 24);
  slot.writeBigInt64BE(state.durable.segment, 32);
  slot.writeBigInt64BE(BigInt(state.durable.position), 40);
  slot.writeBigInt64BE(state.hold ?? -1n, 48);
  slot.writeInt32BE(state.headEpoch, 56);
  slot.writeBigInt64BE(state.sealGeneration, 60);
  slot.writeInt32BE(state.shownEpoch, 68);
  slot.writeInt32BE(state.cutEpoch, 72);
  slot.writeUInt32BE(crc32c(slot.subarray(0, crcPosition)), crcPosition);
  return slot;
}

interface Slot {
  readonly state: CheckpointState;
  readonly sequence: bigint;
}

/** @throws StorageError CORRUPT when the slot was written by a later version */
function decodeSlot(slot: Buffer, path: string): Slot | null {
  if (slot.length < 8 || slot.readUInt32BE(0) !== magic) return null;
  const format = slot.readInt32BE(4);
  if (format > formatVersion) {
    const known = `this version of Causeway reads 1 to ${formatVersion}`;
    const detail = `${path} has format ${format}, ${known}`;
    throw new StorageError('CORRUPT', detail);
  }
  const crcAt = crcPositions[format];
  if (crcAt === undefined || slot.length < crcAt + 4) return null;
  if (slot.readUInt32BE(crcAt) !== crc32c(slot.subarray(0, crcAt))) return null;
  const hold = slot.readBigInt64BE(48);
  const state = {
    logStart: slot.readBigInt64BE(16),
    durable: {
      end: slot.readBigInt64BE(24),
      segment: slot.readBigInt64BE(32),
      position: Number(slot.readBigInt64BE(40)),
    },
    hold: hold < 0n ? null : hold,
    headEpoch: slot.readInt32BE(56),
    sealGeneration: format === 1 ? 0n : slot.readBigInt64BE(60),
    shownEpoch: format < 3 ? -1 : slot.readInt32BE(68),
    cutEpoch: format < 3 ? -1 : slot.readInt32BE(72),
  };
  return { state, sequence: slot.readBigInt64BE(8) };
}

/** How a log's checkpoint file is reached; lets the file table decide what stays open. */
export type WithFile = <T>(path: string, use: (file: DiskFile) => Promise<T>) => Promise<T>;

export class Checkpoint {
  readonly path: string;
  readonly #withFile: WithFile;
  #sequence: bigint;
  /** The slot that holds the last synced state; writes go to the other one. */
  #syncedSlot: 0 | 1;

  constructor(path: string, withFile: WithFile, sequence: bigint, syncedSlot: 0 | 1) {
    this.path = path;
    this.#withFile = withFile;
    this.#sequence = sequence;
    this.#syncedSlot = syncedSlot;
  }

  /** Survives a kill of the process at once, a power cut only when `sync` was asked for. */
  async write(state: CheckpointState, options: { readonly sync: boolean }): Promise<void> {
    const sequence = this.#sequence + 1n;
    const target = this.#syncedSlot === 0 ? 1 : 0;
    await this.#withFile(this.path, async (file) => {
      await file.write(encodeSlot(state, sequence), slotPositions[target]);
      this.#sequence = sequence;
      if (!options.sync) return;
      await file.sync();
      this.#syncedSlot = target;
    });
  }

  /** Writes the first state of a new log, synced. */
  static async create(disk: Disk, path: string, state: CheckpointState): Promise<void> {
    const file = await disk.openFile(path, { create: true });
    try {
      await file.truncate(0);
      await file.write(Buffer.alloc(slotPositions[1] + slotBytes), 0);
      await file.write(encodeSlot(state, 1n), slotPositions[0]);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /**
   * The newest sound state, or null when no slot can be read. The file is synced first: what a
   * killed process left in the page cache is then as durable as the state that is built on it.
   */
  static async open(
    path: string,
    withFile: WithFile,
  ): Promise<{ checkpoint: Checkpoint; state: CheckpointState } | null> {
    const slots = await withFile(path, async (file) => {
      await file.sync();
      const found: (Slot | null)[] = [];
      for (const position of slotPositions) {
        const buffer = Buffer.alloc(slotBytes);
        const bytes = await file.read(buffer, position);
        found.push(decodeSlot(buffer.subarray(0, bytes), path));
      }
      return found;
    });
    const [first = null, second = null] = slots;
    const newest: 0 | 1 = (second?.sequence ?? -1n) > (first?.sequence ?? -1n) ? 1 : 0;
    const slot = newest === 1 ? second : first;
    if (slot === null) return null;
    return {
      checkpoint: new Checkpoint(path, withFile, slot.sequence, newest),
      state: slot.state,
    };
  }
}
