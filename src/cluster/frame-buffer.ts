// Memory that answers are received into again and again, so that large Fetch answers cost neither
// an allocation nor a copy. Owns one buffer that grows to what is asked for; refuses to know what
// is in it. Invariant: what `claim` gave is valid until the next `claim` or `grow`, so whoever
// passes a FrameBuffer along with a request is done with the answer before it is passed again.
import {
  type FrameIntake,
  type FrameReceiver,
  type FrameStart,
  WholeFrame,
} from './frame-intake.ts';

/** Answers up to here are not worth keeping memory for. */
const smallBytes = 64 * 1024;

/** Answers in a row that need a quarter or less, after which the memory of large ones is let go. */
const smallInRowMax = 32;

/** Somewhat more than asked for: the next answer is rarely of exactly the same size. */
export function frameBufferBytesMax(sizeInBytes: number): number {
  return sizeInBytes + (sizeInBytes >>> 3);
}

export class FrameBuffer implements FrameReceiver {
  #buffer: Buffer | undefined;
  #smallInRow = 0;

  /** Bytes that are kept between answers. */
  get sizeInBytes(): number {
    return this.#buffer?.length ?? 0;
  }

  begin({ sizeInBytes }: FrameStart): FrameIntake {
    return new WholeFrame(this.claim(sizeInBytes));
  }

  /** `answerBytes`: of the whole answer, where it is used up while it comes in. */
  claim(sizeInBytes: number, answerBytes = sizeInBytes): Buffer {
    const isSmall = answerBytes <= smallBytes || answerBytes <= this.sizeInBytes / 4;
    this.#smallInRow = isSmall ? this.#smallInRow + 1 : 0;
    if (this.#smallInRow >= smallInRowMax) this.#buffer = undefined;
    if (sizeInBytes <= smallBytes) return Buffer.allocUnsafe(sizeInBytes);
    if (this.#buffer === undefined || this.#buffer.length < sizeInBytes) {
      this.#buffer = Buffer.allocUnsafeSlow(frameBufferBytesMax(sizeInBytes));
    }
    return this.#buffer.subarray(0, sizeInBytes);
  }

  /** As `claim`, with the first `keptBytes` of what the last one gave. */
  grow(claimed: Buffer, keptBytes: number, sizeInBytes: number): Buffer {
    const grown = this.claim(sizeInBytes);
    if (grown.buffer !== claimed.buffer) claimed.copy(grown, 0, 0, keptBytes);
    return grown;
  }
}
