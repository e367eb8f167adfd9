// SASL passes through: the destination authenticates clients by its own rules, and again while they
// work. The broker's inter-broker listener is the one with SASL here; the gateway leads clients to
// it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { connectionLimitWarnings } from '../../src/gateway/connection-limits.ts';
import { DelegationTokens } from '../../src/gateway/delegation-tokens.ts';
import { UpstreamAddresses } from '../../src/gateway/upstream-addresses.ts';
import {
  type ProducerKind,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { setQuota } from '../helpers/quotas.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from './gateway-fixture.ts';

const plainModule = 'org.apache.kafka.common.security.plain.PlainLoginModule';
const scramModule = 'org.apache.kafka.common.security.scram.ScramLoginModule';
const oauthModule = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule';
const users = 'username="admin" password="a" user_admin="a" user_alice="wonder"';

let kafka: KafkaCluster;
/** Leads to the listener without SASL, for set-up. */
let open: GatewayUnderTest;
let proxy: GatewayUnderTest;

function saslPort(): number {
  const file = path.join(kafka.dataDirectory(), '../server.properties');
  const port = /^listeners=.*INTERNAL:\/\/127\.0\.0\.1:(\d+)/m.exec(
    readFileSync(file, 'utf8'),
  )?.[1];
  assert.ok(port);
  return Number(port);
}

function atSaslListener(cluster: Cluster): Cluster {
  const address = { host: '127.0.0.1', port: saslPort() };
  return {
    send: (...args) => cluster.send(...args),
    metadata: (topics) => cluster.metadata(topics),
    apiVersions: (nodeId) => cluster.apiVersions(nodeId),
    brokers: cluster.brokers,
    bootstrap: [address],
    reach: () => address,
    close: () => cluster.close(),
  };
}

before(async () => {
  kafka = await startKafkaCluster({
    name: 'sasl',
    settings: {
      'listener.security.protocol.map':
        'CLIENT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,OAUTHBEARER',
      'sasl.mechanism.inter.broker.protocol': 'PLAIN',
      'listener.name.internal.plain.sasl.jaas.config': `${plainModule} required ${users};`,
      'listener.name.internal.scram-sha-256.sasl.jaas.config': `${scramModule} required;`,
      // Kafka's unsecured tokens: anybody is who they say.
      'listener.name.internal.oauthbearer.sasl.jaas.config': `${oauthModule} required;`,
      'connections.max.reauth.ms': '2000',
      'max.connections.per.ip': '900',
      'max.connections.per.ip.overrides': '10.255.255.1:5',
    },
  });
  open = await gatewayFor(kafka);
  proxy = await gatewayFor(kafka, { destination: atSaslListener });
  const credential = 'SCRAM-SHA-256=[iterations=4096,password=builder]';
  const user = ['--entity-type', 'users', '--entity-name', 'bob'];
  await javaTool(open, 'kafka-configs', ['--alter', '--add-config', credential, ...user]);
});

after(async () => {
  await proxy?.close();
  await open?.close();
  await kafka?.stop();
});

function properties(
  kind: ProducerKind,
  mechanism: string,
  user: string,
  password: string,
): Record<string, string> {
  const common = { 'security.protocol': 'SASL_PLAINTEXT' };
  if (mechanism === 'OAUTHBEARER') return { ...common, ...bearer(kind, user) };
  if (kind !== 'java') {
    const rest = { 'sasl.mechanisms': mechanism, 'sasl.username': user, 'sasl.password': password };
    return { ...common, ...rest };
  }
  const module = mechanism === 'PLAIN' ? plainModule : scramModule;
  const jaas = `${module} required username="${user}" password="${password}";`;
  return { ...common, 'sasl.mechanism': mechanism, 'sasl.jaas.config': jaas };
}

/** Both clients make unsecured tokens by themselves. */
function bearer(kind: ProducerKind, user: string): Record<string, string> {
  if (kind === 'java') {
    const jaas = `${oauthModule} required unsecuredLoginStringClaim_sub="${user}";`;
    return { 'sasl.mechanism': 'OAUTHBEARER', 'sasl.jaas.config': jaas };
  }
  return {
    'sasl.mechanisms': 'OAUTHBEARER',
    'enable.sasl.oauthbearer.unsecure.jwt': 'true',
    'sasl.oauthbearer.config': `principal=${user}`,
  };
}

const cases: readonly [ProducerKind, string, string, string][] = [
  ['java', 'PLAIN', 'alice', 'wonder'],
  ['java', 'SCRAM-SHA-256', 'bob', 'builder'],
  ['librdkafka', 'PLAIN', 'alice', 'wonder'],
  ['librdkafka', 'SCRAM-SHA-256', 'bob', 'builder'],
  ['java', 'OAUTHBEARER', 'carol', ''],
  ['librdkafka', 'OAUTHBEARER', 'carol', ''],
];

describe('all at once', { concurrency: true }, () => {
  for (const [kind, mechanism, user, password] of cases) {
    test(`${kind} logs in by ${mechanism}, and stays logged in`, (context) =>
      staysLoggedIn(context, { kind, mechanism, user, password }));
  }
});

async function staysLoggedIn(
  context: TestContext,
  login: { kind: ProducerKind; mechanism: string; user: string; password: string },
): Promise<void> {
  const { kind, mechanism, user, password } = login;
  const skip = await skipReason(kind);
  if (skip !== false) return context.skip(skip);
  const topic = uniqueName('sasl');
  await createTopic(open, { topic });
  const { bootstrap } = proxy;
  const options = { bootstrap, topic, properties: properties(kind, mechanism, user, password) };
  const producer = await startProducer(kind, options);
  const consumer = await startConsumer(kind, {
    ...options,
    group: uniqueName('group'),
    reset: 'earliest',
  });
  try {
    const begunAt = performance.now();
    let count = 0;
    // Over two lifetimes of a session, so that both sides authenticate again under way.
    const goesOn = async (): Promise<boolean> => {
      await producer.send({ value: `v${count}` });
      count++;
      return performance.now() - begunAt > 4_500;
    };
    await until('over four seconds of records', goesOn, { deadlineMs: 60_000 });
    await consumer.waitForCount(count);
    assert.deepEqual(
      consumer.records.map(({ value }) => value),
      Array.from({ length: count }, (_, index) => `v${index}`),
    );
  } finally {
    await consumer.stop();
    await producer.stop();
  }
}

/** What an identity provider would sign. */
function unsecuredToken(subject: string, lifeMs: number): string {
  const seconds = Date.now() / 1000;
  const claims = { sub: subject, iat: seconds - 1, exp: seconds + lifeMs / 1000 };
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.`;
}

test('we log in by OAUTHBEARER ourselves, and again before a token ends', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-token-'));
  const file = path.join(directory, 'token');
  const tokenMs = 3_000;
  await writeFile(file, unsecuredToken('causeway', tokenMs));
  const cluster = connectCluster({
    bootstrapServers: [`127.0.0.1:${saslPort()}`],
    client: {
      'security.protocol': 'SASL_PLAINTEXT',
      'sasl.mechanism': 'OAUTHBEARER',
      'sasl.jaas.config': `${oauthModule} required;`,
      'sasl.oauthbearer.token.endpoint.url': `file://${file}`,
    },
  });
  try {
    const startedAt = performance.now();
    await until('calls over two tokens', async () => {
      await writeFile(file, unsecuredToken('causeway', tokenMs));
      await cluster.metadata([]);
      return performance.now() - startedAt > 2 * tokenMs;
    });
    await writeFile(file, unsecuredToken('causeway', -1_000));
    const refused = { code: 'AUTHENTICATION', message: /with a bearer token was refused/ };
    await until('the end of the session', async () => {
      const error = await cluster.metadata([]).then(
        () => undefined,
        (reason) => reason,
      );
      if (error !== undefined) assert.match(error.message, refused.message);
      return error?.code === refused.code;
    });
  } finally {
    await cluster.close();
    await rm(directory, { recursive: true, force: true });
  }
});

