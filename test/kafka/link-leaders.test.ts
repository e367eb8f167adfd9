// A source of several brokers: leaders move and die, and one comes back with less than it had.
// Broker 1 is also the controller, so that topics live on 2 and 3.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createCreatableReplicaAssignment,
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import { createTopicsApi } from '../../src/cluster/apis.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  [source, destination] = await Promise.all([
    startKafkaCluster({
      name: 'source',
      brokers: 3,
      settings: {
        'replica.lag.time.max.ms': '3000',
        'broker.session.timeout.ms': '3000',
        'replica.selector.class': 'org.apache.kafka.common.replica.RackAwareReplicaSelector',
      },
    }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  world = await new LinkWorld({ source, destination }).open();
  await world.createLink('dr', { 'request.timeout.ms': '3000' });
});

after(async () => {
  await world?.close();
  await Promise.all([source?.stop(), destination?.stop()]);
});

async function createOn(topic: string, brokerIds: readonly number[]): Promise<void> {
  const response = await world.source.send(
    { kind: 'controller' },
    createTopicsApi,
    createCreateTopicsRequest({
      topics: [
        createCreatableTopic({
          name: topic,
          numPartitions: -1,
          replicationFactor: -1,
          assignments: [
            createCreatableReplicaAssignment({ partitionIndex: 0, brokerIds: [...brokerIds] }),
          ],
          configs: [
            createCreatableTopicConfig({ name: 'unclean.leader.election.enable', value: 'true' }),
            createCreatableTopicConfig({ name: 'min.insync.replicas', value: '1' }),
          ],
        }),
      ],
      timeoutMs: 20_000,
    }),
  );
  assert.equal(response.topics[0]?.errorCode, 0, response.topics[0]?.errorMessage ?? topic);
}

async function leader(topic: string): Promise<number> {
  const info = (await world.source.metadata([topic])).topics.get(topic);
  return info?.partitions[0]?.leaderId ?? -1;
}

async function assertSame(topic: string): Promise<void> {
  const expected = await readBatches(world.source, topic, 0);
  const log = world.directory.byName(topic)?.partition(0)?.log;
  assert.ok(log, 'an open log');
  const read = await log.read(log.logStart, { bytesMax: 1 << 24, atLeastOneBatch: true });
  const bytes = Buffer.concat(expected.map((one) => one.bytes));
  assert.ok(bytes.equals(Buffer.concat([...read.chunks])), `${bytes.length} bytes`);
}

describe('a mirror', () => {
  test('is read from the replica in our rack, and from the leader when that one dies', async () => {
    const topic = uniqueName('near');
    await createOn(topic, [2, 3]);
    await world.createLink('near', { 'request.timeout.ms': '3000' });
    await world.createMirror('near', topic);
    await until('a leader', async () => (await leader(topic)) === 2);
    const from = (nodeId: number): number => world.asked.get(`Fetch of ${nodeId}`) ?? 0;
    await produce(world.source, { topic }, ['a']);
    await world.caughtUp(topic, [1n]);
    const before = from(3);
    const changes = [{ name: 'client.rack', value: 'rack-3' }];
    await world.service.alterLink('near', changes, { validateOnly: false, actor: 'test' });
    await until('reads at the replica in our rack', async () => {
      await produce(world.source, { topic }, ['b']);
      return from(3) > before + 2;
    });
    const written = await until('all is here', async () => {
      const end = (await readBatches(world.source, topic, 0)).at(-1)?.nextOffset ?? 0n;
      return world.service.describeMirror(topic).partitions[0]?.mirrorEnd === end ? end : 0n;
    });
    await source.kill9(3);
    await until('written without it', async () => {
      await produce(world.source, { topic }, ['c']);
      return true;
    });
    await until(
      'the leader is read again',
      () => (world.service.describeMirror(topic).partitions[0]?.mirrorEnd ?? 0n) > written,
      { deadlineMs: 40_000, describe: () => world.describe(topic) },
    );
    await source.restartBroker(3);
    await assertSame(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });

  test('goes on when the leader of its source dies, and when it is back', async () => {
    const topic = uniqueName('moves');
    await createOn(topic, [2, 3]);
    await produce(world.source, { topic }, ['a']);
    await world.createMirror('dr', topic);
    await world.caughtUp(topic, [1n]);
    assert.equal(await leader(topic), 2);
    await source.kill9(2);
    await until('another leader', async () => (await leader(topic)) === 3, { deadlineMs: 30_000 });
    await produce(world.source, { topic }, ['b', 'c']);
    await world.caughtUp(topic, [3n]);
    await source.restartBroker(2);
    await produce(world.source, { topic }, ['d']);
    await world.caughtUp(topic, [4n]);
    await assertSame(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });

  test('follows a truncation that epochs prove (R8, R9)', async () => {
    const topic = uniqueName('truncated');
    await createOn(topic, [2, 3]);
    await produce(world.source, { topic }, ['a', 'b']);
    await world.createMirror('dr', topic);
    await world.caughtUp(topic, [2n]);
    await until('two replicas in step', async () => (await leader(topic)) === 2);
    await source.kill9(3);
    await until('written to one replica only', async () => {
      await produce(world.source, { topic }, ['lost']);
      return true;
    });
    const extent = await until('the lost records are mirrored', () => {
      const end = world.service.describeMirror(topic).partitions[0]?.mirrorEnd ?? 0n;
      return end > 2n ? end : undefined;
    });
    await source.kill9(2);
    await source.restartBroker(3);
    await until('an unclean leader', async () => (await leader(topic)) === 3, {
      deadlineMs: 40_000,
    });
    // The source is quiet: nothing but its epochs says that it was cut.
    await until(
      'the truncation is told',
      () =>
        world.events
          .since(0)
          .some(({ event, fields }) => event === 'mirror_truncated' && fields.topic === topic),
      { deadlineMs: 30_000, describe: () => world.describe(topic) },
    );
    const shown = () => {
      const { advertisedEpoch, isTruncating } = world.directory.byName(topic)?.partition(0) ?? {};
      return [advertisedEpoch, isTruncating];
    };
    await world.caughtUp(topic, [2n]);
    const before = shown();
    assert.equal(before[1], true, 'readers are sent away');
    await world.restart();
    assert.deepEqual(shown(), before, 'after a restart too');
    await produce(world.source, { topic }, ['new history']);
    await world.caughtUp(topic, [3n]);
    await until(
      'readers are served again',
      () => world.directory.byName(topic)?.partition(0)?.isTruncating === false,
      { describe: () => world.describe(topic) },
    );
    assert.ok(extent >= 3n, `${extent}`);
    await assertSame(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });
});
