// A mirror against what its source served, as bytes: recorded between the link and the source, on
// disk, and as any client of the proxy reads it. The records come from Java's own producers, the
// gaps from the broker's own log cleaner.

import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  compression,
  forEachBatch,
  isControl,
  isTransactional,
  nextOffset,
  readBatchHeader,
  readControlType,
} from '../../protocol/index.ts';
import {
  type ForeignProducer,
  type RecordToSend,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { mirrorView } from '../helpers/mirror-commands.ts';
import {
  firstDifference,
  openCluster,
  type RawBatch,
  readBatches,
} from '../helpers/raw-batches.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import { assertEachOnceInOrder } from '../helpers/record-checks.ts';
import { type ServedBatch, servedRun } from '../helpers/recorded-fetches.ts';
import { until } from '../helpers/wait.ts';

/** All five compressions, between both kinds of producers. */
const compressions = {
  idempotent: ['none', 'snappy', 'zstd'],
  transactional: ['gzip', 'lz4', 'none'],
} as const;
const topic = 'exact';
const compacted = 'exact-compacted';
const partitionsCount = 2;
const partitions = [0, 1];

let stage: LinkedStage;
const idempotent: ForeignProducer[] = [];
const transactional: ForeignProducer[] = [];

function records(label: string, count: number): RecordToSend[] {
  return Array.from({ length: count }, (_, index) => ({
    partition: index % partitionsCount,
    key: `${label}-${index}`,
    value: `${label} ${index} ${'x'.repeat(40)}`,
  }));
}

/** The same few keys again and again, for the cleaner. */
function versions(label: string, count: number): RecordToSend[] {
  return Array.from({ length: count }, (_, index) => ({
    topic: compacted,
    partition: 0,
    key: `key-${index % 7}`,
    value: `${label} ${index} ${'y'.repeat(40)}`,
  }));
}

async function commitAndAbort(producer: ForeignProducer, label: string): Promise<void> {
  await producer.begin();
  await producer.sendAll([...records(`${label} kept`, 8), ...versions(`${label} kept`, 8)]);
  await producer.commit();
  await producer.begin();
  await producer.sendAll([...records(`${label} dropped`, 4), ...versions(`${label} dropped`, 4)]);
  await producer.abort();
}

async function startProducers(): Promise<void> {
  // A linger, so that batches hold several records.
  const options = { bootstrap: stage.source.bootstrap, topic, lingerMs: 20 };
  const idempotents = compressions.idempotent.map((codec) =>
    startProducer('java', { ...options, compression: codec, isIdempotent: true }),
  );
  const transactionals = compressions.transactional.map((codec) =>
    startProducer('java', { ...options, compression: codec, transactionalId: `exact-${codec}` }),
  );
  idempotent.push(...(await Promise.all(idempotents)));
  transactional.push(...(await Promise.all(transactionals)));
}

/** Advances the source's log start, as an operator does. */
async function deleteRecords(offsets: { partition: number; offset: number }[]): Promise<void> {
  const file = path.join(stage.causeway.directory, 'delete-records.json');
  const list = offsets.map((one) => ({ topic, ...one }));
  await writeFile(file, JSON.stringify({ partitions: list, version: 1 }));
  await javaTool(stage.source, 'kafka-delete-records', ['--offset-json-file', file]);
}

function hasInnerGap(batch: RawBatch): boolean {
  const { recordsCount, lastOffsetDelta } = readBatchHeader(batch.bytes, 0);
  return recordsCount > 0 && recordsCount < lastOffsetDelta + 1;
}

function isEmptied(batch: RawBatch): boolean {
  return readBatchHeader(batch.bytes, 0).recordsCount === 0;
}

function hasOuterGap(batches: readonly RawBatch[]): boolean {
  return batches.some(
    (batch, index) => index > 0 && batch.baseOffset > (batches[index - 1]?.nextOffset ?? 0n),
  );
}

/** Rolls segments until the cleaner has left every kind of gap. */
async function waitForGaps(): Promise<void> {
  const source = openCluster(stage.source);
  let seen = '';
  try {
    const [producer] = idempotent;
    await until(
      'gaps of compaction',
      async () => {
        await producer?.send({ topic: compacted, partition: 0, key: 'roller', value: 'z' });
        const batches = await readBatches(source, compacted, 0);
        const inner = batches.filter(hasInnerGap).length;
        const emptied = batches.filter(isEmptied).length;
        seen = `${batches.length} batches, ${inner} with gaps inside, ${emptied} without records`;
        return inner > 0 && hasOuterGap(batches);
      },
      { intervalMs: 250, deadlineMs: 60_000, describe: () => seen },
    );
  } finally {
    await source.close();
  }
}

/** Everything in the log of one mirror partition on disk, also below its log start. */
async function storedBytes(name: string, partition: number): Promise<Buffer> {
  const files = await segmentFiles(name, partition);
  return Buffer.concat(await Promise.all(files.map((file) => readFile(file))));
}

async function segmentFiles(name: string, partition: number): Promise<string[]> {
  const { topicId } = await mirrorView(stage.causeway, name);
  const folder = path.join(stage.causeway.storageDirectory, 'logs', `${topicId}-${partition}`);
  const files = (await readdir(folder)).filter((file) => file.endsWith('.log')).sort();
  assert.ok(files.length > 0, `no segments in ${folder}`);
  return files.map((file) => path.join(folder, file));
}

function splitBatches(bytes: Buffer): Buffer[] {
  const batches: Buffer[] = [];
  const covered = forEachBatch(bytes, (header, position) => {
    batches.push(bytes.subarray(position, position + header.sizeInBytes));
  });
  assert.equal(covered, bytes.length, 'a segment ends with a cut batch');
  return batches;
}

function assertSameBatch(actual: Buffer | undefined, expected: Buffer, what: string): void {
  const { baseOffset } = readBatchHeader(expected, 0);
  assert.ok(actual !== undefined, `${what}: the batch at offset ${baseOffset} is missing`);
  const isSame = actual.equals(expected);
  assert.ok(isSame, `${what}: the batch at offset ${baseOffset} differs from what was served`);
}

async function served(name: string, partition: number): Promise<ServedBatch[]> {
  const { connections } = stage.relay;
  const source = await sourceTopicId(name);
  return servedRun(connections, { name, topicId: source }, partition);
}

const topicIds = new Map<string, string>();

async function sourceTopicId(name: string): Promise<string> {
  const known = topicIds.get(name);
  if (known !== undefined) return known;
  const client = openCluster(stage.source);
  try {
    const found = (await client.metadata([name])).topics.get(name)?.topicId;
    assert.ok(found, `the source has no topic ${name}`);
    topicIds.set(name, found);
    return found;
  } finally {
    await client.close();
  }
}

/** What a client of the proxy reads, from the log start on. */
async function readThroughProxy(name: string, partition: number): Promise<RawBatch[]> {
  const client = openCluster({ bootstrap: stage.causeway.bootstrap });
  try {
    return await readBatches(client, name, partition);
  } finally {
    await client.close();
  }
}

async function readAtSource(name: string, partition: number): Promise<RawBatch[]> {
  const client = openCluster(stage.source);
  try {
    return await readBatches(client, name, partition);
  } finally {
    await client.close();
  }
}

/**
 * The mirror's bytes are the served ones: all of them on disk, those from the log start on through
 * the proxy. `tail` more batches may follow on both. Returns what was served.
 */
async function assertExact(name: string, partition: number, tail = 0): Promise<ServedBatch[]> {
  const what = `${name}-${partition}`;
  const run = await served(name, partition);
  assert.ok(run.length > 0, `${what}: the relay recorded no batch`);
  const stored = splitBatches(await storedBytes(name, partition));
  // A head below the log start may have been deleted, by whole segments.
  const firstStored = readBatchHeader(stored[0] ?? Buffer.alloc(0), 0).baseOffset;
  const kept = run.filter(({ header }) => header.baseOffset >= firstStored);
  for (const [index, batch] of kept.entries()) {
    assertSameBatch(stored[index], batch.bytes, `${what} on disk`);
  }
  assert.equal(stored.length, kept.length + tail, `${what}: batches on disk`);
  const read = await readThroughProxy(name, partition);
  const visible = kept.slice(kept.length + tail - read.length);
  assert.equal(read.length, visible.length + tail, `${what}: batches through the proxy`);
  for (const [index, batch] of visible.entries()) {
    assertSameBatch(read[index]?.bytes, batch.bytes, `${what} through the proxy`);
  }
  return run;
}

function kinds(run: readonly ServedBatch[]): Set<string> {
  return new Set(
    run.map(({ header }) => {
      if (isControl(header)) return 'control';
      const producer = isTransactional(header) ? 'transactional' : 'idempotent';
      assert.ok(header.producerId >= 0n, 'a batch without a producer id');
      return `${producer} ${compression(header)}`;
    }),
  );
}

/** Producer id and epoch, as `id/epoch`, of what a batch at the end of the log closes. */
function closedProducer(batch: Buffer): string {
  const header = readBatchHeader(batch, 0);
  assert.equal(readControlType(batch, 0, header), 'ABORT');
  return `${header.producerId}/${header.producerEpoch}`;
}

/** Who has records after his last control batch. */
function openProducers(run: readonly ServedBatch[]): string[] {
  const open = new Map<bigint, number>();
  for (const { header } of run) {
    if (!isTransactional(header)) continue;
    if (isControl(header)) open.delete(header.producerId);
    else open.set(header.producerId, header.producerEpoch);
  }
  return [...open].map(([id, epoch]) => `${id}/${epoch}`);
}

/** Where groups have committed in the compacted topic. */
let points: readonly string[] = [];

/** At the destination every group is where it was at the source, none beyond the end. */
async function assertCommitted(): Promise<void> {
  const [end = -1] = await stage.ends(compacted);
  for (const point of points) {
    let seen: number[] = [];
    await until(
      `the commit at ${point}`,
      async () => {
        seen = await committedOffsets(stage.atDestination, `at-${point}`, compacted, 1);
        return seen[0] === Number(point);
      },
      { describe: () => `it is at ${seen.join()}` },
    );
    assert.ok(Number(point) <= end, 'no negative lag');
  }
}

before(async () => {
  const linkConfigs = { 'consumer.offset.sync.enable': 'true' };
  stage = await startStage({ isRecorded: true, linkConfigs });
  await createTopic(stage.source, { topic, partitions: partitionsCount });
  await createTopic(stage.source, {
    topic: compacted,
    configs: {
      'cleanup.policy': 'compact',
      'segment.ms': '200',
      'min.cleanable.dirty.ratio': '0.01',
      'delete.retention.ms': '600000',
    },
  });
  await startProducers();
  for (const [index, producer] of idempotent.entries()) {
    await producer.sendAll([...records(`plain-${index}`, 12), ...versions(`plain-${index}`, 10)]);
    const other = transactional[index];
    if (other !== undefined) await commitAndAbort(other, `transaction-${index}`);
  }
});

after(async () => {
  await Promise.all([...idempotent, ...transactional].map((producer) => producer.kill()));
  await stage.stop();
});

describe('a mirror of everything that producers and brokers make', () => {
  test('R1: batches of five compressions, idempotent and transactional, above a log start', async () => {
    await deleteRecords(partitions.map((partition) => ({ partition, offset: 5 })));
    await stage.mirror(topic);
    await stage.mirrored(topic);
    for (const partition of partitions) {
      const run = await assertExact(topic, partition);
      const expected = Object.entries(compressions).flatMap(([kind, codecs]) =>
        codecs.map((codec) => `${kind} ${codec}`),
      );
      assert.deepEqual([...kinds(run)].sort(), ['control', ...expected].sort());
      // Nothing was cleaned here, so the logs are the same, too.
      const difference = firstDifference(
        await readAtSource(topic, partition),
        await readThroughProxy(topic, partition),
      );
      assert.equal(difference, null);
    }
    const { partitions: described } = await mirrorView(stage.causeway, topic);
    assert.deepEqual(
      described.map(({ logStart }) => Number(logStart)),
      [5, 5],
    );
  });

  test('R1: a log with gaps of compaction, inside and between batches', async () => {
    await waitForGaps();
    await stage.mirror(compacted);
    await stage.mirrored(compacted);
    await assertExact(compacted, 0);
    const read = await readThroughProxy(compacted, 0);
    assert.ok(read.some(hasInnerGap), 'no batch with a gap inside in the mirror');
    assert.ok(hasOuterGap(read), 'no gap between batches in the mirror');
  });

  test('R5: D01: commits at gaps of compaction are where they were, and address the same record', async () => {
    const batches = await readThroughProxy(compacted, 0);
    const inner = batches.find(hasInnerGap);
    const outer = batches.find(
      ({ baseOffset }, index) => index > 0 && baseOffset > (batches[index - 1]?.nextOffset ?? 0n),
    );
    const end = batches.at(-1)?.nextOffset ?? -1n;
    assert.ok(inner !== undefined && outer !== undefined);
    points = [inner.baseOffset, inner.nextOffset - 1n, outer.baseOffset - 1n, end].map(String);
    const client = openCluster(stage.source);
    try {
      for (const point of points) {
        await commitOffsets(client, `at-${point}`, compacted, [BigInt(point)]);
      }
    } finally {
      await client.close();
    }
    await assertCommitted();
    const run = await served(compacted, 0);
    for (const point of points) {
      const offset = BigInt(point);
      const { errorCode, first } = await fetchAt(stage.atProxy, compacted, 0, offset);
      assert.equal(errorCode, 0);
      const next = run.find(({ header }) => nextOffset(header) > offset);
      if (next === undefined) assert.equal(first, null, 'nothing is beyond the end');
      else assertSameBatch(first ?? undefined, next.bytes, `at ${point}`);
    }
  });

  test('R1: the log start of the source moves on while it is mirrored', async () => {
    await deleteRecords([{ partition: 1, offset: 40 }]);
    await until('the log start in the mirror', async () => {
      const mirror = await mirrorView(stage.causeway, topic);
      return Number(mirror.partitions[1]?.logStart) === 40;
    });
    const [first] = await readThroughProxy(topic, 1);
    assert.ok(first !== undefined && first.nextOffset > 40n, 'the mirror serves what was deleted');
    await assertExact(topic, 1);
  });

  test('R1, R7: transactions open at failover end with ABORT batches, all else untouched', async () => {
    const open = transactional.slice(0, 2);
    for (const [index, producer] of open.entries()) {
      await producer.begin();
      await producer.send({ partition: 0, value: `open ${index}` });
      await idempotent[index]?.send({ partition: 0, value: `after open ${index}` });
    }
    const ends = await stage.mirrored(topic);
    await stage.mirrored(compacted);
    const { bootstrap } = stage.causeway;
    const reading = { bootstrap, topic, isolation: 'read_committed' } as const;
    const reader = await startConsumer('java', { ...reading, group: 'exact-reader' });
    await stage.source.kill9();
    await stage.causeway.cli('mirror', 'failover', topic, compacted, '--yes');

    const run = await assertExact(topic, 0, open.length);
    await assertExact(topic, 1);
    await assertExact(compacted, 0);
    await assertCommitted();
    const tail = splitBatches(await storedBytes(topic, 0)).slice(-open.length);
    assert.deepEqual(tail.map(closedProducer).sort(), openProducers(run).sort());

    const after = await stage.ends(topic);
    assert.deepEqual(after, [(ends[0] ?? 0) + open.length, ends[1]]);
    const producer = await startProducer('java', { bootstrap, topic, isIdempotent: true });
    const first = await producer.send({ partition: 0, value: 'first after failover' });
    assert.equal(first.offset, after[0]);
    await producer.stop();
    await reader.waitFor('the first record after failover', (read) =>
      read.some(({ value }) => value === 'first after failover'),
    );
    assertEachOnceInOrder(reader.records);
    const leaked = reader.records.filter(({ value }) => /dropped|^open/.test(value ?? ''));
    assert.deepEqual(leaked, []);
    const seen = new Set(reader.records.map(({ value }) => value));
    for (const index of open.keys()) assert.ok(seen.has(`after open ${index}`));
    await reader.stop();
  });

  test('R1: the dump tool of Kafka accepts every segment', async () => {
    const files = [...(await segmentFiles(topic, 0)), ...(await segmentFiles(compacted, 0))];
    const args = ['--deep-iteration', '--files', files.join(',')];
    const { stdout } = await javaTool(null, 'kafka-dump-log', args);
    for (const file of files) assert.ok(stdout.includes(file), `no dump of ${file}`);
    assert.match(stdout, /endTxnMarker: ABORT/);
    assert.doesNotMatch(stdout, /isvalid: false|CorruptRecord|InvalidRecord|Found \d+ invalid/i);
  });
});
