// Cuts a broker's byte stream into response frames, each taken in by whoever waits for it
// (frame-intake.ts). The rest of a large frame is read from the socket straight into its place
// (`target`), without a copy. Refuses to know what a frame means beyond its correlation id.
// Invariant: never holds more than one incomplete frame, and no frame larger than the limit is ever
// begun.
import { ProtocolError } from '../../protocol/index.ts';
import type { FrameIntake } from './frame-intake.ts';

const sizeBytes = 4;
/** What every response begins with. */
const correlationIdBytes = 4;
const prefixBytes = sizeBytes + correlationIdBytes;

/** Less than this is copied: a read of its own would cost more. */
const targetBytesMin = 16 * 1024;

export class ResponseAssembler {
  readonly #frameBytesMax: number;
  readonly #begin: (sizeInBytes: number, correlationId: number) => FrameIntake;
  readonly #onFrame: (frame: Buffer) => void;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixFilled = 0;
  #intake: FrameIntake | undefined;
  #bytesLeft = 0;

  constructor(parts: {
    frameBytesMax: number;
    /** @throws ProtocolError when no such answer is expected */
    begin: (sizeInBytes: number, correlationId: number) => FrameIntake;
    onFrame: (frame: Buffer) => void;
  }) {
    this.#frameBytesMax = parts.frameBytesMax;
    this.#begin = parts.begin;
    this.#onFrame = parts.onFrame;
  }

  /** Where the next bytes of the stream may be read to; undefined: anywhere, and then `push`ed. */
  get target(): Buffer | undefined {
    if (this.#intake === undefined || this.#bytesLeft < targetBytesMin) return undefined;
    return this.#intake.room(this.#bytesLeft);
  }

  /** So many bytes have been read to `target`. */
  filled(bytesCount: number): void {
    const intake = this.#intake;
    if (intake === undefined) return;
    this.#bytesLeft -= bytesCount;
    intake.filled(bytesCount);
    if (this.#bytesLeft === 0) this.#finish(intake);
  }

  /** @throws ProtocolError when a size prefix cannot be right, or what `begin` and intakes throw */
  push(chunk: Buffer): void {
    let position = 0;
    while (position < chunk.length) {
      const intake = this.#intake;
      if (intake === undefined) {
        position += this.#fillPrefix(chunk, position);
        continue;
      }
      const copied = chunk.copy(intake.room(this.#bytesLeft), 0, position);
      position += copied;
      this.filled(copied);
    }
  }

  #fillPrefix(chunk: Buffer, position: number): number {
    const isSizeMissing = this.#prefixFilled < sizeBytes;
    const wanted = isSizeMissing ? sizeBytes : prefixBytes;
    const copied = chunk.copy(
      this.#prefix,
      this.#prefixFilled,
      position,
      position + wanted - this.#prefixFilled,
    );
    this.#prefixFilled += copied;
    if (this.#prefixFilled < wanted) return copied;
    const size = this.#prefix.readInt32BE(0);
    if (isSizeMissing) this.#assertSize(size);
    else this.#beginFrame(size);
    return copied;
  }

  #assertSize(size: number): void {
    if (size >= correlationIdBytes && size <= this.#frameBytesMax) return;
    const detail = `a response of ${size} bytes, allowed are 4 to ${this.#frameBytesMax}`;
    throw new ProtocolError('INVALID_FRAME', detail);
  }

  #beginFrame(size: number): void {
    this.#prefixFilled = 0;
    const intake = this.#begin(size, this.#prefix.readInt32BE(sizeBytes));
    this.#intake = intake;
    this.#bytesLeft = size;
    this.#prefix.copy(intake.room(size), 0, sizeBytes);
    this.filled(correlationIdBytes);
  }

  #finish(intake: FrameIntake): void {
    this.#intake = undefined;
    this.#onFrame(intake.finish());
  }
}
