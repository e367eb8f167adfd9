// Kafka's own tools while something is mirrored: the link node is one more node to them, mirrors
// and our own topics are refused with a sentence, and everything else goes on. The mirror is a
// value of the test; the shell topic, the brokers and the tools are real.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { type JavaToolName, JavaTools } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { newProducer, startTransaction, values, write } from '../helpers/raw-writes.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeDirectory, promotedAt100 } from '../unit/gateway/read-fixtures.ts';
import { type GatewayUnderTest, gatewayFor, linkNodeId } from './gateway-fixture.ts';

let kafka: KafkaCluster;
let proxy: GatewayUnderTest;
let tools: JavaTools;
const directory = new FakeDirectory();
const log = new MemoryMirrorLog(40n, batch(40n, 60));
let topicId: string;

before(async () => {
  kafka = await startKafkaCluster({ name: 'admin' });
  await createTopic(kafka, { topic: 'orders' });
  await createTopic(kafka, { topic: 'plain' });
  await createTopic(kafka, { topic: '__causeway_state' });
  const cluster = connectCluster({
    bootstrapServers: kafka.bootstrap.split(','),
    addressMap: kafka.addressMap,
  });
  topicId = (await cluster.metadata(['orders'])).topics.get('orders')?.topicId ?? '';
  await cluster.close();
  directory.put({ name: 'orders', topicId, mode: 'mirror', log });
  proxy = await gatewayFor(kafka, { directory });
  tools = await JavaTools.start();
});

after(async () => {
  await tools?.stop();
  await proxy?.close();
  await kafka?.stop();
});

const tool = (name: JavaToolName, args: readonly string[]) => tools.run(proxy, name, args);

test('the link node is listed and leads the mirror', async () => {
  const { stdout } = await tool('kafka-topics', ['--describe', '--topic', 'orders']);
  assert.match(stdout, new RegExp(`Leader: ${linkNodeId}\\s+Replicas: 1\\s+Isr: 1`));
  const versions = await tool('kafka-broker-api-versions', []);
  assert.match(versions.stdout, new RegExp(`id: ${linkNodeId} `));
});

test('tools that ask every node get each answer once', async () => {
  const dirs = await tool('kafka-log-dirs', ['--describe']);
  const json = dirs.stdout.split('\n').find((line) => line.startsWith('{')) ?? '{}';
  const { brokers } = JSON.parse(json) as {
    brokers: { broker: number; logDirs: { error: string | null; partitions: unknown[] }[] }[];
  };
  const link = brokers.find(({ broker }) => broker === linkNodeId);
  assert.equal(link?.logDirs[0]?.error, null);
  assert.deepEqual(link?.logDirs[0]?.partitions, []);
  assert.ok((brokers.find(({ broker }) => broker === 1)?.logDirs[0]?.partitions.length ?? 0) > 2);

  await tool('kafka-consumer-groups', [
    ...['--group', 'g', '--topic', 'orders', '--reset-offsets', '--to-offset', '50', '--execute'],
  ]);
  const groups = await tool('kafka-consumer-groups', ['--list']);
  assert.deepEqual(groups.stdout.trim().split('\n'), ['g']);
  await tool('kafka-transactions', ['list']);
  const entity = ['--entity-type', 'brokers', '--entity-name', String(linkNodeId)];
  await tool('kafka-configs', ['--describe', ...entity]);
  await tool('kafka-configs', ['--describe', '--all', ...entity]);
  await tool('kafka-features', ['describe']);
  await tool('kafka-metadata-quorum', ['describe', '--status']);
});

test('tools that ask replicas or change every node go on beside the link node', async () => {
  const hanging = ['find-hanging', '--broker-id', '1', '--topic', 'orders'];
  const { stdout } = await tool('kafka-transactions', hanging);
  assert.match(stdout, /ProducerId/);
  const throttle = 'leader.replication.throttled.rate';
  const link = ['--entity-type', 'brokers', '--entity-name', String(linkNodeId)];
  await tool('kafka-configs', ['--alter', ...link, '--delete-config', throttle]);
  await assert.rejects(
    tool('kafka-configs', ['--alter', ...link, '--add-config', `${throttle}=1`]),
    /is the linking proxy: it has no configs/,
  );
});

