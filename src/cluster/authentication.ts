// Tells a broker who we are: SaslHandshake, then the mechanism's messages in SaslAuthenticate, at
// the start of a connection and again before the broker's session ends (KIP-368). Owns the order of
// the exchange and its faults as sentences; the messages are protocol/sasl's, the sending is the
// caller's. Invariant: no fault holds a password, not even one that a broker has echoed.
import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { plainMessage } from '../../protocol/sasl/plain.ts';
import { SaslError } from '../../protocol/sasl/sasl-error.ts';
import { ScramClient, type ScramHash } from '../../protocol/sasl/scram.ts';
import { saslAuthenticateApi, saslHandshakeApi } from './apis.ts';
import { type Api, ClusterError } from './cluster.ts';
import type { Login } from './security.ts';

/** Sends one request on the connection that is being authenticated. */
export type Exchange = <Request, Response>(
  api: Api<Request, Response>,
  request: Request,
) => Promise<Response>;

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
    throw refused(`sasl.mechanism ${mechanism} is not offered; there are ${mechanisms.join(', ')}`);
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

async function say(exchange: Exchange, login: Login, authBytes: Buffer): Promise<Answer> {
  const answer = await exchange(saslAuthenticateApi, { authBytes });
  if (answer.errorCode !== ErrorCode.NONE) {
    const said = withoutSecret(answer.errorMessage ?? errorName(answer.errorCode), login.password);
    throw refused(`authentication as ${login.username} was refused: ${said}`);
  }
  return { authBytes: answer.authBytes, sessionLifetimeMs: Number(answer.sessionLifetimeMs) };
}

/** Brokers quote nothing; whoever stands in for one may. */
function withoutSecret(text: string, secret: string): string {
  return secret.length < 4 ? text : text.replaceAll(secret, '[hidden]');
}

async function scram(exchange: Exchange, login: Login): Promise<Answer> {
  const algorithm = login.mechanism === 'SCRAM-SHA-512' ? 'sha512' : 'sha256';
  const hash = hashOf(algorithm);
  const nonce = randomBytes(24).toString('base64');
  const client = new ScramClient({ hash, username: login.username, nonce });
  const first = await say(exchange, login, client.first());
  const { salt, iterations } = client.readSalting(first.authBytes);
  const bytes = hash.digest(Buffer.alloc(0)).length;
  const salted = await deriveKey(login.password, salt, iterations, bytes, algorithm);
  const last = await say(exchange, login, client.final(salted));
  client.verify(last.authBytes);
  return last;
}

/**
 * Authenticates. Returns after how many milliseconds it has to be done again; infinite when never.
 * @throws ClusterError AUTHENTICATION, or what `exchange` throws
 */
export async function authenticate(exchange: Exchange, login: Login): Promise<number> {
  await shakeHands(exchange, login.mechanism);
  try {
    const { sessionLifetimeMs } =
      login.mechanism === 'PLAIN'
        ? await say(exchange, login, plainMessage(login))
        : await scram(exchange, login);
    if (sessionLifetimeMs <= 0) return Number.POSITIVE_INFINITY;
    return Math.max(renewedAfterMsMin, sessionLifetimeMs * renewedAfter);
  } catch (error) {
    if (!(error instanceof SaslError)) throw error;
    throw refused(`authentication as ${login.username} failed: ${error.message}`);
  }
}
