// Our own connections with TLS and SASL, to brokers in this process: whose certificate is taken and
// under which name, what is said when it is not, that secrets stay out of it, that sessions are
// renewed, and that a refusal is not knocked at again.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  encodeMetadataResponse,
} from '../../../protocol/generated/metadata-response.ts';
import { decodeSaslAuthenticateRequest } from '../../../protocol/generated/sasl-authenticate-request.ts';
import {
  createSaslAuthenticateResponse,
  encodeSaslAuthenticateResponse,
} from '../../../protocol/generated/sasl-authenticate-response.ts';
import {
  createSaslHandshakeResponse,
  encodeSaslHandshakeResponse,
} from '../../../protocol/generated/sasl-handshake-response.ts';
import { type Cluster, ClusterError, type ClusterErrorCode } from '../../../src/cluster/cluster.ts';
import { type ClusterOptions, connectCluster } from '../../../src/cluster/cluster-client.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
  withoutOpenssl,
} from '../../helpers/certificates.ts';
import { FakeBroker } from './fake-broker.ts';

const metadataKey = 3;
const handshakeKey = 17;
const authenticateKey = 36;
const versions = {
  [metadataKey]: [0, 12],
  [handshakeKey]: [0, 1],
  [authenticateKey]: [0, 2],
} as const;
const secret = 'correct-horse-battery';
const reference = (inner: string): string => `\${${inner}}`;

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function startBroker(tls?: Certificate, options: object = {}): Promise<FakeBroker> {
  const own = tls && { cert: tls.certificate, key: tls.key, ...options };
  const broker = new FakeBroker(versions, own);
  open.push(broker);
  await broker.listen();
  broker.handlers.set(metadataKey, ({ header }) => {
    const brokers = [createMetadataResponseBroker({ nodeId: 1, host: 'b1.invalid', port: 9092 })];
    const response = createMetadataResponse({ brokers, controllerId: 1, clusterId: 'c' });
    return (writer) => encodeMetadataResponse(writer, response, header.apiVersion);
  });
  return broker;
}

function connect(
  broker: FakeBroker,
  client: Record<string, string>,
  options: Partial<ClusterOptions> = {},
): Cluster {
  const cluster = connectCluster({
    bootstrapServers: [broker.address],
    addressMap: { 'b1.invalid:9092': broker.address },
    client,
    ...options,
    limits: { requestTimeoutMs: 3_000, tickMs: 10, ...options.limits },
  });
  open.push(cluster);
  return cluster;
}

function isClusterError(code: ClusterErrorCode, pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof ClusterError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    assert.ok(!`${error.stack}${JSON.stringify(error.cause)}`.includes(secret), error.message);
    return true;
  };
}

const skip = await withoutOpenssl();

