// Who may read a mirror is what the destination's own ACLs say of the shell topic (design §3).
//
// Owns: a cluster with Kafka's authorizer, and a mirror in memory. Clients are all User:ANONYMOUS.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createCreatableTopic,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import { createTopicsApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { verdictAgeMsMax } from '../../src/gateway/authorizer.ts';
import type { Acl } from '../../src/state/records.ts';
import { createAcls } from '../../src/tasks/acl-requests.ts';
import { startConsumer } from '../helpers/foreign-clients.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeDirectory } from '../unit/gateway/read-fixtures.ts';
import { type GatewayUnderTest, gatewayFor } from './gateway-fixture.ts';

const denied = /not authorized/i;

describe('rights on mirrors', () => {
  let kafka: KafkaCluster;
  let cluster: Cluster;
  let underTest: GatewayUnderTest;
  const directory = new FakeDirectory();
  /** Ahead of real time. */
  let jumpedMs = 0;

  before(async () => {
    kafka = await startKafkaCluster({
      name: 'guarded',
      settings: {
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'allow.everyone.if.no.acl.found': 'true',
      },
    });
    const { addressMap, bootstrap } = kafka;
    cluster = connectCluster({ bootstrapServers: bootstrap.split(','), addressMap });
    underTest = await gatewayFor(kafka, { directory, now: () => performance.now() + jumpedMs });
  });

  after(async () => {
    await underTest?.close();
    await cluster?.close();
    await kafka?.stop();
  });

  async function createMirror(): Promise<string> {
    const name = uniqueName('guarded');
    const topic = createCreatableTopic({ name, numPartitions: 1, replicationFactor: 1 });
    const request = createCreateTopicsRequest({ topics: [topic], timeoutMs: 10_000 });
    await cluster.send({ kind: 'controller' }, createTopicsApi, request);
    const topicId = await until('the shell has a leader', async () => {
      const found = (await cluster.metadata([name])).topics.get(name);
      return found?.partitions[0]?.leaderId === 1 ? found.topicId : undefined;
    });
    const log = new MemoryMirrorLog(0n, batch(0n, 3), batch(3n, 2));
    directory.put({ name, topicId, mode: 'mirror', log, advertisedEpoch: 0 });
    return name;
  }

  async function allowOnly(name: string, operation: 'READ' | 'DESCRIBE'): Promise<void> {
    const topic = ['--add', '--topic', name, '--operation', operation];
    const args = [...topic, '--allow-principal', 'User:ANONYMOUS'];
    await javaTool(underTest, 'kafka-acls', args);
  }

  function aclOn(topic: string, permission: 'allow' | 'deny'): Acl {
    return {
      resourceType: 2,
      resourceName: topic,
      patternType: 3,
      principal: 'User:ANONYMOUS',
      host: '*',
      operation: 3,
      permissionType: permission === 'allow' ? 3 : 2,
    };
  }

  async function consume(topic: string) {
    const consumer = await startConsumer('java', {
      bootstrap: underTest.bootstrap,
      topic,
      reset: 'earliest',
    });
    try {
      await until('records or a refusal', () => consumer.records.length >= 5 || consumer.errors[0]);
      return { offsets: consumer.records.map(({ offset }) => offset), errors: consumer.errors };
    } finally {
      await consumer.kill();
    }
  }

  test('without ACLs everybody reads', async () => {
    const { offsets, errors } = await consume(await createMirror());
    assert.deepEqual(offsets, [0, 1, 2, 3, 4]);
    assert.deepEqual(errors, []);
  });

  test('who may describe but not read gets offsets and no records', async () => {
    const topic = await createMirror();
    await allowOnly(topic, 'DESCRIBE');
    const { stdout } = await javaTool(underTest, 'kafka-get-offsets', ['--topic', topic]);
    assert.equal(stdout.trim(), `${topic}:0:5`);
    const { offsets, errors } = await consume(topic);
    assert.deepEqual(offsets, []);
    assert.match(errors.join('\n'), denied);
  });

  test('READ alone is enough to read', async () => {
    const topic = await createMirror();
    await allowOnly(topic, 'READ');
    const { offsets } = await consume(topic);
    assert.deepEqual(offsets, [0, 1, 2, 3, 4]);
  });

  test('a deny rule wins over an allow rule', async () => {
    const topic = await createMirror();
    const acls = [aclOn(topic, 'allow'), aclOn(topic, 'deny')];
    assert.deepEqual(await createAcls(cluster, acls), [null, null]);
    const { offsets, errors } = await consume(topic);
    assert.deepEqual(offsets, []);
    assert.match(errors.join('\n'), denied);
  });

  test('a right that is taken away ends the reading', async () => {
    const topic = await createMirror();
    assert.deepEqual(await createAcls(cluster, [aclOn(topic, 'allow')]), [null]);
    const consumer = await startConsumer('java', {
      bootstrap: underTest.bootstrap,
      topic,
      reset: 'earliest',
    });
    try {
      await consumer.waitForCount(5);
      assert.deepEqual(await createAcls(cluster, [aclOn(topic, 'deny')]), [null]);
      assert.deepEqual(consumer.errors, []);
      // As long as a permission is kept.
      jumpedMs += verdictAgeMsMax;
      await until('a refusal', () => consumer.errors.length > 0);
      assert.match(consumer.errors.join('\n'), denied);
    } finally {
      await consumer.kill();
    }
  });
});
