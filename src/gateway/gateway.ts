// The gateway as the rest of the service sees it: started with the cluster, the directory of our
// topics and the durable ports; then it serves clients until it is closed. Owns the sessions, the
// periodic look at the destination's brokers, and the log line of each connection. Invariant:
// nothing is answered before every known port is bound.
import type { Socket } from 'node:net';
import { type Cluster, ClusterError, type ClusterMetadata } from '../cluster/cluster.ts';
import type { ClusterSecurity } from '../cluster/security.ts';
import type { CausewayConfig } from '../config/config.ts';
import type { Events } from '../observe/events.ts';
import { StateError } from '../state/state.ts';
import { type BypassGroup, BypassWatch } from './bypass-watch.ts';
import { ownerOf } from './client-principal.ts';
import { ClientSession } from './client-session.ts';
import { ConnectionBudget } from './connection-budget.ts';
import { DelegationTokens } from './delegation-tokens.ts';
import { Dialer } from './dialer.ts';
import { GatewayError } from './gateway-error.ts';
import {
  type Endpoint,
  type GatewayServices,
  type GroupGate,
  type ListenerRole,
  openGate,
} from './handler.ts';
import { createHandlers, createInspectors } from './handler-table.ts';
import { HeldBytes } from './held-bytes.ts';
import { connectionsMax, partialRequestBytesMax } from './limits.ts';
import type { ClientAddress } from './listener.ts';
import { ListenerTls } from './listener-tls.ts';
import { OwnTopics } from './own-topics.ts';
import { ReadMemory } from './read-memory.ts';
import { ReceiveBlocks } from './receive-blocks.ts';
import { IntakeBudget } from './request-intake.ts';
import { Router } from './router.ts';
import type { SessionSummary } from './session-options.ts';
import { SessionWatch } from './session-watch.ts';
import type { TopicDirectory } from './topic-directory.ts';
import { UpstreamAddresses } from './upstream-addresses.ts';
import { type UpstreamIdentity, UpstreamLogins } from './upstream-identity.ts';
import { VerdictBudget } from './verdict-budget.ts';
import { type NodePorts, VirtualBrokers } from './virtual-brokers.ts';

export interface GatewayOptions {
  readonly config: CausewayConfig['gateway'];
  readonly cluster: Cluster;
  readonly directory: TopicDirectory;
  /** Default: groups are never held. */
  readonly groupGate?: GroupGate;
  readonly ports: NodePorts;
  readonly events: Events;
  /** How the destination's brokers are reached; default: without TLS. */
  readonly security?: ClusterSecurity;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  /** Each connection when it opens and when it has ended; default: an event for the end. */
  readonly onConnection?: (phase: 'opened' | 'closed', connection: ConnectionFields) => void;
  /** Names the state topic (`__NAME_state`), which clients may not change; default `causeway`. */
  readonly instanceName?: string;
  readonly refreshIntervalMs?: number;
  readonly requestBytesMax?: number;
  /** How long a client may stay without a request; default: `silentMsMax` of the limits. */
  readonly silentMsMax?: number;
  /** How long a peer may neither take nor give what has to move; likewise. */
  readonly stalledMsMax?: number;
}

export type ConnectionFields = Readonly<Record<string, string | number | boolean | null>>;

export interface GatewayStats {
  readonly connections: number;
  readonly bytesFromClientsTotal: number;
  readonly bytesToClientsTotal: number;
  /** Of answers and requests, for all clients together; limited by `heldBytesMax`. */
  readonly heldBytes: number;
  /** Connections that were ended because a peer was gone without a word. */
  readonly vanishedTotal: number;
}

