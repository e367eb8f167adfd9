// Single Fetch and ListOffsets requests whose error codes matter: what exactly is answered for one
// offset.
//
// Owns: asking the leader that metadata names, once. Knows nothing of retries.
// Invariant: error codes are handed back as they came, also those of the whole answer.

import {
  createFetchPartition,
  type FetchPartition,
} from '../../protocol/generated/fetch-request.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import { forEachBatch, nextOffset } from '../../protocol/index.ts';
import { fetchApi, listOffsetsApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { RawBatch } from './raw-batches.ts';
import { fetchRequest } from './raw-requests.ts';

export interface FetchedAt {
  readonly errorCode: number;
  /** Bytes of the first batch, or null when there is none. */
  readonly first: Buffer | null;
  /** Where the histories of client and log part, as [epoch, its end], if they do. */
  readonly diverging: readonly [number, bigint] | null;
}

async function leaderOf(cluster: Cluster, topic: string, partition: number) {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const nodeId = info?.partitions.find((one) => one.partition === partition)?.leaderId ?? -1;
  if (info === undefined || nodeId < 0) throw new Error(`${topic}-${partition} has no leader`);
  return { info, target: { kind: 'node', nodeId } as const };
}

export async function fetchAt(
  cluster: Cluster,
  topic: string,
  partition: number,
  offset: bigint,
  fields: Partial<FetchPartition> = {},
): Promise<FetchedAt> {
  const { info, target } = await leaderOf(cluster, topic, partition);
  const request = fetchRequest(info);
  for (const one of request.topics) {
    one.partitions = [
      createFetchPartition({
        ...fields,
        partition,
        fetchOffset: offset,
        partitionMaxBytes: 1 << 20,
      }),
    ];
  }
  const answer = await cluster.send(target, fetchApi, request, { versionMax: 12 });
  const found = answer.responses[0]?.partitions[0];
  const errorCode = answer.errorCode || (found?.errorCode ?? -1);
  let first: Buffer | null = null;
  forEachBatch(found?.records ?? Buffer.alloc(0), (header, position) => {
    if (first !== null || nextOffset(header) <= offset) return;
    first = (found?.records ?? Buffer.alloc(0)).subarray(position, position + header.sizeInBytes);
  });
  const { epoch = -1, endOffset = -1n } = found?.divergingEpoch ?? {};
  return { errorCode, first, diverging: epoch < 0 ? null : [epoch, endOffset] };
}

/** First offsets of the aborted transactions that a read_committed fetch is told of. */
export async function abortedFrom(
  cluster: Cluster,
  topic: string,
  partition: number,
  offset: bigint,
): Promise<bigint[]> {
  const { info, target } = await leaderOf(cluster, topic, partition);
  const request = { ...fetchRequest(info, { offset }), isolationLevel: 1 };
  const answer = await cluster.send(target, fetchApi, request, { versionMax: 12 });
  const data = answer.responses[0]?.partitions.find((one) => one.partitionIndex === partition);
  return data?.abortedTransactions?.map(({ firstOffset }) => firstOffset) ?? [];
}

export async function listAt(
  cluster: Cluster,
  topic: string,
  partition: number,
  timestamp: bigint,
): Promise<{ errorCode: number; offset: bigint }> {
  const { target } = await leaderOf(cluster, topic, partition);
  const asked = createListOffsetsPartition({ partitionIndex: partition, timestamp });
  const topics = [createListOffsetsTopic({ name: topic, partitions: [asked] })];
  const request = createListOffsetsRequest({ replicaId: -1, topics });
  const answer = await cluster.send(target, listOffsetsApi, request, { versionMax: 8 });
  const found = answer.topics[0]?.partitions[0];
  return { errorCode: found?.errorCode ?? -1, offset: found?.offset ?? -1n };
}

/**
 * Asks for the start of every batch: how often it was answered with each error, 0 for the right
 * bytes. Anything else, wrong bytes or none at all without an error, is a rejection that names the
 * offset.
 */
export async function answersFor(
  cluster: Cluster,
  topic: string,
  partition: number,
  expected: readonly RawBatch[],
): Promise<Map<number, number>> {
  const codes = new Map<number, number>();
  for (const { baseOffset, bytes } of expected) {
    const { errorCode, first } = await fetchAt(cluster, topic, partition, baseOffset);
    codes.set(errorCode, (codes.get(errorCode) ?? 0) + 1);
    if (errorCode !== 0) continue;
    const where = `Fetch of ${topic}-${partition} at ${baseOffset}`;
    if (first === null) throw new Error(`${where}: empty, without an error`);
    if (!bytes.equals(first)) throw new Error(`${where}: other bytes than expected`);
  }
  return codes;
}
