// One listener for each broker of the destination under that broker's own node id, one for the link
// node, one for bootstrap. Owns the durable map of node ids to ports and what is behind each.
// Refuses to know the protocol. Invariants: an id keeps its port over restarts; a port is bound and
// recorded before any answer names it; every advertised host:port is distinct; the link node's id
// belongs to no broker.
import type { Socket } from 'node:net';
import type { BrokerInfo } from '../cluster/cluster.ts';
import type { CausewayConfig } from '../config/config.ts';
import type { Events } from '../observe/events.ts';
import { GatewayError } from './gateway-error.ts';
import type { Endpoint, ListenerRole } from './handler.ts';
import { Listener } from './listener.ts';
import type { ListenerTls } from './listener-tls.ts';

/** The durable map, as the state keeps it. */
export interface NodePorts {
  load(): Readonly<Record<string, number>>;
  save(ports: Readonly<Record<string, number>>): Promise<void>;
}

export interface VirtualBrokersOptions {
  readonly config: CausewayConfig['gateway'];
  readonly ports: NodePorts;
  readonly events: Events;
  readonly tls?: ListenerTls | undefined;
  onSocket(role: ListenerRole, socket: Socket): void;
  onRefused?(role: ListenerRole, client: string, reason: string): void;
}

/** Of the ports from which on a start, and each new broker, is told of loudly. */
const lowShare = 0.8;

export class VirtualBrokers {
  readonly #options: VirtualBrokersOptions;
  readonly #listeners: Listener[] = [];
  /** Ports of all ids that ever were, also of brokers that are gone. */
  readonly #ports = new Map<number, number>();
  #isLowTold = false;
  readonly #bound = new Set<number>();
  readonly #brokers = new Map<number, BrokerInfo>();
  /** Additions run one after another. */
  #lastAddition: Promise<void> = Promise.resolve();
  #bootstrapPort = 0;
  #isClosed = false;

  constructor(options: VirtualBrokersOptions) {
    this.#options = options;
  }

  /** Binds everything that is known: bootstrap, link node, recorded ids, the given brokers. */
  async start(brokers: readonly BrokerInfo[]): Promise<void> {
    const { config, ports } = this.#options;
    this.#refuseLinkNodeId(brokers);
    for (const [nodeId, port] of Object.entries(ports.load())) {
      if (this.#isInRange(port)) this.#ports.set(Number(nodeId), port);
    }
    try {
      await this.#bind(config.bootstrapPort, { kind: 'bootstrap' });
      for (const nodeId of this.#ports.keys()) await this.#bindRecorded(nodeId);
      // By id, so that on a new range the first port is the first broker's, and so on.
      const ids = brokers.map(({ nodeId }) => nodeId).sort((one, other) => one - other);
      await this.#add([...ids, config.linkNodeId]);
      this.#tellWhenLow();
    } catch (error) {
      this.close();
      throw error;
    }
    for (const broker of brokers) this.#brokers.set(broker.nodeId, broker);
  }

  get bootstrapPort(): number {
    return this.#bootstrapPort;
  }

  endpoint(nodeId: number): Endpoint | undefined {
    const port = this.#ports.get(nodeId);
    if (port === undefined || !this.#bound.has(nodeId)) return undefined;
    const rack = this.#brokers.get(nodeId)?.rack ?? null;
    return { nodeId, host: this.#options.config.advertise, port, rack };
  }

  endpoints(): readonly Endpoint[] {
    return [...this.#bound].flatMap((nodeId) => this.endpoint(nodeId) ?? []);
  }

  broker(nodeId: number): BrokerInfo | undefined {
    return this.#brokers.get(nodeId);
  }

  brokers(): Iterable<BrokerInfo> {
    return this.#brokers.values();
  }

  /** What metadata says of brokers: new ones get a port, changed addresses are followed. */
  async ensure(brokers: readonly BrokerInfo[]): Promise<void> {
    this.#refuseLinkNodeId(brokers);
    const isNew = brokers.some(({ nodeId }) => !this.#bound.has(nodeId));
    if (isNew) {
      const ids = brokers.map(({ nodeId }) => nodeId);
      const addition = this.#lastAddition.then(() => this.#add(ids));
      // The next addition waits for this one, whatever came of it; its caller gets the error.
      this.#lastAddition = addition.then(
        () => undefined,
        () => undefined,
      );
      await addition;
    }
    for (const broker of brokers) this.#note(broker);
  }

  /**
   * Ids that the full list of brokers no longer has: their ports stay bound, connections are
   * closed.
   */
  retain(brokers: readonly BrokerInfo[]): void {
    const alive = new Set(brokers.map(({ nodeId }) => nodeId));
    for (const nodeId of this.#brokers.keys()) {
      if (!alive.has(nodeId)) this.#brokers.delete(nodeId);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const listener of this.#listeners) listener.close();
  }

  #note(broker: BrokerInfo): void {
    const known = this.#brokers.get(broker.nodeId);
    // KIP-951 endpoints may lack the rack that metadata gave.
    const rack = broker.rack ?? known?.rack ?? null;
    this.#brokers.set(broker.nodeId, { ...broker, rack });
  }

  #refuseLinkNodeId(brokers: readonly BrokerInfo[]): void {
    const { linkNodeId } = this.#options.config;
    if (!brokers.some(({ nodeId }) => nodeId === linkNodeId)) return;
    const message = `gateway.linkNodeId ${linkNodeId} is the id of a broker of the destination`;
    throw new GatewayError('LINK_NODE_ID_TAKEN', `${message}: choose one that no broker has`);
  }

  #isInRange(port: number): boolean {
    const { first, last } = this.#options.config.brokerPorts;
    return port >= first && port <= last && port !== this.#options.config.bootstrapPort;
  }

  async #bindRecorded(nodeId: number): Promise<void> {
    const port = this.#ports.get(nodeId) ?? 0;
    await this.#bind(port, this.#roleOf(nodeId));
    this.#bound.add(nodeId);
  }

  #roleOf(nodeId: number): ListenerRole {
    return nodeId === this.#options.config.linkNodeId
      ? { kind: 'link' }
      : { kind: 'broker', nodeId };
  }

  async #bind(port: number, role: ListenerRole): Promise<void> {
    try {
      await this.#listen(port, role);
    } catch (cause) {
      const what = role.kind === 'broker' ? `broker ${role.nodeId}` : `the ${role.kind} listener`;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `port ${port} for ${what} cannot be bound: ${reason}`;
      throw new GatewayError('PORT_IN_USE', message, { cause });
    }
  }

