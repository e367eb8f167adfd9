// Named stops on real brokers, beside those in link-mirror: a source topic that was deleted,
// another cluster at the source's address, a history that was lost below what is mirrored. Each
// keeps the copy as it was, says its name, and has a way on.
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce } from '../helpers/own-producer.ts';
import { SwitchedRelay } from '../helpers/switched-relay.ts';
import { createTopic, deleteRecords, deleteTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source' }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  world = await new LinkWorld({ source, destination, limits: { sourceWatchMs: 500 } }).open();
  await world.createLink('dr', { 'cluster.link.retry.timeout.ms': '1000' });
});

after(async () => {
  await world?.close();
  await Promise.all([source?.stop(), destination?.stop()]);
});

async function stored(topic: string): Promise<Buffer> {
  const log = world.directory.byName(topic)?.partition(0)?.log;
  assert.ok(log, 'the copy can be read');
  const { chunks } = await log.read(log.logStart, { bytesMax: 1 << 20, atLeastOneBatch: true });
  return Buffer.concat([...chunks]);
}

async function mirrorOf(link: string, topic: string, values: readonly string[]): Promise<Buffer> {
  await createTopic(world.source, topic);
  await produce(world.source, { topic }, values);
  await world.createMirror(link, topic);
  await world.caughtUp(topic, [BigInt(values.length)]);
  return stored(topic);
}

test('R9: a source topic that was deleted ends its mirror, and is made anew or failed over', async () => {
  const [anew, kept] = [uniqueName('deleted'), uniqueName('deleted')];
  for (const topic of [anew, kept]) {
    const before = await mirrorOf('dr', topic, ['a', 'b']);
    await deleteTopic(world.source, topic);
    await world.inState(topic, 'FAILED');
    assert.equal(world.service.describeMirror(topic).error?.code, 'SOURCE_TOPIC_MAY_BE_DELETED');
    assert.ok(before.equals(await stored(topic)), 'the copy is as it was');
  }
  const request = { archiveAs: null, validateOnly: false, actor: 'test' };
  const without = world.service.recreateMirror(anew, request);
  await assert.rejects(without, { code: 'SOURCE_TOPIC_NOT_FOUND' });
  await until('the topic is made again', () => createTopic(world.source, anew).then(() => true));
  await produce(world.source, { topic: anew }, ['c']);
  await world.service.recreateMirror(anew, request);
  await world.caughtUp(anew, [1n]);

  const { rows } = await world.command('failover', kept);
  assert.deepEqual([rows[0]?.error, rows[0]?.state], [null, 'STOPPED']);
  assert.equal(rows[0]?.partitions[0]?.mirrorEnd, 2n);
});

test('R9: another cluster at the address of the source fails the link, until it is gone', async () => {
  const [ours] = source.brokers;
  const [other] = destination.brokers;
  assert.ok(ours && other);
  const relay = await SwitchedRelay.start(ours);
  try {
    const mapped = [ours, other].map(({ advertised }) => `${advertised}=${relay.address}`);
    await world.createLink('swapped', {
      'bootstrap.servers': relay.address,
      'address.map': mapped.join(','),
    });
    const topic = uniqueName('swapped');
    const before = await mirrorOf('swapped', topic, ['a', 'b']);
    relay.switchTo(other);
    await world.inState(topic, 'LINK_FAILED');
    const { linkState, linkErrorMessage } = world.service.describeLink('swapped');
    assert.equal(linkState, 'FAILED');
    assert.match(linkErrorMessage ?? '', new RegExp(`another cluster: ${destination.clusterId}`));
    assert.ok(before.equals(await stored(topic)), 'nothing of the other cluster is in the copy');
    relay.switchTo(ours);
    await world.inState(topic, 'ACTIVE');
    await produce(world.source, { topic }, ['c']);
    await world.caughtUp(topic, [3n]);
  } finally {
    await world.service.deleteLink('swapped', { actor: 'test', force: true, validateOnly: false });
    await relay.stop();
  }
});

test('R9: a source that lost history below the start of the mirror is not followed', async () => {
  const topic = uniqueName('wiped');
  await createTopic(world.source, topic);
  for (const value of ['a', 'b', 'c', 'd']) await produce(world.source, { topic }, [value]);
  await deleteRecords(world.source, topic, 0, 2n);
  await world.createMirror('dr', topic);
  await world.caughtUp(topic, [4n]);
  assert.equal(world.service.describeMirror(topic).partitions[0]?.logStart, 2n);
  const before = await stored(topic);

  // A disk that was lost: the broker comes back with an empty log, from offset 0.
  await source.kill9();
  await rm(path.join(source.dataDirectory(), 'log-start-offset-checkpoint'), { force: true });
  const directory = path.join(source.dataDirectory(), `${topic}-0`);
  for (const file of await readdir(directory)) {
    if (file !== 'partition.metadata') await rm(path.join(directory, file));
  }
  await source.restartBroker();
  await produce(world.source, { topic }, ['another history']);
  await world.inState(topic, 'FAILED');
  const { error } = world.service.describeMirror(topic);
  assert.equal(error?.code, 'UNEXPECTED_TRUNCATION');
  assert.match(error?.message ?? '', /cannot be followed in a mirror that holds \[2, 4\)/);
  assert.ok(before.equals(await stored(topic)), 'the copy is as it was');
});
