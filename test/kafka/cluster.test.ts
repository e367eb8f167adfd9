// Our own Kafka client against real brokers, a new and an old one: versions negotiated, addresses
// mapped, nodes, controller and coordinators found, a broker's restart survived.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createCreatableTopic,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../../protocol/generated/fetch-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import {
  createOffsetFetchRequest,
  createOffsetFetchRequestGroup,
} from '../../protocol/generated/offset-fetch-request.ts';
import {
  createTopicsApi,
  fetchApi,
  initProducerIdApi,
  listOffsetsApi,
  offsetFetchApi,
} from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { ClusterError } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { defaultKafkaVersion, type KafkaVersion } from '../helpers/kafka-jars.ts';
import { uniqueName, until } from '../helpers/wait.ts';

function connect(kafka: KafkaCluster): Cluster {
  return connectCluster({
    bootstrapServers: kafka.bootstrap.split(','),
    addressMap: kafka.addressMap,
    clientId: 'cluster-test',
  });
}

async function createTopic(cluster: Cluster, partitionsCount: number): Promise<string> {
  const name = uniqueName('cluster');
  const topic = createCreatableTopic({
    name,
    numPartitions: partitionsCount,
    replicationFactor: 1,
  });
  const request = createCreateTopicsRequest({ topics: [topic], timeoutMs: 10_000 });
  const response = await cluster.send({ kind: 'controller' }, createTopicsApi, request);
  assert.equal(response.topics[0]?.errorCode, 0);
  await until('leaders of all partitions', async () => {
    const info = (await cluster.metadata([name])).topics.get(name);
    const partitions = info?.partitions ?? [];
    return partitions.length === partitionsCount && partitions.every((one) => one.leaderId > 0);
  });
  return name;
}

/** Metadata names a leader a moment before that broker has taken the partition over. */
async function endOffset(cluster: Cluster, topic: string, nodeId: number): Promise<bigint> {
  const partition = createListOffsetsPartition({ partitionIndex: 0, timestamp: -1n });
  const request = createListOffsetsRequest({
    replicaId: -1,
    topics: [createListOffsetsTopic({ name: topic, partitions: [partition] })],
  });
  const found = await until('an end offset', async () => {
    const response = await cluster.send({ kind: 'node', nodeId }, listOffsetsApi, request);
    const answer = response.topics[0]?.partitions[0];
    return answer?.errorCode === 0 ? answer : undefined;
  });
  return found.offset;
}

for (const version of [defaultKafkaVersion, '2.8.2'] as KafkaVersion[]) {
  describe(`Kafka ${version}`, () => {
    let kafka: KafkaCluster;
    let cluster: Cluster;

    before(async () => {
      kafka = await startKafkaCluster({ version, name: 'cluster' });
      cluster = connect(kafka);
    });

    after(async () => {
      await cluster?.close();
      await kafka?.stop();
    });

    test('metadata names the cluster, and addresses are mapped', async () => {
      const metadata = await cluster.metadata([]);
      assert.equal(metadata.clusterId, kafka.clusterId);
      const [broker] = metadata.brokers;
      assert.ok(broker);
      assert.ok(broker.host.endsWith('.invalid'), 'the advertised name must not be reachable');
      assert.equal(cluster.reach(broker.host, broker.port).host, '127.0.0.1');
      assert.deepEqual(cluster.brokers, metadata.brokers);
      assert.ok((await cluster.apiVersions(broker.nodeId)).has(fetchApi.key));
    });

    test('topics, offsets, coordinators', async () => {
      const topic = await createTopic(cluster, 3);
      const info = (await cluster.metadata([topic, 'no-such-topic'])).topics;
      assert.equal(info.get(topic)?.partitions.length, 3);
      assert.equal(info.get('no-such-topic')?.errorCode, 3);
      const leader = info.get(topic)?.partitions[0]?.leaderId ?? -1;
      assert.equal(await endOffset(cluster, topic, leader), 0n);

      const transactionalId = uniqueName('id');
      const producer = await cluster.send(
        { kind: 'transaction', transactionalId },
        initProducerIdApi,
        createInitProducerIdRequest({ transactionalId, transactionTimeoutMs: 10_000 }),
        { timeoutMs: 30_000 },
      );
      assert.equal(producer.errorCode, 0);

      const groupId = uniqueName('group');
      const offsets = await cluster.send(
        { kind: 'group', groupId },
        offsetFetchApi,
        (used) =>
          used >= 8
            ? createOffsetFetchRequest({
                groups: [createOffsetFetchRequestGroup({ groupId, topics: null })],
              })
            : createOffsetFetchRequest({ groupId, topics: null }),
        { timeoutMs: 30_000 },
      );
      assert.equal(offsets.groups[0]?.errorCode ?? offsets.errorCode, 0);
    });

    test('a long poll has a lane of its own and holds nothing up', async () => {
      const topic = await createTopic(cluster, 1);
      const request = createFetchRequest({
        maxWaitMs: 2_000,
        minBytes: 1,
        topics: [
          createFetchTopic({
            topic,
            partitions: [createFetchPartition({ partition: 0, partitionMaxBytes: 1_000 })],
          }),
        ],
      });
      let isPolling = true;
      const poll = cluster
        .send({ kind: 'node', nodeId: 1 }, fetchApi, request, { lane: 'poll', versionMax: 12 })
        .finally(() => {
          isPolling = false;
        });
      assert.equal(await endOffset(cluster, topic, 1), 0n);
      assert.ok(isPolling, 'the answer came only after the long poll');
      const response = await poll;
      assert.equal(response.responses[0]?.partitions[0]?.errorCode, 0);
    });

    test('a killed broker is an UNREACHABLE, and is found again after its restart', async () => {
      await cluster.metadata([]);
      await kafka.kill9(1);
      await assert.rejects(cluster.metadata([]), (error: unknown) => {
        assert.ok(error instanceof ClusterError);
        assert.equal(error.code, 'UNREACHABLE');
        assert.match(error.message, /127\.0\.0\.1:\d+/);
        return true;
      });
      await kafka.restartBroker(1);
      const metadata = await until('metadata again', () => cluster.metadata([]));
      assert.equal(metadata.brokers.length, 1);
    });
  });
}
