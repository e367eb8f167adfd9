/**
 * Finds frames (int32 size, then that many bytes) in a byte stream at any split. It owns the place
 * in the stream; it refuses to know what frames mean, and never buffers a body: the first
 * `headBytes` of each frame are handed over in one piece, because headers must be read whole, and
 * the rest as views of the chunks as they come. Invariant: per frame the sink sees one `onHead`,
 * `onBody` views that add up to the rest, one `onEnd`. `FrameCollector` is for those who want
 * whole frames.
 */
import { emptyBytes } from './bytes/reader.ts';
import { ProtocolError } from './errors.ts';
import { frameBytesMaxDefault } from './limits.ts';

const sizePrefixBytes = 4;

export interface FrameSink {
  /**
   * `sizeInBytes`: the whole frame without its prefix; `head`: its first bytes, in one piece;
   * `prefixed`: the same with the prefix.
   */
  onHead(head: Buffer, sizeInBytes: number, prefixed: Buffer): void;
  /** What follows the head; a view, valid until the chunk is reused. */
  onBody(view: Buffer): void;
  onEnd(): void;
}

export interface FrameScannerOptions {
  /** How much of each frame is wanted in one piece; all of shorter frames. */
  headBytes: number;
  frameBytesMax?: number;
}

export class FrameScanner {
  private readonly headBytesMax: number;
  private readonly frameBytesMax: number;
  /** Prefix and head, while they have not arrived in one piece. */
  private readonly held: Buffer;
  private heldBytes: number;
  /** -1 while the prefix is not complete. */
  private frameBytes: number;
  /** What of the body is still to come; only when the head has been handed over. */
  private bodyBytesLeft: number;

  constructor(options: FrameScannerOptions) {
    this.headBytesMax = options.headBytes;
    this.frameBytesMax = options.frameBytesMax ?? frameBytesMaxDefault;
    this.held = Buffer.allocUnsafeSlow(sizePrefixBytes + this.headBytesMax);
    this.heldBytes = 0;
    this.frameBytes = -1;
    this.bodyBytesLeft = 0;
  }

  /** Whether the stream stands between two frames: only then may it end. */
  get isBetweenFrames(): boolean {
    return this.bodyBytesLeft === 0 && this.heldBytes === 0;
  }

  /** Feeds one chunk. A size prefix that cannot be right throws, and the stream is lost. */
  push(chunk: Buffer, sink: FrameSink): void {
    let position = 0;
    while (position < chunk.length) {
      position =
        this.bodyBytesLeft > 0
          ? this.passBody(chunk, position, sink)
          : this.takeHead(chunk, position, sink);
    }
  }

  private passBody(chunk: Buffer, position: number, sink: FrameSink): number {
    const end = Math.min(chunk.length, position + this.bodyBytesLeft);
    this.bodyBytesLeft -= end - position;
    sink.onBody(chunk.subarray(position, end));
    if (this.bodyBytesLeft === 0) sink.onEnd();
    return end;
  }

  private takeHead(chunk: Buffer, position: number, sink: FrameSink): number {
    if (this.heldBytes === 0) {
      const end = this.passHeadInOnePiece(chunk, position, sink);
      if (end > position) return end;
    }
    const wanted = this.frameBytes < 0 ? sizePrefixBytes : sizePrefixBytes + this.headBytes();
    const end = Math.min(chunk.length, position + wanted - this.heldBytes);
    chunk.copy(this.held, this.heldBytes, position, end);
    this.heldBytes += end - position;
    if (this.heldBytes < wanted) return end;
    if (this.frameBytes < 0) {
      this.frameBytes = this.checkedSize(this.held.readInt32BE(0));
      if (this.frameBytes > 0) return end;
    }
    // A copy, because `held` is used again and a sink may keep the head.
    this.handOver(Buffer.from(this.held.subarray(0, this.heldBytes)), sink);
    return end;
  }

  /** The common case: prefix and head lie in this chunk. Returns `position` when they do not. */
  private passHeadInOnePiece(chunk: Buffer, position: number, sink: FrameSink): number {
    if (chunk.length - position < sizePrefixBytes) return position;
    const frameBytes = this.checkedSize(chunk.readInt32BE(position));
    const end = position + sizePrefixBytes + Math.min(frameBytes, this.headBytesMax);
    if (end > chunk.length) return position;
    this.frameBytes = frameBytes;
    // Mostly so where frames are short: making a view, even of all, takes some 50 ns.
    const isAll = position === 0 && end === chunk.length;
    this.handOver(isAll ? chunk : chunk.subarray(position, end), sink);
    return end;
  }

  private handOver(prefixed: Buffer, sink: FrameSink): void {
    const head = prefixed.subarray(sizePrefixBytes);
    const sizeInBytes = this.frameBytes;
    this.frameBytes = -1;
    this.heldBytes = 0;
    this.bodyBytesLeft = sizeInBytes - head.length;
    sink.onHead(head, sizeInBytes, prefixed);
    if (this.bodyBytesLeft === 0) sink.onEnd();
  }

  private headBytes(): number {
    return Math.min(this.frameBytes, this.headBytesMax);
  }

  private checkedSize(size: number): number {
    if (size < 0 || size > this.frameBytesMax) {
      const detail = `frame size ${size}, at most ${this.frameBytesMax} is accepted`;
      throw new ProtocolError('INVALID_FRAME', detail);
    }
    return size;
  }
}

/** Of a frame that comes in parts so much is allocated at once; above it, as it grows. */
const firstAllocationBytesMax = 64 * 1024;

/**
 * Whole frames, without their prefix. Views of the chunk where one holds all of a frame. Parts are
 * copied into one growing buffer, so that a frame that drips in holds at most twice what has come.
 */
export class FrameCollector {
  private readonly scanner: FrameScanner;
  private readonly sink: FrameSink;
  private frameBytes: number;
  private held: Buffer;
  private heldBytes: number;
  private complete: Buffer[];

  constructor(options: { frameBytesMax?: number } = {}) {
    this.scanner = new FrameScanner({ headBytes: 0, ...options });
    this.frameBytes = 0;
    this.held = emptyBytes;
    this.heldBytes = 0;
    this.complete = [];
    this.sink = {
      onHead: (_head, sizeInBytes) => {
        this.frameBytes = sizeInBytes;
      },
      onBody: (view) => this.take(view),
      onEnd: () => {
        this.complete.push(this.held);
        this.held = emptyBytes;
        this.heldBytes = 0;
      },
    };
  }

  get isBetweenFrames(): boolean {
    return this.scanner.isBetweenFrames;
  }

  /** Bytes allocated for a frame that is not whole yet. */
  get allocatedBytes(): number {
    return this.held.length;
  }

  /** Feeds one chunk (which must not be reused); returns the frames that it completed. */
  push(chunk: Buffer): Buffer[] {
    this.scanner.push(chunk, this.sink);
    const complete = this.complete;
    this.complete = [];
    return complete;
  }

  private take(view: Buffer): void {
    if (view.length === this.frameBytes) {
      this.held = view;
      return;
    }
    const needed = this.heldBytes + view.length;
    if (needed > this.held.length) {
      const doubled = Math.max(firstAllocationBytesMax, 2 * needed);
      const grown = Buffer.allocUnsafeSlow(Math.min(this.frameBytes, doubled));
      this.held.copy(grown, 0, 0, this.heldBytes);
      this.held = grown;
    }
    view.copy(this.held, this.heldBytes);
    this.heldBytes = needed;
  }
}