test('brokers without a secret key for delegation tokens say so', async () => {
  const cluster = connectCluster({
    bootstrapServers: [`127.0.0.1:${saslPort()}`],
    client: properties('java', 'PLAIN', 'alice', 'wonder'),
  });
  const tokens = new DelegationTokens({ cluster, now: () => performance.now() });
  try {
    await assert.rejects(tokens.tokenFor('app'), /have no delegation\.token\.secret\.key/);
  } finally {
    await cluster.close();
  }
});

test('limits that are too low for all our clients are told', async () => {
  const cluster = openCluster(kafka);
  try {
    await limitConnectionRate(cluster, 25);
    const [ofBroker, ofAddress, ...others] = await until('the quota', async () => {
      const warnings = await connectionLimitWarnings(cluster, new UpstreamAddresses());
      return warnings.length > 1 ? warnings : undefined;
    });
    assert.match(ofBroker ?? '', /^broker 1: max\.connections\.per\.ip is 900, and all our/);
    assert.match(ofAddress ?? '', /connection_creation_rate of our address is 25 per second/);
    assert.deepEqual(others, []);
  } finally {
    await limitConnectionRate(cluster, null);
    await cluster.close();
  }
});

/** Of the address that all tests have; null takes the quota away again. */
function limitConnectionRate(cluster: Cluster, value: number | null): Promise<void> {
  const of = { entityType: 'ip', entityName: '127.0.0.1' } as const;
  return setQuota(cluster, of, { key: 'connection_creation_rate', value });
}

test('a wrong password is refused by the destination, in its own words', async () => {
  const topic = uniqueName('sasl');
  await createTopic(open, { topic });
  const wrong = properties('java', 'PLAIN', 'alice', 'wrong');
  const consumer = await startConsumer('java', {
    bootstrap: proxy.bootstrap,
    topic,
    properties: wrong,
  });
  try {
    await consumer.waitForEnd();
    assert.match(`${consumer.errors.join()} ${consumer.stderr}`, /[Aa]uthentication/);
    assert.equal(consumer.records.length, 0);
  } finally {
    await consumer.kill();
  }
});
