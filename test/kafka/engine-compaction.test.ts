// Copies of compacted topics on real brokers: the source cleans as fast as it can, the copy is built
// anew beside the one that is served, a failover may come at any moment.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { KeyedTopic } from './keyed-topic.ts';
import { LinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', settings: { 'log.cleaner.backoff.ms': '200' } }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  world = await new LinkWorld({
    source,
    destination,
    limits: { rebuildCheckMs: 300, rebuildBytesMin: 150_000, sourceWatchMs: 300 },
  }).open();
  await world.createLink('dr');
});

after(async () => {
  await world?.close();
  await Promise.all([source?.stop(), destination?.stop()]);
});

function logOf(topic: string) {
  const log = world.directory.byName(topic)?.partition(0)?.log;
  assert.ok(log, 'the mirror log is open');
  return log;
}

function rebuilds(topic: string): number {
  return world.events
    .since(0)
    .filter(({ event, fields }) => event === 'mirror_copy_rebuilt' && fields.topic === topic)
    .length;
}

test('R1, R6: the copy of a compacted topic settles near its source, and loses or revives no key', {
  timeout: 120_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const name = uniqueName('compacted');
  const topic = new KeyedTopic({ cluster: world.source, name, random, keys: 60 });
  await topic.create();
  await topic.overwrite(20);
  await world.createMirror('dr', name);
  await until(
    'two rebuilds under load',
    async () => {
      await topic.overwrite(10);
      return rebuilds(name) >= 2;
    },
    { deadlineMs: 60_000, describe: () => world.describe(name) },
  );
  const written = Number(topic.end) * 400;
  // 60 live keys of 400 bytes, what was written since the last cleaning, and twice as much.
  await until('a small copy', () => logOf(name).sizeBytes < Math.max(300_000, written / 4), {
    deadlineMs: 60_000,
    describe: () => `${logOf(name).sizeBytes} bytes of ${written}`,
  });
  await world.caughtUp(name, [topic.end]);
  await topic.check(logOf(name), topic.end);
  // Again under load, so that the failover may meet a rebuild, the source being there or not.
  await topic.overwrite(1 + random.below(60));
  await world.command('failover', name);
  const end = world.service.describeMirror(name).partitions[0]?.mirrorEnd ?? -1n;
  assert.ok(end > 0n && end <= topic.end, `${end} of ${topic.end}`);
  await topic.check(logOf(name), end);
});

test('a key that was deleted and cleaned away while the mirror was paused is not kept', {
  timeout: 120_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const name = uniqueName('away');
  const topic = new KeyedTopic({ cluster: world.source, name, random, keys: 10 });
  await topic.create();
  await topic.overwrite(3);
  await world.createMirror('dr', name);
  await world.caughtUp(name, [topic.end]);
  await until('a sample', () => {
    return world.service.describeMirror(name).partitions[0]?.lagRecords === 0n;
  });
  await world.command('pause', name);
  await topic.overwrite(5);
  await topic.deleteAll();
  // The tombstones are gone from the source when nothing but its last batch is left.
  await until(
    'the source cleaned',
    async () => {
      await topic.overwrite(1);
      return (await topic.firstOffset()) > 200n;
    },
    { deadlineMs: 60_000, intervalMs: 300 },
  );
  await world.command('resume', name);
  await world.caughtUp(name, [topic.end]);
  await until('the copy is built anew', () => rebuilds(name) >= 1, {
    deadlineMs: 60_000,
    describe: () => world.describe(name),
  });
  await topic.check(logOf(name), topic.end);
});
