// Every foreign client against a plain broker: what fails here is not the proxy's fault.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ForeignClientError } from '../helpers/client-process.ts';
import {
  consumerKinds,
  producerKinds,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { committedOffsets } from '../helpers/group-offsets.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic, produceBatch } from '../helpers/kafka-setup.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { assertEachOnceInOrder, assertSameValues } from '../helpers/record-checks.ts';
import { missingToolchain } from '../helpers/toolchains.ts';
import { uniqueName } from '../helpers/wait.ts';

let cluster: KafkaCluster;

before(async () => {
  cluster = await startKafkaCluster({ name: 'clients', advertise: 'reachable' });
});

after(() => cluster.stop());

function values(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, index) => `value-${from + index}`);
}

describe('consumers', () => {
  for (const kind of consumerKinds) {
    test(`${kind} consumes, commits and goes on after its commit`, async (t) => {
      const skip = await skipReason(kind);
      if (skip) return t.skip(skip);
      const topic = uniqueName('consumed');
      const group = uniqueName('group');
      const { bootstrap } = cluster;
      await createTopic(cluster, { topic, partitions: 2 });
      const send = (partition: number, list: string[]): Promise<number> =>
        produceBatch(
          cluster,
          { topic, partition },
          list.map((value) => ({ key: 'k', value })),
        );
      await send(0, values(0, 5));
      await send(1, values(5, 8));

      const first = await startConsumer(kind, { bootstrap, topic, group, reset: 'earliest' });
      await first.waitForCount(8);
      assert.deepEqual(await first.commit(), { [`${topic}-0`]: 5, [`${topic}-1`]: 3 });
      assertEachOnceInOrder(first.records);
      assertSameValues(first.records, values(0, 8));
      await first.stop();

      await send(0, values(8, 10));
      const second = await startConsumer(kind, { bootstrap, topic, group, reset: 'none' });
      await second.waitForCount(2);
      assertSameValues(second.records, values(8, 10));
      assert.deepEqual(
        second.records.map(({ offset }) => offset),
        [5, 6],
      );
      await second.stop();
      assert.deepEqual([...first.errors, ...second.errors], []);
    });
  }
});

describe('a commit while records come', () => {
  for (const kind of consumerKinds) {
    test(`${kind} answers it with what is committed, not with where it is by then`, async (t) => {
      const skip = await skipReason(kind);
      if (skip) return t.skip(skip);
      const [topic, group] = [uniqueName('flowing'), uniqueName('group')];
      const { bootstrap } = cluster;
      await createTopic(cluster, { topic });
      const admin = openCluster(cluster);
      const consumer = await startConsumer(kind, { bootstrap, topic, group, reset: 'earliest' });
      let isFlowing = true;
      const flow = async (): Promise<void> => {
        while (isFlowing) await produceBatch(cluster, { topic, partition: 0 }, [{ value: 'v' }]);
      };
      const flowing = flow();
      try {
        for (let round = 1; round <= 25; round++) {
          await consumer.waitForCount(consumer.records.length + 1);
          const { [`${topic}-0`]: answered } = await consumer.commit();
          assert.deepEqual(await committedOffsets(admin, group, topic, 1), [answered]);
        }
      } finally {
        isFlowing = false;
        await flowing;
        await consumer.stop();
        await admin.close();
      }
    });
  }
});

describe('consumers without a group', () => {
  for (const kind of producerKinds) {
    test(`${kind} reads all partitions from their start and ends by itself`, async (t) => {
      const skip = await skipReason(kind);
      if (skip) return t.skip(skip);
      const topic = uniqueName('standalone');
      await createTopic(cluster, { topic, partitions: 2 });
      await produceBatch(cluster, { topic, partition: 0 }, [{ value: 'a' }, { value: 'b' }]);
      await produceBatch(cluster, { topic, partition: 1 }, [{ value: null }]);
      const { bootstrap } = cluster;
      const consumer = await startConsumer(kind, { bootstrap, topic, recordsMax: 3 });
      await consumer.waitForEnd();
      assertEachOnceInOrder(consumer.records);
      const read = consumer.records.map((record) => record.value ?? 'null').sort();
      assert.deepEqual(read, ['a', 'b', 'null']);
      assert.deepEqual(consumer.errors, []);
    });
  }
});

