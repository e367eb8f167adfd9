// OAUTHBEARER for our own connections: tokens from a file and from a token endpoint, how long they
// are used, what a broker's refusal becomes, and that neither tokens nor secrets are repeated.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import os from 'node:os';
import path from 'node:path';
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
import { BearerTokens } from '../../../src/cluster/bearer-tokens.ts';
import { type Cluster, ClusterError } from '../../../src/cluster/cluster.ts';
import { connectCluster } from '../../../src/cluster/cluster-client.ts';
import { FakeBroker } from './fake-broker.ts';

const secret = 'correct-horse-battery';
const module_ = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule';
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

/** Takes one token and sends the others' owners away as a broker does: a reason first. */
async function startBroker(good: () => string): Promise<{ broker: FakeBroker; said: string[] }> {
  const broker = new FakeBroker({ 3: [0, 12], 17: [0, 1], 36: [0, 2] });
  open.push(broker);
  await broker.listen();
  const said: string[] = [];
  broker.handlers.set(17, ({ header }) => {
    const response = createSaslHandshakeResponse({ mechanisms: ['OAUTHBEARER'] });
    return (writer) => encodeSaslHandshakeResponse(writer, response, header.apiVersion);
  });
  broker.handlers.set(36, ({ header, reader }) => {
    const message = decodeSaslAuthenticateRequest(reader, header.apiVersion).authBytes.toString();
    said.push(message);
    const isGoodbye = message === '\x01';
    const isGood = message === `n,,\x01auth=Bearer ${good()}\x01\x01`;
    const response = createSaslAuthenticateResponse({
      errorCode: isGoodbye ? 58 : 0,
      errorMessage: isGoodbye ? '{"status":"invalid_token"}' : null,
      authBytes: Buffer.from(isGood || isGoodbye ? '' : '{"status":"invalid_token"}'),
      sessionLifetimeMs: 60_000n,
    });
    return (writer) => encodeSaslAuthenticateResponse(writer, response, header.apiVersion);
  });
  broker.handlers.set(3, ({ header }) => {
    const brokers = [createMetadataResponseBroker({ nodeId: 1, host: 'b1.invalid', port: 9092 })];
    const response = createMetadataResponse({ brokers, controllerId: 1, clusterId: 'c' });
    return (writer) => encodeMetadataResponse(writer, response, header.apiVersion);
  });
  return { broker, said };
}

function connect(
  broker: FakeBroker,
  settings: Record<string, string>,
  now?: () => number,
): Cluster {
  const cluster = connectCluster({
    bootstrapServers: [broker.address],
    client: {
      'security.protocol': 'SASL_PLAINTEXT',
      'sasl.mechanism': 'OAUTHBEARER',
      'sasl.jaas.config': `${module_} required;`,
      ...settings,
    },
    ...(now === undefined ? {} : { now }),
    limits: { requestTimeoutMs: 3_000, tickMs: 10 },
  });
  open.push(cluster);
  return cluster;
}

function refused(pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof ClusterError, String(error));
    assert.equal(error.code, 'AUTHENTICATION', error.message);
    assert.match(error.message, pattern);
    assert.ok(!`${error.stack}${JSON.stringify(error.cause)}`.includes(secret), error.message);
    return true;
  };
}

const endpointSetting = 'sasl.oauthbearer.token.endpoint.url';

