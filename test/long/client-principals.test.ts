// Clients that show a certificate keep their principal: the destination's own authorizer sees and
// judges the name in it, on ordinary topics and on mirrors, and goes on doing so when sessions and
// delegation tokens end.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { parsePrincipalMapping } from '../../src/config/principal-mapping.ts';
import type { Acl } from '../../src/state/records.ts';
import { createAcls } from '../../src/tasks/acl-requests.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
  withoutOpenssl,
} from '../helpers/certificates.ts';
import { startConsumer, startProducer } from '../helpers/foreign-clients.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { jaasLine, securedAddress, startSecuredCluster } from '../helpers/secured-clusters.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from '../kafka/gateway-fixture.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeDirectory } from '../unit/gateway/read-fixtures.ts';

const password = 'causeway-at-destination-Zq3';
/** A session, and a token: both end several times while the test runs. */
const sessionMs = 2_000;
const tokenMs = 8_000;
/** Java needs half a minute for its start when the machine is busy. */
const deadlineMs = 90_000;
const skip = await withoutOpenssl();
const denied = /not authorized/i;

const topicResource = 2;
const userResource = 7;
const operations = { read: 3, write: 4, createTokens: 13 };

function acl(principal: string, resource: [number, string], operation: number): Acl {
  const [resourceType, resourceName] = resource;
  return {
    resourceType,
    resourceName,
    patternType: 3,
    principal: `User:${principal}`,
    host: '*',
    operation,
    permissionType: 3,
  };
}

describe('principals out of certificates', { skip }, () => {
  let ca: CertificateAuthority;
  let kafka: KafkaCluster;
  let admin: Cluster;
  let proxy: GatewayUnderTest;
  const directory = new FakeDirectory();
  const certificates = new Map<string, Certificate>();

  before(async () => {
    ca = await certificateAuthority();
    const certificate = await ca.sign('broker', 'IP:127.0.0.1');
    for (const name of ['App', 'Other', 'Nobody']) {
      certificates.set(name, await ca.sign(name, `DNS:${name}`));
    }
    kafka = await startSecuredCluster({
      name: 'principals',
      ca,
      certificate,
      password,
      sessionMs,
      settings: {
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:admin;User:ANONYMOUS',
        'delegation.token.secret.key': 'of-all-brokers-Zq9',
        'delegation.token.expiry.time.ms': String(tokenMs),
      },
    });
    admin = openCluster(kafka);
    const tokens = ['app', 'other'].map((owner) =>
      acl('causeway', [userResource, `User:${owner}`], operations.createTokens),
    );
    assert.deepEqual(await createAcls(admin, tokens), [null, null]);
    proxy = await gatewayFor(kafka, {
      directory,
      login: {
        bootstrap: securedAddress(kafka),
        client: {
          'security.protocol': 'SASL_SSL',
          'sasl.mechanism': 'PLAIN',
          'sasl.jaas.config': jaasLine('PLAIN', 'causeway', password),
          'ssl.truststore.location': ca.certificateFile,
        },
      },
      tls: {
        certificate: certificate.certificateFile,
        key: certificate.keyFile,
        clientCa: ca.certificateFile,
        clientAuth: 'required',
        principalMapping: parsePrincipalMapping('RULE:^CN=([^,]+).*$/$1/L,DEFAULT'),
      },
    });
  });

  after(async () => {
    await proxy?.close();
    await admin?.close();
    await kafka?.stop();
    await ca?.remove();
  });

  function shows(name: string): Record<string, string> {
    return {
      'security.protocol': 'SSL',
      'ssl.truststore.type': 'PEM',
      'ssl.truststore.location': ca.certificateFile,
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.location': certificates.get(name)?.keystoreFile ?? '',
    };
  }

  async function allow(topic: string): Promise<void> {
    const acls = [operations.read, operations.write].map((operation) =>
      acl('app', [topicResource, topic], operation),
    );
    assert.deepEqual(await createAcls(admin, acls), [null, null]);
  }

  async function refusedRead(name: string, topic: string): Promise<string> {
    const options = { bootstrap: proxy.bootstrap, topic, properties: shows(name) };
    const consumer = await startConsumer('java', { ...options, reset: 'earliest' });
    try {
      await until('a refusal', () => consumer.errors.length > 0, { deadlineMs });
      assert.equal(consumer.records.length, 0);
      return consumer.errors.join('\n');
    } finally {
      await consumer.kill();
    }
  }

  async function mirror(): Promise<string> {
    const name = uniqueName('mirror');
    await createTopic(kafka, { topic: name });
    const found = await admin.metadata([name]);
    const topicId = found.topics.get(name)?.topicId ?? '';
    const log = new MemoryMirrorLog(0n, batch(0n, 3), batch(3n, 2));
    directory.put({ name, topicId, mode: 'mirror', log, advertisedEpoch: 0 });
    return name;
  }

  test('the authorizer judges the name in the certificate, over sessions and tokens', async () => {
    const topic = uniqueName('owned');
    const mirrored = await mirror();
    await createTopic(kafka, { topic });
    await Promise.all([allow(topic), allow(mirrored)]);
    const options = { bootstrap: proxy.bootstrap, topic, properties: shows('App') };
    const [producer, consumer, reader] = await Promise.all([
      startProducer('java', options),
      startConsumer('java', { ...options, reset: 'earliest' }),
      startConsumer('java', { ...options, topic: mirrored, reset: 'earliest' }),
    ]);
    try {
      const refusal = refusedRead('Other', topic);
      const startedAt = performance.now();
      let count = 0;
      const goesOn = async (): Promise<boolean> => {
        await producer.send({ value: `v${count}` });
        count++;
        return performance.now() - startedAt > tokenMs + sessionMs;
      };
      await until('records over the life of a token', goesOn, { deadlineMs });
      await consumer.waitForCount(count);
      assert.deepEqual(
        consumer.records.map(({ value }) => value),
        Array.from({ length: count }, (_, index) => `v${index}`),
      );
      await reader.waitForCount(5);
      assert.match(await refusal, denied);
      assert.match(await refusedRead('Other', mirrored), denied);
      const isLost = /be renewed|the broker closed/;
      const lost = proxy.events.since(0).filter(({ message }) => isLost.test(message));
      assert.deepEqual(lost, []);
    } finally {
      await Promise.all([producer.stop(), consumer.stop(), reader.stop()]);
    }
  });

  test('an owner that we may not stand for is one clear line', async () => {
    const consumer = await startConsumer('java', {
      bootstrap: proxy.bootstrap,
      topic: 'any',
      properties: shows('Nobody'),
    });
    const lines = () => proxy.events.since(0).filter(({ event }) => event === 'principal_refused');
    await until('the line', () => lines().length > 0, { deadlineMs });
    await consumer.kill();
    assert.match(lines()[0]?.message ?? '', /needs the right CREATE_TOKENS on USER:User:nobody/);
  });
});
