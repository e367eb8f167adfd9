// Writing with our own client: batches made by hand, with or without a producer id or a
// transaction. For sources, destinations and the proxy alike.
//
// Owns: building the requests. Knows nothing of retries: error codes are handed back as they came.
// Invariant: a batch is sent once; an answer that never came is a rejection, never a guess.

import { createAddPartitionsToTxnRequest } from '../../protocol/generated/add-partitions-to-txn-request.ts';
import { createEndTxnRequest } from '../../protocol/generated/end-txn-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  type ProduceRequest,
} from '../../protocol/generated/produce-request.ts';
import { buildBatch } from '../../protocol/index.ts';
import {
  addPartitionsToTxnApi,
  endTxnApi,
  initProducerIdApi,
  produceApi,
} from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { leaderOf, untilLeader } from './topic-admin.ts';
import { until } from './wait.ts';

export interface Producer {
  readonly transactionalId: string | null;
  readonly id: bigint;
  readonly epoch: number;
}

export interface Writing {
  readonly producer?: Producer;
  readonly sequence?: number;
  /** Node to send to instead of the leader. */
  readonly nodeId?: number;
  /** Of the records; default: now. */
  readonly timestamp?: bigint;
}

export interface Written {
  readonly errorCode: number;
  readonly errorMessage: string | null;
  readonly baseOffset: bigint;
}

/** A Produce request with one batch; keys are `key-0`, `key-1`, ... */
export function produceRequest(
  topic: string,
  partition: number,
  values: readonly string[],
  writing: Writing = {},
): ProduceRequest {
  const { producer, sequence = 0 } = writing;
  const isTransactional = producer !== undefined && producer.transactionalId !== null;
  const records = buildBatch({
    baseOffset: 0n,
    records: values.map((value, index) => ({
      key: Buffer.from(`key-${index}`),
      value: Buffer.from(value),
      timestamp: writing.timestamp ?? BigInt(Date.now()),
    })),
    ...(producer === undefined
      ? {}
      : { producerId: producer.id, producerEpoch: producer.epoch, baseSequence: sequence }),
    isTransactional,
  });
  const transactionalId = producer?.transactionalId ?? null;
  return batchRequest({ topic, partition, transactionalId }, records);
}

/** A Produce request with bytes as they are. */
export function batchRequest(
  target: { topic: string; partition: number; transactionalId: string | null },
  records: Buffer,
): ProduceRequest {
  const { topic, partition, transactionalId } = target;
  const partitionData = [createPartitionProduceData({ index: partition, records })];
  return createProduceRequest({
    transactionalId,
    acks: -1,
    timeoutMs: 10_000,
    topicData: [createTopicProduceData({ name: topic, partitionData })],
  });
}

/** One batch; resolves with the answer, also with an error code. */
export async function tryWrite(
  cluster: Cluster,
  topic: string,
  partition: number,
  values: readonly string[],
  writing: Writing = {},
): Promise<Written> {
  const nodeId = writing.nodeId ?? (await leaderOf(cluster, topic, partition));
  const request = produceRequest(topic, partition, values, writing);
  const answer = await cluster.send({ kind: 'node', nodeId }, produceApi, request);
  const found = answer.responses[0]?.partitionResponses[0];
  if (found === undefined) throw new Error(`Produce to ${topic}-${partition}: no answer for it`);
  return found;
}

/** One batch that has to succeed; resolves with its base offset. */
export async function write(
  cluster: Cluster,
  topic: string,
  partition: number,
  values: readonly string[],
  writing: Writing = {},
): Promise<bigint> {
  const nodeId = writing.nodeId ?? (await untilLeader(cluster, topic, partition));
  const { errorCode, errorMessage, baseOffset } = await tryWrite(
    cluster,
    topic,
    partition,
    values,
    {
      ...writing,
      nodeId,
    },
  );
  if (errorCode === 0) return baseOffset;
  throw new Error(`Produce to ${topic}-${partition}: error ${errorCode}, ${errorMessage}`);
}

/** `count` values that name themselves, `label 0` and so on, padded to about `bytes`. */
export function values(label: string, count: number, bytes = 0): string[] {
  return Array.from({ length: count }, (_, index) => `${label} ${index}`.padEnd(bytes, '.'));
}

export async function newProducer(
  cluster: Cluster,
  transactionalId: string | null = null,
  transactionTimeoutMs = 60_000,
): Promise<Producer> {
  const request = createInitProducerIdRequest({ transactionalId, transactionTimeoutMs });
  return until('a producer id', async () => {
    const target =
      transactionalId === null
        ? ({ kind: 'any' } as const)
        : ({ kind: 'transaction', transactionalId } as const);
    const answer = await cluster.send(target, initProducerIdApi, request);
    if (answer.errorCode !== 0) throw new Error(`InitProducerId: error ${answer.errorCode}`);
    return { transactionalId, id: answer.producerId, epoch: answer.producerEpoch };
  });
}

function transactional(producer: Producer): string {
  if (producer.transactionalId !== null) return producer.transactionalId;
  throw new Error('this producer has no transactional id');
}

/** Resolves with the error code for the topic's partitions. */
export async function addToTransaction(
  cluster: Cluster,
  producer: Producer,
  topic: string,
  partitions: readonly number[],
): Promise<number> {
  const transactionalId = transactional(producer);
  const request = createAddPartitionsToTxnRequest({
    v3AndBelowTransactionalId: transactionalId,
    v3AndBelowProducerId: producer.id,
    v3AndBelowProducerEpoch: producer.epoch,
    v3AndBelowTopics: [{ name: topic, partitions: [...partitions], unknownTags: undefined }],
  });
  const target = { kind: 'transaction', transactionalId } as const;
  const answer = await cluster.send(target, addPartitionsToTxnApi, request);
  const codes = answer.resultsByTopicV3AndBelow.flatMap((one) =>
    one.resultsByPartition.map((partition) => partition.partitionErrorCode),
  );
  return codes.find((code) => code !== 0) ?? 0;
}

/** CONCURRENT_TRANSACTIONS means that the last one is still being completed: tried again. */
export async function startTransaction(
  cluster: Cluster,
  producer: Producer,
  topic: string,
  partitions: readonly number[],
): Promise<void> {
  await until(`a transaction on ${topic}`, async () => {
    const code = await addToTransaction(cluster, producer, topic, partitions);
    if (code !== 0) throw new Error(`AddPartitionsToTxn: error ${code}`);
    return true;
  });
}

export async function endTransaction(
  cluster: Cluster,
  producer: Producer,
  outcome: 'commit' | 'abort',
): Promise<void> {
  const transactionalId = transactional(producer);
  const request = createEndTxnRequest({
    transactionalId,
    producerId: producer.id,
    producerEpoch: producer.epoch,
    committed: outcome === 'commit',
  });
  const target = { kind: 'transaction', transactionalId } as const;
  const { errorCode } = await cluster.send(target, endTxnApi, request);
  if (errorCode !== 0) throw new Error(`EndTxn: error ${errorCode}`);
}
