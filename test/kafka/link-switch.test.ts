// Leaving mirroring on real brokers: promote and failover, with open transactions, markers in the
// shell, a living source and a dead one, and what a restart finds.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachBatch, isControl, readControlType } from '../../protocol/index.ts';
import { openNativeExtent } from '../../src/timeline/timeline.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld();
  source = world.sourceKafka;
  await world.createLink('dr');
});

after(() => world?.end());

function nativeExtent(topic: string, partition = 0) {
  const view = world.directory.byName(topic)?.partition(partition);
  assert.ok(view, 'a view');
  const extent = openNativeExtent(view.timeline);
  assert.ok(extent, `${topic}-${partition} ends in a native extent`);
  return { extent, log: view.log };
}

/** The batches of the mirror log from an offset on: type of control, producer, epoch. */
async function tailBatches(topic: string, from: bigint) {
  const { log } = nativeExtent(topic);
  assert.ok(log, 'an open log');
  const { chunks } = await log.read(from, { bytesMax: 1 << 20, atLeastOneBatch: true });
  const records = Buffer.concat([...chunks]);
  const found: { type: string; producerId: bigint; epoch: number; baseOffset: bigint }[] = [];
  forEachBatch(records, (header, position) => {
    found.push({
      type: isControl(header) ? readControlType(records, position, header) : 'DATA',
      producerId: header.producerId,
      epoch: header.partitionLeaderEpoch,
      baseOffset: header.baseOffset,
    });
  });
  return found;
}

describe('promote', () => {
  test('switches at zero lag, every partition at its own end', async () => {
    const topic = uniqueName('promoted');
    await world.mirrorNewTopic(topic, ['a', 'b', 'c'], { partitions: 2 });
    const epochBefore = world.directory.byName(topic)?.partition(0)?.advertisedEpoch ?? -1;
    const { rows } = await world.command('promote', topic);
    assert.equal(rows[0]?.error, null);
    await world.inState(topic, 'STOPPED');
    assert.equal(world.service.describeMirror(topic).stoppedBy, 'promote');
    assert.equal(world.directory.byName(topic)?.mode, 'promoted');
    const first = nativeExtent(topic, 0).extent;
    assert.equal(first.start, 3n);
    assert.equal(first.offsetShift, 3n);
    assert.ok(first.firstEpoch > epochBefore, 'R8: the epoch goes up');
    assert.equal(nativeExtent(topic, 1).extent.start, 0n);
    const [receipt] = [...world.state.view.receipts.values()];
    assert.equal(receipt?.command, 'promote');
    assert.equal(receipt?.topics[0]?.partitions[0]?.lostRecords, 0n);
    // Idempotent.
    assert.equal((await world.command('promote', topic)).rows[0]?.error, null);
  });

  test('waits for open transactions, shows them, and goes on when they end', async () => {
    const topic = uniqueName('waiting');
    const transaction = await world.mirrorOpenTransaction(topic);
    await world.command('promote', topic);
    await until('the blocking transaction', () =>
      world.service.describeMirror(topic).blocking.some(({ code }) => code === 'TRANSACTION_OPEN'),
    );
    assert.equal(world.service.describeMirror(topic).state, 'PENDING_STOPPED');
    const status = world.service.describeMirror(topic);
    assert.equal(status.phase, 'OPEN_TRANSACTIONS');
    assert.match(status.blocking[0]?.remedy ?? '', /kafka-transactions --abort/);
    await transaction.end('commit');
    await world.inState(topic, 'STOPPED');
    assert.equal(nativeExtent(topic).extent.start, 2n);
  });

  test('falls back to ACTIVE at its deadline, and when it is cancelled', async () => {
    const topic = uniqueName('deadline');
    const transaction = await world.mirrorOpenTransaction(topic);
    await world.command('promote', topic, { deadlineMs: 600 });
    await world.inState(topic, 'ACTIVE');
    const told = world.events.since(0).findLast(({ event }) => event === 'mirror_state_changed');
    assert.match(told?.message ?? '', /deadline.*TRANSACTION_OPEN/);
    await world.command('promote', topic);
    await world.inState(topic, 'PENDING_STOPPED');
    assert.equal((await world.command('cancel', topic)).rows[0]?.error, null);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
    await transaction.end('abort');
    await world.caughtUp(topic, [2n]);
  });

  test('goes on after a restart', async () => {
    const topic = uniqueName('interrupted');
    const transaction = await world.mirrorOpenTransaction(topic);
    await world.command('promote', topic);
    await world.inState(topic, 'PENDING_STOPPED');
    await world.restart();
    assert.equal(world.service.describeMirror(topic).state, 'PENDING_STOPPED');
    await transaction.end('commit');
    await world.inState(topic, 'STOPPED');
    assert.equal(nativeExtent(topic).extent.start, 2n);
  });
});

