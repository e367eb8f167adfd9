// A producer of our own, for what foreign clients do not let a test say: one batch exactly as it
// is, a transaction step by step. Owns the retries of a patient client, over the requests of
// raw-writes.ts. Knows nothing of links.
import { buildBatch } from '../../protocol/index.ts';
import { produceApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { listOffset } from './raw-batches.ts';
import {
  batchRequest,
  endTransaction,
  newProducer,
  type Producer,
  startTransaction,
} from './raw-writes.ts';
import { leaderOf } from './topic-admin.ts';
import { GiveUp, until } from './wait.ts';

/** A test may hold it open for as long as it likes. */
const transactionTimeoutMs = 600_000;
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
          producerId: transaction.producer.id,
          producerEpoch: transaction.producer.epoch,
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
  const transactionalId = transaction?.id ?? null;
  const request = batchRequest({ topic, partition, transactionalId }, batch);
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
  readonly #cluster: Cluster;
  readonly #sequences = new Map<number, number>();
  #producer: Producer | null = null;
  #partitions: readonly { topic: string; partition: number }[] = [];

  constructor(cluster: Cluster, id: string) {
    this.#cluster = cluster;
    this.id = id;
  }

  get producer(): Producer {
    if (this.#producer === null) throw new Error(`transaction ${this.id} has not begun`);
    return this.#producer;
  }

  nextSequence(partition: number, count: number): number {
    const next = this.#sequences.get(partition) ?? 0;
    this.#sequences.set(partition, next + count);
    return next;
  }

  async begin(topic: string, partitions: readonly number[]): Promise<void> {
    this.#partitions = partitions.map((partition) => ({ topic, partition }));
    this.#producer ??= await newProducer(this.#cluster, this.id, transactionTimeoutMs);
    await startTransaction(this.#cluster, this.#producer, topic, partitions);
  }

  /** Returns when the markers are there: the coordinator answers before it has written them. */
  async end(outcome: 'commit' | 'abort'): Promise<void> {
    const ends = await this.#ends();
    await endTransaction(this.#cluster, this.producer, outcome);
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
