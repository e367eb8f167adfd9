// What of a source's history a mirror has, on real brokers: copies of compacted topics while the
// source cleans as fast as it can, records that were gone before they were read, and where a mirror
// begins.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isControl, readBatchHeader } from '../../protocol/index.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { cleanedOften, KeyedTopic } from './keyed-topic.ts';
import { type LinkWorld, lostRanges, startLinkWorld } from './link-fixture.ts';

let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({
    source: {
      settings: {
        'log.cleaner.backoff.ms': '200',
        'producer.id.expiration.ms': '1000',
        'producer.id.expiration.check.interval.ms': '300',
      },
    },
    limits: {
      ...{ rebuildCheckMs: 300, rebuildBytesMin: 150_000, sourceWatchMs: 300 },
      // Its mirrors are at work at once: what their source loses is lost.
      mirrorBeginsMs: 0,
    },
  });
  await world.createLink('dr');
  await world.createLink('on', { 'mirror.lost.history.policy': 'continue' });
  await world.createLink('late', { 'mirror.start.offset.spec': 'latest' });
});

after(() => world?.end());

function rebuilds(topic: string): number {
  return world.events
    .since(0)
    .filter(({ event, fields }) => event === 'mirror_copy_rebuilt' && fields.topic === topic)
    .length;
}

test('R1, R6: the copy of a compacted topic settles near its source, and loses or revives no key', {
  timeout: 400_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const name = uniqueName('compacted');
  const topic = new KeyedTopic({ cluster: world.source, name, random, keys: 60 });
  await topic.create();
  await topic.overwrite(20);
  await world.createMirror('dr', name);
  await until(
    'a rebuild under load',
    async () => {
      await topic.overwrite(10);
      return rebuilds(name) >= 1;
    },
    { deadlineMs: 120_000, describe: () => world.describe(name) },
  );
  const written = Number(topic.end) * 400;
  // 60 live keys of 400 bytes, what was written since the last cleaning, and twice as much.
  await until('a small copy', () => world.logOf(name).sizeBytes < Math.max(300_000, written / 4), {
    deadlineMs: 120_000,
    describe: () => `${world.logOf(name).sizeBytes} bytes of ${written}`,
  });
  await world.caughtUp(name, [topic.end]);
  await topic.check(world.logOf(name), topic.end);
  // Again under load, so that the failover may meet a rebuild, the source being there or not.
  await topic.overwrite(1 + random.below(60));
  await world.command('failover', name);
  const end = world.service.describeMirror(name).partitions[0]?.mirrorEnd ?? -1n;
  assert.ok(end > 0n && end <= topic.end, `${end} of ${topic.end}`);
  await topic.check(world.logOf(name), end);
});

test('a key that was deleted and cleaned away while the mirror was paused is not kept', {
  timeout: 400_000,
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
    { deadlineMs: 120_000, intervalMs: 300 },
  );
  await world.command('resume', name);
  await world.caughtUp(name, [topic.end]);
  await until('the copy is built anew', () => rebuilds(name) >= 1, {
    deadlineMs: 120_000,
    describe: () => world.describe(name),
  });
  await topic.check(world.logOf(name), topic.end);
});

test('R7: the end of a transaction that was cleaned away while the mirror was paused', {
  timeout: 400_000,
}, async () => {
  const topic = uniqueName('unended');
  await createTopic(world.source, topic, { configs: { ...cleanedOften } });
  await produce(world.source, { topic }, ['a', 'b']);
  await world.createMirror('dr', topic);
  const transaction = new Transaction(world.source, uniqueName('txn'));
  await transaction.begin(topic, [0]);
  await produce(world.source, { topic, transaction }, ['aborted-1', 'aborted-2']);
  await world.caughtUp(topic, [4n]);
  const log = world.logOf(topic);
  assert.equal(log.openTransactions()[0]?.firstOffset, 2n);
  await world.command('pause', topic);
  await transaction.end('abort');
  const marker = await until('its end', async () => {
    const batches = await readBatches(world.source, topic, 0);
    return batches.find(({ bytes }) => isControl(readBatchHeader(bytes, 0)))?.baseOffset;
  });
  // Written on until the source, which has forgotten the producer, has nothing of it any more.
  let end = marker + 1n;
  await until(
    'the source cleaned it away',
    async () => {
      end = (await produce(world.source, { topic }, ['filler'])) + 1n;
      const batches = await readBatches(world.source, topic, 0);
      return batches.every(({ baseOffset }) => baseOffset < 2n || baseOffset > marker);
    },
    { deadlineMs: 120_000, intervalMs: 300 },
  );
  await world.command('resume', topic);
  await world.caughtUp(topic, [end]);
  await until('nothing is open', () => log.lastStableOffset === log.end, {
    deadlineMs: 120_000,
    describe: () => world.describe(topic),
  });
  const { chunks } = await log.read(0n, { bytesMax: 1 << 20, atLeastOneBatch: true });
  assert.ok(!chunks.some((chunk) => chunk.includes('aborted')), 'what was aborted is not read');
});