test('tools were told that the broker knows no markers and no directories of controllers', async () => {
  const client = openCluster(proxy);
  try {
    const producer = await newProducer(client, 'hanging');
    await startTransaction(client, producer, 'plain', [0]);
    const offset = await write(client, 'plain', 0, values('hanging', 1), { producer });
    const partition = ['--topic', 'plain', '--partition', '0'];
    await tool('kafka-transactions', ['abort', ...partition, '--start-offset', String(offset)]);
    const { stdout } = await tool('kafka-transactions', ['describe-producers', ...partition]);
    assert.match(stdout, /\sNone\s*$/m);
  } finally {
    await client.close();
  }
  const controller = ['--controller-id', '77', '--controller-directory-id'];
  await assert.rejects(
    tool('kafka-metadata-quorum', ['remove-controller', ...controller, 'AAAAAAAAAAAAAAAAAAAAAQ']),
    (error: Error) => !/does not support/.test(error.message),
  );
});

test('a group on the mirror is described with the mirror’s offsets', async () => {
  const { stdout } = await tool('kafka-consumer-groups', ['--describe', '--group', 'g']);
  assert.match(stdout, /orders\s+0\s+50\s+100\s+50/);
  const offsets = await tool('kafka-get-offsets', ['--topic', 'orders', '--time', '-2']);
  assert.match(offsets.stdout, /orders:0:40/);
});

test('changes of a mirror and of our own topics are refused with a sentence', async () => {
  await assert.rejects(
    tool('kafka-topics', ['--delete', '--topic', 'orders']),
    /mirror over link dr/,
  );
  await assert.rejects(
    tool('kafka-topics', ['--alter', '--topic', 'orders', '--partitions', '5']),
    /follow the source/,
  );
  await assert.rejects(
    tool('kafka-topics', ['--delete', '--topic', '__causeway_state']),
    /belongs to the cluster-linking proxy/,
  );
  await assert.rejects(
    tool('kafka-topics', ['--create', '--topic', '__causeway_mine']),
    /belongs to the cluster-linking proxy/,
  );
  const own = ['--entity-type', 'topics', '--entity-name', '__causeway_state'];
  await assert.rejects(
    tool('kafka-configs', ['--alter', ...own, '--add-config', 'retention.ms=1']),
    /belongs to the cluster-linking proxy/,
  );
  const mirror = ['--entity-type', 'topics', '--entity-name', 'orders'];
  await tool('kafka-configs', ['--alter', ...mirror, '--add-config', 'retention.ms=77777777']);
  const described = await tool('kafka-configs', ['--describe', ...mirror]);
  assert.match(described.stdout, /retention.ms=77777777/);
});

test('ordinary topics are changed as ever, beside refused ones', async () => {
  await tool('kafka-topics', ['--create', '--topic', 'fresh', '--partitions', '2']);
  await tool('kafka-topics', ['--alter', '--topic', 'fresh', '--partitions', '4']);
  const { stdout } = await tool('kafka-topics', ['--describe', '--topic', 'fresh']);
  assert.match(stdout, /PartitionCount: 4/);
  await tool('kafka-topics', ['--delete', '--topic', 'fresh']);
});

test('once nothing is mirrored the link node is gone from the list', async () => {
  directory.put({ name: 'orders', topicId, mode: 'promoted', log, timeline: promotedAt100(40n) });
  const { stdout } = await tool('kafka-topics', ['--describe', '--topic', 'orders']);
  assert.match(stdout, /Leader: 1\s/);
  const versions = await tool('kafka-broker-api-versions', []);
  assert.equal(versions.stdout.includes(String(linkNodeId)), false);
});
