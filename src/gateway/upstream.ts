// One connection to a broker of the destination, for one client. Owns the socket, the FIFO of
// answers that are due, and the finding of frames in what comes back; refuses to know clients and
// messages. Invariant: answers are matched by order, and a correlation id that does not match ends
// everything (a broker answers a connection in order, so a mismatch means that bytes would reach
// the wrong request).
import type { Socket } from 'node:net';
import { FrameScanner, type FrameSink, ProtocolError } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { ResponsePatch } from './handler.ts';
import {
  collectedResponseBytesMax,
  heldBytesAlways,
  patchedResponseBytesMin,
  streamedResponseBytesMax,
} from './limits.ts';
import { type PeerMemory, PeerSocket } from './peer-socket.ts';
import type { ResponseSlot } from './response-queue.ts';

/** What becomes of the next answer: to the client as it comes, rewritten first, or to us. */
export type Expectation =
  | { readonly kind: 'stream'; readonly correlationId: number; readonly slot: ResponseSlot }
  | AnswerToRewrite
  | OwnAnswer;

/** It passes as it is, is patched as it passes, or is collected and given to `deliver`. */
export interface AnswerToRewrite {
  readonly kind: 'rewrite';
  readonly correlationId: number;
  readonly slot: ResponseSlot;
  /** An answer in one piece passes as it is when it may. */
  readonly staysAsItIs?: ((frame: Buffer) => boolean) | undefined;
  /** An answer that is large passes through it as it comes, and is not collected. */
  readonly patch?: (() => ResponsePatch) | undefined;
  /** Without size prefix; a view or a buffer of its own. */
  deliver(frame: Buffer): void;
}

/** To a request of our own. */
export interface OwnAnswer {
  readonly kind: 'own';
  readonly correlationId: number;
  /** Without size prefix; a view or a buffer of its own. */
  deliver(frame: Buffer): void;
  /** The connection ended before the answer. */
  abandon(error: Error): void;
}

export interface UpstreamEvents {
  /** After each read, when all of it was dealt with. */
  onProgress(): void;
  /** There is room again for requests. */
  onDrain(): void;
  /** FIN from the broker, after everything it sent. */
  onEnd(): void;
  /** Reset, or bytes that cannot be right. */
  onFault(error: Error): void;
}

/** Of each answer so much comes in one piece: all of most that have to be looked at. */
const headBytes = 1024;

export class Upstream {
  readonly #peer: PeerSocket;
  readonly #memory: PeerMemory;
  readonly #expected: Expectation[] = [];
  readonly #scanner = new FrameScanner({ headBytes, frameBytesMax: streamedResponseBytesMax });
  readonly #sink: FrameSink;
  #parts: Buffer[] = [];
  /** Of the answer that is collected, what has not come yet. */
  #bytesToCollect = 0;
  #collectedBytes = 0;
  /** Of the answer that passes, when it is changed on its way. */
  #patch: ResponsePatch | null = null;
  /** The answer has passed with its head. */
  #hasPassed = false;
  #callsPending = 0;
  #isOver = false;
  #isPassing = false;
  /** Own requests that came up while one of the client's was passing. */
  readonly #afterPassing: (() => void)[] = [];