test('R7: the end of a transaction that was lost in a recorded gap', async () => {
  const topic = uniqueName('gaptxn');
  await createTopic(world.source, topic);
  await world.createMirror('on', topic);
  const transaction = new Transaction(world.source, uniqueName('txn'));
  await transaction.begin(topic, [0]);
  await produce(world.source, { topic, transaction }, ['x', 'y']);
  await world.caughtUp(topic, [2n]);
  await world.command('pause', topic);
  await transaction.end('abort');
  await produce(world.source, { topic }, ['a', 'b']);
  await deleteRecords(world.source, topic, 0, 4n);
  await world.command('resume', topic);
  await world.caughtUp(topic, [5n]);
  await until('nothing is open', () => world.logOf(topic).lastStableOffset === 5n, {
    describe: () => world.describe(topic),
  });
  assert.deepEqual(world.logOf(topic).openTransactions(), []);
});

test('D06, D18, R10: goes on behind lost history by policy, with the range on record', async () => {
  const topic = uniqueName('gap');
  await world.mirrorNewTopic(topic, ['a', 'b'], { link: 'on' });
  await world.command('pause', topic);
  await produce(world.source, { topic }, ['c', 'd']);
  await produce(world.source, { topic }, ['e', 'f', 'g']);
  // Inside a batch.
  await deleteRecords(world.source, topic, 0, 5n);
  await world.command('resume', topic);
  await world.caughtUp(topic, [7n]);
  await until(
    'the log start',
    () => world.service.describeMirror(topic).partitions[0]?.logStart === 5n,
    { describe: () => world.describe(topic) },
  );
  const isStated = (): boolean => {
    const status = world.service.describeMirror(topic);
    assert.equal(status.state, 'ACTIVE');
    assert.deepEqual(lostRanges(status), [{ partition: 0, from: 2n, to: 5n }]);
    return true;
  };
  isStated();
  const [event] = world.events
    .since(0)
    .filter(({ event: name, fields }) => name === 'mirror_history_lost' && fields.topic === topic);
  assert.deepEqual([event?.fields.from, event?.fields.to], ['2', '5']);
  const read = await world.logOf(topic).read(5n, { bytesMax: 1, atLeastOneBatch: true });
  assert.deepEqual([read.baseOffset, read.nextOffset], [4n, 7n], 'offsets stay what they were');
  await assert.rejects(
    world.logOf(topic).read(2n, { bytesMax: 1, atLeastOneBatch: true }),
    /not within/,
  );
  await world.restart();
  isStated();
  await produce(world.source, { topic }, ['h']);
  await world.caughtUp(topic, [8n]);
});

function lossEvents(topic: string): string[] {
  return world.events
    .since(0)
    .filter(({ event, fields }) => event === 'mirror_history_lost' && fields.topic === topic)
    .map(({ fields }) => `${fields.partition}: [${fields.from}, ${fields.to})`)
    .sort();
}

test('R10: a mirror stopped for lost history states the ranges of all its partitions', async () => {
  const topic = uniqueName('lostmany');
  const write = async (values: readonly string[]) => {
    for (const partition of [0, 1, 2, 3]) await produce(world.source, { topic, partition }, values);
  };
  const ends = await world.mirrorNewTopic(topic, () => write(['a', 'b']), { partitions: 4 });
  assert.deepEqual(ends, [2n, 2n, 2n, 2n]);
  await world.command('pause', topic);
  await write(['c', 'd', 'e']);
  await deleteRecords(world.source, topic, 0, 3n);
  await deleteRecords(world.source, topic, 2, 5n);
  await deleteRecords(world.source, topic, 3, 4n);
  await world.command('resume', topic);
  await world.inState(topic, 'FAILED');
  const isStated = (): void => {
    const { error, lostTotals, ...status } = world.service.describeMirror(topic);
    assert.equal(error?.code, 'LOST_HISTORY');
    assert.match(error?.message ?? '', /delete the mirror and create it again/);
    const found = lostRanges({ error, lostTotals, ...status });
    found.sort((one, other) => one.partition - other.partition);
    assert.deepEqual(found, [
      { partition: 0, from: 2n, to: 3n },
      { partition: 2, from: 2n, to: 5n },
      { partition: 3, from: 2n, to: 4n },
    ]);
    const sums = lostTotals.map(({ partition, records }) => [partition, records]);
    assert.deepEqual(sums, [
      [0, 1n],
      [2, 3n],
      [3, 2n],
    ]);
  };
  isStated();
  assert.deepEqual(lossEvents(topic), ['0: [2, 3)', '2: [2, 5)', '3: [2, 4)']);
  await world.restart();
  isStated();
});

