// Preparing clusters for a test, from inside the test process.
//
// Owns: a kafkajs client that reaches brokers whose advertised names cannot be reached, by way of
// the cluster's address map, and the few calls that nearly every test starts with. For set-up only:
// what a test is about goes through the client it is about.
// Invariant: topics exist and have leaders when `createTopic` returns.

import { connect } from 'node:net';
import { type Admin, type ITopicConfig, Kafka, logLevel, Partitioners } from 'kafkajs';
import { until } from './wait.ts';

export interface ReachableCluster {
  bootstrap: string;
  addressMap?: Record<string, string>;
  /** Where connections come from, e.g. 127.0.0.2. */
  localAddress?: string;
}

export interface TopicPlan {
  topic: string;
  partitions?: number;
  replication?: number;
  configs?: Record<string, string>;
}

export function kafkaClient(cluster: ReachableCluster, clientId = 'test-setup'): Kafka {
  return new Kafka({
    clientId,
    brokers: cluster.bootstrap.split(','),
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 1_000, retries: 20 },
    socketFactory: ({ host, port, onConnect }) => {
      const reachable = cluster.addressMap?.[`${host}:${port}`] ?? `${host}:${port}`;
      const colon = reachable.lastIndexOf(':');
      const address = { host: reachable.slice(0, colon), port: Number(reachable.slice(colon + 1)) };
      const { localAddress } = cluster;
      const from = localAddress === undefined ? {} : { localAddress };
      return connect({ ...address, ...from }, onConnect).setKeepAlive(true, 60_000);
    },
  });
}

/** Runs `work` with a connected admin client. */
export async function withAdmin<T>(
  cluster: ReachableCluster,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const admin = kafkaClient(cluster).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

async function hasLeaders(admin: Admin, topic: string, partitions: number): Promise<boolean> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  const found = topics[0]?.partitions ?? [];
  return found.length === partitions && found.every((partition) => partition.leader >= 0);
}

export async function createTopic(cluster: ReachableCluster, plan: TopicPlan): Promise<void> {
  const partitions = plan.partitions ?? 1;
  const entries = Object.entries(plan.configs ?? {}).map(([name, value]) => ({ name, value }));
  const config: ITopicConfig = {
    topic: plan.topic,
    numPartitions: partitions,
    replicationFactor: plan.replication ?? 1,
    configEntries: entries,
  };
  await withAdmin(cluster, async (admin) => {
    await admin.createTopics({ topics: [config], waitForLeaders: false });
    await until(`leaders of ${plan.topic}`, () => hasLeaders(admin, plan.topic, partitions));
  });
}

/** Appends records in one batch; returns the offset of the first. */
export async function produceBatch(
  cluster: ReachableCluster,
  target: { topic: string; partition?: number },
  records: readonly { key?: string; value: string | null }[],
): Promise<number> {
  const producer = kafkaClient(cluster).producer({
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  try {
    const partition = target.partition ?? 0;
    const messages = records.map(({ key, value }) => ({ key: key ?? null, value, partition }));
    const [sent] = await producer.send({ topic: target.topic, acks: -1, messages });
    if (sent?.baseOffset === undefined) throw new Error('the broker named no base offset');
    return Number(sent.baseOffset);
  } finally {
    await producer.disconnect();
  }
}