  constructor(socket: Socket, memory: PeerMemory, events: UpstreamEvents) {
    this.#memory = memory;
    this.#sink = {
      onHead: (head, sizeInBytes, prefixed) => this.#onHead(head, sizeInBytes, prefixed),
      onBody: (view) => this.#onBody(view),
      onEnd: () => this.#onFrameEnd(),
    };
    this.#peer = new PeerSocket(socket, memory, {
      onChunk: (chunk) => {
        try {
          if (!this.#isOver) this.#scanner.push(chunk, this.#sink);
          events.onProgress();
        } catch (error) {
          events.onFault(error instanceof Error ? error : new Error(String(error)));
        }
      },
      onDrain: () => events.onDrain(),
      onEnd: () => events.onEnd(),
      onError: (error) => events.onFault(error),
      onClose: () => this.#abandonAll(),
    });
  }

  get localPort(): number {
    return this.#peer.socket.localPort ?? 0;
  }

  get isFull(): boolean {
    return this.#peer.isFull;
  }

  get hasUnsent(): boolean {
    return this.#peer.hasUnsent;
  }

  get movedBytes(): number {
    return this.#peer.movedBytes;
  }

  /** Requests of our own that are not answered yet; reading must go on for them. */
  get callsPending(): number {
    return this.#callsPending;
  }

  get isBetweenFrames(): boolean {
    return this.#scanner.isBetweenFrames;
  }

  /** `expectation` is null for requests that have no answer (acks=0). */
  send(chunks: readonly Buffer[], expectation: Expectation | null): void {
    if (expectation?.kind === 'own') this.#callsPending++;
    if (this.#isPassing) {
      this.#afterPassing.push(() => this.#send(chunks, expectation));
      return;
    }
    this.#send(chunks, expectation);
  }

  /** Part of a request of the client; nothing else goes out before its last one. */
  pass(bytes: Buffer): void {
    this.#isPassing = true;
    this.#peer.write(bytes);
  }

  /** The last part. Only now can there be an answer. */
  passLast(bytes: Buffer, expectation: Expectation | null): void {
    this.#isPassing = false;
    if (!this.#isOver) {
      if (expectation !== null) this.#expected.push(expectation);
      this.#peer.write(bytes);
    }
    if (this.#afterPassing.length === 0) return;
    for (const send of this.#afterPassing.splice(0)) send();
  }

  flush(): void {
    this.#peer.flush();
  }

  pause(): void {
    this.#peer.pause();
  }

  resume(): void {
    this.#peer.resume();
  }

  /** FIN after what was written. */
  end(): void {
    this.#peer.end();
  }

  /**
   * Nothing more is read; what was written is flushed, then FIN, and an end to waiting for the
   * broker's.
   */
  close(): void {
    this.#abandonAll();
    this.#peer.linger();
  }

  #send(chunks: readonly Buffer[], expectation: Expectation | null): void {
    if (this.#isOver) {
      if (expectation?.kind === 'own') expectation.abandon(connectionEnded());
      return;
    }
    if (expectation !== null) this.#expected.push(expectation);
    for (const chunk of chunks) this.#peer.write(chunk);
  }

  #onHead(head: Buffer, sizeInBytes: number, prefixed: Buffer): void {
    const expected = this.#expected[0];
    if (head.length < 4) throw new ProtocolError('INVALID_FRAME', `answer of ${sizeInBytes} bytes`);
    const correlationId = head.readInt32BE(0);
    if (expected === undefined || expected.correlationId !== correlationId) {
      const due = expected === undefined ? 'no answer' : `correlation id ${expected.correlationId}`;
      const detail = `answer with correlation id ${correlationId} while ${due} was due`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    if (expected.kind === 'stream') {
      expected.slot.pass(prefixed);
      return;
    }
    if (expected.kind === 'rewrite') {
      const { slot, staysAsItIs, patch } = expected;
      if (head.length === sizeInBytes && staysAsItIs?.(head) === true) {
        this.#hasPassed = true;
        slot.pass(prefixed);
        return;
      }
      if (patch !== undefined && sizeInBytes > patchedResponseBytesMin) {
        this.#patch = patch();
        slot.pass(prefixed.subarray(0, prefixed.length - head.length));
        this.#patch.push(head, (view) => slot.pass(view));
        return;
      }
    }
    if (sizeInBytes > collectedResponseBytesMax) {
      const detail = `answer of ${sizeInBytes} bytes has to be rewritten, too large for that`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    this.#bytesToCollect = sizeInBytes;
    this.#collect(head);
  }

  #onBody(view: Buffer): void {
    const expected = this.#expected[0];
    if (expected?.kind === 'stream') {
      expected.slot.pass(view);
      return;
    }
    if (this.#patch !== null && expected?.kind === 'rewrite') {
      const { slot } = expected;
      this.#patch.push(view, (patched) => slot.pass(patched));
      return;
    }
    this.#collect(view);
  }

  #collect(view: Buffer): void {
    const { blocks, held } = this.#memory;
    this.#bytesToCollect -= view.length;
    this.#collectedBytes += view.length;
    held.add(view.length);
    if (held.isOver && this.#collectedBytes > heldBytesAlways) {
      const detail = `${held.usedBytes} bytes are held for all clients`;
      throw new Error(`an answer that has to be rewritten cannot be held: ${detail}`);
    }
    // The last part is put together with the others before it may be gone.
    this.#parts.push(this.#bytesToCollect === 0 ? view : blocks.owned(view));
  }

  #dropCollected(): void {
    this.#memory.held.remove(this.#collectedBytes);
    this.#collectedBytes = 0;
    this.#parts = [];
  }

  #onFrameEnd(): void {
    const expected = this.#expected.shift();
    if (expected === undefined) return;
    if (expected.kind === 'stream') {
      expected.slot.finish();
      return;
    }
    if (expected.kind === 'own') {
      this.#callsPending--;
    } else if (this.#hasPassed) {
      this.#hasPassed = false;
      expected.slot.finish();
      return;
    } else if (this.#patch !== null) {
      this.#patch.finish();
      this.#patch = null;
      expected.slot.finish();
      return;
    }
    const frame = Buffer.concat(this.#parts);
    this.#dropCollected();
    expected.deliver(frame);
  }

  #abandonAll(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#dropCollected();
    for (const expected of this.#expected.splice(0)) {
      if (expected.kind === 'own') expected.abandon(connectionEnded());
    }
    for (const send of this.#afterPassing.splice(0)) send();
  }
}

function connectionEnded(): ClusterError {
  const message = 'the connection to the destination ended before the answer';
  return new ClusterError('UNREACHABLE', message, { maybeSent: true });
}