  async #listen(port: number, role: ListenerRole): Promise<void> {
    const address = { host: this.#options.config.bind, port };
    const listener = await Listener.bind(address, {
      tls: this.#options.tls,
      onSocket: (socket) => this.#options.onSocket(role, socket),
      onRefused: (client, reason) => this.#options.onRefused?.(role, client, reason),
      onFault: (error) => {
        const message = `a connection to port ${port} could not be accepted: ${error.message}`;
        this.#options.events.warn('accept_failed', message, { port });
      },
    });
    this.#listeners.push(listener);
    if (role.kind === 'bootstrap') this.#bootstrapPort = listener.port;
    if (this.#isClosed) {
      listener.close();
      throw new GatewayError('CLOSED', 'the gateway is closed');
    }
  }

  /** Ports for new ids: bound, then recorded, then known to `endpoint`. */
  async #add(nodeIds: readonly number[]): Promise<void> {
    const added = [...new Set(nodeIds)].filter((nodeId) => !this.#bound.has(nodeId));
    if (added.length === 0) return;
    for (const nodeId of added) this.#ports.set(nodeId, await this.#bindFree(nodeId));
    await this.#options.ports.save(Object.fromEntries(this.#ports));
    for (const nodeId of added) {
      this.#bound.add(nodeId);
      const port = this.#ports.get(nodeId) ?? 0;
      const message = `node ${nodeId} is served on port ${port}`;
      this.#options.events.info('node_port_bound', message, { node: nodeId, port });
    }
    this.#tellWhenLow();
  }

  /** Loud while there is time: without a port a new broker cannot be served. */
  #tellWhenLow(): void {
    const { first, last } = this.#options.config.brokerPorts;
    const usable = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter(
      (port) => this.#isInRange(port),
    ).length;
    const used = this.#ports.size;
    if (this.#isLowTold || used < usable * lowShare) return;
    this.#isLowTold = true;
    const message =
      `gateway.brokerPorts ${first}-${last}: ${used} of ${usable} ports have a node, ` +
      'make the range larger before brokers are added';
    this.#options.events.warn('broker_ports_low', message, { used, usable });
  }

  /** The lowest free port of the range; one that another program holds is passed over. */
  async #bindFree(nodeId: number): Promise<number> {
    const assigned = this.#ports.get(nodeId);
    if (assigned !== undefined) return assigned;
    const { first, last } = this.#options.config.brokerPorts;
    const taken = new Set(this.#ports.values());
    for (let port = first; port <= last; port++) {
      if (taken.has(port) || !this.#isInRange(port)) continue;
      try {
        await this.#listen(port, this.#roleOf(nodeId));
        return port;
      } catch (error) {
        if (!isAddressInUse(error)) throw error;
        const message = `port ${port} is held by another program and was passed over`;
        this.#options.events.warn('port_in_use', message, { port });
      }
    }
    const message = `gateway.brokerPorts ${first}-${last} is used up: node ${nodeId} needs a port`;
    this.#options.events.error('broker_ports_used_up', message, { node: nodeId });
    throw new GatewayError('PORTS_USED_UP', message);
  }
}

function isAddressInUse(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
}
