// One listener for each broker of the destination under that broker's own node id, one for the link
// node, one for bootstrap. Owns the durable map of node ids to ports and what is behind each.
// Refuses to know the protocol. Invariants: an id keeps its port over restarts; a port is bound and
// recorded before any answer names it; every advertised host:port is distinct; the link node's id
// belongs to no broker. When the range is used up, brokers that are gone give up their ports, the
// longest gone first, and what is left without one has no endpoint: the others go on.
import type { Socket } from 'node:net';
import type { BrokerInfo } from '../cluster/cluster.ts';
import type { CausewayConfig } from '../config/config.ts';
import type { Events } from '../observe/events.ts';
import { GatewayError } from './gateway-error.ts';
import type { Endpoint, FoundBroker, ListenerRole } from './handler.ts';
import { type ClientAddress, Listener, type ListenerOptions } from './listener.ts';
import type { ListenerTls } from './listener-tls.ts';

/** The durable map, as the state keeps it. */
export interface NodePorts {
  load(): Readonly<Record<string, number>>;
  save(ports: Readonly<Record<string, number>>): Promise<void>;
}

export interface VirtualBrokersOptions extends Pick<ListenerOptions, 'admit' | 'onDropped'> {
  readonly config: CausewayConfig['gateway'];
  readonly ports: NodePorts;
  readonly events: Events;
  readonly tls?: ListenerTls | undefined;
  onSocket(role: ListenerRole, socket: Socket, client: ClientAddress): void;
  onRefused?(role: ListenerRole, client: string, reason: string): void;
}

/** Of the ports from which on a start, and each new broker, is told of loudly. */
const lowShare = 0.8;

export class VirtualBrokers {
  readonly #options: VirtualBrokersOptions;
  readonly #listeners = new Set<Listener>();
  /** Ports of all ids that ever were, also of brokers that are gone, while there are enough. */
  readonly #ports = new Map<number, number>();
  #isLowTold = false;
  /** Ids that can be named, with what listens for them. */
  readonly #bound = new Map<number, Listener>();
  readonly #brokers = new Map<number, BrokerInfo>();
  /** Ids with a port that the destination does not have, the longest gone first. */
  readonly #gone = new Set<number>();
  /** Ports that other programs hold, told of once. */
  readonly #heldElsewhere = new Set<number>();
  /** Brokers without a port, told of once. */
  readonly #unserved = new Set<number>();
  /** Additions run one after another. */
  #lastAddition: Promise<void> = Promise.resolve();
  #bootstrapPort = 0;
  #isClosed = false;

  constructor(options: VirtualBrokersOptions) {
    this.#options = options;
  }

