// The Cluster of cluster.ts over real connections: bootstrap, targets, versions, retries within a
// deadline. Refuses to know what requests are for, and never repeats one that may have been carried
// out, unless the broker itself said that it was not (wrong or loading coordinator, not the
// controller) or it only reads metadata. Invariant: every call ends by its deadline, later only by
// what a broker's quota has it wait; every repetition waits first.
import { ErrorCode } from '../../protocol/index.ts';
import type { KafkaClientSettings } from '../config/config.ts';
import type { ReferenceSources } from '../config/references.ts';
import { type Address, addressKey, formatAddress } from './address.ts';
import { AddressMap, parseAddress } from './address-map.ts';
import { fetchApi, findCoordinatorApi, metadataApi } from './apis.ts';
import {
  type Api,
  type BrokerInfo,
  type Cluster,
  ClusterError,
  type ClusterMetadata,
  type SendOptions,
  type Target,
  type VersionRange,
} from './cluster.ts';
import { type CoordinatorKind, Coordinators } from './coordinators.ts';
import type { FrameReceiver } from './frame-intake.ts';
import { type ClusterLimits, clusterLimitsDefault } from './limits.ts';
import { brokersOf, clusterMetadata, metadataRequest } from './metadata.ts';
import { pauseMs } from './pause.ts';
import { ConnectionPool } from './pool.ts';
import { ClusterSecurity } from './security.ts';
import { Ticker } from './ticker.ts';
import { transportFor } from './transport.ts';

export interface ClusterOptions {
  readonly bootstrapServers: readonly string[];
  /** advertised host:port -> reachable host:port */
  readonly addressMap?: Readonly<Record<string, string>>;
  /** Kafka client settings; security settings that are not supported are refused. */
  readonly client?: KafkaClientSettings;
  /** For values of `ssl.*` and `sasl.*` that are references; without it they are not resolved. */
  readonly references?: ReferenceSources;
  /** Default: `client.id` of the settings, else `causeway`. */
  readonly clientId?: string;
  readonly limits?: Partial<ClusterLimits>;
  /** Records are fetched from brokers of this cluster only: each connection is asked once. */
  readonly clusterId?: string | undefined;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  readonly random?: () => number;
}

interface Call<Request, Response> {
  readonly api: Api<Request, Response>;
  readonly request: Request | ((version: number) => Request);
  readonly lane: string;
  readonly versionMax: number | undefined;
  readonly into?: FrameReceiver | undefined;
  readonly deadlineMs: number;
}

const defaultLane = 'default';

const movedCodes: ReadonlySet<number> = new Set([
  ErrorCode.COORDINATOR_NOT_AVAILABLE,
  ErrorCode.NOT_COORDINATOR,
  ErrorCode.NOT_CONTROLLER,
]);

class ClusterClient implements Cluster {
  readonly bootstrap: readonly Address[];
  readonly #limits: ClusterLimits;
  readonly #ticker: Ticker;
  readonly #random: () => number;
  readonly #addressMap: AddressMap;
  readonly #clusterId: string | undefined;
  readonly #pool: ConnectionPool;
  readonly #coordinators = new Coordinators();
  readonly #closing = new AbortController();
  #brokers: readonly BrokerInfo[] = [];
  #controllerId: number | undefined;
  #areAddressesStale = false;

