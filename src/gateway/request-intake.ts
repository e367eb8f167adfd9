// Requests of one client out of the bytes that come in. Owns where the stream stands: the request
// that is not whole yet, the one that passes, and the bytes that wait behind a request that holds
// up others. Refuses to know what requests are. Invariants: a request is given whole in memory of
// its own, or passes piece by piece in the order it came (R13); what waits here is counted, and
// requests in part share one budget in all connections together, of which none gets more than a
// part of what is left (R14): a client needs no rights to begin a large request.
import { ProtocolError } from '../../protocol/index.ts';
import type { Inspection, Passage } from './handler.ts';
import { heldBytesAlways, queuedRequestBytesMax, requestHeadBytes } from './limits.ts';
import type { FramePlace } from './passing-request.ts';
import type { ReceiveBlocks } from './receive-blocks.ts';

/** Of a request that comes in parts so much is allocated at once; above it, as it grows. */
const firstAllocationBytesMax = 64 * 1024;

/** What the intakes of all connections hold together. */
export class IntakeBudget {
  readonly bytesMax: number;
  usedBytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** What one connection may hold beside `othersBytes` of the others: few cannot have it all. */
  mostBeside(othersBytes: number): number {
    return Math.max(firstAllocationBytesMax, (this.bytesMax - othersBytes) / 4);
  }

  /** Connections are read only a little ahead then: what is left is for requests in part. */
  get isShort(): boolean {
    return this.usedBytes >= (this.bytesMax / 4) * 3;
  }
}

export interface IntakeEvents {
  /** Whether the next request may be begun now. */
  mayBegin(): boolean;
  /** Begins the request there and says true if it passes as the one before did. */
  beginLikeLast(bytes: Buffer, place: FramePlace): boolean;
  /** `head`: the first bytes of a request, all of a short one; null: it is wanted whole. */
  inspect(head: Buffer): Inspection | null;
  /** A whole request, without its prefix. */
  onRequest(frame: Buffer): void;
  /** The request that was inspected last passes; `bytes`: what has come, without its prefix. */
  onPassage(passage: Passage, bytes: Buffer): void;
  /** Bytes of the request that passes, its prefix included; only valid now. */
  onPassing(bytes: Buffer, options: { isLast: boolean }): void;
}

const prefixBytes = 4;
const nothing = Buffer.alloc(0);

export class RequestIntake {
  readonly #budget: IntakeBudget;
  readonly #blocks: ReceiveBlocks;
  readonly #events: IntakeEvents;
  readonly #frameBytesMax: number;
  /** Owned copies of what came while nothing might be begun. */
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** The request that is not whole, from its prefix on. */
  #held: Buffer = nothing;
  #heldBytes = 0;
  /** Whether the head of the held request was looked at. */
  #isInspected = false;
  #inspection: Inspection | null = null;
  /** Of the request that passes. */
  #passingBytesLeft = 0;
  #countedBytes = 0;

  constructor(options: {
    budget: IntakeBudget;
    blocks: ReceiveBlocks;
    events: IntakeEvents;
    frameBytesMax: number;
  }) {
    this.#budget = options.budget;
    this.#blocks = options.blocks;
    this.#events = options.events;
    this.#frameBytesMax = options.frameBytesMax;
  }

  /** Enough waits; no more should be read. */
  get isFull(): boolean {
    const most = this.#budget.isShort ? heldBytesAlways : queuedRequestBytesMax;
    return this.#waitingBytes >= most;
  }

  /** No whole request waits, as far as can be told. */
  get isEmpty(): boolean {
    return this.#waitingBytes === 0 && !this.#isWhole();
  }

  /** @throws Error when the connection has to end */
  push(chunk: Buffer): void {
    const used = this.#waitingBytes > 0 ? 0 : this.#consume(chunk);
    if (used < chunk.length) {
      const rest = this.#blocks.owned(chunk.subarray(used));
      this.#waiting.push(rest);
      this.#wait(rest.length);
    }
  }

  /** Goes on with what waits. @throws Error when the connection has to end */
  advance(): void {
    this.#consume(nothing);
    while (this.#waiting.length > 0) {
      const chunk = this.#waiting[0] ?? nothing;
      const used = this.#consume(chunk);
      // What was in it may have ended the connection, and all that waited was given back.
      if (this.#waiting[0] !== chunk) return;
      this.#wait(-used);
      if (used < chunk.length) {
        this.#waiting[0] = chunk.subarray(used);
        return;
      }
      this.#waiting.shift();
    }
  }

  /** Nothing more will be dealt with. */
  release(): void {
    this.#waiting.length = 0;
    this.#wait(-this.#waitingBytes);
    this.#drop();
    this.#passingBytesLeft = 0;
  }

  #wait(bytes: number): void {
    this.#waitingBytes += bytes;
    this.#budget.usedBytes += bytes;
  }

