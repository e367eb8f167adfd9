// A TCP relay under one address that can be pointed elsewhere while it runs, with a hook for what
// becomes of the bytes.
//
// Owns: one listening port and the connections through it. Parses nothing, so that it cannot be
// wrong in the way of what it passes. Invariant: an end on one side is an end on the other, after
// what came before it; a reset ends both.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export interface RelayPlace {
  readonly host: string;
  readonly port: number;
}

/** A string is `host:port`. */
export type RelayTarget = RelayPlace | string;

export interface PassedDirection {
  /** Of the relay, from 0 on. */
  readonly connection: number;
  readonly direction: 'toServer' | 'toClient';
}

/** Moves bytes of one direction, with its backpressure, and the FIN behind them. */
export type PassBytes = (from: Socket, to: Socket, what: PassedDirection) => void;

export interface RelayOptions {
  readonly target: RelayTarget;
  /** Default: a free port of 127.0.0.1. */
  readonly listen?: RelayPlace;
  /** Default: as they come. */
  readonly pass?: PassBytes;
}

export const asTheyCome: PassBytes = (from, to) => {
  from.on('data', (chunk: Buffer) => {
    if (!to.write(chunk)) from.pause();
  });
  to.on('drain', () => from.resume());
  from.once('end', () => to.end());
};

const socketOptions = { noDelay: true, allowHalfOpen: true };

export class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #pass: PassBytes;
  #target: RelayPlace;
  #connectionsCount = 0;

  private constructor({ target, pass = asTheyCome }: RelayOptions) {
    this.#target = placeOf(target);
    this.#pass = pass;
    this.#server = createServer(socketOptions, (client) => this.#join(client));
  }

  static async start(options: RelayOptions): Promise<Relay> {
    const relay = new Relay(options);
    const { host, port } = options.listen ?? { host: '127.0.0.1', port: 0 };
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(port, host, resolve);
    });
    return relay;
  }

  get address(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `${address}:${port}`;
  }

  /** New connections go there from now on; open ones live as long as their two ends do. */
  pointTo(target: RelayTarget): void {
    this.#target = placeOf(target);
  }

  /** From then on no byte comes from the target before. */
  switchTo(target: RelayTarget): void {
    this.pointTo(target);
    this.cut();
  }

  /** Ends every open connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  #join(client: Socket): void {
    const { host, port } = this.#target;
    const server = connect({ host, port, ...socketOptions });
    const connection = this.#connectionsCount++;
    this.#carry(client, server, { connection, direction: 'toServer' });
    this.#carry(server, client, { connection, direction: 'toClient' });
  }

  #carry(from: Socket, to: Socket, what: PassedDirection): void {
    this.#sockets.add(from);
    this.#pass(from, to, what);
    // The reason of a reset is the test's own doing.
    from.on('error', () => to.destroy());
    from.once('close', () => {
      this.#sockets.delete(from);
      // After a FIN there may still be bytes on their way.
      if (!from.readableEnded) to.destroy();
    });
  }
}

function placeOf(target: RelayTarget): RelayPlace {
  if (typeof target !== 'string') return target;
  const colon = target.lastIndexOf(':');
  return { host: target.slice(0, colon), port: Number(target.slice(colon + 1)) };
}