describe('a token from a file', () => {
  let directory = '';
  let file = '';
  before(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-token-'));
    file = path.join(directory, 'token');
  });
  after(() => rm(directory, { recursive: true, force: true }));

  test('is read anew when the session is renewed', async () => {
    let nowMs = 0;
    let good = 'one.two.three';
    const { broker, said } = await startBroker(() => good);
    await writeFile(file, `${good}\n`);
    const cluster = connect(broker, { [endpointSetting]: `file://${file}` }, () => nowMs);
    assert.equal((await cluster.metadata([])).clusterId, 'c');
    good = 'four.five.six==';
    await writeFile(file, good);
    nowMs = 50_000;
    assert.equal((await cluster.metadata([])).clusterId, 'c');
    assert.equal(said.length, 2);
    assert.equal(broker.connectionsCount, 1);
  });

  test("R17: that a broker refuses is not repeated; the words are the broker's", async () => {
    const { broker, said } = await startBroker(() => 'another');
    await writeFile(file, secret);
    const cluster = connect(broker, { [endpointSetting]: `file://${file}` });
    const words = /with a bearer token was refused: \{"status":"invalid_token"\}/;
    await assert.rejects(cluster.metadata([]), refused(words));
    assert.deepEqual(said.slice(1), ['\x01'], 'a goodbye ends the exchange');
  });

  test('R18: that is missing, empty or no token is an error that names it', async () => {
    const { broker } = await startBroker(() => 'any');
    const settings = { [endpointSetting]: `file://${file}` };
    await writeFile(file, ' \n');
    await assert.rejects(connect(broker, settings).metadata([]), refused(/token is empty/));
    await writeFile(file, `${secret}\x01host=x`);
    await assert.rejects(connect(broker, settings).metadata([]), refused(/characters that none/));
    await rm(file);
    await assert.rejects(
      connect(broker, settings).metadata([]),
      refused(/endpoint\.url: .*token cannot be read \(ENOENT\)/),
    );
  });
});

describe('a token of an endpoint', () => {
  let server: Server;
  let url = '';
  let answer: { status: number; body: string };
  const asked: { headers: IncomingMessage['headers']; body: string }[] = [];

  before(async () => {
    server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        asked.push({ headers: request.headers, body });
        response.writeHead(answer.status, { 'content-type': 'application/json' });
        response.end(answer.body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${Reflect.get(server.address() ?? {}, 'port')}/token`;
  });
  after(() => server.close());
  afterEach(() => {
    asked.length = 0;
  });

  const settings = (): Record<string, string> => ({
    [endpointSetting]: url,
    'sasl.jaas.config': `${module_} required clientId="causeway" clientSecret="${secret}";`,
    'sasl.oauthbearer.scope': 'kafka',
  });

  test('is asked for by client credentials', async () => {
    answer = { status: 200, body: '{"access_token":"abc","expires_in":300}' };
    const { broker } = await startBroker(() => 'abc');
    assert.equal((await connect(broker, settings()).metadata([])).clusterId, 'c');
    const [request] = asked;
    assert.equal(request?.body, 'grant_type=client_credentials&scope=kafka');
    const basic = Buffer.from(`causeway:${secret}`).toString('base64');
    assert.equal(request?.headers.authorization, `Basic ${basic}`);
  });

  test('is used for a part of its life, by all who come at once', async () => {
    let nowMs = 0;
    const tokens = new BearerTokens(() => nowMs);
    const source = { endpoint: url, clientId: 'a', clientSecret: 'b', scope: '', ca: undefined };
    answer = { status: 200, body: '{"access_token":"first","expires_in":100}' };
    const got = await Promise.all([tokens.token(source), tokens.token(source)]);
    assert.deepEqual(got, ['first', 'first']);
    answer = { status: 200, body: '{"access_token":"second"}' };
    nowMs = 69_999;
    assert.equal(await tokens.token(source), 'first');
    nowMs = 70_000;
    assert.equal(await tokens.token(source), 'second');
    assert.equal(await tokens.token(source), 'second');
    assert.equal(asked.length, 3, 'without a time it is asked for each time');
  });

  test('R17, R18: what an endpoint says instead is told without being repeated', async () => {
    const { broker } = await startBroker(() => 'any');
    for (const [status, body, pattern] of [
      [401, `{"error":"${secret}"}`, /127\.0\.0\.1:\d+: no token, status 401/],
      [200, secret, /is no JSON/],
      [200, `{"token":"${secret}"}`, /has no access_token/],
      [200, 'x'.repeat(300_000), /more than 262144 bytes/],
    ] as const) {
      answer = { status, body };
      await assert.rejects(connect(broker, settings()).metadata([]), refused(pattern));
    }
  });
});
