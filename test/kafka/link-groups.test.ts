// Committed offsets of groups on real brokers: followed every second, bounded by the mirror's end,
// left alone where they are live, have moved or were deleted, exact at a switch.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { CoordinatorMap, commitGroup, readGroups } from '../../src/tasks/group-offsets.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce } from '../helpers/own-producer.ts';
import { values } from '../helpers/raw-writes.ts';
import { createTopic, deleteTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({
    destination: {
      advertise: 'reachable',
      settings: { 'group.initial.rebalance.delay.ms': '0' },
    },
    limits: { groupRecheckMs: 500 },
  });
  destination = world.destinationKafka;
  await world.createLink('dr', {
    'consumer.offset.sync.enable': 'true',
    'consumer.offset.sync.ms': '200',
    'consumer.offset.group.filters': JSON.stringify({
      groupFilters: [
        { name: '*', patternType: 'LITERAL', filterType: 'INCLUDE' },
        { name: 'secret-', patternType: 'PREFIXED', filterType: 'EXCLUDE' },
      ],
    }),
  });
});

after(() => world?.end());

async function commit(
  cluster: Cluster,
  group: string,
  at: { topic: string; partition?: number; offset: bigint; metadata?: string },
): Promise<void> {
  const { topic, partition = 0, offset, metadata = null } = at;
  await until(`a commit of ${group}`, async () => {
    const nodeId = await coordinator(cluster, group);
    const errors = await commitGroup(cluster, { group, nodeId }, [
      { topic, partition, position: { offset, metadata } },
    ]);
    return errors.get(`${topic}/${partition}`) === 0;
  });
}

async function coordinator(cluster: Cluster, group: string): Promise<number> {
  return until(`the coordinator of ${group}`, async () => {
    const located = await new CoordinatorMap(cluster).locate([group]);
    const [nodeId] = [...located.keys()];
    return nodeId;
  });
}

async function committed(cluster: Cluster, group: string, topic: string, partition = 0) {
  const nodeId = await coordinator(cluster, group);
  const options = { nodeId, requireStable: false, topicsOf: null };
  const reads = await readGroups(cluster, [group], options);
  return reads.get(group)?.offsets.get(`${topic}/${partition}`);
}

function arrives(group: string, topic: string, offset: bigint): Promise<unknown> {
  return until(
    `${group} at ${offset}`,
    async () => (await committed(world.destination, group, topic))?.offset === offset,
    {
      describe: () =>
        `${world.service
          .listGroups('dr')
          .map((status) => Object.values(status).join(' '))
          .join('\n')}\n${world.describe(topic)}`,
    },
  );
}

function heldReason(group: string): string | null | undefined {
  return world.service.listGroups('dr').find((status) => status.group === group)?.held;
}

async function mirrorWith(count: number): Promise<string> {
  const topic = uniqueName('grouped');
  await world.mirrorNewTopic(topic, values('v', count));
  return topic;
}

