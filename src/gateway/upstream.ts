// One connection to a broker of the destination, for one client. Owns the socket, the FIFO of
// answers that are due, and the finding of frames in what comes back; refuses to know clients and
// messages. Invariant: answers are matched by order, and a correlation id that does not match ends
// everything (a broker answers a connection in order, so a mismatch means that bytes would reach
// the wrong request).
import type { Socket } from 'node:net';
import { FrameScanner, type FrameSink, ProtocolError } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { collectedResponseBytesMax, lingerMs, streamedResponseBytesMax } from './limits.ts';
import type { ResponseSlot } from './response-queue.ts';

/** What becomes of the next answer: through to the client as it comes, or whole to a function. */
export type Expectation =
  | { readonly kind: 'stream'; readonly correlationId: number; readonly slot: ResponseSlot }
  | {
      readonly kind: 'collect';
      readonly correlationId: number;
      /** Without size prefix; a view or a buffer of its own. */
      readonly deliver: (frame: Buffer) => void;
      /** The connection ended before the answer; for requests of our own. */
      readonly abandon?: (error: Error) => void;
    };

export interface UpstreamEvents {
  /** After each read, when all of it was dealt with. */
  onProgress(): void;
  onDrain(): void;
  /** FIN from the broker, after everything it sent. */
  onEnd(): void;
  /** Reset, or bytes that cannot be right. */
  onFault(error: Error): void;
}

export class Upstream {
  readonly #socket: Socket;
  readonly #expected: Expectation[] = [];
  readonly #scanner = new FrameScanner({ headBytes: 4, frameBytesMax: streamedResponseBytesMax });
  readonly #sink: FrameSink;
  readonly #onBeforeRead: () => void;
  #parts: Buffer[] = [];
  #callsPending = 0;
  #isOver = false;
  #receivedBytes = 0;

  constructor(socket: Socket, events: UpstreamEvents & { onBeforeRead(): void }) {
    this.#socket = socket;
    this.#onBeforeRead = events.onBeforeRead;
    this.#sink = {
      onHead: (head, sizeInBytes) => this.#onHead(head, sizeInBytes),
      onBody: (view) => this.#onBody(view),
      onEnd: () => this.#onFrameEnd(),
    };
    socket.on('data', (chunk: Buffer) => {
      try {
        this.#read(chunk);
        events.onProgress();
      } catch (error) {
        events.onFault(error instanceof Error ? error : new Error(String(error)));
      }
    });
    socket.on('drain', () => events.onDrain());
    socket.on('end', () => events.onEnd());
    socket.on('error', (error) => events.onFault(error));
    socket.on('close', () => this.#abandonAll());
  }

  get localPort(): number {
    return this.#socket.localPort ?? 0;
  }

  get remote(): string {
    return `${this.#socket.remoteAddress ?? '?'}:${this.#socket.remotePort ?? 0}`;
  }

  get needsDrain(): boolean {
    return this.#socket.writableNeedDrain;
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
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
    if (expectation !== null) {
      this.#expected.push(expectation);
      if (expectation.kind === 'collect' && expectation.abandon) this.#callsPending++;
    }
    for (const chunk of chunks) this.#socket.write(chunk);
  }

  cork(): void {
    this.#socket.cork();
  }

  uncork(): void {
    this.#socket.uncork();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** FIN after what was written. */
  end(): void {
    this.#socket.end();
  }

  /**
   * Nothing more is read; what was written is flushed, then FIN, and an end to waiting for the
   * broker's.
   */
  close(): void {
    this.#abandonAll();
    if (this.#socket.destroyed) return;
    this.#socket.end();
    this.#socket.resume();
    const linger = setTimeout(() => this.#socket.destroy(), lingerMs);
    linger.unref();
    this.#socket.once('close', () => clearTimeout(linger));
  }

  #read(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#receivedBytes += chunk.length;
    this.#onBeforeRead();
    this.#scanner.push(chunk, this.#sink);
  }

  #onHead(head: Buffer, sizeInBytes: number): void {
    const expected = this.#expected[0];
    if (head.length < 4) throw new ProtocolError('INVALID_FRAME', `answer of ${sizeInBytes} bytes`);
    const correlationId = head.readInt32BE(0);
    if (expected === undefined || expected.correlationId !== correlationId) {
      const due = expected === undefined ? 'no answer' : `correlation id ${expected.correlationId}`;
      const detail = `answer with correlation id ${correlationId} while ${due} was due`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    if (expected.kind === 'stream') {
      const start = Buffer.allocUnsafe(8);
      start.writeInt32BE(sizeInBytes, 0);
      start.writeInt32BE(correlationId, 4);
      expected.slot.write(start);
      return;
    }
    if (sizeInBytes > collectedResponseBytesMax) {
      const detail = `answer of ${sizeInBytes} bytes has to be rewritten, too large for that`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    this.#parts = [head];
  }

  #onBody(view: Buffer): void {
    const expected = this.#expected[0];
    if (expected?.kind === 'stream') expected.slot.write(view);
    else this.#parts.push(view);
  }

  #onFrameEnd(): void {
    const expected = this.#expected.shift();
    if (expected === undefined) return;
    if (expected.kind === 'stream') {
      expected.slot.finish();
      return;
    }
    if (expected.abandon) this.#callsPending--;
    const frame = Buffer.concat(this.#parts);
    this.#parts = [];
    expected.deliver(frame);
  }

  #abandonAll(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const message = 'the connection to the destination ended before the answer';
    const error = new ClusterError('UNREACHABLE', message, { maybeSent: true });
    for (const expected of this.#expected.splice(0)) {
      if (expected.kind === 'collect') expected.abandon?.(error);
    }
  }
}
