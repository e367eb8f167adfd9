// Tells a broker who we are: SaslHandshake, then the mechanism's messages in SaslAuthenticate, at
// the start of a connection and again before the broker's session ends (KIP-368). Owns the order of
// the exchange and its faults as sentences; the messages are protocol/sasl's, the sending is the
// caller's. Invariant: no fault holds a password, not even one that a broker has echoed.
import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { oauthBearerGoodbye, oauthBearerMessage } from '../../protocol/sasl/oauth-bearer.ts';
import { plainMessage } from '../../protocol/sasl/plain.ts';
import { SaslError } from '../../protocol/sasl/sasl-error.ts';
import { ScramClient, type ScramHash } from '../../protocol/sasl/scram.ts';
import { saslAuthenticateApi, saslHandshakeApi } from './apis.ts';
import { brokerReason } from './broker-reason.ts';
import { type Api, ClusterError } from './cluster.ts';
import type { BearerLogin, Login, PasswordLogin } from './security.ts';

/** Sends one request on the connection that is being authenticated. */
export type Exchange = <Request, Response>(
  api: Api<Request, Response>,
  request: Request,
) => Promise<Response>;

/** The broker's listener has other mechanisms; it ends the connection then. */
export class MechanismNotOffered extends ClusterError {
  readonly offered: readonly string[];

  constructor(mechanism: string, offered: readonly string[]) {
    const reason = `${mechanism} is not offered; there are ${offered.join(', ')}`;
    super('AUTHENTICATION', `sasl.mechanism ${reason}`, { maybeSent: false });
    this.name = 'MechanismNotOffered';
    this.offered = offered;
  }
}

/** The exchange failed; without the address, which the connection knows. */
function refused(reason: string): ClusterError {
  return new ClusterError('AUTHENTICATION', reason, { maybeSent: false });
}

const deriveKey = promisify(pbkdf2);

/**
 * Sessions are renewed when this part of them is over; a request under way still arrives in time.
 */
const renewedAfter = 0.8;
/** Brokers take a second exchange for a mistake when it comes earlier. */
const renewedAfterMsMin = 1_000;

function hashOf(algorithm: string): ScramHash {
  return {
    digest: (data) => createHash(algorithm).update(data).digest(),
    hmac: (key, data) => createHmac(algorithm, key).update(data).digest(),
  };
}

async function shakeHands(exchange: Exchange, mechanism: string): Promise<void> {
  const { errorCode, mechanisms } = await exchange(saslHandshakeApi, { mechanism });
  if (errorCode === ErrorCode.NONE) return;
  if (errorCode === ErrorCode.UNSUPPORTED_SASL_MECHANISM) {
    throw new MechanismNotOffered(mechanism, mechanisms);
  }
  if (errorCode === ErrorCode.ILLEGAL_SASL_STATE) {
    throw refused('its listener does not take SASL: security.protocol may be PLAINTEXT or SSL');
  }
  throw refused(`the SASL handshake was refused: ${errorName(errorCode)}`);
}

interface Answer {
  readonly authBytes: Buffer;
  readonly sessionLifetimeMs: number;
}

/** Who is refused, for a sentence. */
function asWhom(login: Login): string {
  return login.mechanism === 'OAUTHBEARER' ? 'with a bearer token' : `as ${login.username}`;
}

function secretOf(login: Login): string {
  return login.mechanism === 'OAUTHBEARER' ? login.token : login.password;
}

async function say(exchange: Exchange, login: Login, authBytes: Buffer): Promise<Answer> {
  const answer = await exchange(saslAuthenticateApi, { authBytes });
  if (answer.errorCode !== ErrorCode.NONE) {
    const reason = brokerReason(answer.errorCode, answer.errorMessage);
    const said = withoutSecret(reason, secretOf(login));
    throw refused(`authentication ${asWhom(login)} was refused: ${said}`);
  }
  return { authBytes: answer.authBytes, sessionLifetimeMs: Number(answer.sessionLifetimeMs) };
}

/** Brokers quote nothing; whoever stands in for one may. */
function withoutSecret(text: string, secret: string): string {
  return secret.length < 4 ? text : text.replaceAll(secret, '[hidden]');
}

async function bearer(exchange: Exchange, login: BearerLogin): Promise<Answer> {
  const first = await say(exchange, login, oauthBearerMessage(login.token));
  if (first.authBytes.length === 0) return first;
  // A reason, and no error yet. The broker's own words come with the end of the exchange.
  await say(exchange, login, oauthBearerGoodbye);
  throw refused('authentication with a bearer token was refused');
}

async function scram(exchange: Exchange, login: PasswordLogin): Promise<Answer> {
  const algorithm = login.mechanism === 'SCRAM-SHA-512' ? 'sha512' : 'sha256';
  const hash = hashOf(algorithm);
  const nonce = randomBytes(24).toString('base64');
  const { username, isToken = false } = login;
  const client = new ScramClient({ hash, username, nonce, isToken });
  const first = await say(exchange, login, client.first());
  const { salt, iterations } = client.readSalting(first.authBytes);
  const bytes = hash.digest(Buffer.alloc(0)).length;
  const salted = await deriveKey(login.password, salt, iterations, bytes, algorithm);
  const last = await say(exchange, login, client.final(salted));
  client.verify(last.authBytes);
  return last;
}

function exchangeOf(exchange: Exchange, login: Login): Promise<Answer> {
  switch (login.mechanism) {
    case 'PLAIN':
      return say(exchange, login, plainMessage(login));
    case 'OAUTHBEARER':
      return bearer(exchange, login);
    default:
      return scram(exchange, login);
  }
}

/**
 * Authenticates. Returns after how many milliseconds it has to be done again; infinite when never.
 * @throws ClusterError AUTHENTICATION, or what `exchange` throws
 */
export async function authenticate(exchange: Exchange, login: Login): Promise<number> {
  await shakeHands(exchange, login.mechanism);
  try {
    const { sessionLifetimeMs } = await exchangeOf(exchange, login);
    if (sessionLifetimeMs <= 0) return Number.POSITIVE_INFINITY;
    return Math.max(renewedAfterMsMin, sessionLifetimeMs * renewedAfter);
  } catch (error) {
    if (!(error instanceof SaslError)) throw error;
    throw refused(`authentication ${asWhom(login)} failed: ${error.message}`);
  }
}
