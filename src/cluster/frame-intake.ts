// How the bytes of one response frame are taken in, piece by piece. Owns the contract between a
// connection, which knows the frame's size, and whoever waits for the answer; and the plain way,
// which keeps the frame as it is. Invariant: there is always room while bytes are missing.

/** A frame that begins to come in. */
export interface FrameStart {
  readonly sizeInBytes: number;
  /** Of the request that it answers. */
  readonly version: number;
}

export interface FrameIntake {
  /** Where the next bytes go: not empty, and no more than so many, which are all that miss. */
  room(missingBytes: number): Buffer;
  /** So many bytes are there. @throws ProtocolError when they cannot be part of the answer */
  filled(bytesCount: number): void;
  /** All bytes have come. What is to be decoded: the frame, or what its receiver has left of it. */
  finish(): Buffer;
}

/** Whoever sends a request and wants its answer received in a place, or a way, of their own. */
export interface FrameReceiver {
  /**
   * The answer begins to come in; its correlation id is the right one. The bytes that follow are
   * the frame from its correlation id on.
   */
  begin(frame: FrameStart): FrameIntake;
}

export class WholeFrame implements FrameIntake {
  readonly #frame: Buffer;
  #filled = 0;

  constructor(frame: Buffer) {
    this.#frame = frame;
  }

  room(): Buffer {
    return this.#frame.subarray(this.#filled);
  }

  filled(bytesCount: number): void {
    this.#filled += bytesCount;
  }

  finish(): Buffer {
    return this.#frame;
  }
}
