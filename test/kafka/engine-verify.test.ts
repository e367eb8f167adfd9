// Mirrors compared with their source on real brokers: the comparison itself against kafka-dump-log,
// planted differences, and a flipped bit that is found, fetched again and gone.
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { crc32c } from '../../protocol/crc32c.ts';
import { readBatchHeader } from '../../protocol/record-batch.ts';
import type { VerifyStep } from '../../src/link/service.ts';
import { javaTool } from '../helpers/java-tools.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let world: LinkWorld;
const topic = uniqueName('verified');

before(async () => {
  const storage = {
    segmentBytesMax: 8_000,
    indexInterval: { activeBytes: 500, sealedBytes: 1_000 },
    indexBytesMax: 1,
  };
  world = await startLinkWorld({ storage });
  source = world.sourceKafka;
  await world.createLink('dr');
  await createTopic(world.source, topic);
  for (let batch = 0; batch < 60; batch++) {
    const values = Array.from({ length: 1 + (batch % 4) }, (_, each) => `value ${batch}/${each}`);
    await produce(world.source, { topic }, [...values, 'x'.repeat(200)]);
  }
  const transaction = new Transaction(world.source, topic);
  await transaction.begin(topic, [0]);
  await produce(world.source, { topic, transaction }, ['taken back']);
  await transaction.end('abort');
  await world.createMirror('dr', topic);
});

after(() => world?.end());

async function verify(since: bigint | null = null): Promise<VerifyStep> {
  const request = { topic, partition: 0, since, bytesPerSecond: 1e9 };
  const step = await world.service.verifyMirror({ ...request, from: null, end: null, hash: null });
  assert.ok(step.isDone, 'one step is enough here');
  return step;
}

async function dumpedBatches(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.log')).sort();
  const files = names.map((name) => path.join(directory, name)).join(',');
  const { stdout } = await javaTool(null, 'kafka-dump-log', ['--files', files]);
  // Where a batch lies in its file is the only thing that may differ.
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('baseOffset:'))
    .map((line) => line.replace(/ position: \d+/, ''));
}

/** Changes one batch of the mirror behind its back. */
async function plant(change: (batch: Buffer) => void): Promise<bigint> {
  const directory = world.logDirectory(topic, 0);
  const names = (await readdir(directory)).filter((name) => name.endsWith('.log')).sort();
  const file = path.join(directory, names[1] ?? '');
  const content = await readFile(file);
  const first = readBatchHeader(content, 0);
  const position = first.sizeInBytes;
  const header = readBatchHeader(content, position);
  change(content.subarray(position, position + header.sizeInBytes));
  await writeFile(file, content);
  return header.baseOffset;
}

test('R1: a mirror that verify calls the same is the same to kafka-dump-log', async () => {
  const end = await endOfSource();
  await world.caughtUp(topic, [end]);
  const step = await verify();
  assert.equal(step.difference, null, JSON.stringify(step.difference?.message));
  assert.equal(step.next, end);
  const theirs = await dumpedBatches(path.join(source.dataDirectory(), `${topic}-0`));
  const ours = await dumpedBatches(world.logDirectory(topic, 0));
  assert.deepEqual(ours, theirs);
  assert.equal(step.batches, theirs.length);
  const sizes = theirs.map((line) => Number(/ size: (\d+)/.exec(line)?.[1]));
  assert.equal(
    step.bytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  const later = await verify(50n);
  assert.equal(later.start, 50n);
  assert.ok(later.batches < step.batches);
  assert.notEqual(later.hash, step.hash);
});

async function endOfSource(): Promise<bigint> {
  await until('the mirror has a lag', () => {
    const [partition] = world.service.describeMirror(topic).partitions;
    return (partition?.sourceEnd ?? -1n) > 0n && partition?.lagRecords === 0n;
  });
  return world.service.describeMirror(topic).partitions[0]?.sourceEnd ?? 0n;
}

test('R19: a flipped byte is found, named, fetched again, and gone', async () => {
  const clean = await verify();
  await world.command('pause', topic);
  await world.inState(topic, 'PAUSED');
  const offset = await plant((batch) => {
    batch[100] = (batch[100] ?? 0) ^ 0x20;
  });
  const dumped = await dumpedBatches(world.logDirectory(topic, 0));
  const invalid = dumped.filter((line) => line.includes('isvalid: false'));
  assert.equal(invalid.length, 1);
  assert.match(invalid[0] ?? '', new RegExp(`^baseOffset: ${offset} `));

  const { difference } = await verify();
  assert.equal(difference?.kind, 'MIRROR_CORRUPT');
  assert.equal(difference?.offset, offset);
  const shown = () => {
    const { partitions, notices } = world.service.describeMirror(topic);
    return [partitions[0]?.damagedRanges, notices.map(({ code }) => code)];
  };
  assert.deepEqual(shown(), [1, ['RECORDS_DAMAGED']]);
  // Whoever fetches the mirror next repairs it.
  await world.command('resume', topic);
  const names = () => world.events.since(0).map(({ event }) => event);
  await until('the range is repaired', () => names().includes('mirror_damage_repaired'), {
    describe: () => world.describe(topic),
  });
  assert.ok(names().includes('storage_damage_found'));
  assert.deepEqual(shown(), [0, []]);
  assert.deepEqual(await verify(), clean);
  const after = await dumpedBatches(world.logDirectory(topic, 0));
  assert.ok(after.every((line) => !line.includes('isvalid: false')));
});

test('R1: a batch that is sound but another one is found', async () => {
  const offset = await plant((batch) => {
    const last = batch.length - 10;
    batch[last] = (batch[last] ?? 0) ^ 0x01;
    batch.writeUInt32BE(crc32c(batch.subarray(21)), 17);
  });
  const { difference, next } = await verify();
  assert.equal(difference?.kind, 'DIFFERENT');
  assert.equal(difference?.offset, offset);
  assert.equal(next, offset);
  assert.equal((await verify(offset + 100n)).difference, null);
});
