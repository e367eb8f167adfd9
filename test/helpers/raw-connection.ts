// One plain connection to one port, for tests of what exactly comes back, in which order, from
// which listener.
//
// Owns: the socket, frames in both directions, correlation ids. Knows nothing of nodes: it never
// follows a redirect and never looks at an answer. Invariant: answers are kept in the order in
// which they came, and each is decoded as the API and version that its correlation id was sent
// with, to its last byte.

import { connect, type Socket } from 'node:net';
import { decodeResponseHeader, encodeRequestFrame, Reader } from '../../protocol/index.ts';
import type { Api } from '../../src/cluster/cluster.ts';

export interface RawAnswer<Response = unknown> {
  readonly correlationId: number;
  readonly apiName: string;
  readonly version: number;
  readonly response: Response;
  /** Without the length in front. */
  readonly frame: Buffer;
}

interface Asked {
  readonly api: Api<never, unknown>;
  readonly version: number;
  settle(answer: RawAnswer): void;
  fail(error: Error): void;
}

export class RawConnection {
  /** Correlation ids in the order in which their answers arrived. */
  readonly arrivals: number[] = [];
  readonly #socket: Socket;
  readonly #asked = new Map<number, Asked>();
  #received: Buffer = Buffer.alloc(0);
  #nextCorrelationId = 1;
  #fault: Error | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#take(chunk));
    socket.on('error', (error) => this.#end(error));
    socket.on('close', () => this.#end(new Error('the connection was closed')));
  }

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, noDelay: true });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new RawConnection(socket));
      });
    });
  }

  /** Sends at once, whatever is still unanswered. */
  ask<Request, Response>(
    api: Api<Request, Response>,
    version: number,
    request: Request,
  ): Promise<RawAnswer<Response>> {
    const correlationId = this.#nextCorrelationId++;
    const header = { apiKey: api.key, apiVersion: version, correlationId, clientId: 'raw-test' };
    const frame = encodeRequestFrame(header, (writer) => api.encode(writer, request, version));
    return new Promise((resolve, reject) => {
      if (this.#fault) return reject(this.#fault);
      this.#asked.set(correlationId, {
        api,
        version,
        settle: (answer) => resolve(answer as RawAnswer<Response>),
        fail: reject,
      });
      this.#socket.write(Buffer.concat(frame));
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= 4) {
      const end = 4 + this.#received.readInt32BE(0);
      if (this.#received.length < end) return;
      this.#answer(Buffer.from(this.#received.subarray(4, end)));
      this.#received = this.#received.subarray(end);
    }
  }

  #answer(frame: Buffer): void {
    const correlationId = frame.readInt32BE(0);
    this.arrivals.push(correlationId);
    const asked = this.#asked.get(correlationId);
    this.#asked.delete(correlationId);
    if (asked === undefined) {
      this.#end(new Error(`answer ${correlationId} was not asked for, or came twice`));
      return;
    }
    const { api, version } = asked;
    try {
      const reader = new Reader(frame);
      decodeResponseHeader(reader, api.key, version);
      const response = api.decode(reader, version);
      if (reader.remaining > 0) throw new Error(`${reader.remaining} bytes are left over`);
      asked.settle({ correlationId, apiName: api.name, version, response, frame });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      asked.fail(new Error(`${api.name} v${version}, answer ${correlationId}: ${reason}`));
    }
  }

  #end(error: Error): void {
    this.#fault ??= error;
    for (const { fail, api } of this.#asked.values()) {
      fail(new Error(`${api.name}: ${this.#fault.message}`));
    }
    this.#asked.clear();
    this.#socket.destroy();
  }
}
