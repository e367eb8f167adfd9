// Opens the upstream connection of a client: to the broker behind a virtual broker, or, for the
// bootstrap listener and the link node, to any that answers. Owns the choice and the time limit;
// refuses to know what is sent. Invariant: a connection either comes back open or the error names
// where it was tried.
import { connect, type Socket } from 'node:net';
import type { BrokerInfo, Cluster } from '../cluster/cluster.ts';
import { connectTimeoutMs, socketBufferBytes } from './limits.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

export class Dialer {
  readonly #cluster: Cluster;
  readonly #broker: (nodeId: number) => BrokerInfo | undefined;
  readonly #brokers: () => Iterable<BrokerInfo>;
  /** Spreads the clients of the bootstrap listener and of the link node over the brokers. */
  #turn = 0;

  constructor(options: {
    cluster: Cluster;
    broker(nodeId: number): BrokerInfo | undefined;
    brokers(): Iterable<BrokerInfo>;
  }) {
    this.#cluster = options.cluster;
    this.#broker = options.broker;
    this.#brokers = options.brokers;
  }

  async toBroker(nodeId: number): Promise<Socket> {
    const broker = this.#broker(nodeId);
    if (broker === undefined) throw new Error(`broker ${nodeId} is not in the destination`);
    return open(this.#cluster.reach(broker.host, broker.port));
  }

  /** Any live broker: known ones in turn, then the configured bootstrap servers. */
  async toAny(): Promise<Socket> {
    const known = [...this.#brokers()].map(({ host, port }) => this.#cluster.reach(host, port));
    const start = known.length === 0 ? 0 : this.#turn++ % known.length;
    const inTurn = [...known.slice(start), ...known.slice(0, start)];
    const candidates = new Map<string, Address>();
    for (const address of [...inTurn, ...this.#cluster.bootstrap]) {
      candidates.set(`${address.host}:${address.port}`, address);
    }
    const failures: string[] = [];
    for (const address of candidates.values()) {
      try {
        return await open(address);
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
    }
    throw new Error(`no broker of the destination can be reached (${failures.join('; ')})`);
  }
}

function open({ host, port }: Address): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const options = {
      host,
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      highWaterMark: socketBufferBytes,
    };
    const socket = connect(options);
    const timer = setTimeout(() => {
      socket.destroy(new Error(`connecting to ${host}:${port} took over ${connectTimeoutMs} ms`));
    }, connectTimeoutMs);
    socket.once('connect', () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
  });
}