describe('TLS to a broker', { skip }, () => {
  let ca: CertificateAuthority;
  let local: Certificate;
  let named: Certificate;
  let client: Certificate;

  before(async () => {
    ca = await certificateAuthority();
    local = await ca.sign('local', 'IP:127.0.0.1');
    named = await ca.sign('named', 'DNS:b1.invalid');
    client = await ca.sign('client', 'DNS:client');
  });
  after(() => ca.remove());

  const trusting = () => ({
    'security.protocol': 'SSL',
    'ssl.truststore.certificates': ca.certificate,
  });

  test('is verified: authority and name', async () => {
    const broker = await startBroker(local);
    assert.equal((await connect(broker, trusting()).metadata([])).clusterId, 'c');
    await assert.rejects(
      connect(broker, { 'security.protocol': 'SSL' }).metadata([]),
      isClusterError(
        'AUTHENTICATION',
        /^127\.0\.0\.1:\d+: the broker's certificate is not accepted/,
      ),
    );
    const other = await startBroker(named);
    await assert.rejects(
      connect(other, trusting()).metadata([]),
      isClusterError('AUTHENTICATION', /certificate is not accepted: .*127\.0\.0\.1 is not in/),
    );
    const unnamed = { ...trusting(), 'ssl.endpoint.identification.algorithm': '' };
    assert.equal((await connect(other, unnamed).metadata([])).clusterId, 'c');
  });

  test('is for the advertised name, wherever the address map leads', async () => {
    const broker = await startBroker(named);
    const bootstrapServers = ['b1.invalid:9092'];
    const cluster = connect(broker, trusting(), { bootstrapServers });
    await cluster.metadata([]);
    assert.ok((await cluster.apiVersions(1)).has(metadataKey));
    assert.equal(broker.connectionsCount, 1, 'the bootstrap name is the advertised one');
  });

  test('shows our certificate where a broker wants one', async () => {
    const options = { requestCert: true, rejectUnauthorized: true, ca: ca.certificate };
    const broker = await startBroker(local, options);
    await assert.rejects(connect(broker, trusting()).metadata([]), ClusterError);
    const key = await ca.encryptKey(client, secret);
    const settings = {
      ...trusting(),
      'ssl.keystore.certificate.chain': client.certificate,
      'ssl.keystore.key': key.replaceAll('\n', ' '),
      'ssl.key.password': secret,
    };
    assert.equal((await connect(broker, settings).metadata([])).clusterId, 'c');
    await assert.rejects(
      connect(broker, { ...settings, 'ssl.key.password': 'wrong' }).metadata([]),
      isClusterError('AUTHENTICATION', /key cannot be used/),
    );
  });

  test('reads PEM files anew for each connection', async () => {
    const broker = await startBroker(local);
    const file = `${ca.certificateFile}.trusted`;
    const settings = { 'security.protocol': 'SSL', 'ssl.truststore.location': file };
    const cluster = connect(broker, settings, { limits: { refusedBackoffMs: 1 } });
    const failure = isClusterError('AUTHENTICATION', /truststore\.location: .*ENOENT/);
    await assert.rejects(cluster.metadata([]), failure);
    await writeFile(file, ca.certificate);
    assert.equal((await connect(broker, settings).metadata([])).clusterId, 'c');
    await writeFile(file, 'nothing');
    await assert.rejects(
      connect(broker, settings).metadata([]),
      isClusterError('AUTHENTICATION', /holds no PEM certificate/),
    );
  });

  test('tells what is wrong when only one side speaks it', async () => {
    // A broker hangs up on what it takes for a request of 369 MB.
    const plain = createServer((socket) => socket.once('data', () => socket.destroy()));
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const port = Reflect.get(plain.address() ?? {}, 'port');
    const tls = await startBroker(local);
    await assert.rejects(
      connect(tls, trusting(), { bootstrapServers: [`127.0.0.1:${port}`] }).metadata([]),
      (error: unknown) => error instanceof ClusterError && /not want TLS/.test(error.message),
    );
    plain.close();
    await assert.rejects(
      connect(tls, {}).metadata([]),
      (error: unknown) => error instanceof ClusterError && /may want TLS|SSL/.test(error.message),
    );
  });
});

/** Answers SASL as a broker does for one user by PLAIN. */
function askForPassword(
  broker: FakeBroker,
  options: { password?: string; sessionLifetimeMs?: bigint } = {},
): void {
  broker.handlers.set(handshakeKey, ({ header }) => {
    const response = createSaslHandshakeResponse({ mechanisms: ['PLAIN'] });
    return (writer) => encodeSaslHandshakeResponse(writer, response, header.apiVersion);
  });
  broker.handlers.set(authenticateKey, ({ header, reader }) => {
    const said = decodeSaslAuthenticateRequest(reader, header.apiVersion).authBytes.toString();
    const isRight = said === `\0causeway\0${options.password ?? secret}`;
    const response = createSaslAuthenticateResponse({
      errorCode: isRight ? 0 : 58,
      errorMessage: isRight ? null : `Authentication failed: ${said.replaceAll('\0', ' ')}`,
      sessionLifetimeMs: options.sessionLifetimeMs ?? 0n,
    });
    return (writer) => encodeSaslAuthenticateResponse(writer, response, header.apiVersion);
  });
}

function plainLogin(password: string): Record<string, string> {
  return {
    'security.protocol': 'SASL_PLAINTEXT',
    'sasl.mechanism': 'PLAIN',
    'sasl.jaas.config':
      'org.apache.kafka.common.security.plain.PlainLoginModule required ' +
      `username="causeway" password="${password}";`,
  };
}

