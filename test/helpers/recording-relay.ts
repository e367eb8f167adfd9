// A TCP relay that remembers every byte which passed, in both directions: what a test compares a
// copy with.
//
// Owns: one listening port, the connections through it, and what each of them carried. Parses
// nothing (recorded-fetches.ts does, afterwards), so that it cannot be wrong in the way of what it
// watches. Invariant: a chunk is recorded before it is passed on, and recorded chunks are never
// reused.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What one connection carried, in order, each direction by itself. */
export interface RecordedConnection {
  readonly toServer: Buffer[];
  readonly toClient: Buffer[];
}

export interface RelayTarget {
  readonly host: string;
  readonly port: number;
}

export class RecordingRelay {
  readonly connections: RecordedConnection[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #target: RelayTarget;

  private constructor(target: RelayTarget) {
    this.#target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  static async start(target: RelayTarget): Promise<RecordingRelay> {
    const relay = new RecordingRelay(target);
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(0, '127.0.0.1', resolve);
    });
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #join(client: Socket): void {
    const server = connect({ host: this.#target.host, port: this.#target.port });
    const recorded: RecordedConnection = { toServer: [], toClient: [] };
    this.connections.push(recorded);
    this.#pass(client, server, recorded.toServer);
    this.#pass(server, client, recorded.toClient);
  }

  #pass(from: Socket, to: Socket, chunks: Buffer[]): void {
    this.#sockets.add(from);
    from.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (!to.write(chunk)) from.pause();
    });
    to.on('drain', () => from.resume());
    from.on('end', () => to.end());
    // A reset on one side ends the other; the reason is of no interest to whoever reads the
    // recording.
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
