// A long line: passes bytes on to a local port so many milliseconds later, there and back together,
// and no more of them per second than a rate, each direction by itself for all connections. `node
// distant-relay.js TARGET_PORT ROUND_TRIP_MS BYTES_PER_SECOND` prints its port. Invariant: what is
// on the line is bounded; a sender that is faster waits.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

const [targetPort = 0, roundTripMs = 0, bytesPerSecond = 1] = process.argv.slice(2).map(Number);
const delayMs = roundTripMs / 2;
const lineBytesMax = (bytesPerSecond * delayMs) / 1000 + (4 << 20);

interface Flight {
  readonly chunk: Buffer | null;
  readonly to: Socket;
  readonly from: Socket;
  readonly dueMs: number;
}

class Line {
  readonly #flights: Flight[] = [];
  #freeAtMs = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #paused = new Set<Socket>();

  /** Null is the end of what `from` says. */
  send(from: Socket, to: Socket, chunk: Buffer | null): void {
    const nowMs = performance.now();
    const bytes = chunk?.length ?? 0;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + (bytes * 1000) / bytesPerSecond;
    this.#flights.push({ chunk, to, from, dueMs: this.#freeAtMs + delayMs });
    this.#bytes += bytes;
    if (this.#bytes > lineBytesMax) {
      from.pause();
      this.#paused.add(from);
    }
    this.#arm();
  }

  #arm(): void {
    const first = this.#flights[0];
    if (first === undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#arrive(), Math.max(0, first.dueMs - performance.now()));
  }

  #arrive(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    for (let first = this.#flights[0]; first && first.dueMs <= nowMs; first = this.#flights[0]) {
      this.#flights.shift();
      const { chunk, to } = first;
      this.#bytes -= chunk?.length ?? 0;
      if (to.destroyed) continue;
      if (chunk === null) to.end();
      else to.write(chunk);
    }
    if (this.#bytes <= lineBytesMax) {
      for (const socket of this.#paused) socket.resume();
      this.#paused.clear();
    }
    this.#arm();
  }
}

const there = new Line();
const back = new Line();

function pass(from: Socket, to: Socket, line: Line): void {
  from.on('data', (chunk: Buffer) => line.send(from, to, chunk));
  from.on('end', () => line.send(from, to, null));
  from.on('error', () => to.destroy());
}

const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
  const upstream = connect({ port: targetPort, host: '127.0.0.1', noDelay: true });
  upstream.allowHalfOpen = true;
  pass(client, upstream, there);
  pass(upstream, client, back);
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
