// Clients of every library across a promotion and a failover, none of them restarted. What they
// were given is held against the log itself, opened record by record; groups start from offsets
// that were committed at the source, with `reset = none` where the library has it, so that a reset
// cannot pass unseen.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ReceiptAnswer } from '../../src/cli/answers.ts';
import { ForeignClientError } from '../helpers/client-process.ts';
import {
  assertHasRead,
  findSkips,
  forEachKind,
  found,
  type Skips,
} from '../helpers/consumer-crowd.ts';
import {
  type Acknowledged,
  type ConsumerKind,
  type ConsumerOptions,
  consumerKinds,
  type ForeignConsumer,
  type ForeignProducer,
  type ProducerKind,
  producerKinds,
  type RecordToSend,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { commitOffsets, waitForSyncedOffsets } from '../helpers/group-commits.ts';
import type { KafkaVersion } from '../helpers/kafka-jars.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { type LinkedStage, linkName, startStage } from '../helpers/linked-stage.ts';
import { type LogRecord, readLog } from '../helpers/log-records.ts';
import { mirrorView } from '../helpers/mirror-commands.ts';
import { openCluster, type RawBatch, readBatches } from '../helpers/raw-batches.ts';
import { until } from '../helpers/wait.ts';

const partitions = 2;
const committedAtSource = [3, 2];
const skipped = committedAtSource.reduce((sum, offset) => sum + offset);
/** For Java and librdkafka: so little that markers come in answers of their own. */
const smallFetches = { 'max.partition.fetch.bytes': '400' };
/** kafkajs hands out aborted records also when it reads from a broker; it is left out. */
const readCommittedKinds: readonly ConsumerKind[] = ['java', 'librdkafka', 'franz-go'];
/** The oldest Java client that brokers are tested with, and the last of its generation. */
const olderVersions = ['2.8.2', '3.9.2'] as const;
const lateKinds: readonly ConsumerKind[] = [...readCommittedKinds, 'java-kip848'];
const transactionalKinds: readonly ProducerKind[] = ['java', 'librdkafka', 'franz-go'];

let stage: LinkedStage;
let skips: Skips;
const open: { kill(): Promise<void> }[] = [];

function keep<Client extends { kill(): Promise<void> }>(client: Client): Client {
  open.push(client);
  return client;
}

function records(label: string, count: number, topic?: string): RecordToSend[] {
  return Array.from({ length: count }, (_, index) => ({
    ...(topic === undefined ? {} : { topic }),
    partition: index % partitions,
    key: `key-${index % 5}`,
    value: `${label} ${index}`,
  }));
}

function present<Kind extends ConsumerKind>(kinds: readonly Kind[]): Kind[] {
  return kinds.filter((kind) => skips.get(kind) === false);
}

/** One consumer of each kind, each in a group that has committed at the source. */
async function startReaders(
  topic: string,
  options: { kinds: readonly ConsumerKind[]; isolation: ConsumerOptions['isolation'] },
): Promise<Map<ConsumerKind, ForeignConsumer>> {
  const kinds = present(options.kinds);
  const groups = kinds.map((kind) => ({
    group: `${topic}-${kind}`,
    topic,
    offsets: committedAtSource,
  }));
  for (const group of groups) await commitOffsets(stage.source, group);
  await waitForSyncedOffsets(stage.causeway, linkName, groups);
  const started = kinds.map(async (kind) => {
    const consumer = await startConsumer(kind, {
      bootstrap: stage.causeway.bootstrap,
      topic,
      group: `${topic}-${kind}`,
      reset: 'none',
      // kafkajs joins its group anew when a leader moves, and goes on from its commit: with any
      // cluster.
      ...(kind === 'kafkajs' ? { autoCommitMs: 100 } : {}),
      ...(options.isolation ? { isolation: options.isolation } : {}),
      ...(kind === 'kafkajs' ? {} : { properties: smallFetches }),
    });
    return [kind, keep(consumer)] as const;
  });
  return new Map(await Promise.all(started));
}

before(async () => {
  skips = await findSkips(consumerKinds);
  // Two brokers, so that the partitions of one topic go to different leaders when they move.
  stage = await startStage({
    destination: { brokers: 2 },
    linkConfigs: { 'consumer.offset.sync.enable': 'true' },
  });
});

after(async () => {
  await Promise.all(open.map((client) => client.kill()));
  await stage.stop();
});

describe('promotion with a live source and quiet writers', () => {
  const topic = 'planned';
  let readers: Map<ConsumerKind, ForeignConsumer>;
  let log: LogRecord[];
  let ends: number[];

  before(async () => {
    await createTopic(stage.source, { topic, partitions });
    const { bootstrap } = stage.source;
    const producer = keep(await startProducer('kafkajs', { bootstrap, topic }));
    await producer.sendAll(records('before', 40));
    await stage.mirror(topic);
    ends = await stage.mirrored(topic);
    readers = await startReaders(topic, { kinds: consumerKinds, isolation: 'read_uncommitted' });
    const count = 40 - skipped;
    await Promise.all([...readers.values()].map((reader) => reader.waitForCount(count)));
    await producer.stop();
    await stage.causeway.cli('mirror', 'promote', topic, '--yes');
    const { bootstrap: proxy } = stage.causeway;
    const next = keep(await startProducer('kafkajs', { bootstrap: proxy, topic }));
    await next.sendAll(records('after', 40));
    await next.stop();
    log = await readLog(stage.causeway, { name: topic, partitions });
  });

  after(() => Promise.all([...readers.values()].map((reader) => reader.stop())));

  test('R4: nothing is lost and the writes go on at the end of the mirror', async () => {
    const mirror = await mirrorView(stage.causeway, topic);
    assert.equal(mirror.state, 'STOPPED');
    assert.deepEqual(ends, [20, 20]);
    assert.deepEqual(await stage.ends(topic), [40, 40]);
    const values = [...records('before', 40), ...records('after', 40)].map(({ value }) => value);
    assert.deepEqual(log.map(({ value }) => value).sort(), values.sort());
    const late = log.filter(({ partition, offset }) => offset >= (ends[partition] ?? 0));
    assert.ok(late.every(({ value }) => value?.startsWith('after')));
  });

  test('R6, R8: consumers of every library read on, each record once, in order', async (t) => {
    await forEachKind(t, { kinds: consumerKinds, skips }, (kind) =>
      assertHasRead(found(readers, kind), log, committedAtSource),
    );
  });
});

interface Refused {
  readonly producer: ForeignProducer;
  readonly error: unknown;
}

async function refusal(sending: Promise<unknown>): Promise<unknown> {
  return sending.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('failover from a source that is killed under load', () => {
  const topic = 'plain';
  const deals = 'deals';
  let readers: Map<ConsumerKind, ForeignConsumer>;
  let dealReaders: Map<ConsumerKind, ForeignConsumer>;
  const older = new Map<KafkaVersion, ForeignConsumer>();
  const refused = new Map<ProducerKind, Refused>();
  const acknowledged = new Map<string, Acknowledged>();
  const transactional = new Map<ProducerKind, Refused>();
  const rewritten = new Map<ProducerKind, Acknowledged>();
  let receipt: ReceiptAnswer;
  let mirrorEnds: number[];
  let dealEnds: number[];
  let log: LogRecord[];
  let dealLog: LogRecord[];

  async function startOlderReaders(): Promise<void> {
    if (skips.get('java') !== false) return;
    const options = { bootstrap: stage.causeway.bootstrap, topic: deals } as const;
    const isolation = 'read_committed';
    for (const javaVersion of olderVersions) {
      const group = `older-${javaVersion}`;
      const consumer = await startConsumer('java', { ...options, isolation, group, javaVersion });
      older.set(javaVersion, keep(consumer));
    }
  }

  /** Committed, aborted, left open; and records after the open one, which must not be lost. */
  async function writeDeals(): Promise<void> {
    const { bootstrap } = stage.source;
    const options = { bootstrap, topic: deals };
    const [dealer, hanging] = await Promise.all([
      startProducer('java', { ...options, transactionalId: 'dealer' }),
      startProducer('java', { ...options, transactionalId: 'hanging' }),
    ]);
    for (const outcome of ['commit', 'abort', 'commit'] as const) {
      await dealer.begin();
      await dealer.sendAll(records(outcome, 10));
      await dealer[outcome]();
    }
    keep(dealer);
    await keep(hanging).begin();
    await hanging.sendAll(records('open', 4));
    await dealer.begin();
    await dealer.sendAll(records('commit after open', 10));
    await dealer.commit();
  }

  async function refuseProducers(): Promise<void> {
    const { bootstrap } = stage.causeway;
    const started = present(producerKinds).map(async (kind) => {
      const producer = keep(
        await startProducer(kind, { bootstrap, topic, isIdempotent: kind !== 'kafkajs' }),
      );
      refused.set(kind, {
        producer,
        error: await refusal(producer.send({ partition: 0, value: `${kind} refused` })),
      });
    });
    await Promise.all(started);
  }

  /** Refused inside a transaction, which they then abort: some leave markers in the shell topic. */
  async function refuseTransactions(): Promise<void> {
    const options = { bootstrap: stage.causeway.bootstrap, topic: deals };
    const started = present(transactionalKinds).map(async (kind) => {
      const producer = keep(
        await startProducer(kind, { ...options, transactionalId: `refused-${kind}` }),
      );
      await producer.begin();
      const error = await refusal(producer.send({ partition: 0, value: `${kind} refused` }));
      await producer.abort();
      transactional.set(kind, { producer, error });
    });
    await Promise.all(started);
  }

  /** librdkafka may abort once more, because the sequence that was refused was never used. */
  async function commitOnce(kind: ProducerKind, producer: ForeignProducer): Promise<void> {
    await until(`a transaction of the ${kind} producer`, async () => {
      await producer.begin();
      try {
        await producer.send({ partition: 0, value: `${kind} deal` });
        await producer.commit();
        return true;
      } catch (error) {
        await producer.abort();
        throw error;
      }
    });
  }

  /** Kills the source with writes under way; what was acknowledged by then is known. */
  async function killUnderLoad(producer: ForeignProducer): Promise<void> {
    const sending = records('load', 4_000).map(async (record) => {
      const at = await producer.send(record);
      acknowledged.set(record.value ?? '', at);
    });
    const settled = Promise.allSettled(sending);
    await until('acknowledged writes', () => acknowledged.size > 500, { intervalMs: 5 });
    await until('some of the load in both partitions of the mirror', async () => {
      const mirror = await mirrorView(stage.causeway, topic);
      return mirror.partitions.every(({ mirrorEnd }) => Number(mirrorEnd) > 50);
    });
    await stage.source.kill9();
    await producer.kill();
    await settled;
  }

  /** What kafkajs has not committed when a leader moves it reads again, from any cluster. */
  async function waitForKafkajs(): Promise<void> {
    const { partitions: sides } = await mirrorView(stage.causeway, topic);
    const wanted = sides.reduce((sum, side) => sum + Number(side.mirrorEnd), -skipped);
    await found(readers, 'kafkajs').waitForCount(wanted);
  }

  before(async () => {
    await createTopic(stage.source, { topic, partitions });
    await createTopic(stage.source, { topic: deals, partitions });
    const { bootstrap } = stage.source;
    const first = keep(await startProducer('java', { bootstrap, topic, isIdempotent: true }));
    await first.sendAll(records('before', 100));
    await writeDeals();
    await stage.mirror(topic);
    await stage.mirror(deals);
    await stage.mirrored(topic);
    await stage.mirrored(deals);
    [readers, dealReaders] = await Promise.all([
      startReaders(topic, { kinds: consumerKinds, isolation: 'read_uncommitted' }),
      startReaders(deals, { kinds: readCommittedKinds, isolation: 'read_committed' }),
      refuseProducers(),
      refuseTransactions(),
      startOlderReaders(),
    ]);
    await Promise.all([...readers.values()].map((reader) => reader.waitForCount(100 - skipped)));
    await Promise.all([...dealReaders.values()].map((reader) => reader.waitForCount(10)));
    await Promise.all([...older.values()].map((reader) => reader.waitForCount(20)));
    // Its leader epochs rise, so that those of the destination, which begin at 0, would go back.
    await stage.source.restartBroker();
    await killUnderLoad(first);
    await waitForKafkajs();
    const failover = ['mirror', 'failover', topic, deals, '--yes'];
    ({ receipt } = await stage.causeway.cliJson<{ receipt: ReceiptAnswer }>(...failover));
    mirrorEnds = await stage.ends(topic);
    dealEnds = await stage.ends(deals);
    await Promise.all(
      [...refused].map(async ([kind, { producer }]) => {
        rewritten.set(kind, await producer.send({ partition: 0, value: `${kind} after` }));
        await producer.sendAll(records(`${kind} after`, 10));
      }),
    );
    for (const [kind, { producer }] of transactional) await commitOnce(kind, producer);
    await writeDealsAfter();
    log = await readLog(stage.causeway, { name: topic, partitions });
    dealLog = await readLog(stage.causeway, { name: deals, partitions }, 'read_committed');
  });

  async function writeDealsAfter(): Promise<void> {
    const dealer = found(transactional, 'java').producer;
    for (const outcome of ['abort', 'commit'] as const) {
      await dealer.begin();
      await dealer.sendAll(records(`${outcome} at the destination`, 10));
      await dealer[outcome]();
    }
  }

  function sidesOf(name: string): ReceiptAnswer['topics'][number]['partitions'] {
    const found = receipt.topics.find((one) => one.topic === name);
    assert.ok(found !== undefined, `${name} is not in the receipt`);
    return found.partitions;
  }

  test('R7: the receipt tells of the aborted transaction and of markers in the shell topic', () => {
    const sides = sidesOf(deals);
    assert.deepEqual(
      sides.map(({ virtualEnd }) => Number(virtualEnd)),
      dealEnds,
    );
    assert.deepEqual(
      sides.map(({ abortedTransactions }) => abortedTransactions),
      [1, 1],
    );
    // librdkafka adds the partition to its transaction first: the coordinator writes an abort
    // marker there.
    if (transactional.has('librdkafka')) assert.ok(Number(sides[0]?.nativeEnd) > 0);
  });

  test('R8: the first epoch after the failover lies above those of the source', async () => {
    const cluster = openCluster(stage.causeway);
    try {
      for (const { partition, firstEpoch } of sidesOf(topic)) {
        const batches = await readBatches(cluster, topic, partition);
        const isMirrored = (batch: RawBatch): boolean =>
          batch.baseOffset < (mirrorEnds[partition] ?? 0);
        const highest = Math.max(...batches.filter(isMirrored).map((one) => one.leaderEpoch));
        const later = batches.filter((batch) => !isMirrored(batch)).map((one) => one.leaderEpoch);
        assert.ok(highest > 0, 'the restart of the source has raised no epoch');
        assert.ok(later.length > 0 && later.every((epoch) => epoch >= firstEpoch));
        assert.ok(firstEpoch > highest);
      }
    } finally {
      await cluster.close();
    }
  });

  test('R1: what the source acknowledged is in the mirror as far as the mirror reaches', () => {
    const mirrored = new Map(
      log.map(({ partition, offset, value }) => [value, { partition, offset }]),
    );
    let compared = 0;
    for (const [value, { partition, offset }] of acknowledged) {
      if (offset >= (mirrorEnds[partition] ?? 0)) continue;
      assert.deepEqual(mirrored.get(value), { partition, offset });
      compared++;
    }
    assert.ok(compared > 0, 'nothing of the load was mirrored');
  });

  test('R6, R8: consumers of every library read on, each record once, in order', async (t) => {
    await forEachKind(t, { kinds: consumerKinds, skips }, (kind) =>
      assertHasRead(found(readers, kind), log, committedAtSource),
    );
  });

  test('R6, R7: consumers started afterwards read the whole log, through mirror and shell', async (t) => {
    const late = async (kind: ConsumerKind): Promise<ForeignConsumer> => {
      const reading = {
        bootstrap: stage.causeway.bootstrap,
        topic: deals,
        group: `late-${kind}`,
      };
      const isolation = 'read_committed' as const;
      return keep(await startConsumer(kind, { ...reading, isolation, properties: smallFetches }));
    };
    const started = present(lateKinds).map(async (kind) => [kind, await late(kind)] as const);
    const consumers = new Map(await Promise.all(started));
    await forEachKind(t, { kinds: lateKinds, skips }, async (kind) => {
      await assertHasRead(found(consumers, kind), dealLog, []);
    });
  });

  test('R7: read_committed consumers see what was committed, across a transaction left open', async (t) => {
    const values = dealLog.map(({ value }) => value ?? '');
    const labels = ['commit', 'commit', 'commit after open', 'commit at the destination'];
    const own = labels.flatMap((label) => records(label, 10).map(({ value }) => value ?? ''));
    const others = present(transactionalKinds).map((kind) => `${kind} deal`);
    assert.deepEqual(values.sort(), [...own, ...others].sort());
    await forEachKind(t, { kinds: readCommittedKinds, skips }, (kind) =>
      assertHasRead(found(dealReaders, kind), dealLog, committedAtSource),
    );
  });

  test('R6, R7, R8: Java consumers of older versions read on', async (t) => {
    for (const version of olderVersions) {
      await t.test(version, { skip: skips.get('java') ?? false }, () =>
        assertHasRead(found(older, version), dealLog, []),
      );
    }
  });

  test('R8: the epochs of the source are validated: Java’s log tells of no reset, no truncation', () => {
    const javas = [...readers, ...dealReaders].filter(([kind]) => kind.startsWith('java'));
    assert.ok(javas.length > 0 || skips.get('java') !== false);
    for (const [kind, { stderr }] of javas) {
      assert.match(stderr, /Setting offset for partition \S+ to the committed offset/, kind);
      assert.doesNotMatch(stderr, /truncat|resetting offset|out of range/i, kind);
    }
  });

  test('R3, R4: producers refused on the mirror write after the failover, not restarted', async (t) => {
    await forEachKind(t, { kinds: producerKinds, skips }, async (kind) => {
      const { error } = found(refused, kind);
      assert.ok(error instanceof ForeignClientError, `${kind} was not refused`);
      assert.match(error.message, /policy/i);
      const at = found(rewritten, kind);
      assert.ok(at.offset >= (mirrorEnds[0] ?? 0), `${at.offset} lies in the mirror`);
      const own = log
        .filter(({ value }) => value?.startsWith(`${kind} `))
        .map(({ value }) => value);
      const sent = [...records(`${kind} after`, 10).map(({ value }) => value), `${kind} after`];
      assert.deepEqual(own.sort(), sent.sort());
    });
  });

  // Batches, not records: librdkafka may abort before it writes, and then a marker comes first.
  test('R4: the first batch after the failover is at the end of the mirror', async () => {
    const cluster = openCluster(stage.causeway);
    try {
      for (const [name, ends] of [[topic, mirrorEnds] as const, [deals, dealEnds] as const]) {
        for (const [partition, end] of ends.entries()) {
          const batches = await readBatches(cluster, name, partition);
          const later = batches.filter(({ baseOffset }) => baseOffset >= end);
          assert.equal(later[0]?.baseOffset, BigInt(end), `${name}-${partition}`);
        }
      }
    } finally {
      await cluster.close();
    }
  });

  test('R3, R7: transactional producers refused on the mirror commit after the failover', async (t) => {
    await forEachKind(t, { kinds: transactionalKinds, skips }, async (kind) => {
      const { error } = found(transactional, kind);
      assert.ok(error instanceof ForeignClientError, `${kind} was not refused`);
      assert.match(error.message, /policy/i);
      const own = dealLog.filter(({ value }) => value === `${kind} deal`);
      assert.equal(own.length, 1);
      assert.ok((own[0]?.offset ?? 0) >= (dealEnds[0] ?? 0), 'committed within the mirror');
    });
  });
});
