// Topics of a test, made and changed by admin calls of our own client. Each call ends in an
// assertion when the cluster refuses it.
import assert from 'node:assert/strict';
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
} from '../../protocol/generated/create-partitions-request.ts';
import {
  createCreatableReplicaAssignment,
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
} from '../../protocol/generated/delete-records-request.ts';
import { createDeleteTopicsRequest } from '../../protocol/generated/delete-topics-request.ts';
import {
  createPartitionsApi,
  createTopicsApi,
  deleteRecordsApi,
  deleteTopicsApi,
} from '../../src/cluster/apis.ts';
import { type Cluster, ClusterError } from '../../src/cluster/cluster.ts';
import { listOffset } from './raw-batches.ts';
import { until } from './wait.ts';

export interface NewTopic {
  readonly partitions?: number;
  readonly replication?: number;
  /** One partition, on these brokers; else the controller chooses. */
  readonly brokerIds?: readonly number[];
  readonly configs?: Readonly<Record<string, string>>;
}

/** Resolves when every partition has a leader that knows of it. */
export async function createTopic(
  cluster: Cluster,
  name: string,
  { partitions = 1, replication = 1, brokerIds, configs = {} }: NewTopic = {},
): Promise<void> {
  const isPlaced = brokerIds !== undefined;
  const topic = createCreatableTopic({
    name,
    numPartitions: isPlaced ? -1 : partitions,
    replicationFactor: isPlaced ? -1 : replication,
    assignments: isPlaced
      ? [createCreatableReplicaAssignment({ partitionIndex: 0, brokerIds: [...brokerIds] })]
      : [],
    configs: Object.entries(configs).map(([key, value]) =>
      createCreatableTopicConfig({ name: key, value }),
    ),
  });
  const request = createCreateTopicsRequest({ topics: [topic], timeoutMs: 20_000 });
  const response = await cluster.send({ kind: 'controller' }, createTopicsApi, request);
  assert.equal(response.topics[0]?.errorCode, 0, response.topics[0]?.errorMessage ?? name);
  await until(`leaders of ${name}`, async () => {
    const info = (await cluster.metadata([name])).topics.get(name);
    for (const { partition } of info?.partitions ?? []) {
      await listOffset(cluster, name, partition, -1n);
    }
    return info?.partitions.length === partitions;
  });
}

export async function deleteTopic(cluster: Cluster, name: string): Promise<void> {
  const response = await cluster.send(
    { kind: 'controller' },
    deleteTopicsApi,
    createDeleteTopicsRequest({ topicNames: [name], timeoutMs: 20_000 }),
    { versionMax: 5 },
  );
  assert.equal(response.responses[0]?.errorCode, 0);
}

export async function growTopic(cluster: Cluster, name: string, count: number): Promise<void> {
  const response = await cluster.send(
    { kind: 'controller' },
    createPartitionsApi,
    createCreatePartitionsRequest({
      topics: [createCreatePartitionsTopic({ name, count, assignments: null })],
      timeoutMs: 20_000,
    }),
  );
  assert.equal(response.results[0]?.errorCode, 0);
}

/** @throws ClusterError while there is none, as for a broker that cannot be reached */
export async function leaderOf(
  cluster: Cluster,
  topic: string,
  partition: number,
): Promise<number> {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const found = info?.partitions.find((candidate) => candidate.partition === partition);
  if (found !== undefined && found.leaderId >= 0) return found.leaderId;
  const message = `${topic}-${partition} has no leader`;
  throw new ClusterError('UNREACHABLE', message, { maybeSent: false });
}

/** Resolves when the broker that is asked has heard of one: of new partitions it may not have. */
export async function untilLeader(
  cluster: Cluster,
  topic: string,
  partition: number,
): Promise<number> {
  const leader = await until(`a leader of ${topic}-${partition}`, async () => {
    return { nodeId: await leaderOf(cluster, topic, partition) };
  });
  return leader.nodeId;
}

export async function deleteRecords(
  cluster: Cluster,
  topic: string,
  partition: number,
  before: bigint,
): Promise<void> {
  const response = await cluster.send(
    { kind: 'node', nodeId: await untilLeader(cluster, topic, partition) },
    deleteRecordsApi,
    createDeleteRecordsRequest({
      topics: [
        createDeleteRecordsTopic({
          name: topic,
          partitions: [createDeleteRecordsPartition({ partitionIndex: partition, offset: before })],
        }),
      ],
      timeoutMs: 10_000,
    }),
  );
  const errorCode = response.topics[0]?.partitions[0]?.errorCode;
  // No assertion: its message would say more than this, and callers look at how it ends.
  if (errorCode !== 0)
    throw new Error(`DeleteRecords of ${topic}-${partition}: error ${errorCode}`);
}
