// One life of a link for each Kafka version that can be a source, and for each that can be a
// destination: plain, compacted and transactional topics are mirrored, grow, lose a leader, are
// followed by groups, ACLs and configs, and are promoted. The source has two brokers; records come
// from Java's own producers, gaps from the cleaner; at the end clients of several libraries go on
// through the proxy. CAUSEWAY_TEST_SOURCE=2.8.2 and CAUSEWAY_TEST_DESTINATION=3.9.2 choose.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readBatchHeader } from '../../protocol/index.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { alterTopicConfigs, readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { anyAcl } from '../../src/tasks/acl-filters.ts';
import { createAcls, readAcls } from '../../src/tasks/acl-requests.ts';
import {
  type RecordToSend,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type KafkaVersion, kafkaVersions } from '../helpers/kafka-jars.ts';
import { usesZooKeeper } from '../helpers/kafka-settings.ts';
import { compareTopic, type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { type RawBatch, readBatches } from '../helpers/raw-batches.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { assertEachOnceInOrder } from '../helpers/record-checks.ts';
import { createTopic, deleteRecords, growTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const plain = 'matrix-plain';
const compacted = 'matrix-compacted';
const transactional = 'matrix-transactional';
const topics = [plain, compacted, transactional];
const group = 'matrix-group';
const retention = 'retention.ms';
const codecs = ['none', 'lz4', 'zstd'] as const;
const cleaned = {
  'cleanup.policy': 'compact',
  'segment.ms': '200',
  'min.cleanable.dirty.ratio': '0.01',
};
const patient = { deadlineMs: 60_000 };

const readByApp: Acl = {
  resourceType: 2,
  resourceName: plain,
  patternType: 3,
  principal: 'User:app',
  host: '*',
  operation: 3,
  permissionType: 3,
};
const aclFilters = JSON.stringify({
  aclFilters: [
    {
      resourceFilter: { resourceType: 'topic', patternType: 'any' },
      accessFilter: { operation: 'any', permissionType: 'any' },
    },
  ],
});
const groupFilters = JSON.stringify({
  groupFilters: [{ name: '*', patternType: 'LITERAL', filterType: 'INCLUDE' }],
});

function guarded(version: KafkaVersion): Record<string, string> {
  return {
    'authorizer.class.name': usesZooKeeper(version)
      ? 'kafka.security.authorizer.AclAuthorizer'
      : 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
    'replica.lag.time.max.ms': '3000',
  };
}

interface Versions {
  readonly source: KafkaVersion;
  readonly destination: KafkaVersion;
}

async function startLife({ source, destination }: Versions): Promise<LinkedStage> {
  return startStage({
    source: { version: source, brokers: 2, settings: guarded(source) },
    destination: { version: destination, settings: guarded(destination) },
    linkConfigs: {
      'acl.sync.enable': 'true',
      'acl.sync.ms': '1000',
      'acl.filters': aclFilters,
      'consumer.offset.sync.enable': 'true',
      'consumer.offset.sync.ms': '500',
      'consumer.offset.group.filters': groupFilters,
      'topic.config.sync.ms': '1000',
    },
  });
}

function records(topic: string, label: string, partitions: number): RecordToSend[] {
  return Array.from({ length: 30 }, (_, index) => ({
    topic,
    partition: index % partitions,
    key: `key-${index % 7}`,
    value: `${label} ${index} ${'x'.repeat(40)}`,
  }));
}

/** Batches of each codec in all topics, committed and aborted ones in one of them. */
async function produceAll({ source }: LinkedStage, label: string, partitions = 3): Promise<void> {
  const options = { bootstrap: source.bootstrap, topic: plain, lingerMs: 20 };
  for (const compression of codecs) {
    const producer = await startProducer('java', { ...options, compression, isIdempotent: true });
    try {
      await producer.sendAll(records(plain, label, partitions));
      await producer.sendAll(records(compacted, label, 1));
    } finally {
      await producer.stop();
    }
  }
  const producer = await startProducer('java', { ...options, transactionalId: `matrix-${label}` });
  try {
    for (const outcome of ['commit', 'abort', 'commit'] as const) {
      await producer.begin();
      await producer.sendAll(records(transactional, `${label} ${outcome}`, 2));
      await producer[outcome]();
    }
  } finally {
    await producer.stop();
  }
}

async function assertSame(stage: LinkedStage, ends?: Map<string, number[]>): Promise<void> {
  for (const topic of topics) {
    if (ends === undefined) await stage.caughtUp(topic);
    const compared = await until(`a look at ${topic}`, () =>
      compareTopic(stage.atSource, stage.atProxy, topic, ends?.get(topic)),
    );
    assert.equal(compared.difference, null);
    assert.ok(compared.batches > 0, topic);
  }
}

async function setConfig(cluster: Cluster, topic: string, config: [string, string]): Promise<void> {
  const [name, value] = config;
  const altered = await alterTopicConfigs(cluster, new Map([[topic, [{ name, value }]]]));
  assert.equal(altered.get(topic)?.errorCode, 0);
}

function hasGap(batches: readonly RawBatch[]): boolean {
  return batches.some(({ bytes, baseOffset }, index) => {
    const { recordsCount, lastOffsetDelta } = readBatchHeader(bytes, 0);
    const expected = index === 0 ? baseOffset : batches[index - 1]?.nextOffset;
    return baseOffset !== expected || recordsCount < lastOffsetDelta + 1;
  });
}

/** Lets the cleaner work until it has left gaps, and then no more: bytes are compared later. */
async function waitForGaps({ atSource }: LinkedStage): Promise<void> {
  // Its fourth key is not written again: what is cleaned away around it leaves gaps, where whole
  // batches would only leave a later first one.
  await write(atSource, compacted, 0, values('kept', 4, 50));
  let round = 0;
  await until(
    'gaps of compaction',
    async () => {
      await write(atSource, compacted, 0, values(`key-${round++ % 5}`, 3, 50));
      return hasGap(await readBatches(atSource, compacted, 0));
    },
    { ...patient, intervalMs: 250 },
  );
  await setConfig(atSource, compacted, ['min.compaction.lag.ms', '86400000']);
}

async function retentionBecomes(cluster: Cluster, value: string): Promise<void> {
  await until(
    `${retention}=${value}`,
    async () => {
      const found = (await readTopicConfigs(cluster, [plain], [retention])).get(plain);
      return found?.configs.some((one) => one.name === retention && one.value === value);
    },
    patient,
  );
}

async function grows(stage: LinkedStage): Promise<void> {
  await growTopic(stage.atSource, plain, 4);
  // Its leader hears of it a little later.
  const writes = () => write(stage.atSource, plain, 3, values('grown', 5));
  await until('a write to it', () => writes().then(() => true));
  await until(
    'the fourth partition',
    async () => {
      const info = (await stage.atProxy.metadata([plain])).topics.get(plain);
      return info?.partitions.length === 4;
    },
    patient,
  );
}

/** Everything that broker 2 led goes to broker 1, and comes from there; nothing is truncated. */
async function losesLeader(stage: LinkedStage): Promise<void> {
  const { source, atSource } = stage;
  const leaders = async (): Promise<number[]> => {
    const found = (await atSource.metadata(topics)).topics;
    return topics.flatMap((topic) =>
      (found.get(topic)?.partitions ?? []).map(({ leaderId }) => leaderId),
    );
  };
  assert.ok((await leaders()).includes(2), 'broker 2 leads something');
  await source.kill9(2);
  await until(
    'all led by broker 1',
    async () => (await leaders()).every((id) => id === 1),
    patient,
  );
  await produceAll(stage, 'one broker', 4);
  await assertSame(stage);
  await source.restartBroker(2);
}

async function syncs(stage: LinkedStage): Promise<void> {
  const { atSource, atDestination } = stage;
  await commitOffsets(atSource, group, plain, [7, 5, 3, 1]);
  await setConfig(atSource, plain, [retention, '86400000']);
  const synced = async (): Promise<string> =>
    (await committedOffsets(atDestination, group, plain, 4)).join();
  await until('the group', async () => (await synced()) === '7,5,3,1', patient);
  await until(
    'the ACL',
    async () => (await readAcls(atDestination, anyAcl, 'destination')).map(aclKey).includes(key),
    patient,
  );
  await retentionBecomes(atDestination, '86400000');
}

const key = aclKey(readByApp);

async function isPromoted(stage: LinkedStage): Promise<void> {
  const ends = new Map<string, number[]>();
  for (const topic of topics) {
    const sourceEnds = await stage.caughtUp(topic);
    const switched = await stopMirroring(stage.causeway, 'promote', topic);
    assert.deepEqual(
      switched.map(({ virtualEnd }) => BigInt(virtualEnd)),
      sourceEnds,
    );
    ends.set(topic, sourceEnds.map(Number));
  }
  for (const topic of topics) {
    const end = BigInt(ends.get(topic)?.[0] ?? -1);
    assert.equal(await write(stage.atProxy, topic, 0, ['first here']), end, topic);
    const { errorCode, first } = await fetchAt(stage.atProxy, topic, 0, end);
    assert.equal(errorCode, 0);
    assert.ok(first?.includes('first here'), topic);
  }
  await assertSame(stage, ends);
}

/** What we offer must be what both we and this broker know. */
async function offersNoMore({ atProxy, atDestination }: LinkedStage): Promise<void> {
  const known = await atDestination.apiVersions();
  const offered = await atProxy.apiVersions();
  assert.ok(offered.size > 20);
  for (const [key, { min, max }] of offered) {
    const ofBroker = known.get(key);
    assert.ok(ofBroker && ofBroker.min <= min && max <= ofBroker.max, `API ${key}: ${min}-${max}`);
  }
}

/** Each writes to a promoted topic, whose compression all know, and reads it from its start. */
async function clientsGoOn(stage: LinkedStage): Promise<void> {
  const options = { bootstrap: stage.causeway.bootstrap, topic: transactional };
  for (const kind of ['java', 'librdkafka', 'franz-go', 'kafkajs'] as const) {
    if ((await skipReason(kind)) !== false) continue;
    const producer = await startProducer(kind, options);
    const last = `last of ${kind}`;
    const sent = await producer
      .sendAll([{ partition: 0, value: last }])
      .finally(() => producer.stop());
    const consumer = await startConsumer(kind, { ...options, group: kind, reset: 'earliest' });
    try {
      await consumer.waitFor(last, (all) => all.some(({ value }) => value === last), patient);
      const { records: read } = consumer;
      assertEachOnceInOrder(read);
      assert.equal(read.find(({ value }) => value === last)?.offset, sent[0]?.offset, kind);
      assert.ok(
        read.some(({ value }) => value?.startsWith('mirrored ')),
        `${kind} reads the copy`,
      );
    } finally {
      await consumer.stop();
    }
  }
}

const newest = '4.4.0';

/** 3.4 is the oldest destination that we say to serve. */
const destinations = kafkaVersions.filter((version) => version !== '2.8.2');

function lives(): readonly Versions[] {
  const { CAUSEWAY_TEST_SOURCE: source, CAUSEWAY_TEST_DESTINATION: destination } = process.env;
  const all = [
    ...kafkaVersions.map((version) => ({ source: version, destination: newest }) as const),
    ...destinations.map((version) => ({ source: newest, destination: version }) as const),
  ];
  const wanted = all.filter(
    (life, index) =>
      (source ?? life.source) === life.source &&
      (destination ?? life.destination) === life.destination &&
      all.findIndex((one) => one.source === life.source && one.destination === life.destination) ===
        index,
  );
  assert.ok(wanted.length > 0, `no life from ${source} to ${destination}`);
  return wanted;
}

for (const versions of lives()) {
  const { source, destination } = versions;
  test(`R1, R4, R5, R6: from Kafka ${source} to ${destination}, from mirrors to promotion`, {
    timeout: 600_000,
  }, async () => {
    const stage = await startLife(versions);
    try {
      const { atSource } = stage;
      const replication = 2;
      await createTopic(atSource, plain, { partitions: 3, replication });
      await createTopic(atSource, transactional, { partitions: 2, replication });
      // Each replica is cleaned on its own: another leader would have other bytes than were copied.
      await createTopic(atSource, compacted, { brokerIds: [1], configs: cleaned });
      await waitForGaps(stage);
      for (const problem of await createAcls(atSource, [readByApp])) assert.equal(problem, null);
      await offersNoMore(stage);
      await produceAll(stage, 'before');
      await deleteRecords(atSource, plain, 0, 3n);
      for (const topic of topics) await stage.mirror(topic);
      await assertSame(stage);
      await grows(stage);
      await produceAll(stage, 'mirrored', 4);
      await assertSame(stage);
      await losesLeader(stage);
      await syncs(stage);
      await isPromoted(stage);
      await clientsGoOn(stage);
    } finally {
      await stage.stop();
    }
  });
}
