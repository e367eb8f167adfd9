// What an operator does with the replicas of a topic's first partition, past the proxy.
//
// Owns: moving them, having the preferred one elected, and what brokers say of their size. Knows
// nothing of mirrors.
// Invariant: it has happened when a function resolves, and every broker that was asked says so.
import {
  createDescribableLogDirTopic,
  createDescribeLogDirsRequest,
} from '../../protocol/generated/describe-log-dirs-request.ts';
import { describeLogDirsApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { JavaTools } from './java-tools.ts';
import { type ReachableCluster, withAdmin } from './kafka-setup.ts';
import { leaderOf } from './topic-admin.ts';
import { until } from './wait.ts';

export async function moveReplicas(
  cluster: ReachableCluster,
  topic: string,
  replicas: number[],
): Promise<void> {
  const assignment = { topic, partitionAssignment: [{ partition: 0, replicas }] };
  const moving = { topics: [{ topic, partitions: [0] }] };
  await withAdmin(cluster, async (admin) => {
    await admin.alterPartitionReassignments({ topics: [assignment] });
    await until(`${topic} moved to ${replicas.join()}`, async () => {
      return (await admin.listPartitionReassignments(moving)).topics.length === 0;
    });
  });
}

export async function electPreferred(
  tools: JavaTools,
  cluster: ReachableCluster,
  topic: string,
): Promise<void> {
  const partition = ['--topic', topic, '--partition', '0'];
  await tools.run(cluster, 'kafka-leader-election', ['--election-type', 'preferred', ...partition]);
}

export function untilLedBy(cluster: Cluster, topic: string, nodeId: number): Promise<true> {
  return until(`${topic} led by ${nodeId}`, async () => {
    return (await leaderOf(cluster, topic, 0)) === nodeId ? true : undefined;
  });
}

/** Bytes of the partition at one broker. */
export async function logBytes(cluster: Cluster, topic: string, nodeId: number): Promise<bigint> {
  const asked = createDescribableLogDirTopic({ topic, partitions: [0] });
  const request = createDescribeLogDirsRequest({ topics: [asked] });
  const { results } = await cluster.send({ kind: 'node', nodeId }, describeLogDirsApi, request);
  const found = results.flatMap(({ topics }) => topics.flatMap(({ partitions }) => partitions));
  return found.reduce((sum, { partitionSize }) => sum + partitionSize, 0n);
}
