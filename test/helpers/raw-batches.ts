// The batches of a partition as bytes, read with our own client through any Kafka endpoint: a
// source, a destination, or the proxy's bootstrap. For comparing copies.
//
// Owns: fetching a whole partition without opening a record, and hashing batch by batch.
// Invariant: every batch between the log start and the high watermark is there once, in order.

import { createHash } from 'node:crypto';
import { forEachBatch, nextOffset } from '../../protocol/index.ts';
import { fetchApi, listOffsetsApi } from '../../src/cluster/apis.ts';
import type { Cluster, TopicInfo } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';

export interface RawBatch {
  readonly baseOffset: bigint;
  readonly nextOffset: bigint;
  readonly leaderEpoch: number;
  /** SHA-256 over all bytes of the batch. */
  readonly hash: string;
  readonly bytes: Buffer;
}

export interface Endpoint {
  readonly bootstrap: string;
  readonly addressMap?: Record<string, string>;
}

/** A client of ours for an endpoint; the caller closes it. */
export function openCluster(endpoint: Endpoint): Cluster {
  return connectCluster({
    bootstrapServers: endpoint.bootstrap.split(','),
    addressMap: endpoint.addressMap ?? {},
    clientId: 'causeway-test',
  });
}

function leaderOf(topic: TopicInfo, partition: number): number {
  const found = topic.partitions.find((candidate) => candidate.partition === partition);
  if (found === undefined) throw new Error(`${topic.name} has no partition ${partition}`);
  return found.leaderId;
}

async function topicInfo(cluster: Cluster, name: string): Promise<TopicInfo> {
  const topic = (await cluster.metadata([name])).topics.get(name);
  if (topic === undefined || topic.errorCode !== 0) {
    throw new Error(`no metadata of ${name}: error ${topic?.errorCode}`);
  }
  return topic;
}

/** ListOffsets with Kafka's special timestamps: -2 earliest, -1 latest. */
export async function listOffset(
  cluster: Cluster,
  name: string,
  partition: number,
  timestamp: bigint,
): Promise<bigint> {
  const topic = await topicInfo(cluster, name);
  const answer = await cluster.send(
    { kind: 'node', nodeId: leaderOf(topic, partition) },
    listOffsetsApi,
    {
      replicaId: -1,
      isolationLevel: 0,
      timeoutMs: 0,
      unknownTags: undefined,
      topics: [
        {
          name,
          unknownTags: undefined,
          partitions: [
            {
              partitionIndex: partition,
              currentLeaderEpoch: -1,
              timestamp,
              unknownTags: undefined,
            },
          ],
        },
      ],
    },
    { versionMax: 5 },
  );
  const found = answer.topics[0]?.partitions[0];
  if (found === undefined || found.errorCode !== 0) {
    throw new Error(`ListOffsets of ${name}-${partition}: error ${found?.errorCode}`);
  }
  return found.offset;
}

async function fetchOnce(
  cluster: Cluster,
  topic: TopicInfo,
  partition: number,
  offset: bigint,
): Promise<{ records: Buffer | null }> {
  const answer = await cluster.send(
    { kind: 'node', nodeId: leaderOf(topic, partition) },
    fetchApi,
    {
      clusterId: null,
      replicaId: -1,
      replicaState: { replicaId: -1, replicaEpoch: -1n, unknownTags: undefined },
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 8 << 20,
      isolationLevel: 0,
      sessionId: 0,
      sessionEpoch: -1,
      topics: [
        {
          topic: topic.name,
          topicId: topic.topicId,
          unknownTags: undefined,
          partitions: [
            {
              partition,
              currentLeaderEpoch: -1,
              fetchOffset: offset,
              lastFetchedEpoch: -1,
              logStartOffset: -1n,
              partitionMaxBytes: 8 << 20,
              replicaDirectoryId: 'AAAAAAAAAAAAAAAAAAAAAA',
              highWatermark: 0x7fffffffffffffffn,
              unknownTags: undefined,
            },
          ],
        },
      ],
      forgottenTopicsData: [],
      rackId: '',
      unknownTags: undefined,
    },
    { versionMax: 12 },
  );
  const found = answer.responses[0]?.partitions[0];
  if (answer.errorCode !== 0 || found === undefined || found.errorCode !== 0) {
    throw new Error(`Fetch of ${topic.name}-${partition}: error ${found?.errorCode}`);
  }
  return { records: found.records };
}

/**
 * All batches of one partition, from `from` (default: the log start) to the end that ListOffsets
 * gives. The high watermark of an answer is no end: in the copied part of a promoted partition it
 * may lag behind.
 */
export async function readBatches(
  cluster: Cluster,
  name: string,
  partition: number,
  from?: bigint,
): Promise<RawBatch[]> {
  const topic = await topicInfo(cluster, name);
  let offset = from ?? (await listOffset(cluster, name, partition, -2n));
  const end = await listOffset(cluster, name, partition, -1n);
  const batches: RawBatch[] = [];
  for (;;) {
    const { records } = await fetchOnce(cluster, topic, partition, offset);
    const before = offset;
    if (records !== null) {
      forEachBatch(records, (header, position) => {
        // The first batch of an answer may begin below the offset that was asked for.
        if (nextOffset(header) <= offset) return;
        const bytes = records.subarray(position, position + header.sizeInBytes);
        batches.push({
          baseOffset: header.baseOffset,
          nextOffset: nextOffset(header),
          leaderEpoch: header.partitionLeaderEpoch,
          hash: createHash('sha256').update(bytes).digest('hex'),
          bytes: Buffer.from(bytes),
        });
        offset = nextOffset(header);
      });
    }
    if (offset >= end || offset === before) return batches;
  }
}

/** One line that says where two copies differ first, or null when they are the same. */
export function firstDifference(
  expected: readonly RawBatch[],
  actual: readonly RawBatch[],
): string | null {
  for (let index = 0; index < Math.max(expected.length, actual.length); index++) {
    const left = expected[index];
    const right = actual[index];
    if (left?.hash === right?.hash) continue;
    const tell = (batch: RawBatch | undefined): string =>
      batch ? `offset ${batch.baseOffset}, ${batch.bytes.length} bytes` : 'nothing';
    return `batch ${index}: ${tell(left)} against ${tell(right)}`;
  }
  return null;
}
