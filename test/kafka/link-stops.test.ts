// Named stops on real brokers, beside those in link-mirror: a source topic that was deleted,
// another cluster at the source's address, a history that was lost below what is mirrored. Each
// keeps the copy as it was, says its name, and has a way on. And what others have seen stop that
// must not: large records, and mirrors that are deleted and made again.
import assert from 'node:assert/strict';
import { access, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { isControl, readBatchHeader, readControlType } from '../../protocol/record-batch.ts';
import { alterTopicConfigs, readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { Relay } from '../helpers/relay.ts';
import { createTopic, deleteRecords, deleteTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({ limits: { sourceWatchMs: 500 } });
  ({ sourceKafka: source, destinationKafka: destination } = world);
  await world.createLink('dr', { 'cluster.link.retry.timeout.ms': '1000' });
});

after(() => world?.end());

function describeBatch(bytes: Buffer): { control: string | null } {
  const header = readBatchHeader(bytes, 0);
  return { control: isControl(header) ? readControlType(bytes, 0, header) : null };
}

async function mirrorOf(link: string, topic: string, values: readonly string[]): Promise<Buffer> {
  await world.mirrorNewTopic(topic, values, { link });
  return world.stored(topic);
}

test('R9: a source topic that was deleted ends its mirror, and is made anew or failed over', async () => {
  const [anew, kept] = [uniqueName('deleted'), uniqueName('deleted')];
  for (const topic of [anew, kept]) {
    const before = await mirrorOf('dr', topic, ['a', 'b']);
    await deleteTopic(world.source, topic);
    await world.inState(topic, 'FAILED');
    assert.equal(world.service.describeMirror(topic).error?.code, 'SOURCE_TOPIC_MAY_BE_DELETED');
    assert.ok(before.equals(await world.stored(topic)), 'the copy is as it was');
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

const quiet = { validateOnly: false, actor: 'test' };

test('D07: a mirror and a link that are deleted and made again begin at the first offset', async () => {
  const topic = uniqueName('anew');
  await world.createLink('rebuilt');
  const before = await mirrorOf('rebuilt', topic, ['a', 'b', 'c']);
  await world.service.deleteMirror(topic, { ...quiet, keepTopic: false });
  await world.service.deleteLink('rebuilt', { ...quiet, force: false });
  await world.createLink('rebuilt');
  await world.createMirror('rebuilt', topic);
  await world.caughtUp(topic, [3n]);
  assert.ok(before.equals(await world.stored(topic)), 'all of it, at the same offsets');
  await world.service.deleteLink('rebuilt', { ...quiet, force: true });
});

test('D16: a record of 3 MiB is mirrored, and holds up none of twenty other partitions', async () => {
  const [large, small] = [uniqueName('large'), uniqueName('small')];
  const limit = 'max.message.bytes';
  const configs = { [limit]: String(5 << 20) };
  await createTopic(world.source, large, { configs });
  await createTopic(world.source, small, { partitions: 20 });
  await world.createMirror('dr', large);
  // A broker tells of a new partition before it leads it.
  await until('a mirror of all partitions', () => world.createMirror('dr', small));
  const shell = (await readTopicConfigs(world.destination, [large], [limit])).get(large);
  assert.equal(shell?.configs.find(({ name }) => name === limit)?.value, configs[limit]);
  const send = async (): Promise<void> => {
    // Key and value are the same: of 3 MiB together.
    await produce(world.source, { topic: large }, ['x'.repeat(3 << 19)]);
    for (let partition = 0; partition < 20; partition++) {
      await produce(world.source, { topic: small, partition }, ['y']);
    }
  };
  await send();
  await world.caughtUp(large, [1n]);
  await world.caughtUp(small, Array(20).fill(1n));
  // The shell holds no records, so what it would take is no limit to the copy.
  const lowered = new Map([[large, [{ name: limit, value: '1000' }]]]);
  const altered = await alterTopicConfigs(world.destination, lowered);
  assert.equal(altered.get(large)?.errorCode, 0);
  await send();
  await world.caughtUp(large, [2n]);
  await world.caughtUp(small, Array(20).fill(2n));
  const log = world.directory.byName(large)?.partition(0)?.log;
  const read = await log?.read(1n, { bytesMax: 1, atLeastOneBatch: true });
  assert.ok((read?.chunks.reduce((sum, { length }) => sum + length, 0) ?? 0) > 3 << 20);
});

test('D19: nothing is fetched for a mirror that was deleted, or whose shell was', async () => {
  await world.createLink('gone');
  const [mirror, shell] = [uniqueName('mirror'), uniqueName('shell')];
  for (const topic of [mirror, shell]) await mirrorOf('gone', topic, ['a']);
  await world.service.deleteMirror(mirror, { ...quiet, keepTopic: false });
  await deleteTopic(world.destination, shell);
  // Fetching for it ends with that. At most about 3.5 s, while nothing else holds up the looks.
  await world.inState(shell, 'FAILED', 5_000);
  await world.service.deleteMirror(shell, { ...quiet, keepTopic: false });
  const count = (api: string): number => world.asked.get(`${api} by gone`) ?? 0;
  let fetches = count('Fetch');
  let looks = count('Metadata');
  await until(
    'nothing is fetched between two looks at the source',
    () => {
      if (count('Metadata') < looks + 2) return false;
      const before = fetches;
      [fetches, looks] = [count('Fetch'), count('Metadata')];
      return fetches === before;
    },
    { deadlineMs: 10_000 },
  );
  for (const topic of [mirror, shell]) {
    await until('the name is free', () => createTopic(world.destination, topic).then(() => true));
    await produce(world.source, { topic }, ['of the source']);
    await produce(world.destination, { topic }, ['of the destination']);
    assert.equal(world.directory.byName(topic), undefined);
  }
  looks = count('Metadata');
  await until('two more looks at the source', () => count('Metadata') >= looks + 2);
  assert.equal(count('Fetch'), fetches);
  for (const topic of [mirror, shell]) {
    const batches = await readBatches(world.destination, topic, 0);
    assert.deepEqual(
      batches.map(({ nextOffset }) => nextOffset),
      [1n],
      'one record, of the destination',
    );
  }
  await world.service.deleteLink('gone', { ...quiet, force: true });
});

test('R9: a mirror is made anew, and its old copy is the history of a topic of another name', async () => {
  const topic = uniqueName('archived');
  const name = `${topic}-before`;
  await createTopic(world.source, topic, { configs: { 'retention.ms': '123456789' } });
  await produce(world.source, { topic }, ['a', 'b']);
  await world.createMirror('dr', topic);
  const transaction = new Transaction(world.source, uniqueName('txn'));
  await transaction.begin(topic, [0]);
  await produce(world.source, { topic, transaction }, ['open']);
  await world.caughtUp(topic, [3n]);
  const before = await world.stored(topic);
  await deleteTopic(world.source, topic);
  await until('the topic is made again', () => createTopic(world.source, topic).then(() => true));
  await produce(world.source, { topic }, ['other', 'history', 'and', 'longer', 'too']);
  await world.inState(topic, 'FAILED');
  const { topicId } = world.service.describeMirror(topic);
  const request = { archiveAs: name, validateOnly: false, actor: 'test' };
  for (const archiveAs of [topic, '__causeway_x', 'no/name']) {
    await assert.rejects(world.service.recreateMirror(topic, { ...request, archiveAs }));
  }
  await world.service.recreateMirror(topic, { ...request, validateOnly: true });
  assert.equal(world.state.view.topics.has(name), false, 'a dry run');
  await world.service.recreateMirror(topic, request);
  await world.caughtUp(topic, [5n]);
  assert.notEqual(world.service.describeMirror(topic).topicId, topicId);

  const isKept = async (): Promise<void> => {
    const kept = await world.stored(name);
    assert.ok(kept.subarray(0, before.length).equals(before), 'what was mirrored, byte for byte');
    const { control } = describeBatch(kept.subarray(before.length));
    assert.equal(control, 'ABORT', 'the transaction that was open has ended');
    const [timeline] = world.state.view.topics.get(name)?.partitions ?? [];
    const [mirrored, native] = timeline?.extents ?? [];
    assert.deepEqual([mirrored?.start, mirrored?.end, native?.start], [0n, 4n, 4n]);
    assert.equal(world.directory.byName(name)?.mode, 'promoted');
    assert.equal(world.directory.byName(name)?.partition(0)?.log?.lastStableOffset, 4n);
  };
  await isKept();
  const found = (await readTopicConfigs(world.destination, [name], ['retention.ms'])).get(name);
  assert.equal(found?.configs[0]?.value, '123456789');
  assert.equal(await produce(world.destination, { topic: name }, ['native']), 0n);
  await world.restart();
  await isKept();
  assert.ok(!(await world.stored(topic)).subarray(0, before.length).equals(before));
  const logs = world.logDirectory(name, 0);
  await access(logs);
  await deleteTopic(world.destination, name);
  await until('the archive is forgotten', () => !world.state.view.topics.has(name));
  await until('its logs are gone', () =>
    access(logs).then(
      () => false,
      () => true,
    ),
  );
  assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
});

test('R11: an attempt to archive that was cut short leaves neither gate nor topic', async () => {
  const [made, notYet, foreign] = [uniqueName('made'), uniqueName('notyet'), uniqueName('foreign')];
  for (const topic of [made, foreign]) await createTopic(world.destination, topic);
  await produce(world.destination, { topic: foreign }, ['not ours']);
  const gates = [made, notYet, foreign].map((name) => ({
    put: {
      kind: 'topic',
      name,
      topicId: null,
      link: 'dr',
      sourceTopic: 'orders',
      sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAA',
      state: 'PENDING_MIRROR',
      stateTimeMs: Date.now(),
      error: null,
      partitions: [],
      stoppedBy: null,
      creating: { replicationFactor: 1, configs: {}, archivedPartitions: 1 },
    } as const,
  }));
  await world.state.commit(gates);
  await world.restart();
  await until('the gates are gone', () =>
    [made, notYet, foreign].every((name) => !world.state.view.topics.has(name)),
  );
  await until('only the foreign topic is left', async () => {
    const { topics } = await world.destination.metadata([made, foreign]);
    return topics.get(made)?.errorCode === 3 && topics.get(foreign)?.errorCode === 0;
  });
});

test('R9: another cluster at the address of the source fails the link, until it is gone', async () => {
  const [ours] = source.brokers;
  const [other] = destination.brokers;
  assert.ok(ours && other);
  const relay = await Relay.start({ target: ours });
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
    assert.ok(
      before.equals(await world.stored(topic)),
      'nothing of the other cluster is in the copy',
    );
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
  const ends = await world.mirrorNewTopic(topic, async () => {
    for (const value of ['a', 'b', 'c', 'd']) await produce(world.source, { topic }, [value]);
    await deleteRecords(world.source, topic, 0, 2n);
  });
  assert.deepEqual(ends, [4n]);
  assert.equal(world.service.describeMirror(topic).partitions[0]?.logStart, 2n);
  const before = await world.stored(topic);

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
  assert.ok(before.equals(await world.stored(topic)), 'the copy is as it was');
});