describe('SASL at a broker', () => {
  test('comes before everything else but ApiVersions', async () => {
    const broker = await startBroker();
    askForPassword(broker);
    assert.equal((await connect(broker, plainLogin(secret)).metadata([])).clusterId, 'c');
    assert.deepEqual(broker.seen, ['18 v4', '17 v1', '36 v2', '3 v12']);
  });

  test('R17: a refusal is told in the words of the broker, but for the password', async () => {
    const broker = await startBroker();
    askForPassword(broker, { password: 'another' });
    const cluster = connect(broker, plainLogin(secret));
    const refused = isClusterError(
      'AUTHENTICATION',
      /authentication as causeway was refused: Authentication failed: {2}causeway \[hidden\]/,
    );
    await assert.rejects(cluster.metadata([]), refused);
    for (let attempt = 0; attempt < 20; attempt++) {
      await assert.rejects(cluster.metadata([]), refused);
    }
    assert.equal(broker.connectionsCount, 1, 'nobody knocks again for a while');
  });

  test('a refusal is over when the password has been corrected', async () => {
    const broker = await startBroker();
    askForPassword(broker);
    let password: string | undefined = 'wrong-password';
    let nowMs = 0;
    const cluster = connect(broker, plainLogin(reference('env:KAFKA_PASSWORD')), {
      now: () => nowMs,
      references: { environment: () => password, readFile: () => Promise.reject(new Error()) },
    });
    await assert.rejects(cluster.metadata([]), isClusterError('AUTHENTICATION', /was refused/));
    password = undefined;
    nowMs += 10_000;
    await assert.rejects(
      cluster.metadata([]),
      isClusterError('AUTHENTICATION', /variable KAFKA_PASSWORD is not set/),
    );
    password = secret;
    nowMs += 60_000;
    assert.equal((await cluster.metadata([])).clusterId, 'c');
  });

  test('values are taken as they are where references mean nothing', async () => {
    const broker = await startBroker();
    const literal = reference('env:HOME');
    askForPassword(broker, { password: literal });
    assert.equal((await connect(broker, plainLogin(literal)).metadata([])).clusterId, 'c');
  });

  test('sessions are renewed before they end, and nothing goes out meanwhile', async () => {
    const broker = await startBroker();
    askForPassword(broker, { sessionLifetimeMs: 60_000n });
    let nowMs = 0;
    const cluster = connect(broker, plainLogin(secret), { now: () => nowMs });
    await cluster.metadata([]);
    nowMs = 40_000;
    await cluster.metadata([]);
    assert.equal(broker.seen.filter((one) => one === '36 v2').length, 1);
    nowMs = 50_000;
    broker.seen.length = 0;
    await Promise.all([cluster.metadata([]), cluster.metadata([]), cluster.metadata('all')]);
    assert.deepEqual(broker.seen, ['17 v1', '36 v2', '3 v12', '3 v12', '3 v12']);
    assert.equal(broker.connectionsCount, 1);
    askForPassword(broker, { password: 'changed' });
    nowMs = 120_000;
    await assert.rejects(cluster.metadata([]), isClusterError('AUTHENTICATION', /was refused/));
  });

  test('mechanisms and listeners that do not fit are named', async () => {
    const broker = await startBroker();
    for (const [errorCode, pattern] of [
      [33, /PLAIN is not offered; there are SCRAM-SHA-512/],
      [34, /does not take SASL/],
    ] as const) {
      broker.handlers.set(handshakeKey, ({ header }) => {
        const response = createSaslHandshakeResponse({ errorCode, mechanisms: ['SCRAM-SHA-512'] });
        return (writer) => encodeSaslHandshakeResponse(writer, response, header.apiVersion);
      });
      await assert.rejects(
        connect(broker, plainLogin(secret)).metadata([]),
        isClusterError('AUTHENTICATION', pattern),
      );
    }
  });

  test('a listener that wants SASL and gets none is guessed', async () => {
    const broker = await startBroker();
    broker.handlers.set(metadataKey, () => 'hang up');
    await assert.rejects(
      connect(broker, {}).metadata([]),
      (error: unknown) => error instanceof ClusterError && /may want SASL/.test(error.message),
    );
  });
});
