// SCRAM (RFC 5802, RFC 7677), the client's side, without channel binding, as Kafka speaks it. Owns
// the messages and the proofs; the nonce and the hash functions are arguments, and salting, which
// takes long, is done outside between two steps.
// Invariant: an exchange counts as done only when the server has proved that it knows the password
// too (`verify`); steps out of order and answers that cannot be right throw.
//
//   client   n,,n=USER,r=NONCE                        first()
//   server   r=NONCE+SERVER,s=SALT,i=ITERATIONS       readSalting()
//   client   c=biws,r=NONCE+SERVER,p=PROOF            final()
//   server   v=SIGNATURE   or   e=ERROR               verify()
import { SaslError } from './sasl-error.ts';

export interface ScramHash {
  digest(data: Buffer): Buffer;
  hmac(key: Buffer, data: Buffer): Buffer;
}

export interface ScramOptions {
  readonly hash: ScramHash;
  readonly username: string;
  /** Printable, without commas, and never used before. */
  readonly nonce: string;
  /** The username is the id of a delegation token, the password its HMAC (Kafka's extension). */
  readonly isToken?: boolean;
}

/** What PBKDF2 with the mechanism's hash needs, besides the password. */
export interface Salting {
  readonly salt: Buffer;
  readonly iterations: number;
}

/** Kafka's own least; fewer would let a false server find passwords cheaply. */
export const iterationsMin = 4096;
/** More would keep us busy at a server's will. */
export const iterationsMax = 1_000_000;

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function decodeBase64(text: string, what: string): Buffer {
  if (text === '' || !base64.test(text)) throw new SaslError(`the server's ${what} is not base64`);
  return Buffer.from(text, 'base64');
}

function exclusiveOr(left: Buffer, right: Buffer): Buffer {
  return Buffer.from(left.map((byte, index) => byte ^ (right[index] ?? 0)));
}

/** Takes as long whether the first byte differs or the last. */
function areEqual(left: Buffer, right: Buffer): boolean {
  if (left.length !== right.length) return false;
  let difference = 0;
  for (const [index, byte] of left.entries()) difference |= byte ^ (right[index] ?? 0);
  return difference === 0;
}

export class ScramClient {
  readonly #hash: ScramHash;
  readonly #nonce: string;
  readonly #firstBare: string;
  #step: 'first' | 'salting' | 'final' | 'verify' | 'done' = 'first';
  #serverFirst = '';
  #nonceOfBoth = '';
  #serverSignature: Buffer = Buffer.alloc(0);

  constructor({ hash, username, nonce, isToken }: ScramOptions) {
    if (username === '') throw new SaslError('the username is empty');
    this.#hash = hash;
    this.#nonce = nonce;
    const escaped = username.replaceAll('=', '=3D').replaceAll(',', '=2C');
    this.#firstBare = `n=${escaped},r=${nonce}${isToken === true ? ',tokenauth=true' : ''}`;
  }

  first(): Buffer {
    this.#enter('first', 'salting');
    return Buffer.from(`n,,${this.#firstBare}`, 'utf8');
  }

  readSalting(serverFirst: Buffer): Salting {
    this.#enter('salting', 'final');
    this.#serverFirst = serverFirst.toString('utf8');
    const match = /^r=([\x21-\x2b\x2d-\x7e]+),s=([^,]*),i=([1-9]\d{0,8})(?:,.*)?$/.exec(
      this.#serverFirst,
    );
    const [, nonce, salt, iterationsText] = match ?? [];
    if (nonce === undefined || salt === undefined) {
      throw new SaslError("the server's first message cannot be read");
    }
    if (!nonce.startsWith(this.#nonce) || nonce.length === this.#nonce.length) {
      throw new SaslError("the server's nonce does not continue ours");
    }
    const iterations = Number(iterationsText);
    if (iterations < iterationsMin || iterations > iterationsMax) {
      const allowed = `allowed are ${iterationsMin} to ${iterationsMax}`;
      throw new SaslError(`the server asks for ${iterations} iterations, ${allowed}`);
    }
    this.#nonceOfBoth = nonce;
    return { salt: decodeBase64(salt, 'salt'), iterations };
  }

  /** `saltedPassword`: PBKDF2 of the password, as long as the hash is. */
  final(saltedPassword: Buffer): Buffer {
    this.#enter('final', 'verify');
    const hash = this.#hash;
    const withoutProof = `c=biws,r=${this.#nonceOfBoth}`;
    const parts = [this.#firstBare, this.#serverFirst, withoutProof];
    const authMessage = Buffer.from(parts.join(','), 'utf8');
    const clientKey = hash.hmac(saltedPassword, Buffer.from('Client Key'));
    const clientSignature = hash.hmac(hash.digest(clientKey), authMessage);
    const serverKey = hash.hmac(saltedPassword, Buffer.from('Server Key'));
    this.#serverSignature = hash.hmac(serverKey, authMessage);
    const proof = exclusiveOr(clientKey, clientSignature).toString('base64');
    return Buffer.from(`${withoutProof},p=${proof}`, 'utf8');
  }

  /** @throws SaslError when this is not a server that knows the password */
  verify(serverFinal: Buffer): void {
    this.#enter('verify', 'done');
    const text = serverFinal.toString('utf8');
    const refused = /^e=([^,]*)/.exec(text);
    if (refused) throw new SaslError(`the server refused: ${refused[1]}`);
    const signature = /^v=([^,]*)/.exec(text)?.[1];
    if (signature === undefined) throw new SaslError("the server's last message cannot be read");
    if (!areEqual(decodeBase64(signature, 'signature'), this.#serverSignature)) {
      throw new SaslError('the server does not prove that it knows the password');
    }
  }

  #enter(expected: string, next: 'salting' | 'final' | 'verify' | 'done'): void {
    if (this.#step !== expected) throw new SaslError('a step of the exchange is out of order');
    this.#step = next;
  }
}
