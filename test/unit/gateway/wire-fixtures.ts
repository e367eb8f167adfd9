// A broker and a client of a few lines each, on loopback, for tests of sessions: both speak whole
// frames and say what they saw. The broker answers ApiVersions by itself and everything else by a
// script. They build frames by hand where that is easy, so that they do not share faults with the
// code under test.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import {
  createApiVersion,
  createApiVersionsResponse,
  encodeApiVersionsResponse,
} from '../../../protocol/generated/api-versions-response.ts';
import {
  ApiKey,
  apis,
  decodeRequestHeader,
  encodeResponseFrame,
  Reader,
  type RequestHeader,
} from '../../../protocol/index.ts';

export interface SeenRequest {
  readonly header: RequestHeader;
  /** Without size prefix. */
  readonly frame: Buffer;
  readonly socket: Socket;
  /** Header of four bytes (version 0) and this body. */
  reply(body: Buffer): void;
}

function splitFrames(onFrame: (frame: Buffer) => void): (chunk: Buffer) => void {
  let held = Buffer.alloc(0);
  return (chunk) => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const size = held.readInt32BE(0);
      const frame = Buffer.from(held.subarray(4, 4 + size));
      held = held.subarray(4 + size);
      onFrame(frame);
    }
  };
}

export function frameOf(...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const prefix = Buffer.alloc(4);
  prefix.writeInt32BE(body.length);
  return Buffer.concat([prefix, body]);
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** A request with header version 1 (not flexible) and any body. */
export function requestFrame(
  header: { apiKey: number; apiVersion: number; correlationId: number; clientId?: string | null },
  body: Buffer = Buffer.alloc(0),
): Buffer {
  const fixed = Buffer.alloc(8);
  fixed.writeInt16BE(header.apiKey, 0);
  fixed.writeInt16BE(header.apiVersion, 2);
  fixed.writeInt32BE(header.correlationId, 4);
  const clientId = header.clientId === undefined ? 'test' : header.clientId;
  const length = Buffer.alloc(2);
  length.writeInt16BE(clientId === null ? -1 : clientId.length);
  return frameOf(fixed, length, Buffer.from(clientId ?? ''), body);
}

export class ScriptedBroker {
  readonly #server: Server;
  readonly sockets = new Set<Socket>();
  readonly seen: SeenRequest[] = [];
  receivedBytes = 0;
  endsSeen = 0;
  /** Called for everything but ApiVersions. */
  script: (request: SeenRequest) => void = () => undefined;
  onSocket: (socket: Socket) => void = () => undefined;

  private constructor() {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
      socket.on('error', () => socket.destroy());
      socket.on('end', () => {
        this.endsSeen++;
        socket.end();
      });
      const split = splitFrames((frame) => this.#serve(socket, frame));
      socket.on('data', (chunk: Buffer) => {
        this.receivedBytes += chunk.length;
        split(chunk);
      });
      this.onSocket(socket);
    });
  }

  static async start(): Promise<ScriptedBroker> {
    const broker = new ScriptedBroker();
    broker.#server.listen(0, '127.0.0.1');
    await once(broker.#server, 'listening');
    return broker;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  connect(): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port: this.port, allowHalfOpen: true });
    return new Promise((resolve, reject) => {
      socket.once('connect', () => resolve(socket));
      socket.once('error', reject);
    });
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket, frame: Buffer): void {
    const header = decodeRequestHeader(new Reader(frame));
    if (header.apiKey === ApiKey.ApiVersions) {
      const apiKeys = apis
        .filter(({ versionMax, versionMin }) => versionMax >= versionMin)
        .map((api) =>
          createApiVersion({
            apiKey: api.key,
            minVersion: api.versionMin,
            maxVersion: api.versionMax,
          }),
        );
      const chunks = encodeResponseFrame(header, (writer) =>
        encodeApiVersionsResponse(
          writer,
          createApiVersionsResponse({ apiKeys }),
          header.apiVersion,
        ),
      );
      socket.write(Buffer.concat(chunks));
      return;
    }
    const reply = (body: Buffer): void => {
      socket.write(frameOf(int32(header.correlationId), body));
    };
    const request = { header, frame, socket, reply };
    this.seen.push(request);
    this.script(request);
  }
}

export class RawClient {
  readonly socket: Socket;
  /** Response frames without size prefix, in order. */
  readonly frames: Buffer[] = [];
  receivedBytes = 0;
  hasEnded = false;
  isClosed = false;
  error: Error | undefined;

  constructor(socket: Socket, options: { keepsFrames?: boolean } = {}) {
    this.socket = socket;
    const split = splitFrames((frame) => this.frames.push(frame));
    socket.on('data', (chunk: Buffer) => {
      this.receivedBytes += chunk.length;
      if (options.keepsFrames !== false) split(chunk);
    });
    socket.on('end', () => {
      this.hasEnded = true;
    });
    socket.on('close', () => {
      this.isClosed = true;
    });
    socket.on('error', (error) => {
      this.error = error;
    });
  }

  get correlationIds(): number[] {
    return this.frames.map((frame) => frame.readInt32BE(0));
  }
}