describe('failover', () => {
  test('hides transaction markers that landed in the shell', async () => {
    const topic = uniqueName('markers');
    await world.mirrorNewTopic(topic, ['a']);
    // What a refused producer leaves behind: a transaction over the shell without records.
    const refused = new Transaction(world.destination, uniqueName('refused'));
    await refused.begin(topic, [0]);
    await refused.end('abort');
    await world.command('failover', topic);
    const { extent } = nativeExtent(topic);
    assert.equal(extent.start, 1n);
    assert.equal(extent.offsetShift, 0n, 'n is 1: the marker is hidden');
    assert.equal(world.service.describeMirror(topic).error, null);
  });

  test('refuses a shell that was written to, others go through', async () => {
    const bad = uniqueName('dirty');
    const good = uniqueName('clean');
    for (const topic of [bad, good]) await world.mirrorNewTopic(topic, []);
    await produce(world.destination, { topic: bad }, ['behind']);
    const { rows } = await world.service.command({
      command: 'failover',
      link: 'dr',
      topics: [bad, good],
      validateOnly: false,
      actor: 'test',
    });
    assert.match(rows[0]?.error?.message ?? '', /1 records were written to the shell/);
    assert.equal(rows[1]?.error, null);
    assert.equal(rows[1]?.state, 'STOPPED');
    assert.notEqual(world.service.describeMirror(bad).state, 'STOPPED');
  });

  test('closes open transactions with ABORT batches, after the source has died (R7)', async () => {
    const topic = uniqueName('failed');
    const empty = uniqueName('empty');
    const paused = uniqueName('paused');
    const [first, second] = [uniqueName('txn'), uniqueName('txn')].map(
      (id) => new Transaction(world.source, id),
    );
    assert.ok(first && second, 'two transactions');
    const ends = await world.mirrorNewTopic(topic, async () => {
      await produce(world.source, { topic }, ['a', 'b']);
      for (const transaction of [first, second]) {
        await transaction.begin(topic, [0]);
        await produce(world.source, { topic, transaction }, ['open']);
      }
    });
    assert.deepEqual(ends, [4n]);
    for (const name of [empty, paused]) await world.mirrorNewTopic(name, []);
    await world.command('pause', paused);
    const before = world.directory.byName(topic)?.partition(0);
    assert.equal(before?.log?.lastStableOffset, 2n);
    const advertised = before?.advertisedEpoch ?? -1;
    await source.kill9();

    const dry = await world.command('failover', topic, { validateOnly: true });
    assert.equal(dry.receipt?.topics[0]?.partitions[0]?.virtualEnd, 6n);
    assert.equal(world.service.describeMirror(topic).state === 'STOPPED', false);
    assert.equal(before?.log?.end, 4n, 'a dry run changes nothing');

    const startedMs = performance.now();
    const { rows, receipt } = await world.service.command({
      command: 'failover',
      link: null,
      topics: [topic, empty, paused, uniqueName('unknown')],
      validateOnly: false,
      actor: 'test',
    });
    const tookMs = performance.now() - startedMs;
    assert.ok(tookMs < 5_000, `${tookMs} ms`);
    assert.deepEqual(
      rows.map(({ state, error }) => error?.code ?? state),
      ['STOPPED', 'STOPPED', 'STOPPED', 'MIRROR_NOT_FOUND'],
    );
    const { extent, log } = nativeExtent(topic);
    assert.equal(extent.start, 6n, 'S lies after two ABORT batches');
    assert.equal(extent.firstEpoch, advertised + 1);
    assert.equal(log?.lastStableOffset, 6n);
    const aborts = await tailBatches(topic, 4n);
    assert.deepEqual(
      aborts.map(({ type, producerId }) => [type, producerId]),
      [
        ['ABORT', first.producer.id],
        ['ABORT', second.producer.id],
      ],
    );
    assert.ok(aborts.every(({ epoch }) => epoch === extent.firstEpoch));
    assert.equal(nativeExtent(empty).extent.start, 0n);
    const line = receipt?.topics.find((entry) => entry.topic === topic)?.partitions[0];
    assert.equal(line?.abortedTransactions, 2);
    assert.equal(line?.lostRecords, 0n);
    assert.ok((line?.lastContactTimeMs ?? -1) > 0);
    assert.ok((line?.lostSeconds ?? -1) >= 0, 'complete a moment ago');
    assert.equal(line?.found, null, 'the source has not been read since');
    assert.equal(world.service.receipt(receipt?.id ?? '')?.topics.length, 3);
    // Idempotent, also across a restart, and no timeline changes twice (R11).
    const timelines = world.state.view.topics.get(topic)?.partitions;
    assert.equal((await world.command('failover', topic)).rows[0]?.error, null);
    await world.restart();
    assert.deepEqual(world.state.view.topics.get(topic)?.partitions, timelines);
    assert.equal(nativeExtent(topic).log?.visibleEnd, 6n);
    assert.equal(world.directory.byName(topic)?.mode, 'promoted');
  });
});
