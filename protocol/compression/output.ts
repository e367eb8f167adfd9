/**
 * Where decompressed bytes go: a buffer that grows up to a cap and copies from its own past, as
 * LZ77 formats ask. Invariant: never more than `bytesMax` bytes, and no read before the first.
 */
import { ProtocolError } from '../errors.ts';

export function corrupt(format: string, detail: string, cause?: unknown): ProtocolError {
  return new ProtocolError('CORRUPT_RECORDS', `${format}: ${detail}`, { cause });
}

export function tooLarge(format: string, bytesMax: number): ProtocolError {
  return new ProtocolError('TOO_LARGE', `${format}: more than ${bytesMax} bytes when opened`);
}

export class Output {
  private buffer: Buffer;
  private length: number;
  private readonly format: string;
  private readonly bytesMax: number;

  constructor(format: string, bytesMax: number, expectedBytes: number) {
    this.buffer = Buffer.allocUnsafe(Math.min(Math.max(expectedBytes, 1024), bytesMax));
    this.length = 0;
    this.format = format;
    this.bytesMax = bytesMax;
  }

  get sizeInBytes(): number {
    return this.length;
  }

  toBuffer(): Buffer {
    return this.buffer.subarray(0, this.length);
  }

  private makeRoom(bytes: number): void {
    const wanted = this.length + bytes;
    if (wanted <= this.buffer.length) return;
    if (wanted > this.bytesMax) throw tooLarge(this.format, this.bytesMax);
    const size = Math.min(this.bytesMax, Math.max(this.buffer.length * 2, wanted));
    const grown = Buffer.allocUnsafe(size);
    this.buffer.copy(grown, 0, 0, this.length);
    this.buffer = grown;
  }

  append(source: Uint8Array, start: number, end: number): void {
    if (end > source.length) throw corrupt(this.format, 'literals beyond the end');
    this.makeRoom(end - start);
    this.buffer.set(source.subarray(start, end), this.length);
    this.length += end - start;
  }

  /** `distance` below `bytes` repeats what is being written. */
  repeat(distance: number, bytes: number): void {
    if (distance <= 0 || distance > this.length) {
      throw corrupt(this.format, `copy from ${distance} bytes back, ${this.length} are there`);
    }
    this.makeRoom(bytes);
    const from = this.length - distance;
    if (distance >= bytes) {
      this.buffer.copyWithin(this.length, from, from + bytes);
    } else {
      const { buffer, length } = this;
      for (let index = 0; index < bytes; index++)
        buffer[length + index] = buffer[from + index] ?? 0;
    }
    this.length += bytes;
  }
}
