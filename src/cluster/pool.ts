// Connections by address and lane, made on demand and kept until they fail. Owns the back-off of
// addresses that failed, a longer one where we were refused. Refuses to know nodes and retries: one
// call makes at most one attempt to connect.
// Invariant: at most one connection per address and lane, and never more than the limit in all.
import { type Address, addressKey, formatAddress } from './address.ts';
import { Backoff } from './backoff.ts';
import { ClusterError } from './cluster.ts';
import { BrokerConnection } from './connection.ts';
import type { ClusterLimits } from './limits.ts';
import { pauseMs } from './pause.ts';
import type { Login } from './security.ts';
import type { Ticker } from './ticker.ts';
import type { Transport } from './transport.ts';

export interface PoolOptions {
  readonly transport: Transport;
  readonly login?: () => Promise<Login | null>;
  readonly clientId: string;
  readonly limits: ClusterLimits;
  readonly ticker: Ticker;
  readonly random: () => number;
}

interface Slot {
  readonly connection: BrokerConnection;
  readonly ready: Promise<BrokerConnection>;
}

export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #slots = new Map<string, Slot>();
  readonly #backoffs = new Map<string, Backoff>();
  /** Who was refused and why; until its back-off is over nobody knocks again. */
  readonly #refusals = new Map<string, { backoff: Backoff; error: ClusterError }>();
  readonly #closing = new AbortController();

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Connected on this lane already. */
  isConnected(address: Address, lane: string): boolean {
    const slot = this.#slots.get(`${lane}|${addressKey(address)}`);
    return slot !== undefined && slot.connection.versions.size > 0;
  }

  /** How long a quota of the broker holds what is sent on this lane. */
  throttledMs(address: Address, lane: string): number {
    return this.#slots.get(`${lane}|${addressKey(address)}`)?.connection.throttledMs ?? 0;
  }

  /** How long this address has to be left alone. */
  waitMs(address: Address): number {
    return this.#backoffs.get(addressKey(address))?.waitMs(this.#options.ticker.now()) ?? 0;
  }

  /** @throws ClusterError, always with maybeSent false */
  async get(address: Address, lane: string, deadlineMs: number): Promise<BrokerConnection> {
    const name = `${lane}|${addressKey(address)}`;
    const refusal = this.#refusals.get(addressKey(address));
    const isRefused = (refusal?.backoff.waitMs(this.#options.ticker.now()) ?? 0) > 0;
    if (refusal !== undefined && isRefused && !this.#slots.has(name)) throw refusal.error;
    const waitMs = this.#slots.has(name) ? 0 : this.waitMs(address);
    if (waitMs > 0) {
      const isTooLong = this.#options.ticker.now() + waitMs > deadlineMs;
      if (isTooLong) throw this.#unavailable(address);
      await pauseMs(waitMs, this.#closing.signal);
    }
    if (this.#closing.signal.aborted) {
      throw new ClusterError('CLOSED', 'the cluster client is closed', { maybeSent: false });
    }
    return (this.#slots.get(name) ?? this.#open(address, name)).ready;
  }

  /** A connected broker did not answer: stay away from its address for a while. */
  failed(address: Address): void {
    this.#backoff(address).failed(this.#options.ticker.now());
  }

  close(): void {
    this.#closing.abort();
    for (const { connection } of [...this.#slots.values()]) connection.close();
  }

  #open(address: Address, name: string): Slot {
    if (this.#slots.size >= this.#options.limits.connectionsMax) {
      const message = `more than ${this.#options.limits.connectionsMax} connections`;
      throw new ClusterError('UNREACHABLE', message, { maybeSent: false });
    }
    const connection: BrokerConnection = new BrokerConnection({
      address,
      transport: this.#options.transport,
      ...(this.#options.login ? { login: this.#options.login } : {}),
      clientId: this.#options.clientId,
      limits: this.#options.limits,
      ticker: this.#options.ticker,
      onClosed: () => {
        if (this.#slots.get(name)?.connection === connection) this.#slots.delete(name);
      },
    });
    const slot = { connection, ready: this.#ready(connection) };
    this.#slots.set(name, slot);
    return slot;
  }

  async #ready(connection: BrokerConnection): Promise<BrokerConnection> {
    try {
      await connection.open();
    } catch (error) {
      const isRefusal = error instanceof ClusterError && error.code === 'AUTHENTICATION';
      if (isRefusal) this.#refused(connection.address, error);
      else this.#backoff(connection.address).failed(this.#options.ticker.now());
      throw error;
    }
    this.#refusals.delete(addressKey(connection.address));
    this.#backoff(connection.address).succeeded();
    return connection;
  }

  #refused(address: Address, error: ClusterError): void {
    const key = addressKey(address);
    const { refusedBackoffMs, refusedBackoffMsMax } = this.#options.limits;
    const backoff =
      this.#refusals.get(key)?.backoff ??
      new Backoff(refusedBackoffMs, refusedBackoffMsMax, this.#options.random);
    backoff.failed(this.#options.ticker.now());
    this.#refusals.set(key, { backoff, error });
  }

  #backoff(address: Address): Backoff {
    const name = addressKey(address);
    const { backoffMs, backoffMsMax } = this.#options.limits;
    const backoff =
      this.#backoffs.get(name) ?? new Backoff(backoffMs, backoffMsMax, this.#options.random);
    this.#backoffs.set(name, backoff);
    return backoff;
  }

  #unavailable(address: Address): ClusterError {
    const message = `${formatAddress(address)}: left alone after failures, beyond the deadline`;
    return new ClusterError('UNREACHABLE', message, { maybeSent: false });
  }
}