describe('groups', () => {
  test('follow their source, backwards too, with their metadata (R6)', async () => {
    const topic = await mirrorWith(10);
    const group = uniqueName('follow');
    await commit(world.source, group, { topic, offset: 4n, metadata: 'checkpoint 7' });
    await arrives(group, topic, 4n);
    assert.equal((await committed(world.destination, group, topic))?.metadata, 'checkpoint 7');
    await commit(world.source, group, { topic, offset: 9n });
    await arrives(group, topic, 9n);
    await commit(world.source, group, { topic, offset: 2n });
    await arrives(group, topic, 2n);
    // The first groups of a destination are in its way for a moment: its coordinator is loading.
    await until('no error', () => world.service.describeLink('dr').tasks[0]?.state === 'ACTIVE', {
      describe: () => JSON.stringify(world.service.describeLink('dr').tasks[0]?.errors),
    });
  });

  test('D02, D03, D04: are exact wherever they are, far behind and at the very end', async () => {
    const topic = await mirrorWith(100);
    const batch = values('v', 1_000);
    for (let round = 0; round < 19; round++) await produce(world.source, { topic }, batch);
    await world.caughtUp(topic, [19_100n]);
    const positions = [0n, 1n, 7n, 50n, 99n, 1_000n, 9_999n, 19_099n, 19_100n];
    const groups = new Map(positions.map((offset) => [uniqueName(`at-${offset}`), offset]));
    for (const [group, offset] of groups) await commit(world.source, group, { topic, offset });
    for (const [group, offset] of groups) await arrives(group, topic, offset);
    const [group = ''] = [...groups].find(([, offset]) => offset === 50n) ?? [];
    await commit(world.source, group, { topic, offset: 51n });
    await arrives(group, topic, 51n);
  });

  test('D05: never pass the durable end of the mirror, and follow it (R5)', async () => {
    const topic = await mirrorWith(3);
    const group = uniqueName('clamped');
    await world.command('pause', topic);
    await produce(world.source, { topic }, ['late', 'later']);
    await commit(world.source, group, { topic, offset: 5n });
    await world.command('resume', topic);
    await arrives(group, topic, 5n);
    // A commit beyond the source's own end is bounded by the mirror's.
    await commit(world.source, group, { topic, offset: 50n });
    await until('clamped', () => heldReason(group) === 'clamped');
    assert.equal((await committed(world.destination, group, topic))?.offset, 5n);
    await produce(world.source, { topic }, ['x']);
    await arrives(group, topic, 6n);
  });

  test('that moved at the destination are not rewound (R16)', async () => {
    const topic = await mirrorWith(10);
    const group = uniqueName('moved');
    await commit(world.source, group, { topic, offset: 3n });
    await arrives(group, topic, 3n);
    await commit(world.destination, group, { topic, offset: 8n });
    await commit(world.source, group, { topic, offset: 4n });
    await until('held', () => heldReason(group) === 'moved');
    assert.equal((await committed(world.destination, group, topic))?.offset, 8n);
    // Once the source is past it, it leads again.
    await commit(world.source, group, { topic, offset: 9n });
    await arrives(group, topic, 9n);
  });

  test('D23: that are live at the destination are left alone and named, others follow', async () => {
    const topic = await mirrorWith(10);
    const group = uniqueName('live');
    const kafka = new Kafka({
      brokers: destination.bootstrap.split(','),
      logLevel: logLevel.NOTHING,
    });
    const consumer = kafka.consumer({ groupId: group });
    await consumer.connect();
    await consumer.subscribe({ topic });
    await consumer.run({ eachMessage: async () => undefined });
    try {
      const other = uniqueName('not-live');
      await commit(world.source, group, { topic, offset: 7n });
      await commit(world.source, other, { topic, offset: 6n });
      await arrives(other, topic, 6n);
      await until('named as live', () => heldReason(group) === 'live');
      assert.notEqual((await committed(world.destination, group, topic))?.offset, 7n);
    } finally {
      await consumer.disconnect();
    }
    await arrives(group, topic, 7n);
  });

  test('outside of the filters and the mirrored topics are not touched', async () => {
    const topic = await mirrorWith(5);
    const other = uniqueName('unmirrored');
    await createTopic(world.source, other);
    await createTopic(world.destination, other);
    const group = uniqueName('both');
    const secret = uniqueName('secret-');
    await commit(world.source, secret, { topic, offset: 2n });
    await commit(world.source, group, { topic: other, offset: 2n });
    await commit(world.source, group, { topic, offset: 3n });
    await arrives(group, topic, 3n);
    assert.equal(await committed(world.destination, group, other), undefined);
    assert.equal(await committed(world.destination, secret, topic), undefined);
  });

  test('R16: have the prefix of their link where that is asked for, and no others', async () => {
    const link = uniqueName('prefixed');
    await world.createLink(link, {
      'cluster.link.prefix': 'eu.',
      'consumer.offset.sync.enable': 'true',
      'consumer.offset.sync.ms': '200',
      'consumer.group.prefix.enable': 'true',
    });
    const topic = uniqueName('grouped');
    await world.mirrorNewTopic(topic, ['a', 'b', 'c'], { link });
    assert.equal(world.service.describeMirror(`eu.${topic}`).partitions[0]?.mirrorEnd, 3n);
    const group = uniqueName('named');
    await commit(world.source, group, { topic, offset: 2n });
    await arrives(`eu.${group}`, `eu.${topic}`, 2n);
    assert.equal(await committed(world.destination, group, `eu.${topic}`), undefined);
  });

  test('that were deleted at the destination stay deleted until the source commits anew', async () => {
    const topic = await mirrorWith(10);
    const group = uniqueName('deleted');
    await commit(world.source, group, { topic, offset: 3n });
    await arrives(group, topic, 3n);
    const admin = new Kafka({
      brokers: destination.bootstrap.split(','),
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    await admin.deleteGroups([group]).finally(() => admin.disconnect());
    await until('named as deleted', () => heldReason(group) === 'deleted');
    assert.equal(await committed(world.destination, group, topic), undefined);
    await commit(world.source, group, { topic, offset: 4n });
    await arrives(group, topic, 4n);
  });

  test('of a paused mirror are followed up to what the mirror has', async () => {
    const topic = await mirrorWith(5);
    const group = uniqueName('paused');
    await world.command('pause', topic);
    await world.inState(topic, 'PAUSED');
    await commit(world.source, group, { topic, offset: 3n });
    await arrives(group, topic, 3n);
    await produce(world.source, { topic }, ['late', 'later']);
    await commit(world.source, group, { topic, offset: 7n });
    await arrives(group, topic, 5n);
    assert.equal(heldReason(group), 'clamped');
    await world.command('resume', topic);
    await arrives(group, topic, 7n);
  });

  test('R9: that commit on a source topic made again under its name keep here what they had', async () => {
    const topic = await mirrorWith(10);
    const witness = await mirrorWith(3);
    const group = uniqueName('again');
    await commit(world.source, group, { topic, offset: 7n });
    await arrives(group, topic, 7n);
    await deleteTopic(world.source, topic);
    await until('it is gone', async () => {
      const info = (await world.source.metadata([topic])).topics.get(topic);
      return info === undefined || info.errorCode !== 0;
    });
    await createTopic(world.source, topic);
    await commit(world.source, group, { topic, offset: 2n });
    // A round that has begun after it, and most likely before the link has looked at its source.
    await commit(world.source, group, { topic: witness, offset: 1n });
    await arrives(group, witness, 1n);
    assert.equal((await committed(world.destination, group, topic))?.offset, 7n);
    await world.inState(topic, 'FAILED');
    await commit(world.source, group, { topic: witness, offset: 2n });
    await arrives(group, witness, 2n);
    assert.equal((await committed(world.destination, group, topic))?.offset, 7n);
    await world.command('failover', topic);
    assert.equal((await committed(world.destination, group, topic))?.offset, 7n);
  });

  function receiptLine(topic: string) {
    const receipts = [...world.state.view.receipts.values()];
    const line = receipts.flatMap(({ topics }) => topics).find((one) => one.topic === topic);
    assert.ok(line, `a receipt of ${topic}`);
    return line;
  }

  test('D02, D03, D04: are exact after a failover too, far behind and at the very end', async () => {
    const topic = await mirrorWith(100);
    const positions = [0n, 1n, 50n, 99n, 100n];
    const groups = new Map(positions.map((offset) => [uniqueName(`over-${offset}`), offset]));
    for (const [group, offset] of groups) await commit(world.source, group, { topic, offset });
    for (const [group, offset] of groups) await arrives(group, topic, offset);
    // Committed a moment before: it may be known or not, and the receipt is right either way.
    const [last = ''] = groups.keys();
    await commit(world.source, last, { topic, offset: 30n });
    const { rows } = await world.command('failover', topic);
    assert.equal(rows[0]?.error, null);
    const line = receiptLine(topic);
    const { duplicates } = line;
    assert.ok(duplicates.readTimeMs > 0);
    assert.equal(duplicates.expected, 0n, 'all that is known is here');
    const again = new Map(duplicates.groups.map((one) => [one.group, one] as const));
    for (const [group, offset] of groups) {
      const here = (await committed(world.destination, group, topic))?.offset ?? -1n;
      const { position, possible } = again.get(group) ?? { position: 100n, possible: 0n };
      assert.equal(possible, 100n - position);
      // A round that was under way may bring what came after the receipt's look.
      if (group === last) assert.ok(here === position || here === 30n, `${here}, ${position}`);
      else assert.deepEqual([here, position], [offset, offset]);
      assert.ok(line.partitions[0] !== undefined && here <= line.partitions[0].virtualEnd);
    }
  });

  test('D05: that had read what is not here are set to the end at a failover, and named', async () => {
    const topic = await mirrorWith(3);
    const group = uniqueName('beyond');
    await world.command('pause', topic);
    await world.inState(topic, 'PAUSED');
    await produce(world.source, { topic }, ['late', 'later']);
    await commit(world.source, group, { topic, offset: 5n });
    await until('clamped', () => heldReason(group) === 'clamped');
    await world.command('failover', topic);
    assert.equal((await committed(world.destination, group, topic))?.offset, 3n);
    const { groups, duplicates } = receiptLine(topic);
    assert.deepEqual(groups, [{ group, partition: 0, oldOffset: 5n, newOffset: 3n }]);
    assert.deepEqual(duplicates.groups, [], 'what it had read is lost, not given again');
  });

  test('D23: that are live at a failover keep their offsets, and the receipt says what comes again', async () => {
    const topic = await mirrorWith(10);
    const elsewhere = uniqueName('elsewhere');
    await createTopic(world.destination, elsewhere);
    const group = uniqueName('live-over');
    await commit(world.source, group, { topic, offset: 3n });
    await arrives(group, topic, 3n);
    const kafka = new Kafka({
      brokers: destination.bootstrap.split(','),
      logLevel: logLevel.NOTHING,
    });
    const consumer = kafka.consumer({ groupId: group });
    await consumer.connect();
    await consumer.subscribe({ topic: elsewhere });
    await consumer.run({ eachMessage: async () => undefined });
    try {
      await commit(world.source, group, { topic, offset: 7n });
      await until('named as live', () => heldReason(group) === 'live');
      await world.command('failover', topic);
      assert.equal((await committed(world.destination, group, topic))?.offset, 3n);
      const { duplicates } = receiptLine(topic);
      const row = { group, partition: 0, position: 3n, expected: 4n, possible: 7n };
      assert.deepEqual(duplicates.groups, [row]);
      assert.deepEqual([duplicates.expected, duplicates.possible], [4n, 7n]);
    } finally {
      await consumer.disconnect();
    }
  });

  test('are exact at a promotion', async () => {
    const topic = await mirrorWith(5);
    const group = uniqueName('exact');
    await commit(world.source, group, { topic, offset: 5n });
    await world.command('promote', topic);
    await world.inState(topic, 'STOPPED');
    assert.equal((await committed(world.destination, group, topic))?.offset, 5n);
    // Afterwards the destination is its own: nothing is synced any more.
    await commit(world.destination, group, { topic, offset: 1n });
    const witness = await mirrorWith(3);
    await commit(world.source, group, { topic: witness, offset: 2n });
    await arrives(group, witness, 2n);
    assert.equal((await committed(world.destination, group, topic))?.offset, 1n);
  });
});