  /**
   * Binds everything that is known: bootstrap, link node, recorded ids, the given brokers. A range
   * that is too small for what is there at first is refused; one that has served before is not.
   */
  async start(brokers: readonly BrokerInfo[]): Promise<void> {
    const { config, ports } = this.#options;
    this.#refuseLinkNodeId(brokers);
    for (const [nodeId, port] of Object.entries(ports.load())) {
      if (this.#isInRange(port)) this.#ports.set(Number(nodeId), port);
    }
    const isFirst = this.#ports.size === 0;
    // By id, so that on a new range the first port is the first broker's, and so on.
    const ids = brokers.map(({ nodeId }) => nodeId).sort((one, other) => one - other);
    try {
      this.#bootstrapPort = (await this.#bind(config.bootstrapPort, { kind: 'bootstrap' })).port;
      for (const [nodeId, port] of this.#ports) {
        this.#bound.set(nodeId, await this.#bind(port, this.#roleOf(nodeId)));
        if (nodeId !== config.linkNodeId && !ids.includes(nodeId)) this.#gone.add(nodeId);
      }
      const unserved = await this.#add([...ids, config.linkNodeId]);
      // Nothing of ours is reached without the link node's port.
      if (unserved.some((nodeId) => isFirst || nodeId === config.linkNodeId)) {
        throw new GatewayError('PORTS_USED_UP', this.#usedUp(unserved));
      }
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
    return [...this.#bound.keys()].flatMap((nodeId) => this.endpoint(nodeId) ?? []);
  }

  broker(nodeId: number): BrokerInfo | undefined {
    return this.#brokers.get(nodeId);
  }

  brokers(): Iterable<BrokerInfo> {
    return this.#brokers.values();
  }

  /**
   * What metadata says of brokers: new ones get a port while there are any, changed addresses are
   * followed. Those that got none are tried again with the next full list.
   */
  async ensure(brokers: readonly FoundBroker[]): Promise<void> {
    await this.#serve(brokers, ({ nodeId }) => !this.#unserved.has(nodeId));
  }

  /**
   * The full list of brokers. The ports of ids that it no longer has stay bound, connections are
   * closed.
   */
  async follow(brokers: readonly BrokerInfo[]): Promise<void> {
    const alive = new Set(brokers.map(({ nodeId }) => nodeId));
    for (const nodeId of this.#brokers.keys()) {
      if (alive.has(nodeId)) continue;
      this.#brokers.delete(nodeId);
      if (this.#bound.has(nodeId)) this.#gone.add(nodeId);
    }
    for (const nodeId of this.#unserved) if (!alive.has(nodeId)) this.#unserved.delete(nodeId);
    await this.#serve(brokers, () => true);
  }

  close(): void {
    this.#isClosed = true;
    for (const listener of this.#listeners) listener.close();
  }

  async #serve(
    brokers: readonly FoundBroker[],
    isWanted: (broker: FoundBroker) => boolean,
  ): Promise<void> {
    this.#refuseLinkNodeId(brokers);
    if (brokers.some((broker) => !this.#bound.has(broker.nodeId) && isWanted(broker))) {
      const ids = brokers.map(({ nodeId }) => nodeId);
      const addition = this.#lastAddition.then(() => this.#add(ids));
      // The next addition waits for this one, whatever came of it; its caller gets the error.
      this.#lastAddition = addition.then(
        () => undefined,
        () => undefined,
      );
      await addition;
    }
    for (const { isFenced, ...broker } of brokers) {
      if (isFenced !== true) this.#note(broker);
      else if (!this.#brokers.has(broker.nodeId) && this.#bound.has(broker.nodeId))
        this.#gone.add(broker.nodeId);
    }
  }

  #note(broker: BrokerInfo): void {
    const known = this.#brokers.get(broker.nodeId);
    // KIP-951 endpoints may lack the rack that metadata gave.
    const rack = broker.rack ?? known?.rack ?? null;
    this.#brokers.set(broker.nodeId, { ...broker, rack });
    this.#gone.delete(broker.nodeId);
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

  #roleOf(nodeId: number): ListenerRole {
    return nodeId === this.#options.config.linkNodeId
      ? { kind: 'link' }
      : { kind: 'broker', nodeId };
  }

  async #bind(port: number, role: ListenerRole): Promise<Listener> {
    try {
      return await this.#listen(port, role);
    } catch (cause) {
      throw notBound(port, role, cause);
    }
  }

  async #listen(port: number, role: ListenerRole): Promise<Listener> {
    const address = { host: this.#options.config.bind, port };
    const listener = await Listener.bind(address, {
      tls: this.#options.tls,
      admit: (client) => this.#options.admit(client),
      onDropped: (client) => this.#options.onDropped(client),
      onSocket: (socket, client) => this.#options.onSocket(role, socket, client),
      onRefused: (client, reason) => this.#options.onRefused?.(role, client, reason),
      onFault: (error) => {
        const message = `a connection to port ${port} could not be accepted: ${error.message}`;
        this.#options.events.warn('accept_failed', message, { port });
      },
    });
    if (this.#isClosed) {
      listener.close();
      throw new GatewayError('CLOSED', 'the gateway is closed');
    }
    this.#listeners.add(listener);
    return listener;
  }

  /**
   * Ports for new ids: bound, then recorded, then known to `endpoint`. Returns the ids for which
   * there was none.
   */
  async #add(nodeIds: readonly number[]): Promise<number[]> {
    const added = [...new Set(nodeIds)].filter((nodeId) => !this.#bound.has(nodeId));
    if (added.length === 0) return [];
    const listening = await this.#listenAndRecord(added, new Set(nodeIds));
    for (const [nodeId, listener] of listening) {
      this.#bound.set(nodeId, listener);
      this.#unserved.delete(nodeId);
      const { port } = listener;
      const message = `node ${nodeId} is served on port ${port}`;
      this.#options.events.info('node_port_bound', message, { node: nodeId, port });
    }
    this.#tellWhenLow();
    const unserved = added.filter((nodeId) => !this.#bound.has(nodeId));
    this.#tellUnserved(unserved);
    return unserved;
  }

  /**
   * All for which there is a port, or none when anything fails: what is not recorded is not served,
   * and its port is free again. So is one that was taken over on the way: whose it was is gone.
   */
  async #listenAndRecord(
    nodeIds: readonly number[],
    keep: ReadonlySet<number>,
  ): Promise<ReadonlyMap<number, Listener>> {
    const listening = new Map<number, Listener>();
    try {
      for (const nodeId of nodeIds) {
        const listener = await this.#bindFree(nodeId, keep);
        if (listener === null) continue;
        listening.set(nodeId, listener);
        this.#ports.set(nodeId, listener.port);
      }
      if (listening.size > 0) await this.#options.ports.save(Object.fromEntries(this.#ports));
    } catch (error) {
      for (const [nodeId, listener] of listening) {
        this.#ports.delete(nodeId);
        this.#close(listener);
      }
      throw error;
    }
    return listening;
  }

  #close(listener: Listener): void {
    this.#listeners.delete(listener);
    listener.close();
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

  /**
   * The lowest free port of the range, else that of a broker that is gone; one that another program
   * holds is passed over. Null: there is none.
   */
  async #bindFree(nodeId: number, keep: ReadonlySet<number>): Promise<Listener | null> {
    const { first, last } = this.#options.config.brokerPorts;
    const taken = new Set(this.#ports.values());
    const role = this.#roleOf(nodeId);
    for (let port = first; port <= last; port++) {
      if (taken.has(port) || !this.#isInRange(port)) continue;
      try {
        return await this.#listen(port, role);
      } catch (error) {
        if (!isAddressInUse(error)) throw notBound(port, role, error);
        if (this.#heldElsewhere.has(port)) continue;
        this.#heldElsewhere.add(port);
        const message = `port ${port} is held by another program and was passed over`;
        this.#options.events.warn('port_in_use', message, { port });
      }
    }
    return this.#takeOver(nodeId, keep);
  }

  /** Clients that still look for the old broker there refresh their metadata and find another. */
  async #takeOver(nodeId: number, keep: ReadonlySet<number>): Promise<Listener | null> {
    const gone = [...this.#gone].find((id) => !keep.has(id));
    const before = gone === undefined ? undefined : this.#bound.get(gone);
    if (gone === undefined || before === undefined) return null;
    const { port } = before;
    this.#gone.delete(gone);
    this.#bound.delete(gone);
    this.#ports.delete(gone);
    this.#close(before);
    const listener = await this.#bind(port, this.#roleOf(nodeId));
    const message = `port ${port} of node ${gone}, which is gone, is that of node ${nodeId} now`;
    this.#options.events.warn('node_port_taken_over', message, { node: nodeId, gone, port });
    return listener;
  }

  #tellUnserved(nodeIds: readonly number[]): void {
    const untold = nodeIds.filter((nodeId) => !this.#unserved.has(nodeId));
    if (untold.length === 0) return;
    for (const nodeId of untold) this.#unserved.add(nodeId);
    this.#options.events.error('broker_ports_used_up', this.#usedUp(untold), {
      nodes: untold.join(','),
    });
  }

  #usedUp(nodeIds: readonly number[]): string {
    const { first, last } = this.#options.config.brokerPorts;
    const range = `gateway.brokerPorts ${first}-${last} is used up`;
    return `${range}: no client can reach node ${nodeIds.join(', ')}; make the range larger`;
  }
}

function notBound(port: number, role: ListenerRole, cause: unknown): GatewayError {
  const what = role.kind === 'broker' ? `broker ${role.nodeId}` : `the ${role.kind} listener`;
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `port ${port} for ${what} cannot be bound: ${reason}`;
  return new GatewayError('PORT_IN_USE', message, { cause });
}

function isAddressInUse(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
}
