// Each listed version of Kafka as a cluster of its own, and a cluster of several brokers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { defaultKafkaVersion, kafkaVersions } from '../helpers/kafka-jars.ts';
import { describeBrokers } from '../helpers/kafka-probe.ts';
import { createTopic, produceBatch } from '../helpers/kafka-setup.ts';

for (const version of kafkaVersions.filter((name) => name !== defaultKafkaVersion)) {
  test(`Kafka ${version} takes records under an unreachable name`, async () => {
    const cluster = await startKafkaCluster({ version, name: 'old' });
    try {
      assert.match(cluster.brokers[0]?.advertised ?? '', /\.invalid:9092$/);
      await createTopic(cluster, { topic: 'records', partitions: 2 });
      const target = { topic: 'records', partition: 1 };
      assert.equal(await produceBatch(cluster, target, [{ value: 'a' }]), 0);
      assert.equal(await produceBatch(cluster, target, [{ value: 'b' }]), 1);
    } finally {
      await cluster.stop();
    }
  });
}

test('three brokers: one is killed and comes back', async () => {
  const cluster = await startKafkaCluster({ brokers: 3, name: 'three' });
  try {
    const port = cluster.brokers[0]?.port ?? 0;
    assert.deepEqual(
      (await describeBrokers('127.0.0.1', port)).brokers.map(({ id }) => id).sort(),
      [1, 2, 3],
    );
    await createTopic(cluster, { topic: 'replicated', partitions: 3, replication: 3 });
    await cluster.kill9(2);
    await cluster.restartBroker(2);
    await cluster.ready(1, 3);
    for (const partition of [0, 1, 2]) {
      assert.equal(
        await produceBatch(cluster, { topic: 'replicated', partition }, [{ value: 'x' }]),
        0,
      );
    }
  } finally {
    await cluster.stop();
  }
});
