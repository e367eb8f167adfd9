// Failovers at random moments of a mirror whose source cleans as fast as it can: before a copy is
// built anew, in the midst of that, right behind it. Eight topics, each with its own moment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName } from '../helpers/wait.ts';
import { KeyedTopic } from '../kafka/keyed-topic.ts';
import { LinkWorld } from '../kafka/link-fixture.ts';

const topicsCount = 8;
const batchesPerStep = 5;
const stepsMax = 120;

test('R1, R6: a failover at any moment of a compacted topic finds each live key, no deleted one', {
  timeout: 600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', settings: { 'log.cleaner.backoff.ms': '200' } }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  const world = await new LinkWorld({
    source,
    destination,
    limits: { rebuildCheckMs: 300, rebuildBytesMin: 100_000, sourceWatchMs: 300 },
  }).open();
  const rebuilds = (): number =>
    world.events.since(0).filter(({ event }) => event === 'mirror_copy_rebuilt').length;

  async function life(seed: number): Promise<void> {
    const own = new SeededRandom(seed);
    const name = uniqueName(`compacted-${seed}`);
    const topic = new KeyedTopic({ cluster: world.source, name, random: own, keys: 60 });
    await topic.create();
    await world.createMirror('dr', name);
    const steps = 1 + own.below(stepsMax);
    for (let step = 0; step < steps; step++) await topic.overwrite(batchesPerStep);
    await world.command('failover', name);
    const log = world.directory.byName(name)?.partition(0)?.log;
    assert.ok(log, `the copy of ${name} is open`);
    const end = world.service.describeMirror(name).partitions[0]?.mirrorEnd ?? -1n;
    context.diagnostic(`${name}: ${end} of ${topic.end} records, in ${log.sizeBytes} bytes`);
    assert.ok(end >= 0n && end <= topic.end, `${end} of ${topic.end}`);
    await topic.check(log, end);
  }

  try {
    await world.createLink('dr');
    const seeds = Array.from({ length: topicsCount }, () => random.below(1e9));
    await Promise.all(seeds.map((seed) => life(seed)));
    context.diagnostic(`${rebuilds()} copies were built anew meanwhile`);
    assert.ok(rebuilds() > 0, 'no failover could meet a rebuild');
  } finally {
    await world.close();
    await Promise.all([source.stop(), destination.stop()]);
  }
});
