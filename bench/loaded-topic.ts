// A topic of 1 KiB records on a test cluster, written by Java's own load tool, and how many bytes
// it takes. Owns no figure. Invariant: what `loadTopic` says of bytes is what the broker stores,
// which is what a byte-exact copy has to read.
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Cluster, ClusterError } from '../src/cluster/cluster.ts';
import { latestTimestamp, listOffsets } from '../src/link/source-offsets.ts';
import { javaTool } from '../test/helpers/java-tools.ts';
import type { KafkaCluster } from '../test/helpers/kafka-cluster.ts';

export interface TopicPlan {
  readonly topic: string;
  readonly partitions: number;
  readonly records: number;
  readonly compression: 'none' | 'lz4';
}

export const recordBytes = 1024;

export async function createTopic(cluster: KafkaCluster, plan: TopicPlan): Promise<void> {
  const count = ['--partitions', String(plan.partitions), '--replication-factor', '1'];
  await javaTool(cluster, 'kafka-topics', ['--create', '--topic', plan.topic, ...count]);
}

/** Fills it. Returns the bytes that the broker has stored. */
export async function loadTopic(cluster: KafkaCluster, plan: TopicPlan): Promise<number> {
  const size = ['--num-records', String(plan.records), '--record-size', String(recordBytes)];
  const rate = ['--throughput', '-1'];
  // The tool takes its brokers as a client property; `javaTool` adds --bootstrap-server as well.
  const client = ['--command-property', 'acks=1', `compression.type=${plan.compression}`];
  await javaTool(
    cluster,
    'kafka-producer-perf-test',
    ['--topic', plan.topic, ...size, ...rate, ...client, 'batch.size=65536', 'linger.ms=5'],
    { timeoutMs: 600_000 },
  );
  return storedBytes(cluster, plan.topic);
}

function storedBytes(cluster: KafkaCluster, topic: string): number {
  let bytes = 0;
  for (const { id } of cluster.brokers) {
    const data = cluster.dataDirectory(id);
    for (const folder of readdirSync(data)) {
      if (folder.replace(/-\d+$/, '') !== topic) continue;
      for (const file of readdirSync(path.join(data, folder))) {
        if (file.endsWith('.log')) bytes += statSync(path.join(data, folder, file)).size;
      }
    }
  }
  return bytes;
}

/** Records of a topic by its end offsets; 0 while it is not there. */
export async function endsOf(cluster: Cluster, topic: string): Promise<number> {
  try {
    const info = (await cluster.metadata([topic])).topics.get(topic);
    const partitions = (info?.partitions ?? []).map(({ partition, leaderId }) => {
      return { topic, partition, leaderId };
    });
    const ends = await listOffsets(cluster, partitions, { timestamp: latestTimestamp });
    let total = 0;
    for (const { offset } of ends.values()) total += Math.max(0, Number(offset));
    return total;
  } catch (error) {
    if (error instanceof ClusterError) return 0;
    throw error;
  }
}
