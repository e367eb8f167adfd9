/**
 * Walks the frame of a FetchResponse while it comes in, at any split, for a visitor. Bytes are
 * handed on as soon as they have been shown, patched in place or not. Refuses to know the layout
 * (`fetch-walk.ts`) and what is patched. Invariant: bytes leave in order and none is kept but a
 * piece that has not come whole, which is bounded.
 */
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { FetchWalk, type VisitPartition } from './fetch-walk.ts';

/** A topic name or the tags of a partition fit many times over. */
const heldBytesMax = 1024 * 1024;
/** Enough to end most pieces that came in two. */
const firstLookBytes = 64;
/** From version 16 on an answer names brokers in its tags: it cannot pass as it is. */
const versionMax = 15;

export class FetchStream {
  readonly #walk: FetchWalk;
  #held: Buffer | null = null;

  constructor(version: number, visit: VisitPartition) {
    if (version > versionMax) throw fault('UNSUPPORTED_VERSION', `version ${version}`);
    this.#walk = new FetchWalk(version, visit);
  }

  /** The frame's next bytes, its prefix left out. `emit` gets what may go on, in order. */
  push(chunk: Buffer, emit: (view: Buffer) => void): void {
    let position = 0;
    if (this.#held !== null) {
      position = this.#goOnWithHeld(this.#held, chunk, emit);
      if (this.#held !== null) return;
    }
    const begun = position;
    while (position < chunk.length) {
      const { bytesToPass } = this.#walk;
      if (bytesToPass > 0) {
        const passed = Math.min(bytesToPass, chunk.length - position);
        this.#walk.passed(passed);
        position += passed;
        continue;
      }
      const end = this.#walk.take(chunk, position);
      if (end < 0) {
        this.#hold(Buffer.from(chunk.subarray(position)));
        break;
      }
      position = end;
    }
    if (position > begun) emit(chunk.subarray(begun, position));
  }

  /** All bytes of the frame have been pushed. */
  finish(): void {
    this.#walk.finish();
  }

  /** Returns where the chunk goes on; nothing is held any more unless all of it was needed. */
  #goOnWithHeld(held: Buffer, chunk: Buffer, emit: (view: Buffer) => void): number {
    for (let wanted = firstLookBytes; ; wanted *= 4) {
      const more = chunk.subarray(0, wanted);
      const bytes = Buffer.concat([held, more]);
      const end = this.#walk.take(bytes, 0);
      if (end >= 0) {
        this.#held = null;
        emit(bytes.subarray(0, end));
        return end - held.length;
      }
      if (more.length === chunk.length) {
        this.#hold(bytes);
        return chunk.length;
      }
    }
  }

  #hold(bytes: Buffer): void {
    if (bytes.length > heldBytesMax) {
      throw fault('TOO_LARGE', `a ${this.#walk.step} of more than ${heldBytesMax} bytes`);
    }
    this.#held = bytes;
  }
}

function fault(code: ProtocolErrorCode, detail: string): ProtocolError {
  return new ProtocolError(code, detail, { messageName: 'FetchResponse' });
}
