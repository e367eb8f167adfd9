// A producer of our own, for what foreign clients do not let a test say: one batch exactly as it
// is, a transaction step by step. Knows nothing of links.
import assert from 'node:assert/strict';
import {
  createAddPartitionsToTxnRequest,
  createAddPartitionsToTxnTopic,
} from '../../protocol/generated/add-partitions-to-txn-request.ts';
import { createEndTxnRequest } from '../../protocol/generated/end-txn-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
} from '../../protocol/generated/produce-request.ts';
import { buildBatch } from '../../protocol/index.ts';
import {
  addPartitionsToTxnApi,
  endTxnApi,
  initProducerIdApi,
  produceApi,
} from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { listOffset } from './raw-batches.ts';
import { leaderOf } from './topic-admin.ts';
import { GiveUp, until } from './wait.ts';

/** UNKNOWN_TOPIC_OR_PARTITION and NOT_LEADER_OR_FOLLOWER. */
const notYet: ReadonlySet<number> = new Set([3, 6]);

export interface ProduceTarget {
  readonly topic: string;
  readonly partition?: number;
  readonly transaction?: Transaction;
}

/** One batch of `values`. Returns its base offset. */
export async function produce(
  cluster: Cluster,
  target: ProduceTarget,
  values: readonly string[],
): Promise<bigint> {
  const { partition = 0, transaction } = target;
  const batch = buildBatch({
    baseOffset: 0n,
    records: values.map((value) => ({
      key: Buffer.from(value),
      value: Buffer.from(value),
      timestamp: BigInt(Date.now()),
    })),
    ...(transaction === undefined
      ? {}
      : {
          producerId: transaction.producerId,
          producerEpoch: transaction.producerEpoch,
          baseSequence: transaction.nextSequence(partition, values.length),
          isTransactional: true,
        }),
  });
  return produceBatch(cluster, target, batch);
}

/** A batch as it is. Returns the base offset that it got. */
export async function produceBatch(
  cluster: Cluster,
  target: ProduceTarget,
  batch: Buffer,
): Promise<bigint> {
  const { topic, partition = 0, transaction } = target;
  const request = createProduceRequest({
    transactionalId: transaction?.id ?? null,
    acks: -1,
    timeoutMs: 10_000,
    topicData: [
      createTopicProduceData({
        name: topic,
        partitionData: [createPartitionProduceData({ index: partition, records: batch })],
      }),
    ],
  });
  // The leader of a new partition says "not me", or has not heard of the topic, for a moment.
  return until(`produce to ${topic}-${partition}`, async () => {
    const nodeId = await leaderOf(cluster, topic, partition);
    const response = await cluster.send({ kind: 'node', nodeId }, produceApi, request);
    const found = response.responses[0]?.partitionResponses[0];
    if (found !== undefined && notYet.has(found.errorCode)) return undefined;
    if (found?.errorCode !== 0) throw new GiveUp(`produce to ${topic}: error ${found?.errorCode}`);
    return { baseOffset: found.baseOffset };
  }).then(({ baseOffset }) => baseOffset);
}

/** A transactional producer of our own, step by step. */
export class Transaction {
  readonly id: string;
  producerId = -1n;
  producerEpoch = -1;
  readonly #cluster: Cluster;
  readonly #sequences = new Map<number, number>();
  #partitions: readonly { topic: string; partition: number }[] = [];

  constructor(cluster: Cluster, id: string) {
    this.#cluster = cluster;
    this.id = id;
  }

  nextSequence(partition: number, count: number): number {
    const next = this.#sequences.get(partition) ?? 0;
    this.#sequences.set(partition, next + count);
    return next;
  }

  async begin(topic: string, partitions: readonly number[]): Promise<void> {
    this.#partitions = partitions.map((partition) => ({ topic, partition }));
    const target = { kind: 'transaction', transactionalId: this.id } as const;
    if (this.producerEpoch < 0) {
      const answer = await until('a producer id', async () => {
        const response = await this.#cluster.send(
          target,
          initProducerIdApi,
          createInitProducerIdRequest({
            transactionalId: this.id,
            transactionTimeoutMs: 600_000,
          }),
        );
        return response.errorCode === 0 ? response : undefined;
      });
      this.producerId = answer.producerId;
      this.producerEpoch = answer.producerEpoch;
    }
    await until('partitions in the transaction', async () => {
      const response = await this.#cluster.send(
        target,
        addPartitionsToTxnApi,
        createAddPartitionsToTxnRequest({
          v3AndBelowTransactionalId: this.id,
          v3AndBelowProducerId: this.producerId,
          v3AndBelowProducerEpoch: this.producerEpoch,
          v3AndBelowTopics: [
            createAddPartitionsToTxnTopic({ name: topic, partitions: [...partitions] }),
          ],
        }),
      );
      const results = response.resultsByTopicV3AndBelow[0]?.resultsByPartition ?? [];
      return results.length > 0 && results.every(({ partitionErrorCode }) => !partitionErrorCode);
    });
  }

  /** Returns when the markers are there: the coordinator answers before it has written them. */
  async end(outcome: 'commit' | 'abort'): Promise<void> {
    const ends = await this.#ends();
    const response = await this.#cluster.send(
      { kind: 'transaction', transactionalId: this.id },
      endTxnApi,
      createEndTxnRequest({
        transactionalId: this.id,
        producerId: this.producerId,
        producerEpoch: this.producerEpoch,
        committed: outcome === 'commit',
      }),
    );
    assert.equal(response.errorCode, 0);
    await until('the markers of the transaction', async () => {
      const now = await this.#ends();
      return now.every((end, index) => end > (ends[index] ?? 0n));
    });
  }

  #ends(): Promise<bigint[]> {
    return Promise.all(
      this.#partitions.map(({ topic, partition }) =>
        listOffset(this.#cluster, topic, partition, -1n),
      ),
    );
  }
}
