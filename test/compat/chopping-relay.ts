// A relay that hands on every byte, but cuts all writes at random sizes and lets the receiver run
// in between, so that no reader can rely on how bytes arrive. Both directions. Seeded.

import { connect, createServer, type Server, type Socket } from 'node:net';
import type { SeededRandom } from '../helpers/seeded-random.ts';

export interface ChoppingRelayOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly to: { readonly host: string; readonly port: number };
  readonly random: SeededRandom;
}

/** Small pieces often, large ones sometimes: a frame of megabytes must not take minutes. */
function pieceSize(random: SeededRandom, left: number): number {
  const limits = [7, 61, 1_500, 65_536];
  const limit = random.pick(limits);
  return Math.min(left, 1 + random.below(limit));
}

function chop(from: Socket, to: Socket, random: SeededRandom): void {
  from.on('data', (chunk: Buffer) => {
    from.pause();
    let position = 0;
    const next = (): void => {
      if (to.destroyed) return;
      if (position === chunk.length) {
        from.resume();
        return;
      }
      const size = pieceSize(random, chunk.length - position);
      const piece = chunk.subarray(position, position + size);
      position += size;
      to.write(piece, () => setImmediate(next));
    };
    next();
  });
  from.once('end', () => to.end());
  from.once('error', () => to.destroy());
  from.once('close', () => to.destroy());
}

export class ChoppingRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(options: ChoppingRelayOptions) {
    this.#server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
      const { host, port } = options.to;
      const target = connect({ host, port, noDelay: true, allowHalfOpen: true });
      for (const socket of [client, target]) {
        this.#sockets.add(socket);
        socket.once('close', () => this.#sockets.delete(socket));
      }
      chop(client, target, options.random);
      chop(target, client, options.random);
    });
  }

  static async start(options: ChoppingRelayOptions): Promise<ChoppingRelay> {
    const relay = new ChoppingRelay(options);
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(options.listen.port, options.listen.host, resolve);
    });
    return relay;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
