// Who claims to be a replica: what a broker without an authorizer believes, and that nobody gets
// there through us. Broker 1 leads and is the controller, broker 2 hangs for a moment.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createFetchRequest } from '../../protocol/generated/fetch-request.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { fetchApi, listOffsetsApi, produceApi } from '../../src/cluster/apis.ts';
import type { Cluster, TopicInfo } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { RawConnection } from '../helpers/raw-connection.ts';
import { fetchRequest } from '../helpers/raw-requests.ts';
import { produceRequest } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from './gateway-fixture.ts';

const [leader, follower] = [1, 2];
/** The last version that names topics and has the replica's id in its place for it. */
const fetchVersion = 12;

let kafka: KafkaCluster;
let cluster: Cluster;
let underTest: GatewayUnderTest;
let direct: RawConnection;
let proxied: RawConnection;

before(async () => {
  kafka = await startKafkaCluster({ name: 'replicas', brokers: 2 });
  const { addressMap, bootstrap } = kafka;
  cluster = connectCluster({ bootstrapServers: bootstrap.split(','), addressMap });
  underTest = await gatewayFor(kafka);
  const served = underTest.gateway.endpoints().find(({ nodeId }) => nodeId === leader);
  direct = await RawConnection.open(kafka.brokers[0]?.port ?? 0);
  proxied = await RawConnection.open(served?.port ?? 0);
});

after(async () => {
  direct?.close();
  proxied?.close();
  await underTest?.close();
  await cluster?.close();
  await kafka?.stop();
});

async function read(connection: RawConnection, topic: TopicInfo, replicaId = -1, offset = 1n) {
  const request = createFetchRequest({ ...fetchRequest(topic, { offset }), replicaId });
  const { response } = await connection.ask(fetchApi, fetchVersion, request);
  const data = response.responses[0]?.partitions[0];
  assert.ok(data, 'an answer');
  return { errorCode: data.errorCode, highWatermark: data.highWatermark };
}

async function latest(connection: RawConnection, { name }: TopicInfo, replicaId: number) {
  const partitions = [createListOffsetsPartition({ partitionIndex: 0, timestamp: -1n })];
  const topics = [createListOffsetsTopic({ name, partitions })];
  const request = createListOffsetsRequest({ replicaId, topics });
  const { response } = await connection.ask(listOffsetsApi, 7, request);
  return response.topics[0]?.partitions[0]?.offset;
}

test('a client that claims to be a replica moves no high watermark through the proxy', async () => {
  const name = uniqueName('replicated');
  const configs = { 'min.insync.replicas': '1' };
  await createTopic(cluster, name, { brokerIds: [leader, follower], configs });
  const topic = (await cluster.metadata([name])).topics.get(name);
  assert.ok(topic);
  const write = async (acks: number) => {
    const request = { ...produceRequest(name, 0, ['a']), acks };
    const { response } = await direct.ask(produceApi, 9, request);
    assert.equal(response.responses[0]?.partitionResponses[0]?.errorCode, ErrorCode.NONE);
  };
  await write(-1);
  await until('it is replicated', async () => (await read(direct, topic)).highWatermark === 1n);
  await kafka.pause(follower);
  try {
    await write(1);
    const hasIt = { errorCode: ErrorCode.NONE, highWatermark: 1n };
    assert.deepEqual(await read(proxied, topic), hasIt);
    const { errorCode } = await read(proxied, topic, follower, 2n);
    assert.equal(errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
    assert.deepEqual(await read(proxied, topic), hasIt, 'the second record is on one broker only');
    // Brokers ask for no right here: it tells how far the leader's log goes, and changes nothing.
    assert.deepEqual(
      [await latest(direct, topic, follower), await latest(proxied, topic, follower)],
      [2n, 2n],
    );
    assert.equal(await latest(proxied, topic, -1), 1n);
    // What it is refused for: the broker takes it for its follower.
    assert.equal((await read(direct, topic, follower, 2n)).errorCode, ErrorCode.NONE);
    assert.equal((await read(proxied, topic)).highWatermark, 2n);
  } finally {
    kafka.resume(follower);
  }
});
