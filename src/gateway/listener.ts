// One listening port. Owns the server; hands each accepted socket on. Invariant: sockets are
// half-open capable, so that a FIN from one side does not cut what the other still sends.
import { createServer, type Server, type Socket } from 'node:net';
import { socketBufferBytes } from './limits.ts';

export interface ListenerAddress {
  readonly host: string;
  /** 0 asks the system for one. */
  readonly port: number;
}

export class Listener {
  readonly #server: Server;
  readonly port: number;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  /** Rejects with the system's error (EADDRINUSE ...) when the port cannot be bound. */
  static bind(address: ListenerAddress, onSocket: (socket: Socket) => void): Promise<Listener> {
    const options = {
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      highWaterMark: socketBufferBytes,
    };
    const server = createServer(options, onSocket);
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: address.host, port: address.port }, () => {
        const bound = server.address();
        const port = bound !== null && typeof bound === 'object' ? bound.port : address.port;
        resolve(new Listener(server, port));
      });
    });
  }

  /** Stops accepting. Connections that exist are their sessions' business. */
  close(): void {
    this.#server.close();
  }
}
