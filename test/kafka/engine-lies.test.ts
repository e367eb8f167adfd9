// A source that lies or breaks: whatever it answers, nothing wrong is appended, the cause is named,
// and the mirror goes on by itself when it answers honestly again. Its honest answers are compared
// with those of a real broker first.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { patchBatch } from '../../protocol/index.ts';
import { fetchOnce } from '../../src/link/source-offsets.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { produceBatch } from '../helpers/own-producer.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld } from './link-fixture.ts';
import { type Lie, LyingSource } from './lying-source.ts';

let kafka: KafkaCluster;
let world: LinkWorld;
const sources: LyingSource[] = [];

before(async () => {
  kafka = await startKafkaCluster({ name: 'destination' });
  world = await new LinkWorld({
    source: kafka,
    destination: kafka,
    limits: {
      ...{ sampleAgeMaxMs: 1_000, sourceWatchMs: 500, sourceUnavailableMs: 1_000 },
      stallWatchMs: 100,
    },
  }).open();
});

after(async () => {
  await world?.close();
  for (const source of sources) await source.broker.close();
  await kafka?.stop();
});

/** A mirror of a source that has been honest so far, with two batches. */
async function mirrorOf(
  options: { readonly hasIds?: boolean; readonly partitions?: number } = {},
): Promise<LyingSource> {
  const source = new LyingSource(uniqueName('lies'), options);
  source.partitions = options.partitions ?? 1;
  sources.push(source);
  await source.broker.listen();
  source.append(3);
  source.append(2);
  await world.createLink(source.topic, {
    ...source.linkConfigs,
    ...{ 'request.timeout.ms': '2000', 'cluster.link.retry.timeout.ms': '2000' },
  });
  await world.createMirror(source.topic, source.topic);
  const empty = Array.from({ length: source.partitions - 1 }, () => 0n);
  await world.caughtUp(source.topic, [5n, ...empty]);
  return source;
}

function stateOf(topic: string) {
  const status = world.service.describeMirror(topic);
  const link = world.service.describeLink(topic);
  const [partition] = status.partitions;
  assert.ok(partition);
  return { status, link, partition };
}

async function assertHoldsOnly(source: LyingSource, batches: readonly Buffer[]): Promise<void> {
  const log = world.directory.byName(source.topic)?.partition(0)?.log;
  assert.ok(log);
  const { chunks } = await log.read(0n, { bytesMax: 1 << 20, atLeastOneBatch: true });
  assert.ok(Buffer.concat(chunks).equals(Buffer.concat(batches)), 'only what was honest');
}

function told(name: string, { topic }: LyingSource): number {
  const events = world.events.since(0);
  return events.filter(({ event, fields }) => event === name && fields.topic === topic).length;
}

function falsified(change: (records: Buffer) => Buffer): Lie {
  return {
    kind: 'partition',
    falsify: (data) => {
      const { records } = data;
      return { ...data, records: records?.length ? change(Buffer.from(records)) : records };
    },
  };
}

test('its honest answers are those of a real broker', async () => {
  const source = new LyingSource(uniqueName('honest'));
  sources.push(source);
  await source.broker.listen();
  // The fake's records are old: the broker's retention would delete them meanwhile.
  await createTopic(world.source, source.topic, { configs: { 'retention.ms': '-1' } });
  source.epoch = 0;
  for (const count of [3, 2]) {
    source.append(count);
    const sent = Buffer.from(source.batches.at(-1) ?? Buffer.alloc(8));
    sent.writeBigInt64BE(0n, 0);
    await produceBatch(world.source, source, sent);
  }
  const ids = (await world.source.metadata([source.topic])).topics.get(source.topic);
  const fake = openCluster({
    bootstrap: source.broker.address,
    addressMap: { 'liar.invalid:9092': source.broker.address },
  });
  try {
    for (const offset of [0n, 1n, 3n, 5n, 6n]) {
      const wanted = { topic: source.topic, partition: 0, offset, bytesMax: 1 << 20 };
      const leaderId = ids?.partitions[0]?.leaderId ?? -1;
      const topicId = ids?.topicId ?? '';
      const real = await fetchOnce(world.source, { ...wanted, leaderId, topicId });
      const ours = await fetchOnce(fake, { ...wanted, leaderId: 1, topicId });
      assert.deepEqual(ours, real, `at offset ${offset}`);
    }
  } finally {
    await fake.close();
  }
});

