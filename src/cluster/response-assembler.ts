// Cuts a broker's byte stream into response frames, each in a buffer of its own, because the
// answers' record data are kept as views long after the read buffer has been reused. The rest of a
// large frame is read from the socket straight into its place (`target`), without a copy. Refuses
// to know what a frame means. Invariant: never holds more than one incomplete frame, and no frame
// larger than the limit is ever allocated.
import { ProtocolError } from '../../protocol/index.ts';

const prefixBytes = 4;

/** Less than this is copied: a read of its own would cost more. */
const targetBytesMin = 16 * 1024;

export class ResponseAssembler {
  readonly #frameBytesMax: number;
  readonly #allocate: (sizeInBytes: number) => Buffer;
  readonly #onFrame: (frame: Buffer) => void;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixFilled = 0;
  #frame: Buffer | undefined;
  #frameFilled = 0;

  constructor(parts: {
    frameBytesMax: number;
    allocate: (sizeInBytes: number) => Buffer;
    onFrame: (frame: Buffer) => void;
  }) {
    this.#frameBytesMax = parts.frameBytesMax;
    this.#allocate = parts.allocate;
    this.#onFrame = parts.onFrame;
  }

  /** Where the next bytes of the stream may be read to; undefined: anywhere, and then `push`ed. */
  get target(): Buffer | undefined {
    const frame = this.#frame;
    if (frame === undefined || frame.length - this.#frameFilled < targetBytesMin) return undefined;
    return frame.subarray(this.#frameFilled);
  }

  /** So many bytes have been read to `target`. */
  filled(bytesCount: number): void {
    const frame = this.#frame;
    if (frame === undefined) return;
    this.#frameFilled += bytesCount;
    if (this.#frameFilled === frame.length) this.#finish(frame);
  }

  /** @throws ProtocolError INVALID_FRAME when a size prefix cannot be right */
  push(chunk: Buffer): void {
    let position = 0;
    while (position < chunk.length) {
      position += this.#frame === undefined ? this.#fillPrefix(chunk, position) : 0;
      if (this.#frame === undefined) continue;
      const copied = chunk.copy(this.#frame, this.#frameFilled, position);
      this.#frameFilled += copied;
      position += copied;
      if (this.#frameFilled === this.#frame.length) this.#finish(this.#frame);
    }
  }

  #fillPrefix(chunk: Buffer, position: number): number {
    const copied = chunk.copy(this.#prefix, this.#prefixFilled, position);
    this.#prefixFilled += copied;
    if (this.#prefixFilled < prefixBytes) return copied;
    const size = this.#prefix.readInt32BE(0);
    if (size < prefixBytes || size > this.#frameBytesMax) {
      const detail = `a response of ${size} bytes, allowed are 4 to ${this.#frameBytesMax}`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    this.#frame = this.#allocate(size);
    this.#frameFilled = 0;
    return copied;
  }

  #finish(frame: Buffer): void {
    this.#frame = undefined;
    this.#prefixFilled = 0;
    this.#onFrame(frame);
  }
}
