// A real source that lets the link read no faster than a quota says (`consumer_byte_rate`), and the
// limit of the link's own. A broker over its quota answers Fetch without any topics; whatever of us
// reads there has to wait and ask again.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { produce } from '../helpers/own-producer.ts';
import { setQuota } from '../helpers/quotas.ts';
import { type PassBytes, Relay } from '../helpers/relay.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { KeyedTopic } from './keyed-topic.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let world: LinkWorld;
let relay: Relay;
const bytesPerSecond = 200_000;
const batchBytes = 20_000;
const value = 'x'.repeat(batchBytes / 2);

/** A line over which parallel ranges are worth it. */
const distant: PassBytes = (from, to) => {
  from.on('data', (chunk: Buffer) => setTimeout(() => to.write(chunk), 15));
  from.once('end', () => setTimeout(() => to.end(), 15));
};

before(async () => {
  world = await startLinkWorld({
    // The quota counts over 3 seconds instead of 11: nobody has to wait for longer.
    source: { settings: { 'quota.window.num': '3', 'log.cleaner.backoff.ms': '200' } },
    limits: { rebuildCheckMs: 300 },
  });
  const { advertised = '', port = 0 } = world.sourceKafka.brokers[0] ?? {};
  relay = await Relay.start({ target: { host: '127.0.0.1', port }, pass: distant });
  await world.createLink('dr');
  await world.createLink('far', {
    'address.map': `${advertised}=${relay.address}`,
    'replica.fetch.max.bytes': '60000',
  });
});

after(async () => {
  await world?.end();
  await relay?.stop();
});

function limit(link: string, rate: number | null): Promise<void> {
  const of = { entityType: 'client-id', entityName: `causeway-${link}` } as const;
  return setQuota(world.source, of, { key: 'consumer_byte_rate', value: rate });
}

async function fill(topic: string, batches: number, partitions = 1): Promise<void> {
  for (let partition = 0; partition < partitions; partition++) {
    for (let batch = 0; batch < batches; batch++) {
      // The key is the value: 20,000 bytes, in two records.
      await produce(world.source, { topic, partition }, [value.slice(1), 'second']);
    }
  }
}

async function filled(name: string, batches: number, partitions = 1): Promise<string> {
  const topic = uniqueName(name);
  await createTopic(world.source, topic, { partitions });
  await fill(topic, batches, partitions);
  return topic;
}

function heldBack(lane: string): number {
  return world.asked.get(`held back on ${lane}`) ?? 0;
}

async function verify(topic: string): Promise<void> {
  let from: bigint | null = null;
  let hash: string | null = null;
  for (;;) {
    const request = { topic, partition: 0, since: null, bytesPerSecond: 1e9, end: null };
    const step = await world.service.verifyMirror({ ...request, from, hash });
    assert.equal(step.difference, null, step.difference?.message);
    if (step.isDone) return;
    ({ next: from, hash } = step);
  }
}

test('a source’s quota ended verify and the making of mirrors, it has them wait', async () => {
  const first = await filled('first', 35);
  const second = await filled('second', 35);
  await limit('dr', bytesPerSecond);
  await world.createMirror('dr', first);
  await world.caughtUp(first, [70n]);
  // Everything at once: the fetcher, the comparison, and where a new mirror begins.
  await world.createMirror('dr', second);
  const cuts: string[] = [];
  // Whether the quota's window is full when a mirror asks where it begins is chance.
  while (cuts.length === 0 || (heldBack('records') === 0 && cuts.length < 5)) {
    const cut = await filled('cut', 3, 4);
    for (const partition of [0, 1, 2, 3]) await deleteRecords(world.source, cut, partition, 3n);
    await Promise.all([verify(first), world.createMirror('dr', cut)]);
    cuts.push(cut);
  }
  await world.caughtUp(second, [70n]);
  for (const cut of cuts) await world.caughtUp(cut, [6n, 6n, 6n, 6n]);
  for (const lane of ['fetch-dr-0', 'verify-dr', 'records']) {
    assert.ok(heldBack(lane) > 0, `${lane}: ${[...world.asked].join('; ')}`);
  }
  await Promise.all([world.assertIdentical(first), world.assertIdentical(second)]);
  for (const cut of cuts) {
    const starts = world.service.describeMirror(cut).partitions.map(({ logStart }) => logStart);
    assert.deepEqual(starts, [3n, 3n, 3n, 3n]);
  }
  const bad = /^(link_unavailable|link_work_failed|fetch_fault)$/;
  const events = world.events.since(0).filter(({ event }) => bad.test(event));
  assert.deepEqual(events, [], 'waiting is not being away');
  await limit('dr', null);
});

