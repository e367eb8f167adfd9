// A TCP relay under one fixed address that can be pointed elsewhere: what a DNS name in
// `bootstrap.servers` does in real life. Passes bytes and knows nothing of Kafka. Pointing it
// elsewhere ends nothing: open connections live as long as their two ends do.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export class BootstrapRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: { host: string; port: number };

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((client) => this.#join(client));
  }

  static async start(target: string): Promise<BootstrapRelay> {
    const relay = new BootstrapRelay(parse(target));
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(0, '127.0.0.1', resolve);
    });
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** New connections go to `target` (host:port) from now on. */
  pointTo(target: string): void {
    this.#target = parse(target);
  }

  /** Ends every open connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(client: Socket): void {
    const upstream = connect(this.#target);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }
}

function parse(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}
