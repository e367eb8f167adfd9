// Who a client with a certificate is at the destination, for one connection: its upstream is
// opened and authenticated as that principal by a delegation token, and again in time (KIP-368).
// Refuses to know certificates, and the client's requests.
// Invariants: nothing of the client goes upstream before the broker knows the principal; when a
// session cannot be renewed the connection ends, it never waits in silence.
import type { Socket } from 'node:net';
import { authenticate, type Exchange, MechanismNotOffered } from '../cluster/authentication.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { pauseMs } from '../cluster/pause.ts';
import type { PasswordLogin } from '../cluster/security.ts';
import type { DelegationToken, DelegationTokens } from './delegation-tokens.ts';
import { exchangeOn } from './socket-exchange.ts';

type Scram = 'SCRAM-SHA-256' | 'SCRAM-SHA-512';

/** Brokers hear of a new token one after the other; a failed login is an alarm for some people. */
const settlingMs = 100;
/** As long as this a broker's refusal may mean that it has not heard of the token. */
const youngMs = 5_000;
const retryWaitMs = 100;

const never = new AbortController().signal;

/** What all connections share. */
export class UpstreamLogins {
  readonly tokens: DelegationTokens;
  readonly now: () => number;
  /** The one that the brokers' listener has, once we know. */
  mechanism: Scram = 'SCRAM-SHA-512';

  constructor(options: { tokens: DelegationTokens; now: () => number }) {
    this.tokens = options.tokens;
    this.now = options.now;
  }

  identity(owner: string): UpstreamIdentity {
    return new UpstreamIdentity(owner, this);
  }

  /** Waits until a broker may be expected to know it. */
  async settledToken(owner: string): Promise<DelegationToken> {
    const token = await this.tokens.tokenFor(owner);
    await pauseMs(token.madeAtMs + settlingMs - this.now(), never);
    return token;
  }
}

/** The connection whose time is over, as it is renewed. */
export interface RenewedSession {
  readonly exchange: Exchange;
  onRenewed(): void;
  onFailed(error: ClusterError): void;
}

export class UpstreamIdentity {
  readonly principal: string;
  readonly #owner: string;
  readonly #logins: UpstreamLogins;
  #renewAtMs = Number.POSITIVE_INFINITY;
  #renewing: Promise<void> | undefined;

  constructor(owner: string, logins: UpstreamLogins) {
    this.#owner = owner;
    this.principal = `User:${owner}`;
    this.#logins = logins;
  }

  /** An open connection on which the broker knows the principal. */
  async connect(dial: () => Promise<Socket>): Promise<Socket> {
    const { tokens, now } = this.#logins;
    let isReplaced = false;
    for (;;) {
      const token = await this.#logins.settledToken(this.#owner);
      const socket = await dial();
      // Also between two exchanges, where nobody else would hear of it; the next one is told.
      const onError = (): void => void socket.destroy();
      socket.on('error', onError);
      try {
        await this.#authenticate(exchangeOn(socket, 'causeway'), token);
        socket.off('error', onError);
        return socket;
      } catch (error) {
        socket.destroy();
        if (this.#takesOther(error)) continue;
        if (!(error instanceof ClusterError) || error.code !== 'AUTHENTICATION') throw error;
        if (now() - token.madeAtMs < youngMs) {
          await pauseMs(retryWaitMs, never);
        } else if (!isReplaced) {
          isReplaced = true;
          tokens.drop(this.#owner, token);
        } else {
          throw error;
        }
      }
    }
  }

  /**
   * What has to be over before anything else goes upstream; undefined when nothing. Rejects with
   * CLOSED when the connection is of no more use.
   */
  renewal(session: RenewedSession): Promise<void> | undefined {
    if (this.#renewing === undefined && this.#logins.now() >= this.#renewAtMs) {
      this.#renewing = this.#renew(session.exchange);
      this.#renewing.then(
        () => {
          this.#renewing = undefined;
          session.onRenewed();
        },
        (error: ClusterError) => session.onFailed(error),
      );
    }
    return this.#renewing;
  }

  async #renew(exchange: Exchange): Promise<void> {
    try {
      await this.#authenticate(exchange, await this.#logins.settledToken(this.#owner));
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `the session of ${this.principal} could not be renewed: ${reason}`;
      throw new ClusterError('CLOSED', message, { cause, maybeSent: false });
    }
  }

  async #authenticate(exchange: Exchange, token: DelegationToken): Promise<void> {
    const { now, mechanism } = this.#logins;
    const startedAtMs = now();
    const login: PasswordLogin = {
      mechanism,
      username: token.id,
      password: token.hmac,
      isToken: true,
    };
    this.#renewAtMs = startedAtMs + (await authenticate(exchange, login));
  }

  /** The listener has the other SCRAM, which is used from now on. */
  #takesOther(error: unknown): boolean {
    if (!(error instanceof MechanismNotOffered)) return false;
    const other = this.#logins.mechanism === 'SCRAM-SHA-512' ? 'SCRAM-SHA-256' : 'SCRAM-SHA-512';
    if (!error.offered.includes(other)) return false;
    this.#logins.mechanism = other;
    return true;
  }
}
