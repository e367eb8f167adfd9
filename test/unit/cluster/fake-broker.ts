// A broker that says what a test tells it to: real sockets, no Kafka. Owns the listener and the
// frames; each API is answered by a function of the test, which may also stay silent, lie or hang
// up.
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import {
  type ApiVersionsResponse,
  createApiVersion,
  createApiVersionsResponse,
  encodeApiVersionsResponse,
} from '../../../protocol/generated/api-versions-response.ts';
import {
  decodeRequestHeader,
  encodeResponseFrame,
  Reader,
  type RequestHeader,
  type Writer,
} from '../../../protocol/index.ts';

export interface FakeRequest {
  readonly header: RequestHeader;
  readonly reader: Reader;
  readonly broker: FakeBroker;
}

export type FakeAnswer =
  | ((writer: Writer) => void)
  | { readonly correlationId: number; readonly encode: (writer: Writer) => void }
  | { readonly raw: Buffer }
  | 'silence'
  | 'hang up';

export type FakeHandler = (request: FakeRequest) => FakeAnswer;

const apiVersionsKey = 18;

export class FakeBroker {
  readonly handlers = new Map<number, FakeHandler>();
  /** Of every request, as they came: `key v version`. */
  readonly seen: string[] = [];
  connectionsCount = 0;
  /** Sends every byte on its own. */
  isDribbling = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port = 0;

  constructor(versions: Readonly<Record<number, readonly [number, number]>>, tls?: TlsOptions) {
    const accept = (socket: Socket): void => this.#accept(socket);
    this.#server = tls ? createTlsServer(tls, accept) : createServer(accept);
    this.handlers.set(apiVersionsKey, ({ header }) => {
      if (header.apiVersion > 4) throw new Error('not asked for by our client');
      return (writer) =>
        encodeApiVersionsResponse(writer, apiVersionsAnswer(versions), header.apiVersion);
    });
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  async listen(port = 0): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', resolve);
    });
    const address = this.#server.address();
    if (address !== null && typeof address !== 'string') this.#port = address.port;
  }

  /** Ends all connections, keeps listening. */
  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.dropConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #accept(socket: Socket): void {
    this.connectionsCount++;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let held = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      held = Buffer.concat([held, chunk]);
      while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
        const end = 4 + held.readInt32BE(0);
        this.#answer(socket, held.subarray(4, end));
        held = held.subarray(end);
      }
    });
  }

  #answer(socket: Socket, frame: Buffer): void {
    const reader = new Reader(frame);
    const header = decodeRequestHeader(reader);
    this.seen.push(`${header.apiKey} v${header.apiVersion}`);
    const handler = this.handlers.get(header.apiKey);
    const answer = handler?.({ header, reader, broker: this }) ?? 'hang up';
    if (answer === 'silence') return;
    if (answer === 'hang up') {
      socket.destroy();
      return;
    }
    for (const chunk of frameOf(header, answer)) this.#write(socket, chunk);
  }

  #write(socket: Socket, chunk: Buffer): void {
    if (!this.isDribbling) {
      socket.write(chunk);
      return;
    }
    for (let at = 0; at < chunk.length; at++) socket.write(chunk.subarray(at, at + 1));
  }
}

function frameOf(
  { apiKey, apiVersion, correlationId }: RequestHeader,
  answer: Exclude<FakeAnswer, string>,
): Buffer[] {
  if (typeof answer === 'function') {
    return encodeResponseFrame({ apiKey, apiVersion, correlationId }, answer);
  }
  if ('raw' in answer) return [answer.raw];
  const header = { apiKey, apiVersion, correlationId: answer.correlationId };
  return encodeResponseFrame(header, answer.encode);
}

export function apiVersionsAnswer(
  versions: Readonly<Record<number, readonly [number, number]>>,
): ApiVersionsResponse {
  const ranges = Object.entries({ [apiVersionsKey]: [0, 4] as const, ...versions });
  return createApiVersionsResponse({
    apiKeys: ranges.map(([key, [minVersion, maxVersion]]) =>
      createApiVersion({ apiKey: Number(key), minVersion, maxVersion }),
    ),
  });
}