  /** Returns how much was taken: less than all when the next request may not be begun. */
  #consume(chunk: Buffer): number {
    let position = 0;
    for (;;) {
      const next = this.#step(chunk, position);
      if (next < 0) return position;
      position = next;
    }
  }

  /** -1 when it cannot go on. */
  #step(chunk: Buffer, position: number): number {
    if (this.#passingBytesLeft > 0) {
      return position < chunk.length ? this.#pass(chunk, position) : -1;
    }
    if (this.#heldBytes > 0) return this.#goOnHolding(chunk, position);
    if (position === chunk.length || !this.#events.mayBegin()) return -1;
    return this.#begin(chunk, position);
  }

  #pass(chunk: Buffer, position: number): number {
    const end = Math.min(chunk.length, position + this.#passingBytesLeft);
    this.#passingBytesLeft -= end - position;
    const isLast = this.#passingBytesLeft === 0;
    // Mostly so where frames are short: making a view, even of all, takes some 50 ns.
    const isAll = position === 0 && end === chunk.length;
    this.#events.onPassing(isAll ? chunk : chunk.subarray(position, end), { isLast });
    return end;
  }

  /** The usual case: the head of a request lies in one chunk. */
  #begin(chunk: Buffer, position: number): number {
    const available = chunk.length - position;
    if (available < prefixBytes) return this.#hold(chunk, position, chunk.length);
    const start = position + prefixBytes;
    const frameEnd = start + this.#checkedSize(chunk.readInt32BE(position));
    const end = Math.min(chunk.length, frameEnd);
    if (this.#events.beginLikeLast(chunk, { start, end })) {
      this.#passingBytesLeft = frameEnd - position;
      return this.#pass(chunk, position);
    }
    const headEnd = Math.min(frameEnd, start + requestHeadBytes);
    if (headEnd > chunk.length) return this.#hold(chunk, position, chunk.length);
    const inspection = this.#events.inspect(chunk.subarray(start, headEnd));
    const bytes = chunk.subarray(start, end);
    const verdict = inspection?.push(bytes) ?? 'whole';
    if (typeof verdict === 'object') {
      this.#events.onPassage(verdict, bytes);
      this.#passingBytesLeft = frameEnd - position;
      return this.#pass(chunk, position);
    }
    if (end === frameEnd) {
      this.#events.onRequest(Buffer.from(bytes));
      return end;
    }
    this.#isInspected = true;
    this.#inspection = verdict === 'more' ? inspection : null;
    return this.#hold(chunk, position, end);
  }

  #goOnHolding(chunk: Buffer, position: number): number {
    const wanted = this.#wantedBytes();
    if (this.#heldBytes < wanted) {
      if (position === chunk.length) return -1;
      const end = Math.min(chunk.length, position + wanted - this.#heldBytes);
      const next = this.#hold(chunk, position, end);
      if (this.#isInspected) this.#inspectMore(chunk.subarray(position, end));
      return next;
    }
    if (!this.#events.mayBegin()) return -1;
    if (!this.#isInspected) {
      this.#isInspected = true;
      const head = this.#held.subarray(prefixBytes, this.#heldBytes);
      this.#inspection = this.#events.inspect(head);
      this.#inspectMore(head);
      return position;
    }
    const frame = this.#held.subarray(prefixBytes, this.#heldBytes);
    this.#drop();
    this.#events.onRequest(frame);
    return position;
  }

  /** Of the held request: its prefix, then its head, then all of it. */
  #wantedBytes(): number {
    if (this.#heldBytes < prefixBytes) return prefixBytes;
    const frameBytes = this.#checkedSize(this.#held.readInt32BE(0));
    return prefixBytes + (this.#isInspected ? frameBytes : Math.min(frameBytes, requestHeadBytes));
  }

  #isWhole(): boolean {
    if (this.#heldBytes < prefixBytes) return false;
    return this.#heldBytes === prefixBytes + this.#held.readInt32BE(0);
  }

  #inspectMore(bytes: Buffer): void {
    const verdict = this.#inspection?.push(bytes) ?? 'whole';
    if (verdict === 'more') return;
    this.#inspection = null;
    if (verdict === 'whole') return;
    const held = this.#held.subarray(0, this.#heldBytes);
    const frameBytes = held.readInt32BE(0);
    this.#drop();
    this.#passingBytesLeft = prefixBytes + frameBytes;
    this.#events.onPassage(verdict, held.subarray(prefixBytes));
    this.#pass(held, 0);
  }

  #hold(chunk: Buffer, position: number, end: number): number {
    const needed = this.#heldBytes + end - position;
    if (needed > this.#held.length) {
      const grown = Buffer.allocUnsafeSlow(this.#capacityFor(needed, chunk, position));
      this.#held.copy(grown, 0, 0, this.#heldBytes);
      this.#held = grown;
    }
    chunk.copy(this.#held, this.#heldBytes, position, end);
    this.#heldBytes = needed;
    this.#count();
    return end;
  }

  #capacityFor(needed: number, chunk: Buffer, position: number): number {
    if (!this.#isInspected) return prefixBytes + requestHeadBytes;
    const isPrefixHeld = this.#heldBytes >= prefixBytes;
    const frameBytes = isPrefixHeld ? this.#held.readInt32BE(0) : chunk.readInt32BE(position);
    return Math.min(prefixBytes + frameBytes, Math.max(firstAllocationBytesMax, 2 * needed));
  }

  #drop(): void {
    this.#held = nothing;
    this.#heldBytes = 0;
    this.#isInspected = false;
    this.#inspection = null;
    this.#count();
  }

  #count(): void {
    const grownBytes = this.#held.length - this.#countedBytes;
    this.#countedBytes = this.#held.length;
    this.#budget.usedBytes += grownBytes;
    if (grownBytes <= 0) return;
    const { usedBytes, bytesMax } = this.#budget;
    const most = this.#budget.mostBeside(usedBytes - this.#countedBytes);
    if (usedBytes > bytesMax || this.#countedBytes > most) {
      throw new Error(
        `requests in part take ${usedBytes} bytes, ${bytesMax} are allowed in all; this one ` +
          `takes ${this.#countedBytes}, and might ${Math.floor(most)}`,
      );
    }
  }

  #checkedSize(size: number): number {
    if (size < 0 || size > this.#frameBytesMax) {
      const detail = `frame size ${size}, at most ${this.#frameBytesMax} is accepted`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    return size;
  }
}
