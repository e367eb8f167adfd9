// A source of Kafka 2.8 that speaks as brokers before it did: no topic ids, old message formats on
// request. What a link can see there of a topic that is not the one that was mirrored.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce } from '../helpers/own-producer.ts';
import { createTopic, deleteTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from '../kafka/link-fixture.ts';

let source: KafkaCluster;
let world: LinkWorld;
const request = { archiveAs: null, validateOnly: false, actor: 'test' };

before(async () => {
  world = await startLinkWorld({
    source: { version: '2.8.2', settings: { 'inter.broker.protocol.version': '2.7' } },
  });
  source = world.sourceKafka;
  await world.createLink('dr', { 'cluster.link.retry.timeout.ms': '3000' });
});

after(() => world?.end());

async function mirrorOf(topic: string, partitions: number): Promise<Buffer> {
  const writeTwo = async (): Promise<void> => {
    await produce(world.source, { topic }, ['a', 'b']);
    await produce(world.source, { topic }, ['c']);
  };
  const [end] = await world.mirrorNewTopic(topic, writeTwo, { partitions });
  assert.equal(end, 3n);
  return world.stored(topic);
}

async function makeAgain(topic: string, partitions: number): Promise<void> {
  await deleteTopic(world.source, topic);
  await until('the topic is made again', () =>
    createTopic(world.source, topic, { partitions }).then(() => true),
  );
}

async function recreated(topic: string, end: bigint): Promise<void> {
  await world.service.recreateMirror(topic, request);
  await world.caughtUp(topic, [end]);
  await world.assertIdentical(topic);
}

test('the source tells no topic ids', async () => {
  const topic = uniqueName('idless');
  await createTopic(world.source, topic);
  const info = (await world.source.metadata([topic])).topics.get(topic);
  assert.equal(info?.topicId, 'AAAAAAAAAAAAAAAAAAAAAA');
});

test('R9: a topic that was made again with fewer partitions', async () => {
  const topic = uniqueName('shrunk');
  const before = await mirrorOf(topic, 2);
  await makeAgain(topic, 1);
  await produce(world.source, { topic }, ['other', 'history', 'longer', 'than', 'before']);
  await world.inState(topic, 'FAILED');
  const { error } = world.service.describeMirror(topic);
  // Whichever is seen first: that there are fewer, or that another batch is where ours was.
  assert.match(error?.code ?? '', /^SOURCE_(PARTITIONS_DECREASED|TOPIC_ID_CHANGED)$/);
  assert.ok(before.equals(await world.stored(topic)), 'nothing of the other topic is in the copy');
  await recreated(topic, 5n);
});

test('R9: a topic that was made again with as many partitions and more records', async () => {
  const topic = uniqueName('again');
  const before = await mirrorOf(topic, 1);
  await makeAgain(topic, 1);
  await produce(world.source, { topic }, ['other', 'history', 'longer', 'than', 'before']);
  await world.inState(topic, 'FAILED');
  const { error } = world.service.describeMirror(topic);
  assert.match(error?.code ?? '', /^(SOURCE_TOPIC_ID_CHANGED|UNEXPECTED_TRUNCATION)$/);
  assert.ok(before.equals(await world.stored(topic)), 'nothing of the other topic is in the copy');
  await recreated(topic, 5n);
});

test('R9: a topic that was made again while its mirror was paused', async () => {
  const topic = uniqueName('paused');
  const before = await mirrorOf(topic, 1);
  await world.command('pause', topic);
  await makeAgain(topic, 1);
  await produce(world.source, { topic }, ['other', 'history', 'longer', 'than', 'before']);
  await world.command('resume', topic);
  await world.inState(topic, 'FAILED');
  assert.ok(before.equals(await world.stored(topic)), 'nothing of the other topic is in the copy');
});

test('R9: a topic that was made again, with lower epochs than it had', async () => {
  const topic = uniqueName('epochs');
  const ends = await world.mirrorNewTopic(topic, async () => {
    await source.stopBroker();
    await source.restartBroker();
    await produce(world.source, { topic }, ['a', 'b', 'c']);
  });
  assert.deepEqual(ends, [3n]);
  const before = await world.stored(topic);
  await makeAgain(topic, 1);
  await produce(world.source, { topic }, ['other', 'history', 'longer', 'than', 'before']);
  await world.inState(topic, 'FAILED');
  const { error } = world.service.describeMirror(topic);
  const causes = /^(NON_MONOTONIC_|SOURCE_TOPIC_ID_CHANGED|UNEXPECTED_TRUNCATION)/;
  assert.match(error?.code ?? '', causes);
  assert.ok(before.equals(await world.stored(topic)), 'nothing of the other topic is in the copy');
});

test('messages of format 1 end the mirror by name', async () => {
  const topic = uniqueName('format');
  const configs = { 'message.format.version': '0.10.2' };
  await createTopic(world.source, topic, { configs });
  await produce(world.source, { topic }, ['old']);
  await world.createMirror('dr', topic);
  await world.inState(topic, 'FAILED');
  const { error, partitions } = world.service.describeMirror(topic);
  assert.equal(error?.code, 'UNSUPPORTED_MESSAGE_FORMAT');
  assert.match(error?.message ?? '', new RegExp(`^${topic}-0 at offset 0: `));
  assert.equal(partitions[0]?.mirrorEnd, 0n);
});
