// Bearer tokens for our own connections: read from a file that somebody else keeps fresh, or asked
// of an OAuth token endpoint by client credentials (RFC 6749, 4.4). Owns the request and how long a
// token is used again; refuses to know brokers.
// Invariants: a token is asked for anew well before it ends; no fault repeats a token, a secret or
// what an endpoint answered.
import { readFile } from 'node:fs/promises';
import { request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import { fileURLToPath } from 'node:url';

export class TokenFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'TokenFault';
  }
}

export interface TokenSource {
  /** `file:`, `http:` or `https:`. */
  readonly endpoint: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Empty for none. */
  readonly scope: string;
  /** Whose certificates an https endpoint may show; without it those that Node.js trusts. */
  readonly ca: string[] | undefined;
}

const answerBytesMax = 256 * 1024;
const answerTimeoutMs = 10_000;
/** A broker ends a session with its token: sessions are renewed after 80 %, so with a newer one. */
const usedPart = 0.7;

interface Held {
  readonly source: string;
  readonly token: string;
  readonly usedUntilMs: number;
}

export class BearerTokens {
  readonly #now: () => number;
  #held: Held | undefined;
  #asking: { readonly source: string; readonly token: Promise<string> } | undefined;

  constructor(now: () => number = () => Date.now()) {
    this.#now = now;
  }

  /** @throws TokenFault */
  token(from: TokenSource): Promise<string> {
    if (from.endpoint.startsWith('file:')) return readToken(from.endpoint);
    const source = JSON.stringify(from);
    if (this.#held?.source === source && this.#now() < this.#held.usedUntilMs) {
      return Promise.resolve(this.#held.token);
    }
    if (this.#asking?.source === source) return this.#asking.token;
    const asking = { source, token: this.#ask(from, source) };
    this.#asking = asking;
    const done = (): void => {
      if (this.#asking === asking) this.#asking = undefined;
    };
    asking.token.then(done, done);
    return asking.token;
  }

  async #ask(from: TokenSource, source: string): Promise<string> {
    const askedAtMs = this.#now();
    const { token, expiresInMs } = readAnswer(await post(from));
    this.#held = { source, token, usedUntilMs: askedAtMs + expiresInMs * usedPart };
    return token;
  }
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? String(error.code) : error.message;
}

async function readToken(endpoint: string): Promise<string> {
  const file = fileURLToPath(endpoint);
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new TokenFault(`${file} cannot be read (${codeOf(error)})`);
  }
  if (token === '') throw new TokenFault(`${file} is empty`);
  return token;
}

/** As Kafka's own client does by default: both as they are. */
function basic({ clientId, clientSecret }: TokenSource): string {
  return `Basic ${Buffer.from(`${clientId}:${clientSecret}`, 'utf8').toString('base64')}`;
}

function post(from: TokenSource): Promise<string> {
  const { endpoint, scope, ca } = from;
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scope !== '') form.set('scope', scope);
  const options = {
    method: 'POST',
    headers: {
      accept: 'application/json',
      authorization: basic(from),
      'content-type': 'application/x-www-form-urlencoded',
    },
    signal: AbortSignal.timeout(answerTimeoutMs),
    ...(ca === undefined ? {} : { ca }),
  };
  const url = new URL(endpoint);
  return new Promise((resolve, reject) => {
    const fail = (reason: string): void => reject(new TokenFault(`${url.host}: ${reason}`));
    const request = url.protocol === 'https:' ? requestTls : requestPlain;
    const asked = request(url, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > answerBytesMax) asked.destroy(new Error(`more than ${answerBytesMax} bytes`));
      });
      response.on('error', (error) => fail(codeOf(error)));
      response.on('end', () => {
        const { statusCode } = response;
        if (statusCode === 200) resolve(Buffer.concat(chunks).toString('utf8'));
        else fail(`no token, status ${statusCode}`);
      });
    });
    asked.on('error', (error) => fail(codeOf(error)));
    asked.end(form.toString());
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new TokenFault('the answer of the token endpoint is no JSON');
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function readAnswer(text: string): { token: string; expiresInMs: number } {
  const answer = parsed(text);
  const token = field(answer, 'access_token');
  if (typeof token !== 'string' || token === '') {
    throw new TokenFault('the answer of the token endpoint has no access_token');
  }
  const seconds = Number(field(answer, 'expires_in'));
  // Without a time it is asked for again with each connection.
  return { token, expiresInMs: seconds > 0 ? seconds * 1000 : 0 };
}