/** By name: the lie, and what the partition or its link says of it. */
const lies: Readonly<Record<string, (source: LyingSource) => { lie: Lie; cause: RegExp }>> = {
  'a flipped bit': () => ({
    lie: falsified((records) => {
      const at = records.length - 3;
      records[at] = (records[at] ?? 0) ^ 1;
      return records;
    }),
    cause: /CORRUPT_BATCH/,
  }),
  'a batch that begins before what was asked for': (source) => ({
    lie: falsified((records) => Buffer.concat([source.batchAt(source.end - 2n, 2), records])),
    cause: /OFFSET_OUT_OF_ORDER/,
  }),
  'batches that overlap': (source) => ({
    lie: falsified((records) => Buffer.concat([records, source.batchAt(source.end - 1n, 1)])),
    cause: /OFFSET_OUT_OF_ORDER/,
  }),
  'an offset that goes back': (source) => ({
    lie: falsified((records) => Buffer.concat([records, source.batchAt(2n, 1)])),
    cause: /OFFSET_OUT_OF_ORDER/,
  }),
  'records beyond its own end': () => ({
    lie: falsified((records) => {
      patchBatch(records, 0, { offsetShift: 100n, epochShift: 0 });
      return records;
    }),
    cause: /beyond/,
  }),
  'lengths that lie': () => ({
    lie: falsified((records) => {
      records.writeInt32BE(-7, 8);
      return records;
    }),
    cause: /CORRUPT_BATCH/,
  }),
  'endless empty answers': () => ({
    lie: { kind: 'partition', falsify: (data) => ({ ...data, records: Buffer.alloc(0) }) },
    cause: /NO_PROGRESS/,
  }),
  'a storm of errors': () => ({
    lie: { kind: 'partition', falsify: (data) => ({ ...data, errorCode: -1, records: null }) },
    cause: /UNKNOWN_SERVER_ERROR/,
  }),
  'half a frame': ({ broker }) => ({
    lie: {
      kind: 'frame',
      answer: () => {
        setImmediate(() => broker.dropConnections());
        return { raw: Buffer.from([0, 0, 1, 0, 1, 2, 3]) };
      },
    },
    cause: /closed|answer/i,
  }),
  'a frame of two gigabytes': () => ({
    lie: { kind: 'frame', answer: () => ({ raw: Buffer.from('7fffffff00000001', 'hex') }) },
    cause: /frame|bytes|limit/i,
  }),
  'the answer to another request': () => ({
    lie: {
      kind: 'frame',
      answer: (honest, id) => {
        assert.ok(typeof honest === 'function');
        return { correlationId: id + 7, encode: honest };
      },
    },
    cause: /answer \d+, but expected/,
  }),
};

test('R1, R9, R14, R15: nothing wrong is appended, whatever a source answers', async (context) => {
  const before = process.memoryUsage();
  const source = await mirrorOf();
  let stallsTold = 0;
  for (const [name, make] of Object.entries(lies)) {
    await context.test(name, async () => {
      const honest = [...source.batches];
      const end = source.end;
      const { lie, cause } = make(source);
      source.lie = lie;
      source.append(1);
      const fetchesBefore = source.fetches;
      await until(
        'the cause',
        () => {
          const { partition, link } = stateOf(source.topic);
          return cause.test(`${partition.stallCause} ${link.linkError} ${link.linkErrorMessage}`);
        },
        { deadlineMs: 60_000, describe: () => world.describe(source.topic) },
      );
      const { status, partition } = stateOf(source.topic);
      assert.ok(partition.isStalled || status.state === 'SOURCE_UNAVAILABLE', 'not healthy');
      const stalls = (what: 'begun' | 'ended') => told(`mirror_stall_${what}`, source);
      if (partition.isStalled) {
        await until('it is told', () => stalls('begun') > stalls('ended'));
        stallsTold++;
      }
      assert.equal(partition.mirrorEnd, end);
      await assertHoldsOnly(source, honest);
      assert.ok(source.fetches - fetchesBefore < 1_000, 'it is not asked without pause');
      source.lie = null;
      await world.caughtUp(source.topic, [source.end]);
      await world.inState(source.topic, 'ACTIVE');
      await assertHoldsOnly(source, source.batches);
      await until('it is told to be over', () => stalls('begun') === stalls('ended'));
    });
  }
  assert.ok(stallsTold > 5, `${stallsTold} stalls were told`);
  const after = process.memoryUsage();
  const grownBytes = after.external + after.arrayBuffers - before.external - before.arrayBuffers;
  assert.ok(grownBytes < 128 << 20, `${grownBytes} bytes more`);
});

