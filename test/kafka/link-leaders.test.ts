// A source of several brokers: leaders move and die, and one comes back with less than it had.
// Broker 1 is also the controller, so that topics live on 2 and 3.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { createTopic, type NewTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({
    source: {
      brokers: 3,
      settings: {
        'replica.lag.time.max.ms': '3000',
        'broker.session.timeout.ms': '3000',
        'replica.selector.class': 'org.apache.kafka.common.replica.RackAwareReplicaSelector',
      },
    },
  });
  source = world.sourceKafka;
  await world.createLink('dr', { 'request.timeout.ms': '3000' });
});

after(() => world?.end());

/** On brokers 2 and 3, of which each alone may lead and be written to. */
const onTwoBrokers: NewTopic = {
  brokerIds: [2, 3],
  configs: { 'unclean.leader.election.enable': 'true', 'min.insync.replicas': '1' },
};

async function leader(topic: string): Promise<number> {
  const info = (await world.source.metadata([topic])).topics.get(topic);
  return info?.partitions[0]?.leaderId ?? -1;
}

describe('a mirror', () => {
  test('is read from the replica in our rack, and from the leader when that one dies', async () => {
    const topic = uniqueName('near');
    await createTopic(world.source, topic, onTwoBrokers);
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
    await world.assertIdentical(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });

  test('goes on when the leader of its source dies, and when it is back', async () => {
    const topic = uniqueName('moves');
    await world.mirrorNewTopic(topic, ['a'], onTwoBrokers);
    assert.equal(await leader(topic), 2);
    await source.kill9(2);
    await until('another leader', async () => (await leader(topic)) === 3, { deadlineMs: 30_000 });
    await produce(world.source, { topic }, ['b', 'c']);
    await world.caughtUp(topic, [3n]);
    await source.restartBroker(2);
    await produce(world.source, { topic }, ['d']);
    await world.caughtUp(topic, [4n]);
    await world.assertIdentical(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });

  test('follows a truncation that epochs prove (R8, R9)', async () => {
    const topic = uniqueName('truncated');
    await world.mirrorNewTopic(topic, ['a', 'b'], onTwoBrokers);
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
    await world.assertIdentical(topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });
});
