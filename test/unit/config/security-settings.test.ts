// Security settings: JAAS lines, PEM as pasted, references, which combinations mean something, and
// that no fault repeats a secret.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isSensitiveSetting } from '../../../src/config/client-settings.ts';
import { JaasError, parseJaas } from '../../../src/config/jaas.ts';
import { certificateBlocks, hasPrivateKey, normalPem } from '../../../src/config/pem.ts';
import { isReference, ReferenceFault, resolveReferences } from '../../../src/config/references.ts';
import {
  isKeptSecret,
  securityFaults,
  securitySettingDefaults,
} from '../../../src/config/security-settings.ts';

const plain = 'org.apache.kafka.common.security.plain.PlainLoginModule';
const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule';
const reference = (inner: string): string => `\${${inner}}`;

describe('a JAAS line', () => {
  test('is read as Kafka reads it', () => {
    const entry = parseJaas(
      ` ${plain}\n  required username="al\\"ice"  password='it\\\\s; = "x"' debug=true ; `,
    );
    assert.equal(entry.module, plain);
    assert.deepEqual(Object.fromEntries(entry.options), {
      username: 'al"ice',
      password: 'it\\s; = "x"',
      debug: 'true',
    });
  });

  for (const [text, pattern] of [
    ['', /no login module/],
    [`${plain};`, /flag/],
    [`${plain} required username="u" password="hunter2"`, /semicolon/],
    [`${plain} required username="u" password="hunter2;`, /quotation mark/],
    [`${plain} required username hunter2;`, /name="value"/],
    [`${plain} required a="b"; ${plain} required c="hunter2";`, /more than one/],
  ] as const) {
    test(`is refused without being repeated: ${text.replace('hunter2', '***')}`, () => {
      assert.throws(
        () => parseJaas(text),
        (error: unknown) => {
          assert.ok(error instanceof JaasError, String(error));
          assert.match(error.message, pattern);
          assert.ok(!error.message.includes('hunter2'));
          return true;
        },
      );
    });
  }
});

describe('references', () => {
  const sources = {
    environment: (name: string) => (name === 'SECRET' ? 'from env' : undefined),
    readFile: (path: string) =>
      path === '/run/secrets/kafka'
        ? Promise.resolve(
            '# comment\nuser = alice\npass:word=a=b\\n\\u0041\\\n  C\nempty\ntwice=1\ntwice=2\n',
          )
        : path === '/broken'
          ? Promise.resolve('a=1\nkey=\\u12')
          : Promise.reject(Object.assign(new Error('no'), { code: 'ENOENT' })),
  };

  test('lead to the environment and to properties files', async () => {
    assert.equal(await resolveReferences(reference('env:SECRET'), sources), 'from env');
    const user = reference('file:/run/secrets/kafka:user');
    assert.equal(await resolveReferences(`<${user}>`, sources), '<alice>');
    assert.equal(await resolveReferences('nothing', sources), 'nothing');
  });

  test('read properties as Java does', async () => {
    const value = (key: string): Promise<string> =>
      resolveReferences(reference(`file:/run/secrets/kafka:${key}`), sources);
    assert.equal(await value('pass'), 'word=a=b\nAC');
    assert.equal(await value('empty'), '');
    assert.equal(await value('twice'), '2');
  });

  for (const [inner, pattern] of [
    ['env:MISSING', /environment variable MISSING is not set/],
    ['file:/nowhere:key', /file \/nowhere cannot be read \(ENOENT\)/],
    ['file:/run/secrets/kafka:other', /has no key other/],
    ['file:nokey', /not of the form/],
    ['file:/broken:key', /^file \/broken, line 2: \\u is not followed by/],
  ] as const) {
    test(`that lead nowhere are named: ${inner}`, async () => {
      await assert.rejects(resolveReferences(reference(inner), sources), (error: unknown) => {
        assert.ok(error instanceof ReferenceFault);
        assert.match(error.message, pattern);
        return true;
      });
    });
  }

  test('are told from text', () => {
    assert.ok(isReference(reference('env:A_1')));
    assert.ok(isReference(reference('file:/a/b.properties:k')));
    for (const text of ['', 'x', reference('A'), reference('file:/a'), `${reference('env:A')}x`]) {
      assert.ok(!isReference(text), text);
    }
  });
});