test('R8, R9: epochs that go back, and old message formats, end the mirror by name', async () => {
  const source = await mirrorOf();
  source.epoch = 3;
  source.append(1);
  await world.inState(source.topic, 'FAILED');
  assert.equal(stateOf(source.topic).status.error?.code, 'NON_MONOTONIC_LOG_APPEND_EPOCH');
  await assertHoldsOnly(source, source.batches.slice(0, 2));

  const old = await mirrorOf();
  old.lie = falsified((records) => {
    records.writeInt8(1, 16);
    return records;
  });
  old.append(1);
  await world.inState(old.topic, 'FAILED');
  assert.equal(stateOf(old.topic).status.error?.code, 'UNSUPPORTED_MESSAGE_FORMAT');
  await assertHoldsOnly(old, old.batches.slice(0, 2));
});

/** Its metadata are read so often, and the mirror goes on. */
async function isOverlooked(source: LyingSource): Promise<void> {
  const before = source.looks;
  await until('it is looked at', () => source.looks >= before + 2);
  assert.equal(stateOf(source.topic).status.state, 'ACTIVE');
}

/** The copy is what it was, and made anew once the source is what it says. */
async function isMadeAnew(source: LyingSource, copied: readonly Buffer[]): Promise<void> {
  await assertHoldsOnly(source, copied);
  const request = { archiveAs: null, validateOnly: false, actor: 'test' };
  await world.service.recreateMirror(source.topic, request);
  const empty = Array.from({ length: source.partitions - 1 }, () => 0n);
  await world.caughtUp(source.topic, [source.end, ...empty]);
  assert.equal(stateOf(source.topic).status.partitions.length, source.partitions);
}

test('R9: leaders whose epochs go back, and stay so, end the mirror by name', async () => {
  const source = await mirrorOf();
  const copied = [...source.batches];
  // A broker that was left behind says so too, for a moment.
  source.epoch = 4;
  await isOverlooked(source);
  source.epoch = 5;
  await isOverlooked(source);
  source.epoch = 4;
  await world.inState(source.topic, 'FAILED');
  const { error } = stateOf(source.topic).status;
  assert.equal(error?.code, 'NON_MONOTONIC_SOURCE_EPOCH');
  assert.match(error?.message ?? '', /partition 0 has leader epoch 4, after 5/);
  await isMadeAnew(source, copied);
});

async function isShrunk(source: LyingSource, copied: readonly Buffer[]): Promise<void> {
  source.partitions = 2;
  await world.inState(source.topic, 'FAILED');
  const { error } = stateOf(source.topic).status;
  assert.equal(error?.code, 'SOURCE_PARTITIONS_DECREASED');
  assert.match(error?.message ?? '', /has 2 partitions, the mirror 3/);
  await isMadeAnew(source, copied);
}

test('R9: a source that has fewer partitions for 10 s ends the mirror by name', async () => {
  const source = await mirrorOf({ partitions: 3 });
  // One broker may be behind.
  source.partitions = 2;
  await isOverlooked(source);
  source.partitions = 3;
  await isOverlooked(source);
  source.append(1);
  await world.caughtUp(source.topic, [source.end, 0n, 0n]);
  await isShrunk(source, [...source.batches]);
});

test('R9: a source without topic ids with fewer partitions ends the mirror by name', async () => {
  const source = await mirrorOf({ hasIds: false, partitions: 3 });
  await isShrunk(source, [...source.batches]);
});