export interface Gateway {
  /** Ports are bound and the destination answered the last time it was asked. */
  readonly isReady: boolean;
  readonly bootstrapPort: number;
  readonly clusterId: string;
  /** When the certificate of the listeners ends; null without TLS. */
  readonly certificateExpiresTimeMs: number | null;
  readonly stats: GatewayStats;
  /** Groups on topics of ours whose members come past us. */
  readonly bypassGroups: readonly BypassGroup[];
  /** All nodes that can be advertised, the link node included. */
  endpoints(): readonly Endpoint[];
  /** Stops accepting, lets answers that are due go out, then ends what is left. */
  close(options?: { drainMs?: number }): Promise<void>;
}

const ownTopicPrefix = '__causeway';
const refreshIntervalMsDefault = 10_000;
const drainMsDefault = 2_000;

/** @throws GatewayError, or ClusterError when the destination does not answer. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const metadata = await options.cluster.metadata('all');
  const { clusterId } = metadata;
  if (clusterId === null) {
    throw new GatewayError('NO_CLUSTER_ID', 'the destination does not tell its cluster id');
  }
  const { config, events } = options;
  const tls = config.tls && (await ListenerTls.load({ config: config.tls, events }));
  const gateway = new RunningGateway(options, { clusterId, tls });
  try {
    await gateway.start(metadata);
  } catch (error) {
    tls?.close();
    throw error;
  }
  return gateway;
}

class RunningGateway implements Gateway {
  readonly clusterId: string;
  readonly #options: GatewayOptions;
  readonly #tls: ListenerTls | undefined;
  readonly #brokers: VirtualBrokers;
  readonly #dialer: Dialer;
  readonly #bypass: BypassWatch;
  readonly #logins: UpstreamLogins;
  readonly #services: GatewayServices;
  readonly #ownTopics: OwnTopics;
  readonly #router: Router;
  readonly #sessions = new Set<ClientSession>();
  readonly #watch: SessionWatch<ClientSession>;
  readonly #intakeBudget = new IntakeBudget(partialRequestBytesMax);
  readonly #blocks = new ReceiveBlocks();
  readonly #budget: ConnectionBudget;
  #refreshTimer: NodeJS.Timeout | undefined;
  #isRefreshing = false;
  #isDestinationUp = false;
  /** What is wrong when another cluster answers at the destination's addresses. */
  #foreign: string | null = null;
  #isClosed = false;
  #bytesFromClosed = 0;
  #bytesToClosed = 0;

  constructor(
    options: GatewayOptions,
    { clusterId, tls }: { clusterId: string; tls: ListenerTls | undefined },
  ) {
    this.clusterId = clusterId;
    this.#tls = tls;
    this.#options = options;
    const { config, events, ports, cluster, directory } = options;
    const perAddressMax = config.connectionsPerAddressMax;
    this.#budget = new ConnectionBudget({ connectionsMax, perAddressMax });
    this.#watch = new SessionWatch(options);
    this.#brokers = new VirtualBrokers({
      config,
      events,
      ports,
      tls,
      admit: ({ host }) => this.#unserved ?? this.#budget.take(host),
      onDropped: ({ host }) => this.#budget.release(host),
      onSocket: (role, socket, client) => this.#accept(role, socket, client),
      onRefused: (role, client, reason) => this.#onRefused(role, client, reason),
    });
    const brokers = this.#brokers;
    const addresses = new UpstreamAddresses(config.upstreamAddresses);
    this.#bypass = new BypassWatch({ cluster, directory, events, addresses });
    this.#dialer = new Dialer({
      addresses,
      cluster,
      broker: (nodeId) => brokers.broker(nodeId),
      brokers: () => brokers.brokers(),
      security: options.security,
    });
    this.#services = {
      directory,
      groupGate: options.groupGate ?? openGate,
      events,
      clusterId,
      held: new HeldBytes(),
      readMemory: new ReadMemory(),
      verdicts: new VerdictBudget(),
      linkNodeId: config.linkNodeId,
      ownTopicPrefix,
      endpoint: (nodeId) => brokers.endpoint(nodeId),
      ensureEndpoints: (found) => brokers.ensure(found),
      now: options.now ?? ((): number => performance.now()),
    };
    const { now } = this.#services;
    this.#logins = new UpstreamLogins({ tokens: new DelegationTokens({ cluster, now }), now });
    const instanceName = options.instanceName ?? 'causeway';
    this.#ownTopics = new OwnTopics(ownTopicPrefix, `__${instanceName}_`);
    const inspectors = createInspectors(this.#ownTopics);
    this.#router = new Router(createHandlers(this.#ownTopics), inspectors);
  }

  async start(metadata: ClusterMetadata): Promise<void> {
    for (const { name, topicId } of metadata.topics.values()) this.#ownTopics.learn(name, topicId);
    await this.#brokers.start(metadata.brokers);
    this.#isDestinationUp = true;
    const intervalMs = this.#options.refreshIntervalMs ?? refreshIntervalMsDefault;
    this.#refreshTimer = setInterval(() => {
      this.#watch.look(this.#sessions, this.#services.now());
      void this.#refresh();
    }, intervalMs);
    this.#bypass.start();
  }

  get isReady(): boolean {
    return !this.#isClosed && this.#isDestinationUp;
  }

  get certificateExpiresTimeMs(): number | null {
    return this.#tls?.expiresTimeMs ?? null;
  }

  get bootstrapPort(): number {
    return this.#brokers.bootstrapPort;
  }

  get stats(): GatewayStats {
    let bytesFromClientsTotal = this.#bytesFromClosed;
    let bytesToClientsTotal = this.#bytesToClosed;
    for (const session of this.#sessions) {
      bytesFromClientsTotal += session.bytesFromClient;
      bytesToClientsTotal += session.bytesToClient;
    }
    return {
      connections: this.#sessions.size,
      bytesFromClientsTotal,
      bytesToClientsTotal,
      heldBytes: this.#services.held.usedBytes,
      vanishedTotal: this.#watch.vanishedTotal,
    };
  }

  get bypassGroups(): readonly BypassGroup[] {
    return this.#bypass.groups;
  }

  endpoints(): readonly Endpoint[] {
    return this.#brokers.endpoints();
  }

  async close({ drainMs = drainMsDefault }: { drainMs?: number } = {}): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#refreshTimer);
    this.#brokers.close();
    this.#tls?.close();
    this.#bypass.close();
    const reason = 'the proxy is stopping';
    for (const session of this.#sessions) session.shutdown(reason);
    const deadlineMs = this.#services.now() + drainMs;
    while (this.#sessions.size > 0 && this.#services.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    for (const session of this.#sessions) session.destroy(reason);
  }

  /** Why nobody is served. */
  get #unserved(): string | null {
    return this.#isClosed ? 'the proxy is stopping' : this.#foreign;
  }

  #accept(role: ListenerRole, socket: Socket, { host, name: client }: ClientAddress): void {
    const refuse = (reason: string): void => {
      socket.destroy();
      this.#budget.release(host);
      this.#onRefused(role, client, reason);
    };
    // A TLS handshake takes a while.
    if (this.#unserved !== null) {
      refuse(this.#unserved);
      return;
    }
    let identity: UpstreamIdentity | undefined;
    try {
      identity = this.#identityOf(socket);
    } catch (error) {
      refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    const dial = (): Promise<Socket> =>
      role.kind === 'broker' ? this.#dialer.toBroker(role.nodeId) : this.#dialer.toAny();
    const connect = (): Promise<Socket> => this.#connect(dial, identity);
    const { requestBytesMax } = this.#options;
    const session: ClientSession = new ClientSession(socket, {
      client,
      role,
      services: this.#services,
      router: this.#router,
      connect,
      identity,
      onClosed: (summary) => this.#onClosed(role, session, summary),
      // Not before: who is ended and keeps its side open would be no connection until then.
      onGone: () => this.#budget.release(host),
      intakeBudget: this.#intakeBudget,
      blocks: this.#blocks,
      ...(requestBytesMax === undefined ? {} : { requestBytesMax }),
    });
    this.#sessions.add(session);
    this.#watch.came(session, this.#services.now());
    this.#options.onConnection?.('opened', { client, listener: describeRole(role) });
  }

  /** By its certificate, where that is what the configuration says. */
  #identityOf(socket: Socket): UpstreamIdentity | undefined {
    const mapping = this.#options.config.tls?.principalMapping;
    const owner = mapping === undefined ? null : ownerOf(socket, mapping);
    return owner === null ? undefined : this.#logins.identity(owner);
  }

  /** Opens the upstream; a client that cannot be given its principal is told of in one line. */
  async #connect(
    dial: () => Promise<Socket>,
    identity: UpstreamIdentity | undefined,
  ): Promise<Socket> {
    if (identity === undefined) return dial();
    try {
      return await identity.connect(dial);
    } catch (error) {
      const { principal } = identity;
      const reason = error instanceof Error ? error.message : String(error);
      const message = `a client cannot be ${principal} at the destination: ${reason}`;
      this.#options.events.warn('principal_refused', message, { principal, reason });
      throw error;
    }
  }

  #onRefused(role: ListenerRole, client: string, reason: string): void {
    const fields = { client, listener: describeRole(role), reason };
    const message = `a connection of ${client} was ended: ${reason}`;
    this.#options.events.warn('connection_refused', message, fields);
  }

  /** Clients must not mix two clusters: offsets, epochs and topic ids mean other things there. */
  #turnAway(reason: string): void {
    this.#isDestinationUp = false;
    if (this.#foreign === reason) return;
    this.#foreign = reason;
    this.#options.events.error('destination_changed', `No client is served: ${reason}.`);
    for (const session of this.#sessions) session.shutdown(reason);
  }

  #onClosed(role: ListenerRole, session: ClientSession, summary: SessionSummary): void {
    this.#sessions.delete(session);
    this.#watch.left(session);
    this.#bytesFromClosed += summary.bytesFromClient;
    this.#bytesToClosed += summary.bytesToClient;
    const { isFault, ...fields } = { ...summary, listener: describeRole(role) };
    const { events, onConnection } = this.#options;
    if (isFault) {
      const message = `a connection of ${summary.client} was ended: ${summary.reason}`;
      events.warn('connection_refused', message, fields);
    }
    if (onConnection) onConnection('closed', fields);
    else events.info('connection_closed', `${summary.client}: ${summary.reason}`, fields);
  }

  /**
   * New brokers get a port before any client asks for them; vanished ones are no longer dialled.
   */
  async #refresh(): Promise<void> {
    if (this.#isRefreshing || this.#isClosed) return;
    this.#isRefreshing = true;
    const { cluster, events } = this.#options;
    try {
      const { brokers, clusterId } = await cluster.metadata([]);
      if (clusterId !== this.clusterId) {
        this.#turnAway(`the destination is cluster ${clusterId} now, not ${this.clusterId}`);
        return;
      }
      this.#foreign = null;
      await this.#brokers.follow(brokers);
      if (!this.#isDestinationUp) events.info('destination_reachable', 'the destination answers');
      this.#isDestinationUp = true;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (error instanceof GatewayError) {
        // The destination answers; a node of it cannot be served. Answers that name it end
        // connections.
        events.error('node_not_served', reason);
        return;
      }
      const message = `the list of brokers is not renewed: ${reason}`;
      const isExpected = error instanceof ClusterError || error instanceof StateError;
      if (!isExpected) events.error('gateway_fault', message);
      else if (this.#isDestinationUp && !this.#isClosed) {
        events.warn('destination_unreachable', message);
      }
      this.#isDestinationUp = false;
    } finally {
      this.#isRefreshing = false;
    }
  }
}

function describeRole(role: ListenerRole): string {
  return role.kind === 'broker' ? `broker ${role.nodeId}` : role.kind;
}