  constructor(options: ClusterOptions) {
    const security = new ClusterSecurity(options.client ?? {}, { references: options.references });
    this.#limits = { ...clusterLimitsDefault, ...options.limits };
    this.#ticker = new Ticker(options.now ?? (() => performance.now()), this.#limits.tickMs);
    this.#random = options.random ?? Math.random;
    this.#clusterId = options.clusterId;
    this.#addressMap = new AddressMap(options.addressMap ?? {}, {
      keepsNames: security.usesTls,
    });
    this.bootstrap = options.bootstrapServers.map((server) =>
      this.#addressMap.reach(parseAddress(server)),
    );
    if (this.bootstrap.length === 0) {
      throw new ClusterError('UNSUPPORTED', 'bootstrap.servers is empty', { maybeSent: false });
    }
    this.#pool = new ConnectionPool({
      transport: transportFor(security),
      login: () => security.login(),
      clientId: options.clientId ?? options.client?.['client.id'] ?? 'causeway',
      limits: this.#limits,
      ticker: this.#ticker,
      random: this.#random,
    });
  }

  get brokers(): readonly BrokerInfo[] {
    return this.#brokers;
  }

  reach(host: string, port: number): Address {
    return this.#addressMap.reach({ host, port });
  }

  async metadata(topics: 'all' | readonly string[]): Promise<ClusterMetadata> {
    const deadlineMs = this.#ticker.now() + this.#limits.requestTimeoutMs;
    return this.#metadata(topics, deadlineMs);
  }

  async apiVersions(nodeId?: number): Promise<ReadonlyMap<number, VersionRange>> {
    const deadlineMs = this.#ticker.now() + this.#limits.requestTimeoutMs;
    if (nodeId === undefined) {
      return this.#atAnyBroker(defaultLane, deadlineMs, async (address) => {
        const connection = await this.#pool.get(address, defaultLane, deadlineMs);
        return connection.versions;
      });
    }
    const address = await this.#addressOfNode(nodeId, deadlineMs);
    return (await this.#pool.get(address, defaultLane, deadlineMs)).versions;
  }

  async send<Request, Response>(
    target: Target,
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options: SendOptions = {},
  ): Promise<Response> {
    const timeoutMs = options.timeoutMs ?? this.#limits.requestTimeoutMs;
    const call: Call<Request, Response> = {
      api,
      request,
      lane: options.lane ?? defaultLane,
      versionMax: options.versionMax,
      into: options.into,
      deadlineMs: this.#ticker.now() + timeoutMs,
    };
    switch (target.kind) {
      case 'any':
        return this.#atAnyBroker(call.lane, call.deadlineMs, (address) =>
          this.#sendTo(address, call),
        );
      case 'node':
        return this.#sendToNode(target.nodeId, call);
      case 'controller':
        return this.#sendRouted(call, () => this.#controllerAddress(call.deadlineMs), {
          forget: () => {
            this.#controllerId = undefined;
          },
        });
      case 'group':
        return this.#sendToCoordinator(call, 'group', target.groupId);
      case 'transaction':
        return this.#sendToCoordinator(call, 'transaction', target.transactionalId);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#pool.close();
  }

  async #sendToNode<Request, Response>(
    nodeId: number,
    call: Call<Request, Response>,
  ): Promise<Response> {
    const address = await lookUp(() => this.#addressOfNode(nodeId, call.deadlineMs));
    try {
      return await this.#sendTo(address, call);
    } catch (error) {
      // It may have come back at another address.
      if (error instanceof ClusterError) this.#areAddressesStale = true;
      throw error;
    }
  }

  #sendToCoordinator<Request, Response>(
    call: Call<Request, Response>,
    kind: CoordinatorKind,
    key: string,
  ): Promise<Response> {
    const find = async (): Promise<Address | null> => {
      const broker = await this.#coordinators.lookUp(kind, key, (request) =>
        this.#readAnywhere(findCoordinatorApi, request, call.deadlineMs),
      );
      return broker && this.reach(broker.host, broker.port);
    };
    return this.#sendRouted(call, find, { forget: () => this.#coordinators.forget(kind, key) });
  }

  /** To the one broker that is in charge, found again whenever it turns out to be another one. */
  async #sendRouted<Request, Response>(
    call: Call<Request, Response>,
    find: () => Promise<Address | null>,
    memory: { forget(): void },
  ): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const isLast = this.#isLastAttempt(attempt, call.deadlineMs);
      try {
        const address = await lookUp(find);
        const response = await this.#sendTo(address, call);
        const codes = call.api.routingErrors?.(response) ?? [];
        const isMoved = codes.some((code) => movedCodes.has(code));
        if (isMoved) memory.forget();
        const isLoading = codes.includes(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS);
        if (isLast || !(isMoved || isLoading)) return response;
      } catch (error) {
        memory.forget();
        if (isLast || !wasNotSent(error)) throw error;
      }
      await this.#pauseBeforeRetry(attempt);
    }
  }

  #isLastAttempt(attempt: number, deadlineMs: number): boolean {
    return this.#ticker.now() + this.#retryWaitMs(attempt) >= deadlineMs;
  }

  #retryWaitMs(attempt: number): number {
    return Math.min(this.#limits.retryBackoffMs * 2 ** Math.min(attempt, 10), 1_000);
  }

  async #pauseBeforeRetry(attempt: number): Promise<void> {
    await pauseMs(this.#retryWaitMs(attempt) * (0.8 + 0.2 * this.#random()), this.#closing.signal);
    if (!this.#closing.signal.aborted) return;
    throw new ClusterError('CLOSED', 'the cluster client is closed', { maybeSent: false });
  }

  /** One attempt at one address; twice when the connection was closed before we could use it. */
  async #sendTo<Request, Response>(
    address: Address,
    call: Call<Request, Response>,
    timeoutMsMax = Number.POSITIVE_INFINITY,
  ): Promise<Response> {
    const isReused = this.#pool.isConnected(address, call.lane);
    try {
      return await this.#sendOnce(address, call, timeoutMsMax);
    } catch (error) {
      if (!isReused || !wasNotSent(error)) throw error;
      return this.#sendOnce(address, call, timeoutMsMax);
    }
  }

  async #sendOnce<Request, Response>(
    address: Address,
    call: Call<Request, Response>,
    timeoutMsMax: number,
  ): Promise<Response> {
    const connection = await this.#pool.get(address, call.lane, call.deadlineMs);
    // Behind an address there may be another cluster by now, and records say nothing of theirs.
    if (this.#clusterId !== undefined && call.api.key === fetchApi.key) {
      await connection.assertCluster(this.#clusterId);
    }
    const timeoutMs = Math.min(call.deadlineMs - this.#ticker.now(), timeoutMsMax);
    if (timeoutMs <= 0) {
      const message = `${formatAddress(address)}: no time left for ${call.api.name}`;
      throw new ClusterError('TIMEOUT', message, { maybeSent: false });
    }
    const version = connection.pickVersion(call.api, call.versionMax);
    const request =
      typeof call.request === 'function'
        ? (call.request as (version: number) => Request)(version)
        : call.request;
    try {
      return await connection.send(call.api, version, request, { timeoutMs, into: call.into });
    } catch (error) {
      if (error instanceof ClusterError && error.code === 'TIMEOUT') this.#pool.failed(address);
      throw error;
    }
  }

  /** Connected ones first, then those not in back-off, then those that are to wait the least. */
  #candidates(lane: string): Address[] {
    const unique = new Map<string, Address>();
    for (const { host, port } of this.#brokers) {
      const address = this.reach(host, port);
      unique.set(addressKey(address), address);
    }
    for (const address of this.bootstrap) unique.set(addressKey(address), address);
    const rank = (address: Address): number =>
      this.#pool.waitMs(address) +
      this.#pool.throttledMs(address, lane) -
      (this.#pool.isConnected(address, lane) ? 1 : 0);
    return [...unique.values()]
      .map((address) => ({ address, rank: rank(address), tie: this.#random() }))
      .sort((left, right) => left.rank - right.rank || left.tie - right.tie)
      .map(({ address }) => address);
  }

  /** Tries one broker after the other as long as nothing may have been carried out. */
  async #atAnyBroker<Result>(
    lane: string,
    deadlineMs: number,
    attempt: (address: Address, timeoutMsMax: number) => Promise<Result>,
    isRepeatable: (error: unknown) => boolean = wasNotSent,
  ): Promise<Result> {
    const faults: string[] = [];
    let last: unknown;
    const candidates = this.#candidates(lane);
    for (const [index, address] of candidates.entries()) {
      const leftMs = deadlineMs - this.#ticker.now();
      const share = Math.max(leftMs / (candidates.length - index), 1_000);
      try {
        return await attempt(address, share);
      } catch (error) {
        if (!isRepeatable(error)) throw error;
        last = error;
        faults.push(error instanceof Error ? error.message : String(error));
      }
      if (this.#ticker.now() >= deadlineMs) break;
    }
    const code = last instanceof ClusterError ? last.code : 'UNREACHABLE';
    const maybeSent = !wasNotSent(last);
    throw new ClusterError(code, faults.join('; '), { cause: last, maybeSent });
  }

  /** For requests that change nothing: any fault of a broker sends them to the next one. */
  #readAnywhere<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    deadlineMs: number,
  ): Promise<Response> {
    const call = { api, request, lane: defaultLane, versionMax: undefined, deadlineMs };
    return this.#atAnyBroker(
      defaultLane,
      deadlineMs,
      (address, timeoutMsMax) => this.#sendTo(address, call, timeoutMsMax),
      (error) => error instanceof ClusterError && error.code !== 'CLOSED',
    );
  }

  async #metadata(topics: 'all' | readonly string[], deadlineMs: number): Promise<ClusterMetadata> {
    const response = await this.#readAnywhere(metadataApi, metadataRequest(topics), deadlineMs);
    if (response.errorCode !== ErrorCode.NONE) {
      const message = `Metadata ended with error ${response.errorCode}`;
      throw new ClusterError('PROTOCOL', message, { maybeSent: true });
    }
    const brokers = brokersOf(response);
    if (brokers.length > 0) this.#brokers = brokers;
    this.#areAddressesStale = false;
    this.#controllerId = response.controllerId >= 0 ? response.controllerId : undefined;
    return clusterMetadata(response);
  }

  async #addressOfNode(nodeId: number, deadlineMs: number): Promise<Address> {
    const isNode = (broker: BrokerInfo): boolean => broker.nodeId === nodeId;
    let broker = this.#brokers.find(isNode);
    if (!broker || this.#areAddressesStale) {
      await this.#metadata([], deadlineMs);
      broker = this.#brokers.find(isNode);
    }
    if (!broker) {
      const message = `the cluster has no broker ${nodeId}`;
      throw new ClusterError('UNKNOWN_NODE', message, { maybeSent: false });
    }
    return this.reach(broker.host, broker.port);
  }

  async #controllerAddress(deadlineMs: number): Promise<Address | null> {
    if (this.#controllerId === undefined) await this.#metadata([], deadlineMs);
    if (this.#controllerId === undefined) return null;
    return this.#addressOfNode(this.#controllerId, deadlineMs);
  }
}

/** A fault while looking for the broker in charge: whatever was sent then, the request was not. */
async function lookUp(find: () => Promise<Address | null>): Promise<Address> {
  let address: Address | null;
  try {
    address = await find();
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    throw new ClusterError(error.code, error.message, { cause: error, maybeSent: false });
  }
  if (address) return address;
  const message = 'the broker in charge is not known at the moment';
  throw new ClusterError('UNREACHABLE', message, { maybeSent: false });
}

function wasNotSent(error: unknown): boolean {
  return (
    error instanceof ClusterError &&
    !error.maybeSent &&
    (error.code === 'UNREACHABLE' || error.code === 'TIMEOUT')
  );
}

/**
 * A client of one cluster. Nothing is sent before the first call; only settings are checked here.
 * @throws ClusterError UNSUPPORTED for a setting that this version cannot honour
 */
export function connectCluster(options: ClusterOptions): Cluster {
  return new ClusterClient(options);
}
