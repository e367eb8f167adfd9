// R3 and R4 on real brokers: nobody writes to a mirror, by whatever way; and what is acknowledged
// after the switch is in the log, from S on, once. The shell is always asked directly at its
// broker.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachBatch, isControl, openRecords } from '../../protocol/index.ts';
import { produceApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type ProducerKind, skipReason, startProducer } from '../helpers/foreign-clients.ts';
import { compareTopic, type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { command, mirrorView, stopMirroring, waitForState } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { RawConnection } from '../helpers/raw-connection.ts';
import {
  endTransaction,
  newProducer,
  type Producer,
  produceRequest,
  startTransaction,
  tryWrite,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const policyViolation = 44;
const notLeader = 6;

interface Found {
  readonly offset: bigint;
  readonly value: string;
}

/** Records of a partition, control batches left out. */
async function recordsOf(cluster: Cluster, topic: string, partition: number): Promise<Found[]> {
  const found: Found[] = [];
  for (const { bytes } of await readBatches(cluster, topic, partition)) {
    const headers: boolean[] = [];
    forEachBatch(bytes, (header) => {
      headers.push(isControl(header));
    });
    if (headers[0] === true) continue;
    for (const record of await openRecords(bytes)) {
      found.push({ offset: record.offset, value: String(record.value) });
    }
  }
  return found;
}

describe('writes to mirrors and to promoted topics', { timeout: 180_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    stage = await startStage();
  });

  after(() => stage?.stop());

  async function newMirror(topic: string, partitions = 1): Promise<void> {
    const fill = async (): Promise<void> => {
      for (let partition = 0; partition < partitions; partition++) {
        await write(stage.atSource, topic, partition, values(`${topic} source`, 20));
      }
    };
    await stage.mirrorNewTopic(topic, fill, { partitions });
  }

  async function assertShellEmpty(topic: string): Promise<void> {
    const info = (await stage.atDestination.metadata([topic])).topics.get(topic);
    for (const { partition } of info?.partitions ?? []) {
      const found = await recordsOf(stage.atDestination, topic, partition);
      assert.deepEqual(found, [], `records in the shell of ${topic}-${partition}`);
    }
  }

  test('R3: Produce to a mirror is refused at every node, by name and by id, and the shell stays empty', async () => {
    await newMirror('refused', 2);
    await createTopic(stage.atDestination, 'open');
    const view = await stage.atProxy.metadata(['refused', 'open']);
    const info = view.topics.get('refused');
    assert.ok(info);
    for (const { nodeId, port } of view.brokers) {
      const connection = await RawConnection.open(port);
      try {
        for (let version = 3; version <= 13; version++) {
          const request = produceRequest('refused', 1, values('stray', 2));
          for (const topic of request.topicData) if (version >= 13) topic.topicId = info.topicId;
          const { response } = await connection.ask(produceApi, version, request);
          const answer = response.responses[0]?.partitionResponses[0];
          const where = `Produce v${version} at node ${nodeId}`;
          assert.ok(
            answer?.errorCode === policyViolation || answer?.errorCode === notLeader,
            `${where}: error ${answer?.errorCode}`,
          );
          if (version >= 8 && answer.errorCode === policyViolation) {
            assert.match(answer.errorMessage ?? '', /refused.*dr|dr.*refused/, where);
          }
        }
        // Unacknowledged: nothing may come back, but for the end of the connection.
        const silent = produceRequest('refused', 0, values('unacknowledged', 2));
        const outcome = connection.ask(produceApi, 9, { ...silent, acks: 0 });
        await assert.rejects(outcome, /closed|ECONNRESET/);
      } finally {
        connection.close();
      }
    }
    // A request for a mirror and an ordinary topic: one is written, the other is not.
    const mixed = produceRequest('refused', 0, values('mixed', 1));
    mixed.topicData.push(...produceRequest('open', 0, values('mixed', 1)).topicData);
    const nodeId = view.topics.get('open')?.partitions[0]?.leaderId ?? -1;
    const answer = await stage.atProxy.send({ kind: 'node', nodeId }, produceApi, mixed);
    const codes = answer.responses.map((one) => [
      one.name,
      one.partitionResponses[0]?.errorCode === 0,
    ]);
    assert.deepEqual(codes, [
      ['refused', false],
      ['open', true],
    ]);
    assert.equal((await recordsOf(stage.atDestination, 'open', 0)).length, 1);
    await assertShellEmpty('refused');
    assert.deepEqual(await offsets(stage.atDestination, 'refused', -1n), [0n, 0n]);
  });

  for (const kind of ['java', 'kafkajs'] as const satisfies readonly ProducerKind[]) {
    test(`R3: a ${kind} producer is refused on a mirror and told so`, async (context) => {
      const reason = await skipReason(kind);
      if (reason !== false) return context.skip(reason);
      const topic = `refused-${kind}`;
      await newMirror(topic);
      const { bootstrap } = stage.causeway;
      const producer = await startProducer(kind, { bootstrap, topic });
      try {
        await assert.rejects(producer.send({ value: 'stray' }), /policy/i);
      } finally {
        await producer.kill();
      }
      await assertShellEmpty(topic);
    });
  }

  test('R3, R4: markers of refused transactions stay hidden, and S is right with n above 0', async () => {
    const { atSource, atDestination, atProxy } = stage;
    await newMirror('marked');
    const producer = await newProducer(atProxy, 'refused-transaction');
    for (const sequence of [0, 1, 2]) {
      await startTransaction(atProxy, producer, 'marked', [0]);
      const refused = await tryWrite(atProxy, 'marked', 0, values('refused', 1), {
        producer,
        sequence,
      });
      assert.equal(refused.errorCode, policyViolation);
      await endTransaction(atProxy, producer, 'abort');
    }
    const native = await until('markers in the shell', async () => {
      const [end = 0n] = await offsets(atDestination, 'marked', -1n);
      return end >= 3n ? end : undefined;
    });
    await assertShellEmpty('marked');
    const [end = 0n] = await stage.caughtUp('marked');
    assert.equal((await compareTopic(atSource, atProxy, 'marked')).difference, null);
    const [switched] = await stopMirroring(stage.causeway, 'promote', 'marked');
    assert.equal(switched?.virtualEnd, Number(end));
    assert.ok((switched?.nativeEnd ?? 0) >= Number(native), 'n counts the markers');
    assert.equal(await write(atProxy, 'marked', 0, values('after', 3)), end);
    const whole = await readBatches(atProxy, 'marked', 0);
    whole.reduce((expected, batch) => {
      assert.equal(batch.baseOffset, expected, 'no gap, and no marker between the extents');
      return batch.nextOffset;
    }, 0n);
    const last = await recordsOf(atProxy, 'marked', 0);
    assert.deepEqual(
      last.slice(-3).map(({ offset, value }) => [offset, value]),
      values('after', 3).map((value, index) => [end + BigInt(index), value]),
    );
  });

  test('R3: a record written to a shell behind our back fails the mirror, and is counted', async () => {
    await newMirror('tampered');
    await write(stage.atDestination, 'tampered', 0, values('behind our back', 3));
    const view = await waitForState(stage.causeway, 'tampered', 'FAILED');
    assert.equal(view.error?.code, 'SHELL_TOPIC_WRITTEN');
    assert.match(view.error?.message ?? '', /\b3\b/);
    // What it holds is still served, and still the source's.
    const compared = await compareTopic(stage.atSource, stage.atProxy, 'tampered');
    assert.equal(compared.difference, null);
  });

  test('R4: writes acknowledged during and after a promotion are in the log from S on, each once', async () => {
    const { atProxy, causeway } = stage;
    await newMirror('switched', 2);
    const acknowledged: { partition: number; offset: bigint; value: string }[] = [];
    let isWriting = true;
    const writers = [0, 1].map(async (partition) => {
      const producer = await newProducer(atProxy);
      for (let sequence = 0; isWriting || sequence < 5; ) {
        const value = `written-${partition}-${sequence}`;
        const writing = { producer, sequence };
        const answer = await tryWrite(atProxy, 'switched', partition, [value], writing);
        if (answer.errorCode === 0) {
          acknowledged.push({ partition, offset: answer.baseOffset, value });
          sequence++;
        } else {
          const { errorCode } = answer;
          assert.ok(errorCode === policyViolation || errorCode === notLeader, `error ${errorCode}`);
        }
      }
    });
    const switched = await stopMirroring(causeway, 'promote', 'switched');
    await until('writes after the switch', () => acknowledged.length >= 20);
    isWriting = false;
    await Promise.all(writers);
    for (const { partition, virtualEnd } of switched) {
      assert.equal(virtualEnd, 20, 'S is the end of the source');
      const written = acknowledged.filter((one) => one.partition === partition);
      const found = await recordsOf(atProxy, 'switched', partition);
      assert.deepEqual(
        found.slice(virtualEnd),
        written.map(({ offset, value }) => ({ offset, value })),
      );
      assert.equal(written[0]?.offset, BigInt(virtualEnd));
    }
  });

  test('R4: a retried batch is in the log once, also with the ids of a producer of the source', async () => {
    const { atSource, atProxy, causeway } = stage;
    const old = await newProducer(atSource);
    const [end = 0n] = await stage.mirrorNewTopic('retried', async () => {
      for (const sequence of [0, 5]) {
        const writing = { producer: old, sequence };
        await write(atSource, 'retried', 0, values(`old ${sequence}`, 5), writing);
      }
    });
    await stopMirroring(causeway, 'failover', 'retried');
    // The destination may give the same id to a new producer: the mirrored batches must not make it
    // a repetition.
    for (const [index, producer] of [old, await newProducer(atProxy)].entries()) {
      const label = `new ${index}`;
      const writing = { producer, sequence: 0 };
      const first = await write(atProxy, 'retried', 0, values(label, 5), writing);
      assert.equal(first, end + BigInt(5 * index));
      assert.equal(await write(atProxy, 'retried', 0, values(label, 5), writing), first);
      const found = await recordsOf(atProxy, 'retried', 0);
      assert.equal(found.filter(({ value }) => value.startsWith(label)).length, 5);
    }
    assert.equal((await offsets(atProxy, 'retried', -1n))[0], end + 10n);
  });

  test('R4: D20: first writes after a failover are in the log, whatever ids the mirror holds', async () => {
    const { atSource, atProxy, causeway } = stage;
    const [end = 0n] = await stage.mirrorNewTopic('clashes', async () => {
      // Each cluster gives ids from 0 on: the ones of the source come again at the destination.
      for (let index = 0; index < 6; index++) {
        const producer = await newProducer(atSource);
        await write(atSource, 'clashes', 0, values(`old ${index}`, 10), { producer });
      }
    });
    await stopMirroring(causeway, 'failover', 'clashes');
    const acknowledged: bigint[] = [];
    const writeHundred = async (label: string, producer: Producer): Promise<void> => {
      for (let sequence = 0; sequence < 100; sequence += 10) {
        const writing = { producer, sequence };
        const batch = values(`${label} ${sequence}`, 10);
        const first = await write(atProxy, 'clashes', 0, batch, writing);
        acknowledged.push(...batch.map((_, index) => first + BigInt(index)));
      }
    };
    for (let index = 0; index < 10; index++) {
      await writeHundred(`new ${index}`, await newProducer(atProxy));
    }
    for (const id of ['clashes-one', 'clashes-two']) {
      const producer = await newProducer(atProxy, id);
      await startTransaction(atProxy, producer, 'clashes', [0]);
      await writeHundred(id, producer);
      await endTransaction(atProxy, producer, 'commit');
    }
    assert.equal(new Set(acknowledged).size, 1_200);
    assert.ok(acknowledged.every((offset) => offset >= end));
    const found = await recordsOf(atProxy, 'clashes', 0);
    const written = found.filter(({ value }) => !value.startsWith('old'));
    assert.deepEqual(
      written.map(({ offset }) => BigInt(offset)),
      acknowledged,
      'each acknowledged record is where it was said to be, and there are no others',
    );
  });

  test('R4: after a failover a Java producer with idempotence has each record once, in order', async (context) => {
    const reason = await skipReason('java');
    if (reason !== false) return context.skip(reason);
    await newMirror('java-after');
    const [switched] = await stopMirroring(stage.causeway, 'failover', 'java-after');
    const start = switched?.virtualEnd ?? -1;
    const producer = await startProducer('java', {
      bootstrap: stage.causeway.bootstrap,
      topic: 'java-after',
      isIdempotent: true,
    });
    const sent = values('java', 300);
    const answers = await producer.sendAll(sent.map((value) => ({ partition: 0, value })));
    await producer.stop();
    const first = answers.map(({ offset }) => offset);
    assert.deepEqual(
      first,
      sent.map((_, index) => start + index),
    );
    const found = await recordsOf(stage.atProxy, 'java-after', 0);
    assert.deepEqual(
      found.slice(start).map(({ value }) => value),
      sent,
    );
    // And a promotion of the same topic again changes nothing.
    const again = await command(stage.causeway, 'failover', 'java-after');
    assert.equal(again.state, 'STOPPED');
    assert.equal((await mirrorView(stage.causeway, 'java-after')).state, 'STOPPED');
  });
});