test('an older Java client runs the same program', async (t) => {
  const skip = await skipReason('java');
  if (skip) return t.skip(skip);
  const topic = uniqueName('older');
  await createTopic(cluster, { topic });
  const options = { bootstrap: cluster.bootstrap, topic, javaVersion: '3.9.2' as const };
  const producer = await startProducer('java', options);
  assert.equal((await producer.send({ value: 'a' })).offset, 0);
  const consumer = await startConsumer('java', { ...options, group: uniqueName('group') });
  await consumer.waitForCount(1);
  await producer.stop();
  await consumer.stop();
});

describe('producers', () => {
  for (const kind of producerKinds) {
    test(`${kind} produces and reports where each record went`, async (t) => {
      const skip = await skipReason(kind);
      if (skip) return t.skip(skip);
      const topic = uniqueName('produced');
      await createTopic(cluster, { topic, partitions: 2 });
      const { bootstrap } = cluster;
      const producer = await startProducer(kind, { bootstrap, topic, compression: 'gzip' });
      for (const [index, value] of values(0, 3).entries()) {
        const acknowledged = await producer.send({ partition: 1, key: 'k', value });
        assert.deepEqual(acknowledged, { topic, partition: 1, offset: index });
      }
      const missing = producer.send({ topic: uniqueName('missing'), partition: 0, value: 'x' });
      missing.catch(() => undefined);
      await producer.kill();
      await assert.rejects(missing);
    });

    test(`${kind} commits and aborts transactions`, async (t) => {
      const skip = await skipReason(kind);
      if (skip) return t.skip(skip);
      const topic = uniqueName('transactions');
      await createTopic(cluster, { topic });
      const { bootstrap } = cluster;
      const transactionalId = uniqueName('id');
      const producer = await startProducer(kind, { bootstrap, topic, transactionalId });
      await producer.begin();
      await producer.sendAll([
        { partition: 0, value: 'kept-0' },
        { partition: 0, value: 'kept-1' },
      ]);
      await producer.commit();
      await producer.begin();
      await producer.send({ partition: 0, value: 'dropped' });
      await producer.abort();
      await producer.begin();
      await producer.send({ partition: 0, value: 'kept-2' });
      await producer.commit();
      await producer.stop();

      const options = { bootstrap, topic, isolation: 'read_committed' as const };
      const consumer = await startConsumer('kafkajs', options);
      await consumer.waitForCount(3);
      assertSameValues(consumer.records, ['kept-0', 'kept-1', 'kept-2']);
      assertEachOnceInOrder(consumer.records);
      await consumer.stop();
    });
  }
});

test('a failure of the foreign client reaches the test with its code', async (t) => {
  const skip = await skipReason('java');
  if (skip) return t.skip(skip);
  const producer = await startProducer('java', {
    bootstrap: cluster.bootstrap,
    topic: uniqueName('missing'),
    properties: { 'max.block.ms': '500' },
  });
  await assert.rejects(producer.send({ value: 'x' }), (error: unknown) => {
    assert.ok(error instanceof ForeignClientError);
    assert.match(error.code, /TimeoutException/);
    return true;
  });
  await producer.stop();
});

test('console tools create and describe a topic', async (t) => {
  const reason = await missingToolchain('java');
  if (reason) return t.skip(reason);
  const topic = uniqueName('tool');
  await javaTool(cluster, 'kafka-topics', ['--create', '--topic', topic, '--partitions', '3']);
  const { stdout } = await javaTool(cluster, 'kafka-topics', ['--describe', '--topic', topic]);
  assert.match(stdout, /PartitionCount: 3/);
  await assert.rejects(
    javaTool(cluster, 'kafka-topics', ['--create', '--topic', topic]),
    /already exists/,
  );
});

test('kafkajs and sarama do not call a commit done that no broker has heard of', async (t) => {
  for (const kind of ['kafkajs', 'sarama'] as const) {
    const skip = await skipReason(kind);
    if (skip) return t.skip(skip);
    const [topic, group] = [uniqueName('away'), uniqueName('group')];
    await createTopic(cluster, { topic });
    await produceBatch(cluster, { topic, partition: 0 }, [{ value: 'v' }]);
    const consumer = await startConsumer(kind, {
      ...{ bootstrap: cluster.bootstrap, topic, group, reset: 'earliest' },
      ...(kind === 'kafkajs' ? { properties: { retries: '2' } } : {}),
    });
    try {
      await consumer.waitForCount(1);
      await cluster.kill9();
      await assert.rejects(consumer.commit(), ForeignClientError, kind);
    } finally {
      await consumer.kill();
      await cluster.restartBroker(1);
    }
  }
});
