// Delegation tokens for clients that show a certificate (KIP-373): each stands for one owner, is
// made by our own login at the destination, and lets us authenticate a client's upstream
// connection as that owner. Owns the tokens while they are of use, and what a broker's refusal
// means in words; refuses to know certificates and connections.
// Invariants: one request at a time for an owner; a token is replaced long before it ends, and
// only when all brokers should have heard of the next one; a refusal is kept for a moment, so that
// many clients are no storm; no token is used that is not the owner's.
import {
  createCreateDelegationTokenRequest,
  createDelegationTokenRequestCodec,
} from '../../protocol/generated/create-delegation-token-request.ts';
import { createDelegationTokenResponseCodec } from '../../protocol/generated/create-delegation-token-response.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { apiOf } from './messages.ts';

export interface DelegationToken {
  readonly id: string;
  /** The password that goes with it. */
  readonly hmac: string;
  readonly madeAtMs: number;
  readonly lifeMs: number;
}

interface Held {
  readonly current: DelegationToken;
  /** Made, and not used while the current one is good. */
  readonly next: DelegationToken | null;
}

/** Owners came with version 3, brokers 3.3. */
const createTokenApi = apiOf(
  createDelegationTokenRequestCodec,
  createDelegationTokenResponseCodec,
  { min: 3 },
);

/** Parts of its life: when the next one is made, and when it is used no more itself. */
const replacedPart = 0.5;
const usedPart = 0.9;
/** Within this every broker should have heard of a new token. */
const settledMs = 2_000;
const refusalKeptMs = 2_000;
/** More owners than these: the ones asked for longest ago get a new token the next time. */
const ownersMax = 10_000;

/** The destination gives no token, in a sentence for whoever runs us. */
export class TokenRefused extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TokenRefused';
  }
}

export class DelegationTokens {
  readonly #cluster: Cluster;
  readonly #now: () => number;
  readonly #held = new Map<string, Held>();
  readonly #asking = new Map<string, Promise<DelegationToken>>();
  readonly #refusals = new Map<string, { readonly error: TokenRefused; readonly atMs: number }>();

  constructor(options: { cluster: Cluster; now: () => number }) {
    this.#cluster = options.cluster;
    this.#now = options.now;
  }

  /** A token for the principal `User:owner`. @throws TokenRefused */
  async tokenFor(owner: string): Promise<DelegationToken> {
    // Brokers (4.4 too) take an empty owner for none, and give a token for our own login.
    if (owner === '') throw new TokenRefused('its certificate, as mapped, has no name');
    const held = this.#held.get(owner);
    const now = this.#now();
    if (held === undefined || isPast(held.current, usedPart, now)) {
      const next = held?.next ?? null;
      if (next === null || isPast(next, usedPart, now)) return this.#made(owner);
      this.#hold(owner, { current: next, next: null });
      return next;
    }
    const { current, next } = held;
    if (next === null) {
      // A refusal is told to whoever comes when the current one is of no more use.
      if (isPast(current, replacedPart, now)) this.#made(owner).catch(() => undefined);
      return current;
    }
    if (now - next.madeAtMs < settledMs) return current;
    this.#hold(owner, { current: next, next: null });
    return next;
  }

  /** A broker that must know it does not: it was revoked, or the brokers' key was changed. */
  drop(owner: string, token: DelegationToken): void {
    if (this.#held.get(owner)?.current === token) this.#held.delete(owner);
  }

  async #made(owner: string): Promise<DelegationToken> {
    const refusal = this.#refusals.get(owner);
    if (refusal !== undefined && this.#now() - refusal.atMs < refusalKeptMs) throw refusal.error;
    const asking = this.#asking.get(owner) ?? this.#ask(owner);
    this.#asking.set(owner, asking);
    return asking;
  }

  async #ask(owner: string): Promise<DelegationToken> {
    try {
      const token = await this.#create(owner);
      const held = this.#held.get(owner);
      const isGood = held !== undefined && !isPast(held.current, usedPart, this.#now());
      this.#hold(owner, isGood ? { ...held, next: token } : { current: token, next: null });
      this.#refusals.delete(owner);
      return token;
    } catch (cause) {
      const error = cause instanceof TokenRefused ? cause : unanswered(owner, cause);
      this.#refusals.delete(owner);
      this.#refusals.set(owner, { error, atMs: this.#now() });
      forgetOldest(this.#refusals);
      throw error;
    } finally {
      this.#asking.delete(owner);
    }
  }

  #hold(owner: string, held: Held): void {
    this.#held.delete(owner);
    this.#held.set(owner, held);
    forgetOldest(this.#held);
  }

  async #create(owner: string): Promise<DelegationToken> {
    const request = createCreateDelegationTokenRequest({
      ownerPrincipalType: 'User',
      ownerPrincipalName: owner,
      // As long as the brokers allow.
      maxLifetimeMs: -1n,
    });
    const madeAtMs = this.#now();
    const answer = await this.#cluster.send({ kind: 'any' }, createTokenApi, request);
    if (answer.errorCode !== ErrorCode.NONE) throw refusedBecause(owner, answer.errorCode);
    if (answer.principalType !== 'User' || answer.principalName !== owner) {
      const whose = `${answer.principalType}:${answer.principalName}`;
      throw new TokenRefused(`${noToken(owner)}: it gave one for ${whose}`);
    }
    return {
      id: answer.tokenId,
      hmac: answer.hmac.toString('base64'),
      madeAtMs,
      lifeMs: Number(answer.expiryTimestampMs - answer.issueTimestampMs),
    };
  }
}

function isPast({ madeAtMs, lifeMs }: DelegationToken, part: number, nowMs: number): boolean {
  return nowMs >= madeAtMs + lifeMs * part;
}

function forgetOldest(map: Map<string, unknown>): void {
  for (const owner of map.keys()) {
    if (map.size <= ownersMax) return;
    map.delete(owner);
  }
}

const reasons = new Map<number, string>([
  [ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 'its brokers have no delegation.token.secret.key'],
  [
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    'our own login there is none that may ask for tokens: it needs SASL',
  ],
]);

function noToken(owner: string): string {
  return `the destination gives no token for User:${owner}`;
}

function refusedBecause(owner: string, errorCode: number): TokenRefused {
  const right = `our login there needs the right CREATE_TOKENS on USER:User:${owner}`;
  const reason =
    errorCode === ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
      ? right
      : (reasons.get(errorCode) ?? errorName(errorCode));
  return new TokenRefused(`${noToken(owner)}: ${reason}`);
}

function unanswered(owner: string, cause: unknown): TokenRefused {
  const isOld = cause instanceof ClusterError && cause.code === 'UNSUPPORTED';
  const said = cause instanceof Error ? cause.message : String(cause);
  const reason = isOld ? 'its brokers are older than 3.3, which cannot make them' : said;
  return new TokenRefused(`${noToken(owner)}: ${reason}`, { cause });
}
