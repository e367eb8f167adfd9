// Walks the batches of a segment file in order, without reading more than it must.
//
// Owns: the reading of batch headers in large steps, for recovery, truncation and time look-ups. It
// decides nothing about what is found. Invariant: every batch that it visits follows the one before
// it; the walk ends before the first byte of which that cannot be said, and tells why.

import {
  type BatchHeader,
  batchHeaderBytes,
  isControl,
  lastOffset,
  nextOffset,
  verifyBatchCrc,
} from '../../protocol/record-batch.ts';
import { type ControlType, controlTypeAt, followingHeader, type LogTail } from './batch-check.ts';
import type { DiskFile } from './device.ts';

const defaultStepBytes = 1 << 20;

export interface ScanOptions {
  readonly start: number;
  /** Where the file, or the part to walk, ends. */
  readonly end: number;
  /** What the first batch has to follow. */
  readonly tail: LogTail;
  /** The CRC of batches from this position on is checked; null for none. */
  readonly checkFrom: number | null;
  /** How much is read at a time. */
  readonly stepBytes?: number;
  /** The last offset that the segment can hold; a batch beyond it has a damaged offset. */
  readonly offsetMax?: bigint;
  /** False stops the walk before the visited batch. */
  readonly visit: (header: BatchHeader, position: number, control: ControlType | null) => boolean;
}

export interface ScanResult {
  /** Position after the last batch that was visited and not refused. */
  readonly position: number;
  readonly tail: LogTail;
  /** Why the walk ended before `end` although nobody stopped it, or null. */
  readonly problem: string | null;
  /** The problem is a batch from below the end before it: one of the two has a wrong offset. */
  readonly isOutOfOrder: boolean;
}

/** A window of the file that moves forward and grows only for a batch that is larger than it. */
class Window {
  readonly #file: DiskFile;
  readonly #end: number;
  readonly #stepBytes: number;
  #buffer: Buffer = Buffer.alloc(0);
  #start = 0;
  #filled = 0;

  constructor(file: DiskFile, options: { readonly end: number; readonly stepBytes: number }) {
    this.#file = file;
    this.#end = options.end;
    this.#stepBytes = options.stepBytes;
  }

  /** Bytes from `position` on, at least `bytes` of them unless the file is shorter. */
  async at(position: number, bytes: number): Promise<Buffer> {
    const offset = position - this.#start;
    if (offset < 0 || offset + bytes > this.#filled) {
      const wanted = Math.min(Math.max(bytes, this.#stepBytes), this.#end - position);
      if (this.#buffer.length < wanted) this.#buffer = Buffer.allocUnsafe(wanted);
      this.#start = position;
      this.#filled = await this.#file.read(this.#buffer.subarray(0, wanted), position);
      return this.#buffer.subarray(0, this.#filled);
    }
    return this.#buffer.subarray(offset, this.#filled);
  }
}

/** The control type of a batch whose bytes are all there, or why it is not sound. */
function inspect(
  buffer: Buffer,
  header: BatchHeader,
  checked: boolean,
): { control: ControlType | null } | string {
  if (checked && !verifyBatchCrc(buffer, 0, header.sizeInBytes)) {
    return `CRC-32C of the batch at offset ${header.baseOffset} does not match`;
  }
  try {
    return { control: controlTypeAt(buffer, 0, header) };
  } catch (error) {
    return `control batch at offset ${header.baseOffset} is unreadable: ${String(error)}`;
  }
}

export async function scanSegment(file: DiskFile, options: ScanOptions): Promise<ScanResult> {
  const { end, stepBytes = defaultStepBytes } = options;
  const window = new Window(file, { end, stepBytes });
  let { tail } = options;
  let position = options.start;
  const stop = (problem: string | null, isOutOfOrder = false): ScanResult => ({
    position,
    tail,
    problem,
    isOutOfOrder,
  });

  while (position < options.end) {
    const rest = options.end - position;
    if (rest < batchHeaderBytes) return stop(`${rest} bytes are left, too few for a batch`);
    let buffer = await window.at(position, batchHeaderBytes);
    if (buffer.length < batchHeaderBytes) return stop('the file is shorter than expected');
    const header = followingHeader(buffer, 0, tail);
    if (typeof header === 'string') return stop(header, buffer.readBigInt64BE(0) < tail.end);
    if (options.offsetMax !== undefined && lastOffset(header) > options.offsetMax) {
      return stop(`offset ${lastOffset(header)} cannot be in this segment`);
    }
    if (header.sizeInBytes > rest) {
      return stop(`a batch of ${header.sizeInBytes} bytes where ${rest} are left`);
    }
    let control: ControlType | null = null;
    const checked = options.checkFrom !== null && position >= options.checkFrom;
    if (checked || isControl(header)) {
      buffer = await window.at(position, header.sizeInBytes);
      if (buffer.length < header.sizeInBytes) return stop('the file is shorter than expected');
      const inspected = inspect(buffer, header, checked);
      if (typeof inspected === 'string') return stop(inspected);
      control = inspected.control;
    }
    if (!options.visit(header, position, control)) return stop(null);
    tail = { end: nextOffset(header), lastEpoch: header.partitionLeaderEpoch };
    position += header.sizeInBytes;
  }
  return stop(null);
}
