// A relay between a client and a broker that can drop answers to EndTxn, so that the outcome of a
// commit stays unknown to its writer. Knows just enough of a frame to find the API key.
import { connect as connectSocket, createServer, type Server, type Socket } from 'node:net';

export const endTxnKey = 26;

/**
 * A relay to one port that can drop answers to EndTxn, together with the connection, as a bad line
 * does.
 */
export class EndTxnRelay {
  dropsLeft = 0;
  droppedCount = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
    this.#server = createServer((client) => this.#accept(client));
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the relay has no port');
    return address.port;
  }

  /** As if the process behind it had been killed. */
  cut(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client: Socket): void {
    const broker = connectSocket(this.#port, '127.0.0.1');
    let isEndTxn = false;
    for (const socket of [client, broker]) {
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        client.destroy();
        broker.destroy();
        this.#sockets.delete(socket);
      });
    }
    // Our client writes whole requests, one at a time on this lane: a chunk begins with a frame.
    client.on('data', (chunk) => {
      isEndTxn = chunk.length > 6 && chunk.readInt16BE(4) === endTxnKey;
      broker.write(chunk);
    });
    broker.on('data', (chunk) => {
      if (isEndTxn && this.dropsLeft > 0) {
        this.dropsLeft--;
        this.droppedCount++;
        client.destroy();
        return;
      }
      client.write(chunk);
    });
  }
}
