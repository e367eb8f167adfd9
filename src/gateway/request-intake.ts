// Requests of one client as whole frames, out of the bytes that come in. Owns the frame that is not
// whole yet, and what such frames may take in all connections together (R14): a client needs no
// rights to begin a large request. Refuses to know what requests are.
import { FrameCollector } from '../../protocol/index.ts';

/** What the intakes of all connections hold together. */
export class IntakeBudget {
  readonly bytesMax: number;
  usedBytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }
}

export class RequestIntake {
  readonly #budget: IntakeBudget;
  readonly #collector: FrameCollector;
  #heldBytes = 0;

  constructor(budget: IntakeBudget, options: { frameBytesMax: number }) {
    this.#budget = budget;
    this.#collector = new FrameCollector(options);
  }

  /** Whole requests that end in this chunk. @throws Error when the connection has to end */
  push(chunk: Buffer): Buffer[] {
    const frames = this.#collector.push(chunk);
    const grownBytes = this.#collector.allocatedBytes - this.#heldBytes;
    this.#hold(this.#collector.allocatedBytes);
    const { usedBytes, bytesMax } = this.#budget;
    if (grownBytes > 0 && usedBytes > bytesMax) {
      throw new Error(`requests in part take ${usedBytes} bytes, ${bytesMax} are allowed in all`);
    }
    return frames;
  }

  /** The connection is over. */
  release(): void {
    this.#hold(0);
  }

  #hold(bytes: number): void {
    this.#budget.usedBytes += bytes - this.#heldBytes;
    this.#heldBytes = bytes;
  }
}
