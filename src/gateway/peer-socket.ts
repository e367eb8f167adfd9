// One socket of a session, to the client or to the broker. Owns how it is read and written: read
// into blocks that are used again (`block-reader.ts`); neighbouring pieces of what passes leave in
// one write, of a plain socket past the stream while nothing waits there. Refuses to know frames.
// Invariants: bytes of a block are not overwritten before the kernel has them (R14 without copies);
// what `write` was given leaves in that order; a chunk is only valid while its `onChunk` runs,
// unless the one who keeps it asks `ReceiveBlocks.owned`.
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { BlockReader } from './block-reader.ts';
import { DirectWrite } from './direct-write.ts';
import type { HeldCount } from './held-bytes.ts';
import { heldBytesAlways, lingerMs, socketBufferBytes } from './limits.ts';
import type { Block, ReceiveBlocks } from './receive-blocks.ts';

export interface PeerEvents {
  onChunk(chunk: Buffer): void;
  /** After `isFull` was true: there is room again. */
  onDrain(): void;
  onEnd(): void;
  onError(error: Error): void;
  onClose(): void;
}

/** What all sockets of a gateway share. */
export interface PeerMemory {
  readonly blocks: ReceiveBlocks;
  readonly held: HeldCount;
}

interface Handle {
  /** Negative where there is none. */
  readonly fd?: number;
  readStop?: () => number;
  /** From then on reads go there, and then where the callback of each says. */
  useUserBuffer?: (buffer: Buffer) => void;
  reading?: boolean;
}

/** What of Node's sockets `net.Server` uses to make one: a handle can be given another owner. */
interface SocketWithHandle {
  _handle?: Handle | null;
  _server?: unknown;
  server?: unknown;
}

/** Small pieces are put together: that is cheaper than a write of several. */
const mergedBytesMax = 4096;
/** What has to wait and takes less than this part of its block does not keep the block. */
const keptPart = 2;

export class PeerSocket {
  readonly #socket: Socket;
  readonly #blocks: ReceiveBlocks;
  readonly #held: HeldCount;
  readonly #events: PeerEvents;
  /** Null for TLS, and where sockets have no descriptor. */
  #direct: DirectWrite | null = null;
  readonly #reader: BlockReader;
  /** Not written yet; neighbours in memory are one piece. */
  #pieces: Buffer[] = [];
  #piecesBytes = 0;
  /** Of each write under way its block, which must not be filled anew, or the bytes of its own. */
  readonly #inFlight: (Block | number)[] = [];
  /** Who waits until the kernel has taken so many bytes. */
  readonly #waiting: { readonly takenBytes: number; readonly callback: () => void }[] = [];
  #isPaused = false;
  #wasFull = false;
  /** The stream still had some of the last flush: a direct write would overtake it, or fail. */
  #isSlow = false;
  readonly #onWritten: () => void;

