// Ends and starts of many partitions of one cluster, asked of their leaders in one request each.
// Owns the grouping by leader; refuses to know what the offsets mean. Invariant: every asked
// partition has an answer, and an answer that did not come is an error code, never an offset.
import { createFetchPartition, createFetchTopic } from '../../protocol/generated/fetch-request.ts';
import type { FetchResponse } from '../../protocol/generated/fetch-response.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import { ErrorCode, errorName, forEachBatch, zeroUuid } from '../../protocol/index.ts';
import { fetchApi, listOffsetsApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { heldBackMsMax, isHeldBack } from '../cluster/held-back.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import { fetchTopicIdsFrom } from './fetch/fetch-session.ts';

export const latestTimestamp = -1n;
export const earliestTimestamp = -2n;

const readCommitted = 1;

/**
 * A broker that has us wait for a quota of bytes reads nothing of the connection meanwhile:
 * requests that bring no records must not wait behind those that do.
 */
const recordsLane = 'records';

export interface LeaderPartition {
  readonly topic: string;
  readonly partition: number;
  readonly leaderId: number;
}

export interface OffsetAnswer {
  readonly errorCode: number;
  readonly offset: bigint;
}

export type OffsetAnswers = ReadonlyMap<string, OffsetAnswer>;

function groupBy<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

async function askLeader(
  cluster: Cluster,
  partitions: readonly LeaderPartition[],
  query: { leaderId: number; timestamp: bigint; timeoutMs: number; isCommittedOnly: boolean },
): Promise<Map<string, OffsetAnswer>> {
  const answers = new Map<string, OffsetAnswer>();
  const topics = [...groupBy(partitions, ({ topic }) => topic)].map(([name, members]) =>
    createListOffsetsTopic({
      name,
      partitions: members.map(({ partition }) =>
        createListOffsetsPartition({ partitionIndex: partition, timestamp: query.timestamp }),
      ),
    }),
  );
  const response = await cluster.send(
    { kind: 'node', nodeId: query.leaderId },
    listOffsetsApi,
    createListOffsetsRequest({
      replicaId: -1,
      isolationLevel: query.isCommittedOnly ? readCommitted : 0,
      topics,
    }),
    { timeoutMs: query.timeoutMs },
  );
  for (const topic of response.topics) {
    for (const { partitionIndex, errorCode, offset } of topic.partitions) {
      answers.set(partitionKey(topic.name, partitionIndex), { errorCode, offset });
    }
  }
  return answers;
}

/** By `partitionKey`. Leaders that cannot be reached answer NETWORK_EXCEPTION. */
export async function listOffsets(
  cluster: Cluster,
  partitions: readonly LeaderPartition[],
  query: {
    timestamp: bigint;
    timeoutMs?: number;
    /** The latest offset is then the last stable one. */
    isCommittedOnly?: boolean;
  },
): Promise<OffsetAnswers> {
  const all = new Map<string, OffsetAnswer>();
  for (const { topic, partition, leaderId } of partitions) {
    const errorCode = leaderId < 0 ? ErrorCode.LEADER_NOT_AVAILABLE : ErrorCode.NETWORK_EXCEPTION;
    all.set(partitionKey(topic, partition), { errorCode, offset: -1n });
  }
  const byLeader = groupBy(
    partitions.filter(({ leaderId }) => leaderId >= 0),
    ({ leaderId }) => leaderId,
  );
  const { timestamp, timeoutMs = 5_000, isCommittedOnly = false } = query;
  await Promise.all(
    [...byLeader].map(async ([leaderId, members]) => {
      try {
        const answers = await askLeader(cluster, members, {
          ...{ leaderId, timestamp, timeoutMs, isCommittedOnly },
        });
        for (const [key, answer] of answers) all.set(key, answer);
      } catch (error) {
        // Stands as NETWORK_EXCEPTION for these partitions; anything else is a fault of ours.
        if (!(error instanceof ClusterError)) throw error;
      }
    }),
  );
  return all;
}

export interface PeekedPartition extends LeaderPartition {
  readonly topicId: string;
  readonly offset: bigint;
  readonly bytesMax: number;
  /** A connection of its own, so that others do not wait. */
  readonly lane?: string;
  /** How long it is asked again while a quota of the broker holds the answer back. */
  readonly heldBackMsMax?: number;
  /** False: nobody wants the answer any more, it is not asked again. */
  readonly isWanted?: () => boolean;
}

export interface FetchedOnce {
  readonly errorCode: number;
  readonly records: Buffer;
  readonly highWatermark: bigint;
}

/**
 * One plain Fetch of one partition, outside of any session; again while a quota of the broker holds
 * the answer back, each time for less, which comes sooner. Whoever waits is told of it in the end:
 * THROTTLING_QUOTA_EXCEEDED.
 */
export async function fetchOnce(cluster: Cluster, wanted: PeekedPartition): Promise<FetchedOnce> {
  const giveUpAtMs = performance.now() + (wanted.heldBackMsMax ?? heldBackMsMax);
  let { bytesMax } = wanted;
  let response = await askOnce(cluster, wanted, bytesMax);
  while (isHeldBack(response)) {
    if (performance.now() >= giveUpAtMs || wanted.isWanted?.() === false) return heldBack;
    bytesMax = Math.max(1, Math.floor(bytesMax / 2));
    // The connection sends nothing before the time that the broker has named is over.
    response = await askOnce(cluster, wanted, bytesMax);
  }
  const data = response.responses[0]?.partitions[0];
  const errorCode =
    response.errorCode !== ErrorCode.NONE
      ? response.errorCode
      : (data?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
  const { records, highWatermark = -1n } = data ?? {};
  return { errorCode, records: records ?? Buffer.alloc(0), highWatermark };
}

const heldBack: FetchedOnce = {
  errorCode: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
  records: Buffer.alloc(0),
  highWatermark: -1n,
};

function askOnce(
  cluster: Cluster,
  wanted: PeekedPartition,
  bytesMax: number,
): Promise<FetchResponse> {
  const { topic, topicId, partition, offset: fetchOffset, lane = recordsLane } = wanted;
  const partitions = [
    createFetchPartition({ partition, fetchOffset, partitionMaxBytes: bytesMax }),
  ];
  return cluster.send(
    { kind: 'node', nodeId: wanted.leaderId },
    fetchApi,
    {
      ...emptyFetch,
      maxBytes: bytesMax,
      topics: [createFetchTopic({ topic, topicId, partitions })],
    },
    { lane, ...(topicId === zeroUuid ? { versionMax: fetchTopicIdsFrom - 1 } : {}) },
  );
}

const emptyFetch = {
  clusterId: null,
  replicaId: -1,
  replicaState: { replicaId: -1, replicaEpoch: -1n },
  maxWaitMs: 0,
  minBytes: 0,
  isolationLevel: 0,
  sessionId: 0,
  sessionEpoch: -1,
  forgottenTopicsData: [],
  rackId: '',
};

/**
 * Base offset of the batch that holds `offset` or follows it; null when there is none.
 * @throws ClusterError when the partition cannot be read now
 */
export async function firstBatchBase(
  cluster: Cluster,
  wanted: Omit<PeekedPartition, 'bytesMax'>,
): Promise<bigint | null> {
  // One byte still brings one whole batch.
  const { errorCode, records } = await fetchOnce(cluster, { ...wanted, bytesMax: 1 });
  if (errorCode !== ErrorCode.NONE) {
    const place = `${wanted.topic}-${wanted.partition} at offset ${wanted.offset}`;
    const message = `${place} cannot be read now: ${errorName(errorCode)}`;
    throw new ClusterError('UNREACHABLE', message, { maybeSent: false });
  }
  let base: bigint | null = null;
  forEachBatch(records, (header) => {
    base = header.baseOffset;
    return false;
  });
  return base;
}
