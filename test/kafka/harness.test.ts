// The harness itself, against real brokers: without these, no other result here means anything.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { describeBrokers } from '../helpers/kafka-probe.ts';
import { createTopic, produceBatch, withAdmin } from '../helpers/kafka-setup.ts';
import { uniqueName } from '../helpers/wait.ts';

let cluster: KafkaCluster;

before(async () => {
  cluster = await startKafkaCluster({ name: 'harness' });
});

after(() => cluster.stop());

async function endOffset(topic: string): Promise<number> {
  const [partition] = await withAdmin(cluster, (admin) => admin.fetchTopicOffsets(topic));
  return Number(partition?.high);
}

test('clients are told a name that cannot be reached', async () => {
  const [broker] = cluster.brokers;
  assert.ok(broker);
  const view = await describeBrokers(broker.host, broker.port);
  assert.equal(view.clusterId, cluster.clusterId);
  assert.deepEqual(
    view.brokers.map(({ host, port }) => `${host}:${port}`),
    [broker.advertised],
  );
  assert.match(broker.advertised, /\.invalid:9092$/);
  assert.equal(cluster.addressMap[broker.advertised], `127.0.0.1:${broker.port}`);
});

test('ports stay below the range of outgoing connections', () => {
  for (const { port } of cluster.brokers) assert.ok(port < 32_768, `port ${port}`);
});

test('a killed broker comes back at the same port with its data', async () => {
  const topic = uniqueName('kept');
  await createTopic(cluster, { topic });
  assert.equal(await produceBatch(cluster, { topic }, [{ value: 'a' }, { value: 'b' }]), 0);
  const { bootstrap, clusterId } = cluster;
  const firstPid = cluster.pid();
  await cluster.kill9();
  await assert.rejects(describeBrokers('127.0.0.1', cluster.brokers[0]?.port ?? 0));
  await cluster.restartBroker();
  assert.notEqual(cluster.pid(), firstPid);
  assert.equal(cluster.bootstrap, bootstrap);
  const view = await describeBrokers('127.0.0.1', cluster.brokers[0]?.port ?? 0);
  assert.equal(view.clusterId, clusterId);
  assert.equal(await endOffset(topic), 2);
  assert.equal(await produceBatch(cluster, { topic }, [{ value: 'c' }]), 2);
});

test('a paused broker is silent and goes on when resumed', async () => {
  const port = cluster.brokers[0]?.port ?? 0;
  await cluster.pause();
  try {
    await assert.rejects(describeBrokers('127.0.0.1', port, 500), /no answer/);
  } finally {
    cluster.resume();
  }
  assert.equal((await describeBrokers('127.0.0.1', port)).clusterId, cluster.clusterId);
});
