// SASL messages against the examples of the RFCs, and servers that cannot be trusted.
import assert from 'node:assert/strict';
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import { plainMessage } from '../../../../protocol/sasl/plain.ts';
import { SaslError } from '../../../../protocol/sasl/sasl-error.ts';
import { ScramClient, type ScramHash } from '../../../../protocol/sasl/scram.ts';

function hashOf(algorithm: string): ScramHash {
  return {
    digest: (data) => createHash(algorithm).update(data).digest(),
    hmac: (key, data) => createHmac(algorithm, key).update(data).digest(),
  };
}

function refused(pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof SaslError, String(error));
    assert.match(error.message, pattern);
    assert.ok(!error.message.includes('pencil'));
    return true;
  };
}

/** RFC 7677 section 3. */
const sha256 = {
  nonce: 'rOprNGfwEbeRWgbNEkqO',
  serverFirst:
    'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
  clientFinal:
    'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,' +
    'p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=',
  serverFinal: 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=',
};

function atLastStep(): ScramClient {
  const client = new ScramClient({ hash: hashOf('sha256'), username: 'user', nonce: sha256.nonce });
  assert.equal(client.first().toString(), `n,,n=user,r=${sha256.nonce}`);
  const { salt, iterations } = client.readSalting(Buffer.from(sha256.serverFirst));
  const salted = pbkdf2Sync('pencil', salt, iterations, 32, 'sha256');
  assert.equal(client.final(salted).toString(), sha256.clientFinal);
  return client;
}

test('PLAIN is the message of RFC 4616', () => {
  const message = plainMessage({ username: 'tim', password: 'tanstaaftanstaaf' });
  assert.equal(message.toString(), '\0tim\0tanstaaftanstaaf');
  for (const wrong of [
    { username: '', password: 'a' },
    { username: 'a', password: '' },
    { username: 'a\0b', password: 'c' },
  ]) {
    assert.throws(() => plainMessage(wrong), SaslError);
  }
});

test('SCRAM-SHA-256 is the exchange of RFC 7677', () => {
  atLastStep().verify(Buffer.from(sha256.serverFinal));
});

test('SCRAM computes what RFC 5802 shows with SHA-1', () => {
  const client = new ScramClient({
    hash: hashOf('sha1'),
    username: 'user',
    nonce: 'fyko+d2lbbFgONRv9qkxdawL',
  });
  client.first();
  const nonce = 'fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j';
  const { salt, iterations } = client.readSalting(
    Buffer.from(`r=${nonce},s=QSXCR+Q6sek8bf92,i=4096`),
  );
  const salted = pbkdf2Sync('pencil', salt, iterations, 20, 'sha1');
  const proof = 'v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=';
  assert.equal(client.final(salted).toString(), `c=biws,r=${nonce},p=${proof}`);
  client.verify(Buffer.from('v=rmF9pqV8S7suAoZWja4dJRkFsKQ='));
});

test('names with commas and equal signs are escaped', () => {
  const client = new ScramClient({ hash: hashOf('sha512'), username: 'a=b,c', nonce: 'n' });
  assert.equal(client.first().toString(), 'n,,n=a=3Db=2Cc,r=n');
});

test('a server that does not know the password is found out', () => {
  const zeros = Buffer.alloc(32).toString('base64');
  for (const [answer, pattern] of [
    [`v=${zeros}`, /does not prove/],
    ['v=', /not base64/],
    ['v=AAAA', /does not prove/],
    ['', /cannot be read/],
    ['e=invalid-proof', /the server refused: invalid-proof/],
  ] as const) {
    assert.throws(() => atLastStep().verify(Buffer.from(answer)), refused(pattern));
  }
});

const wrongFirsts: readonly [string, RegExp][] = [
  ['', /cannot be read/],
  ['r=other,s=QSXCR+Q6sek8bf92,i=4096', /does not continue ours/],
  ['r=nonce,s=QSXCR+Q6sek8bf92,i=4096', /does not continue ours/],
  ['r=nonce1,s=,i=4096', /not base64/],
  ['r=nonce1,s=QSX,i=4096', /not base64/],
  ['r=nonce1,s=QSXCR+Q6sek8bf92,i=1', /1 iterations/],
  ['r=nonce1,s=QSXCR+Q6sek8bf92,i=99999999', /iterations/],
  ['m=x,r=nonce1,s=QSXCR+Q6sek8bf92,i=4096', /cannot be read/],
];

for (const [message, pattern] of wrongFirsts) {
  test(`a first answer is refused: ${message}`, () => {
    const client = new ScramClient({ hash: hashOf('sha256'), username: 'u', nonce: 'nonce' });
    client.first();
    assert.throws(() => client.readSalting(Buffer.from(message)), refused(pattern));
  });
}

test('steps have an order', () => {
  const client = new ScramClient({ hash: hashOf('sha256'), username: 'u', nonce: 'nonce' });
  assert.throws(() => client.verify(Buffer.from('v=AAAA')), refused(/out of order/));
  assert.throws(() => client.final(Buffer.alloc(32)), refused(/out of order/));
  client.first();
  assert.throws(() => client.first(), refused(/out of order/));
});
