// A Causeway as the source of another: cluster A, mirrored into B, whose gateway is the source of a
// link into C. Topics that are mirrors at B and topics that were spliced there arrive at C byte for
// byte; a promotion at B is followed while it happens; a transaction that was open at B's failover
// holds up no reader at C.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type CausewayProcess, startCauseway } from '../helpers/causeway-process.ts';
import { startConsumer } from '../helpers/foreign-clients.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { compareTopic, type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import {
  post,
  stopMirroring,
  waitForMirrorEnds,
  waitForState,
} from '../helpers/mirror-commands.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';

let stage: LinkedStage;
let third: KafkaCluster;
let onward: CausewayProcess;
/** Through the second proxy. */
let atThird: Cluster;

before(async () => {
  [stage, third] = await Promise.all([startStage(), startKafkaCluster({ name: 'third' })]);
  onward = await startCauseway({ destination: third, name: 'onward' });
  atThird = openCluster({ bootstrap: onward.bootstrap });
  await onward.cli('link', 'create', 'onward', '--source', stage.causeway.bootstrap);
});

after(async () => {
  await atThird?.close();
  await onward?.stop();
  await stage?.stop();
  await third?.stop();
});

async function mirrorOnward(topic: string): Promise<void> {
  const base = `/kafka/v3/clusters/${third.clusterId}/links/onward/mirrors`;
  await post(onward, base, { source_topic_name: topic });
  await waitForState(onward, topic, 'ACTIVE');
}

/** Waits until C has what B tells now, and compares every byte. */
async function assertArrived(topic: string): Promise<void> {
  const ends = (await offsets(stage.atProxy, topic, -1n)).map(Number);
  await waitForMirrorEnds(onward, topic, ends);
  const { difference, batches } = await compareTopic(stage.atProxy, atThird, topic);
  assert.equal(difference, null);
  assert.ok(batches > 0);
}

interface Transacted {
  readonly label: string;
  readonly outcome: 'commit' | 'abort' | 'open';
}

async function transact(at: Cluster, topic: string, { label, outcome }: Transacted): Promise<void> {
  const producer = await newProducer(at, `${topic}-${label}`);
  await startTransaction(at, producer, topic, [0]);
  await write(at, topic, 0, values(label, 3), { producer, sequence: 0 });
  if (outcome !== 'open') await endTransaction(at, producer, outcome);
}

/** A transaction of each outcome, and plain records around them, in both partitions. */
async function fill(at: Cluster, topic: string, label: string, isOpenLeft: boolean) {
  await write(at, topic, 0, values(`${label}-plain`, 5));
  await write(at, topic, 1, values(`${label}-other`, 7, 300));
  await transact(at, topic, { label: `${label}-kept`, outcome: 'commit' });
  await transact(at, topic, { label: `${label}-dropped`, outcome: 'abort' });
  if (isOpenLeft) await transact(at, topic, { label: `${label}-open`, outcome: 'open' });
  await write(at, topic, 0, values(`${label}-last`, 2));
}

const committed = (label: string): string[] => [
  ...values(`${label}-plain`, 5),
  ...values(`${label}-kept`, 3),
  ...values(`${label}-last`, 2),
];

/** What a read_committed consumer at C is given of partition 0, to its end. */
async function assertReadAt(topic: string, expected: readonly string[]): Promise<void> {
  const reader = await startConsumer('java', {
    bootstrap: onward.bootstrap,
    topic,
    isolation: 'read_committed',
  });
  try {
    const first = () => reader.records.filter(({ partition }) => partition === 0);
    await reader.waitFor('all committed values', () => first().length >= expected.length, {
      deadlineMs: 60_000,
    });
    assert.deepEqual(
      first().map(({ value }) => value?.trimEnd()),
      expected,
    );
  } finally {
    await reader.stop();
  }
}

test('R1, R7: what was spliced at B is byte-equal at C, and its readers do not hang', async () => {
  const topic = 'spliced';
  await createTopic(stage.atSource, topic, { partitions: 2 });
  await fill(stage.atSource, topic, 'before', true);
  await stage.mirror(topic);
  await stage.mirrored(topic);
  const [switched] = await stopMirroring(stage.causeway, 'failover', topic);
  assert.ok((switched?.firstEpoch ?? 0) > 0, 'epochs are shifted too');
  await fill(stage.atProxy, topic, 'after', false);
  await mirrorOnward(topic);
  await assertArrived(topic);
  await assertReadAt(topic, [...committed('before'), ...committed('after')]);
});

test('R1, R7, R8: C follows a mirror of B, its failover and what is written later', async () => {
  const topic = 'followed';
  await createTopic(stage.atSource, topic, { partitions: 2 });
  await stage.mirror(topic);
  await mirrorOnward(topic);
  await fill(stage.atSource, topic, 'before', true);
  await stage.mirrored(topic);
  await assertArrived(topic);
  assert.equal((await compareTopic(stage.atSource, atThird, topic)).difference, null);
  await stopMirroring(stage.causeway, 'failover', topic);
  await fill(stage.atProxy, topic, 'after', false);
  await assertArrived(topic);
  await assertReadAt(topic, [...committed('before'), ...committed('after')]);
});

test('R4: a topic of the chain is promoted at its end, and goes on at its offsets', async () => {
  const ends = await offsets(stage.atProxy, 'followed', -1n);
  await stopMirroring(onward, 'promote', 'followed');
  assert.equal(await write(atThird, 'followed', 0, values('last', 2)), ends[0]);
  const below = ends;
  const { difference } = await compareTopic(stage.atProxy, atThird, 'followed', below);
  assert.equal(difference, null);
});
