// SASL passes through: the destination authenticates clients by its own rules, and again while they
// work. The broker's inter-broker listener is the one with SASL here; the gateway leads clients to
// it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import {
  type ProducerKind,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from './gateway-fixture.ts';

const plainModule = 'org.apache.kafka.common.security.plain.PlainLoginModule';
const scramModule = 'org.apache.kafka.common.security.scram.ScramLoginModule';
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
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256',
      'sasl.mechanism.inter.broker.protocol': 'PLAIN',
      'listener.name.internal.plain.sasl.jaas.config': `${plainModule} required ${users};`,
      'listener.name.internal.scram-sha-256.sasl.jaas.config': `${scramModule} required;`,
      'connections.max.reauth.ms': '2000',
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
  if (kind !== 'java') {
    const rest = { 'sasl.mechanisms': mechanism, 'sasl.username': user, 'sasl.password': password };
    return { ...common, ...rest };
  }
  const module = mechanism === 'PLAIN' ? plainModule : scramModule;
  const jaas = `${module} required username="${user}" password="${password}";`;
  return { ...common, 'sasl.mechanism': mechanism, 'sasl.jaas.config': jaas };
}

const cases: readonly [ProducerKind, string, string, string][] = [
  ['java', 'PLAIN', 'alice', 'wonder'],
  ['java', 'SCRAM-SHA-256', 'bob', 'builder'],
  ['librdkafka', 'PLAIN', 'alice', 'wonder'],
  ['librdkafka', 'SCRAM-SHA-256', 'bob', 'builder'],
];

for (const [kind, mechanism, user, password] of cases) {
  test(`${kind} logs in by ${mechanism}, and stays logged in`, async (context) => {
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
      await until('over four seconds of records', async () => {
        await producer.send({ value: `v${count}` });
        count++;
        return performance.now() - begunAt > 4_500;
      });
      await consumer.waitForCount(count);
      assert.deepEqual(
        consumer.records.map(({ value }) => value),
        Array.from({ length: count }, (_, index) => `v${index}`),
      );
    } finally {
      await consumer.stop();
      await producer.stop();
    }
  });
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
