// Cuts a broker's byte stream into response frames, each in a buffer of its own, because the
// answers' record data are kept as views long after the read buffer has been reused. One copy per
// byte, whatever the split. Refuses to know what a frame means. Invariant: never holds more than
// one incomplete frame, and no frame larger than the limit is ever allocated.
import { ProtocolError } from '../../protocol/index.ts';

const prefixBytes = 4;

export class ResponseAssembler {
  readonly #frameBytesMax: number;
  readonly #onFrame: (frame: Buffer) => void;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixFilled = 0;
  #frame: Buffer | undefined;
  #frameFilled = 0;

  constructor(frameBytesMax: number, onFrame: (frame: Buffer) => void) {
    this.#frameBytesMax = frameBytesMax;
    this.#onFrame = onFrame;
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
    this.#frame = Buffer.allocUnsafe(size);
    this.#frameFilled = 0;
    return copied;
  }

  #finish(frame: Buffer): void {
    this.#frame = undefined;
    this.#prefixFilled = 0;
    this.#onFrame(frame);
  }
}