test('R10: a copy that begins at the end of its source is stopped by what it loses', async () => {
  const topic = uniqueName('lostlate');
  await createTopic(world.source, topic);
  await produce(world.source, { topic }, ['a', 'b']);
  await world.createMirror('late', topic);
  await world.command('pause', topic);
  await produce(world.source, { topic }, ['c', 'd', 'e']);
  await deleteRecords(world.source, topic, 0, 4n);
  await world.command('resume', topic);
  await world.inState(topic, 'FAILED');
  const status = world.service.describeMirror(topic);
  assert.equal(status.error?.code, 'LOST_HISTORY');
  assert.deepEqual(lostRanges(status), [{ partition: 0, from: 2n, to: 4n }]);
  assert.deepEqual(lossEvents(topic), ['0: [2, 4)']);
});

test('R10: history lost again behind a gap with no batch behind it is on record too', async () => {
  const topic = uniqueName('lostagain');
  await world.mirrorNewTopic(topic, ['a', 'b'], { link: 'on' });
  const lose = async (before: bigint) => {
    await world.command('pause', topic);
    await produce(world.source, { topic }, ['x', 'y', 'z']);
    await deleteRecords(world.source, topic, 0, before);
    await world.command('resume', topic);
    await world.caughtUp(topic, [before]);
  };
  await lose(5n);
  await lose(8n);
  const status = world.service.describeMirror(topic);
  assert.equal(status.state, 'ACTIVE');
  assert.deepEqual(lostRanges(status), [{ partition: 0, from: 2n, to: 8n }]);
  assert.deepEqual(status.lostTotals, [{ partition: 0, ranges: 1, records: 6n }]);
  assert.deepEqual(lossEvents(topic), ['0: [2, 5)', '0: [5, 8)']);
  await produce(world.source, { topic }, ['h']);
  await world.caughtUp(topic, [9n]);
  assert.equal(world.service.describeMirror(topic).partitions[0]?.logStart, 8n);
});

test('a mirror begins where its link or its creation says', async () => {
  const topic = uniqueName('begin');
  await createTopic(world.source, topic, { partitions: 2 });
  await produce(world.source, { topic }, ['a', 'b']);
  const before = Date.now();
  await until('the next millisecond', () => Date.now() > before + 1);
  const middle = new Date().toISOString();
  await produce(world.source, { topic }, ['c', 'd', 'e']);
  const starts = (name: string) =>
    world.service.describeMirror(name).partitions.map(({ logStart }) => logStart);
  await world.createMirror('late', topic);
  assert.deepEqual(starts(topic), [5n, 0n]);
  await produce(world.source, { topic }, ['f']);
  await world.caughtUp(topic, [6n, 0n]);
  await world.service.deleteMirror(topic, { keepTopic: false, validateOnly: false, actor: 'test' });

  await world.createMirror('dr', topic, { 'mirror.start.offset.spec': middle });
  await world.caughtUp(topic, [6n, 0n]);
  assert.deepEqual(starts(topic), [2n, 0n], 'a time that no record reaches means the end');
  await world.service.deleteMirror(topic, { keepTopic: false, validateOnly: false, actor: 'test' });

  await world.createMirror('late', topic, { 'mirror.start.offset.spec': 'earliest' });
  await world.caughtUp(topic, [6n, 0n]);
  assert.deepEqual(starts(topic), [0n, 0n]);
  await assert.rejects(
    world.createMirror('dr', uniqueName('none'), { 'mirror.start.offset.spec': 'yesterday' }),
    /mirror\.start\.offset\.spec.*yesterday/,
  );
});
