// Opens the upstream connection of a client: to the broker behind a virtual broker, or, for the
// bootstrap listener and the link node, to any that answers. Owns the choice and the time limit;
// refuses to know what is sent. Invariant: a connection either comes back open or the error names
// where it was tried.
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type Address, addressKey } from '../cluster/address.ts';
import type { BrokerInfo, Cluster } from '../cluster/cluster.ts';
import type { ClusterSecurity } from '../cluster/security.ts';
import { connectionError } from '../cluster/transport.ts';
import { connectTimeoutMs } from './limits.ts';
import { socketOptions } from './socket-options.ts';
import type { UpstreamAddresses } from './upstream-addresses.ts';

export class Dialer {
  readonly #cluster: Cluster;
  readonly #broker: (nodeId: number) => BrokerInfo | undefined;
  readonly #brokers: () => Iterable<BrokerInfo>;
  readonly #security: ClusterSecurity | undefined;
  readonly #addresses: UpstreamAddresses;
  /** Spreads the clients of the bootstrap listener and of the link node over the brokers. */
  #turn = 0;

  constructor(options: {
    cluster: Cluster;
    broker(nodeId: number): BrokerInfo | undefined;
    brokers(): Iterable<BrokerInfo>;
    security?: ClusterSecurity | undefined;
    /** Learns where connections come from. */
    addresses: UpstreamAddresses;
  }) {
    this.#addresses = options.addresses;
    this.#security = options.security;
    this.#cluster = options.cluster;
    this.#broker = options.broker;
    this.#brokers = options.brokers;
  }

  async toBroker(nodeId: number): Promise<Socket> {
    const broker = this.#broker(nodeId);
    if (broker === undefined) throw new Error(`broker ${nodeId} is not in the destination`);
    return this.#open(this.#cluster.reach(broker.host, broker.port));
  }

  /** Any live broker: known ones in turn, then the configured bootstrap servers. */
  async toAny(): Promise<Socket> {
    const known = [...this.#brokers()].map(({ host, port }) => this.#cluster.reach(host, port));
    const start = known.length === 0 ? 0 : this.#turn++ % known.length;
    const inTurn = [...known.slice(start), ...known.slice(0, start)];
    const candidates = new Map<string, Address>();
    for (const address of [...inTurn, ...this.#cluster.bootstrap]) {
      candidates.set(addressKey(address), address);
    }
    const failures: string[] = [];
    for (const address of candidates.values()) {
      try {
        return await this.#open(address);
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
    }
    throw new Error(`no broker of the destination can be reached (${failures.join('; ')})`);
  }

  async #open(address: Address): Promise<Socket> {
    try {
      const socket = await open(address, this.#security);
      this.#addresses.note(socket.localAddress);
      return socket;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      throw connectionError(address, error, { maybeSent: false });
    }
  }
}

async function open(address: Address, security: ClusterSecurity | undefined): Promise<Socket> {
  const { host, port } = address;
  if (!security?.usesTls) return opened(connect({ host, port, ...socketOptions }), 'connect');
  // Without a certificate of ours: the client says itself who it is.
  const options = await security.tlsOptions(address, 'client');
  return opened(connectTls({ ...options, ...socketOptions }), 'secureConnect');
}

function opened(socket: Socket, event: 'connect' | 'secureConnect'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy(new Error(`connecting took over ${connectTimeoutMs} ms`));
    }, connectTimeoutMs);
    const fail = (error: Error): void => {
      clearTimeout(timer);
      reject(error);
    };
    socket.once('error', fail);
    socket.once(event, () => {
      clearTimeout(timer);
      socket.off('error', fail);
      resolve(socket);
    });
  });
}