test('PEM is taken as it is pasted', () => {
  const body = 'QUJD'.repeat(40);
  const lines = body.match(/.{1,64}/g)?.join('\n');
  const wanted = `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
  const key = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nQUJD\n-----END ENCRYPTED PRIVATE KEY-----\n';
  const oneLine = `-----BEGIN CERTIFICATE----- ${body} -----END CERTIFICATE-----`;
  assert.equal(normalPem(oneLine), wanted);
  assert.equal(normalPem(wanted.replaceAll('\n', '\\n')), wanted);
  assert.equal(normalPem(`subject=x\n${wanted}${key}`), wanted + key);
  assert.deepEqual(certificateBlocks(wanted + key + wanted).length, 2);
  assert.ok(hasPrivateKey(key));
  assert.ok(!hasPrivateKey(wanted));
  assert.equal(normalPem('no PEM'), '');
});

const login = `${plain} required username="u" password="hunter2";`;
const saslPlain = {
  'security.protocol': 'SASL_PLAINTEXT',
  'sasl.mechanism': 'PLAIN',
  'sasl.jaas.config': login,
};
const oauth = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule';
const endpoint = 'sasl.oauthbearer.token.endpoint.url';
const bearer = {
  'security.protocol': 'SASL_PLAINTEXT',
  'sasl.mechanism': 'OAUTHBEARER',
  'sasl.jaas.config': `${oauth} required clientId="a" clientSecret="hunter2" scope="kafka";`,
  [endpoint]: 'https://idp.example.com/token',
};
const pem = '-----BEGIN CERTIFICATE-----QUJD-----END CERTIFICATE-----';

describe('security settings', () => {
  const good: readonly Record<string, string>[] = [
    {},
    securitySettingDefaults,
    { ...securitySettingDefaults, ...saslPlain },
    { 'security.protocol': 'SSL' },
    { 'security.protocol': 'SSL', 'ssl.endpoint.identification.algorithm': '' },
    { 'security.protocol': 'SSL', 'ssl.truststore.certificates': pem },
    { 'security.protocol': 'SSL', 'ssl.keystore.location': '/k', 'ssl.key.password': 'x' },
    {
      'security.protocol': 'SASL_SSL',
      'ssl.truststore.type': 'PEM',
      'ssl.truststore.location': '/t',
      'sasl.mechanism': 'SCRAM-SHA-512',
      'sasl.jaas.config': `${scram} required username="u" password="p";`,
    },
    { ...saslPlain, 'sasl.jaas.config': reference('env:JAAS') },
    bearer,
    {
      ...bearer,
      'sasl.jaas.config': `${oauth} required;`,
      'sasl.oauthbearer.client.credentials.client.id': 'a',
      'sasl.oauthbearer.client.credentials.client.secret': reference('env:SECRET'),
    },
    { ...bearer, 'sasl.jaas.config': `${oauth} required;`, [endpoint]: 'file:///run/token' },
  ];
  for (const settings of good) {
    test(`taken: ${Object.keys(settings).join(' ')}`, () => {
      assert.deepEqual(securityFaults(settings), []);
    });
  }

  const wrong: readonly [Record<string, string>, string, RegExp][] = [
    [{ 'security.protocol': 'TLS' }, 'security.protocol', /must be one of PLAINTEXT, SSL/],
    [{ 'sasl.mechanism': 'PLAIN' }, 'sasl.mechanism', /no effect with .*PLAINTEXT/],
    [{ 'ssl.keystore.key': 'hunter2' }, 'ssl.keystore.key', /no effect/],
    [{ ...saslPlain, 'ssl.truststore.location': '/x' }, 'ssl.truststore.location', /no effect/],
    [{ ...saslPlain, 'sasl.mechanism': 'GSSAPI' }, 'sasl.mechanism', /GSSAPI is not in this/],
    [{ ...saslPlain, 'sasl.mechanism': 'OAUTHBEARER' }, 'sasl.jaas.config', /OAuthBearerLoginM/],
    [{ ...bearer, [endpoint]: '' }, endpoint, /is missing/],
    [{ ...bearer, [endpoint]: 'ftp://hunter2/' }, endpoint, /must be http/],
    [{ ...bearer, [endpoint]: 'https://user:hunter2@idp/' }, endpoint, /must be http/],
    [{ ...bearer, 'sasl.jaas.config': `${oauth} required;` }, endpoint, /needs the client id/],
    [{ ...bearer, [endpoint]: 'file:///token' }, endpoint, /have no effect/],
    [{ ...bearer, 'sasl.jaas.config': reference('env:A') }, 'sasl.jaas.config', /no reference/],
    [
      { ...bearer, 'sasl.jaas.config': `${oauth} required unsecuredLoginStringClaim_sub="x";` },
      'sasl.jaas.config',
      /other than clientId/,
    ],
    [{ ...saslPlain, [endpoint]: 'https://idp/' }, endpoint, /no effect with sasl.mech.*PLAIN/],
    [{ ...saslPlain, 'sasl.mechanism': '' }, 'sasl.mechanism', /missing \(Kafka's default GSSAPI/],
    [{ ...saslPlain, 'sasl.mechanism': 'hunter2' }, 'sasl.mechanism', /no mechanism/],
    [{ ...saslPlain, 'sasl.mechanism': 'SCRAM-SHA-256' }, 'sasl.jaas.config', /ScramLoginModule/],
    [{ ...saslPlain, 'sasl.jaas.config': '' }, 'sasl.jaas.config', /is missing/],
    [{ ...saslPlain, 'sasl.jaas.config': 'hunter2' }, 'sasl.jaas.config', /flag/],
    [
      { ...saslPlain, 'sasl.jaas.config': `${plain} required username="u";` },
      'sasl.jaas.config',
      /needs username and password/,
    ],
    [
      { ...saslPlain, 'sasl.jaas.config': login.replace(';', ' tokenauth=true;') },
      'sasl.jaas.config',
      /not in this version/,
    ],
    [{ 'sasl.login.class': 'x' }, 'sasl.login.class', /not supported/],
    [{ 'security.protocol': 'SSL', 'ssl.protocol': 'TLSv1.3' }, 'ssl.protocol', /not supported/],
    [{ 'security.protocol': 'SSL', 'ssl.truststore.type': 'JKS' }, 'ssl.truststore.type', /PEM/],
    [
      { 'security.protocol': 'SSL', 'ssl.endpoint.identification.algorithm': 'no' },
      'ssl.endpoint.identification.algorithm',
      /must be https/,
    ],
    [
      {
        'security.protocol': 'SSL',
        'ssl.truststore.location': '/t',
        'ssl.truststore.certificates': pem,
      },
      'ssl.truststore.certificates',
      /together with/,
    ],
    [
      { 'security.protocol': 'SSL', 'ssl.keystore.key': 'hunter2' },
      'ssl.keystore.key',
      /needs ssl\.keystore\.certificate\.chain/,
    ],
    [{ 'security.protocol': 'SSL', 'ssl.key.password': 'hunter2' }, 'ssl.key.password', /no key/],
  ];
  for (const [index, [settings, setting, pattern]] of wrong.entries()) {
    test(`R17: refused by name and without a secret: ${setting} ${index}`, () => {
      const faults = securityFaults(settings);
      const found = faults.find((fault) => fault.setting === setting);
      assert.match(found?.reason ?? '', pattern);
      assert.ok(!JSON.stringify(faults).includes('hunter2'));
      assert.equal(faults.length, 1);
    });
  }

  test('R17: only references are kept', () => {
    assert.ok(isKeptSecret('ssl.key.password', reference('env:A')));
    assert.ok(!isKeptSecret('ssl.key.password', 'hunter2'));
    const jaas = login.replace('hunter2', reference('file:/a:b'));
    assert.ok(isKeptSecret('sasl.jaas.config', jaas));
    assert.ok(!isKeptSecret('sasl.jaas.config', login));
    assert.ok(!isKeptSecret('sasl.jaas.config', 'hunter2'));
    assert.ok(isKeptSecret('sasl.jaas.config', `${oauth} required;`));
    assert.ok(!isKeptSecret('sasl.jaas.config', bearer['sasl.jaas.config']));
    assert.ok(!isSensitiveSetting(endpoint));
    assert.ok(isSensitiveSetting('sasl.oauthbearer.client.credentials.client.secret'));
  });
});