test('a source’s quota ended the reading in parallel ranges, which goes on under it', async () => {
  const topic = await filled('ranges', 100);
  await limit('far', 2 * bytesPerSecond);
  await world.createMirror('far', topic);
  await world.caughtUp(topic, [200n]);
  await world.assertIdentical(topic);
  const lanes = [0, 1, 2, 3].map((index) => `ranges-far-${index}`);
  const asked = lanes.reduce((sum, lane) => sum + (world.asked.get(`Fetch on ${lane}`) ?? 0), 0);
  const held = lanes.reduce((sum, lane) => sum + heldBack(lane), 0);
  assert.ok(held > 0, [...world.asked].join('; '));
  // Of 100 batches, three to a range; what the fetcher had before the line was measured is little.
  assert.ok(asked - held > 20, [...world.asked].join('; '));
});

test('a source’s quota ended the rebuild of a copy, it has it wait', {
  timeout: 400_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const name = uniqueName('compacted');
  const topic = new KeyedTopic({ cluster: world.source, name, random, keys: 400 });
  await topic.create();
  await topic.overwrite(20);
  await world.createMirror('dr', name);
  await world.caughtUp(name, [topic.end]);
  await until('a sample', () => {
    return world.service.describeMirror(name).partitions[0]?.lagRecords === 0n;
  });
  await world.command('pause', name);
  await topic.overwrite(20);
  await until(
    'the source cleaned',
    async () => {
      await topic.overwrite(1);
      return (await topic.firstOffset()) > 0n;
    },
    { deadlineMs: 60_000, intervalMs: 300 },
  );
  const other = await filled('other', 80);
  await limit('dr', bytesPerSecond / 2);
  const heldBefore = heldBack('fetch-dr-0');
  // It takes the whole quota for itself, for some seconds.
  await world.createMirror('dr', other);
  await until('the quota is used up', () => heldBack('fetch-dr-0') > heldBefore);
  await world.command('resume', name);
  await until(
    'the copy is built anew',
    () => {
      const events = world.events.since(0).filter(({ event }) => event === 'mirror_copy_rebuilt');
      return events.some(({ fields }) => fields.topic === name);
    },
    { deadlineMs: 120_000, describe: () => world.describe(name) },
  );
  await world.caughtUp(name, [topic.end]);
  await topic.check(world.logOf(name), topic.end);
  assert.ok(heldBack('rebuild-dr') > 0, [...world.asked].join('; '));
  await world.caughtUp(other, [160n]);
  await limit('dr', null);
});

test('a link reads no faster than its own limit says, over all it reads, and faster when it is lifted', async () => {
  const topic = await filled('own', 100, 2);
  await world.createLink('slow', { 'cluster.link.io.max.bytes.per.second': '100000' });
  const startedAtMs = performance.now();
  await world.createMirror('slow', topic);
  const read = (): number =>
    world.service
      .describeMirror(topic)
      .partitions.reduce((sum, { sizeBytes }) => sum + Number(sizeBytes ?? 0n), 0);
  await until('three seconds', () => {
    const bytes = read();
    const seconds = (performance.now() - startedAtMs) / 1000;
    // An answer is of a second's worth, or of one batch more.
    assert.ok(bytes <= 100_000 * (seconds + 1) + batchBytes + 1_000, `${bytes} in ${seconds} s`);
    return seconds >= 3;
  });
  assert.ok(read() > 0, 'something came');
  const lifted = [{ name: 'cluster.link.io.max.bytes.per.second', value: '-1' }];
  await world.service.alterLink('slow', lifted, { validateOnly: false, actor: 'test' });
  // At the limit it would take 40 seconds.
  await world.caughtUp(topic, [200n, 200n]);
  await world.assertIdentical(topic);
});
