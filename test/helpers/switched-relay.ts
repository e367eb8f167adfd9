// A TCP relay whose target can be changed while it runs: another cluster at an address that clients
// know already.
//
// Owns: one listening port and the connections through it. Parses nothing. Invariant: after
// `switchTo` no byte comes from the target before.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { RelayTarget } from './recording-relay.ts';

export class SwitchedRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: RelayTarget;

  private constructor(target: RelayTarget) {
    this.#target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  static async start(target: RelayTarget): Promise<SwitchedRelay> {
    const relay = new SwitchedRelay(target);
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(0, '127.0.0.1', resolve);
    });
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  switchTo(target: RelayTarget): void {
    this.#target = target;
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(client: Socket): void {
    const server = connect({ host: this.#target.host, port: this.#target.port });
    client.pipe(server);
    server.pipe(client);
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      // A reset on one side ends the other; its reason is the test's own doing.
      one.on('error', () => other.destroy());
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
