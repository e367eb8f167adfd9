// Watches what a topic's clients are told of leader epochs and ends, and keeps whatever went back.
//
// Owns: the sampling (Metadata, ListOffsets, OffsetForLeaderEpoch and Fetch, one after the other,
// for each partition) and the comparison with all samples before. Knows nothing of what happens
// meanwhile: answers with errors and requests without answers are no samples. Invariant: each
// number is compared with the highest seen.

import { createFetchPartition } from '../../protocol/generated/fetch-request.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
} from '../../protocol/generated/offset-for-leader-epoch-request.ts';
import { fetchApi, listOffsetsApi, offsetForLeaderEpochApi } from '../../src/cluster/apis.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../../src/cluster/cluster.ts';
import type { Told } from './history.ts';
import { fetchRequest } from './raw-requests.ts';
import { until } from './wait.ts';

type What = 'metadata epoch' | 'list epoch' | 'list end' | 'epoch end' | 'high watermark';

export interface EpochEnd {
  readonly errorCode: number;
  readonly leaderEpoch: number;
  readonly endOffset: bigint;
}

export async function epochEnd(
  cluster: Cluster,
  topic: string,
  partition: number,
  leaderEpoch: number,
): Promise<EpochEnd> {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const nodeId = info?.partitions.find((one) => one.partition === partition)?.leaderId ?? -1;
  const asked = createOffsetForLeaderPartition({ partition, currentLeaderEpoch: -1, leaderEpoch });
  const topics = [createOffsetForLeaderTopic({ topic, partitions: [asked] })];
  const request = createOffsetForLeaderEpochRequest({ replicaId: -1, topics });
  const answer = await cluster.send({ kind: 'node', nodeId }, offsetForLeaderEpochApi, request);
  const found = answer.topics[0]?.partitions[0];
  if (found === undefined) throw new Error(`no answer for ${topic}-${partition}`);
  return found;
}

export class EpochWatch {
  readonly #cluster: Cluster;
  readonly #topic: string;
  readonly #highest = new Map<string, bigint>();
  readonly #faults: string[] = [];
  /** Everything it was told, in that order. */
  readonly told: Told[] = [];
  #samplesCount = 0;
  #isStopping = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(cluster: Cluster, topic: string) {
    this.#cluster = cluster;
    this.#topic = topic;
  }

  get samplesCount(): number {
    return this.#samplesCount;
  }

  /** Everything that went back, as sentences. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  start(): void {
    this.#isStopping = false;
    this.#loop = this.#run();
  }

  /** Waits for so many whole samples from now on, so that what just happened has been looked at. */
  async look(count = 2): Promise<void> {
    const wanted = this.#samplesCount + count + 1;
    await until('samples of epochs', () => this.#samplesCount >= wanted);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#loop;
  }

  highest(what: What, partition: number): number {
    return Number(this.#highest.get(`${what} of ${this.#topic}-${partition}`) ?? -1n);
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      try {
        const info = (await this.#cluster.metadata([this.#topic])).topics.get(this.#topic);
        if (info?.errorCode === 0) await this.#sample(info);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async #sample(info: TopicInfo): Promise<void> {
    let isWhole = true;
    for (const { partition, leaderId, leaderEpoch, errorCode } of info.partitions) {
      if (errorCode !== 0 || leaderId < 0) {
        isWhole = false;
        continue;
      }
      this.#note('metadata epoch', partition, BigInt(leaderEpoch));
      const end = await this.#listEnd(partition, leaderId);
      const epoch = await this.#epochEnd(partition, leaderId, leaderEpoch);
      isWhole = isWhole && end !== undefined && epoch;
      if (end === undefined) continue;
      // At the start and at the end, which may be answered out of different places. The start
      // first: an answer from the end may teach the proxy what it did not know after a restart.
      for (const offset of [0n, end]) {
        isWhole = (await this.#fetch(info, { partition, leaderId, offset })) && isWhole;
      }
    }
    if (isWhole) this.#samplesCount++;
  }

  async #listEnd(partition: number, nodeId: number): Promise<bigint | undefined> {
    const asked = createListOffsetsPartition({ partitionIndex: partition, timestamp: -1n });
    const topics = [createListOffsetsTopic({ name: this.#topic, partitions: [asked] })];
    const request = createListOffsetsRequest({ replicaId: -1, topics });
    const answer = await this.#cluster.send({ kind: 'node', nodeId }, listOffsetsApi, request, {
      versionMax: 8,
    });
    const found = answer.topics[0]?.partitions[0];
    if (found?.errorCode !== 0) return undefined;
    this.#note('list end', partition, found.offset);
    if (found.leaderEpoch >= 0) this.#note('list epoch', partition, BigInt(found.leaderEpoch));
    return found.offset;
  }

  async #epochEnd(partition: number, nodeId: number, leaderEpoch: number): Promise<boolean> {
    const asked = createOffsetForLeaderPartition({
      partition,
      currentLeaderEpoch: -1,
      leaderEpoch,
    });
    const topics = [createOffsetForLeaderTopic({ topic: this.#topic, partitions: [asked] })];
    const request = createOffsetForLeaderEpochRequest({ replicaId: -1, topics });
    const target = { kind: 'node', nodeId } as const;
    const answer = await this.#cluster.send(target, offsetForLeaderEpochApi, request);
    const found = answer.topics[0]?.partitions[0];
    if (found?.errorCode !== 0) return false;
    if (found.endOffset >= 0n) this.#note('epoch end', partition, found.endOffset);
    return true;
  }

  async #fetch(
    info: TopicInfo,
    place: { partition: number; leaderId: number; offset: bigint },
  ): Promise<boolean> {
    const { partition, leaderId: nodeId, offset } = place;
    const request = fetchRequest(info);
    for (const topic of request.topics) {
      topic.partitions = [
        createFetchPartition({ partition, fetchOffset: offset, partitionMaxBytes: 1 }),
      ];
    }
    const options = { versionMax: 12 };
    const answer = await this.#cluster.send({ kind: 'node', nodeId }, fetchApi, request, options);
    const found = answer.responses[0]?.partitions[0];
    if (found?.errorCode !== 0) return false;
    this.#note('high watermark', partition, found.highWatermark);
    return true;
  }

  #note(what: What, partition: number, value: bigint): void {
    this.told.push({ what, partition, value: Number(value) });
    const key = `${what} of ${this.#topic}-${partition}`;
    const highest = this.#highest.get(key) ?? -1n;
    if (value < highest) this.#faults.push(`${key} went back from ${highest} to ${value}`);
    else this.#highest.set(key, value);
  }
}