  constructor(socket: Socket, memory: PeerMemory, events: PeerEvents) {
    this.#blocks = memory.blocks;
    this.#held = memory.held;
    this.#events = events;
    this.#onWritten = () => {
      this.#release(this.#inFlight.shift() ?? 0);
      this.#tellTaken();
      this.#tellDrain();
    };
    this.#reader = new BlockReader({
      blocks: this.#blocks,
      gathersRecords: socket instanceof TLSSocket,
      onChunk: (chunk) => events.onChunk(chunk),
    });
    const own = this.#readIntoBlocks(socket);
    this.#socket = own;
    own.on('end', () => {
      this.#reader.give();
      events.onEnd();
    });
    own.on('error', (error) => {
      this.#reader.give();
      events.onError(error);
    });
    own.on('close', () => {
      this.#releaseAll();
      events.onClose();
    });
    own.resume();
  }

  get socket(): Socket {
    return this.#socket;
  }

  get isFull(): boolean {
    const unsentBytes = this.#unsentBytes;
    // Asked for with each chunk, and nearly always true: the shared limits are not looked at then.
    if (unsentBytes < heldBytesAlways) return false;
    const isShort = this.#held.isOver || this.#blocks.isShort;
    const isFull = isShort || unsentBytes >= socketBufferBytes;
    if (isFull) this.#wasFull = true;
    return isFull;
  }

  /** Something was given to be sent that the kernel has not taken. */
  get hasUnsent(): boolean {
    return this.#unsentBytes > 0;
  }

  /** The stream is only asked while it has something of ours: its own count costs a walk. */
  get #unsentBytes(): number {
    const inStream = this.#inFlight.length === 0 ? 0 : this.#socket.writableLength;
    return inStream + this.#piecesBytes;
  }

  /** What the peer has given and the kernel has taken so far. */
  get movedBytes(): number {
    return this.#socket.bytesRead + this.bytesWritten - this.#socket.writableLength;
  }

  /** With what the kernel has not taken. */
  get bytesWritten(): number {
    return this.#socket.bytesWritten + (this.#direct?.bytesWritten ?? 0);
  }

  write(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#piecesBytes += bytes.length;
    const last = this.#pieces.at(-1);
    if (
      last !== undefined &&
      last.buffer === bytes.buffer &&
      last.byteOffset + last.length === bytes.byteOffset
    ) {
      const length = last.length + bytes.length;
      this.#pieces[this.#pieces.length - 1] = Buffer.from(last.buffer, last.byteOffset, length);
      return;
    }
    this.#pieces.push(bytes);
  }

  /** Writes what was given since the last time. Blocks that the kernel has taken are free again. */
  flush(): void {
    if (this.#pieces.length === 0) return;
    const pieces = this.#takePieces();
    const socket = this.#socket;
    if (socket.destroyed || socket.writableEnded) return;
    const direct = this.#isSlow ? null : this.#direct;
    const rest = direct?.write(pieces) ?? pieces;
    if (rest.length > 0) this.#sendAll(rest);
    if (this.#isSlow) return;
    this.#releaseInFlight();
    // Not now: whoever waits for room may be the one who flushes.
    if (this.#wasFull) process.nextTick(() => this.#tellDrain());
  }

  #takePieces(): readonly Buffer[] {
    const pieces = this.#pieces;
    const bytes = this.#piecesBytes;
    this.#pieces = [];
    this.#piecesBytes = 0;
    const isMerged = pieces.length > 1 && bytes <= mergedBytesMax;
    return isMerged ? [Buffer.concat(pieces, bytes)] : pieces;
  }

  /**
   * Calls back when the kernel has all that was flushed so far; never when the socket ends before.
   */
  whenTaken(callback: () => void): void {
    this.#waiting.push({ takenBytes: this.bytesWritten, callback });
    this.#tellTaken();
  }

  pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** FIN after what was written. */
  end(): void {
    this.flush();
    this.#socket.end();
  }

  /** What was written is flushed, then FIN; what still comes is read and dropped, for a while. */
  linger(): void {
    if (this.#socket.destroyed) return;
    this.end();
    this.#isPaused = false;
    this.#socket.resume();
    const linger = setTimeout(() => this.#socket.destroy(), lingerMs);
    linger.unref();
    this.#socket.once('close', () => clearTimeout(linger));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #sendAll(pieces: readonly Buffer[]): void {
    const socket = this.#socket;
    if (pieces.length > 1) socket.cork();
    for (const piece of pieces) this.#send(piece);
    if (pieces.length > 1) socket.uncork();
    this.#isSlow = socket.writableLength > 0;
  }

  #send(piece: Buffer): void {
    const block = this.#blocks.retain(piece);
    if (block !== null && !this.#isBetterCopied(piece, block)) {
      this.#inFlight.push(block);
      this.#socket.write(piece, this.#onWritten);
      return;
    }
    this.#held.add(piece.length);
    this.#inFlight.push(piece.length);
    this.#socket.write(block === null ? piece : Buffer.from(piece), this.#onWritten);
    if (block !== null) this.#blocks.release(block);
  }

  #isBetterCopied(piece: Buffer, block: Block): boolean {
    // What TLS writes is only done later: for a few bytes the next read would need another block.
    if (this.#direct === null && piece.length <= mergedBytesMax) return true;
    return piece.length * keptPart < block.bytes.length && this.#socket.writableLength > 0;
  }

  #tellTaken(): void {
    const socket = this.#socket;
    // A stream that was destroyed has dropped what it had, which the kernel may still read from.
    if (this.#waiting.length === 0 || socket.destroyed) return;
    const takenBytes = this.bytesWritten - socket.writableLength;
    while (this.#waiting[0] !== undefined && this.#waiting[0].takenBytes <= takenBytes) {
      this.#waiting.shift()?.callback();
    }
  }

  #tellDrain(): void {
    if (!this.#wasFull || this.#unsentBytes > 0) return;
    this.#wasFull = false;
    this.#events.onDrain();
  }

  #releaseInFlight(): void {
    for (let index = 0; index < this.#inFlight.length; index++) {
      this.#release(this.#inFlight[index] ?? 0);
      this.#inFlight[index] = 0;
    }
  }

  #release(written: Block | number): void {
    if (typeof written !== 'number') this.#blocks.release(written);
    else if (written > 0) this.#held.remove(written);
  }

  #releaseAll(): void {
    this.#releaseInFlight();
    this.#reader.release();
  }

  /** The socket to use from now on, read into blocks where that can be. */
  #readIntoBlocks(socket: Socket): Socket {
    const handle = (socket as SocketWithHandle)._handle;
    const isReady = !(socket.destroyed || socket.connecting || socket.readableLength > 0);
    if (isReady && typeof handle?.useUserBuffer === 'function') {
      if (socket instanceof TLSSocket && this.#readRecordsIntoBlocks(socket, handle)) return socket;
      if (Object.getPrototypeOf(socket) === Socket.prototype) {
        return this.#replace(socket as SocketWithHandle, handle);
      }
    }
    socket.on('data', (chunk: Buffer) => this.#events.onChunk(chunk));
    return socket;
  }

  /** A socket on the same handle, which Node reads into what it is given. */
  #replace(from: SocketWithHandle, handle: Handle): Socket {
    handle.readStop?.();
    handle.reading = false;
    from._handle = null;
    const options = {
      handle,
      allowHalfOpen: true,
      pauseOnCreate: true,
      onread: {
        buffer: () => this.#reader.next(),
        callback: (count: number) => this.#onRead(count),
      },
    };
    const own: Socket = new Socket(options as object);
    if (handle.fd !== undefined && handle.fd >= 0) this.#direct = new DirectWrite(own, handle.fd);
    const { server } = from;
    // Its server counts it as closed when this one is.
    Object.assign(own, { server, _server: from._server });
    return own;
  }

  /**
   * The same for TLS, whose handle has more to it than another socket could take over: what
   * `onread` would have set is set now. False when this Node has other names for it.
   */
  #readRecordsIntoBlocks(socket: TLSSocket, handle: Handle): boolean {
    const names = Object.getOwnPropertySymbols(socket);
    const [buffer, callback, next] = ['kBuffer', 'kBufferCb', 'kBufferGen'].map((name) =>
      names.find(({ description }) => description === name),
    );
    if (buffer === undefined || callback === undefined || next === undefined) return false;
    const first = this.#reader.next();
    Object.assign(socket, {
      [buffer]: first,
      [callback]: (count: number) => this.#onRead(count),
      [next]: () => this.#reader.next(),
    });
    handle.useUserBuffer?.(first);
    return true;
  }

  #onRead(count: number): boolean {
    this.#reader.onRead(count);
    return true;
  }
}
