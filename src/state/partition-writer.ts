// Writes the batches of one transaction to the state topic's only partition. Owns the leader's id
// and the sequence numbers, by which a repeated batch is taken once. Refuses to know transactions'
// begin and end.
// Invariant: a batch is repeated only unchanged, with the sequence that it had.
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  type ProduceRequest,
} from '../../protocol/generated/produce-request.ts';
import { buildBatch, ErrorCode, errorName } from '../../protocol/index.ts';
import { produceApi } from '../cluster/apis.ts';
import { brokerReason } from '../cluster/broker-reason.ts';
import { type Cluster, ClusterError, type ClusterErrorCode } from '../cluster/cluster.ts';
import { pauseMs } from '../cluster/pause.ts';
import { FencedError, isFencedCode } from './fenced.ts';
import { StateError } from './state.ts';
import { messageBytesMax } from './state-topic.ts';

export interface KeyValue {
  readonly key: string;
  /** Null deletes the key. */
  readonly value: string | null;
}

export interface Producer {
  readonly producerId: bigint;
  readonly producerEpoch: number;
  readonly transactionalId: string;
}

/** From version 12 on Produce adds partitions to transactions by itself, with other rules. */
const versionMax = 11;
/** Of its own: a renewal must not wait behind a slow request of somebody else. */
export const lane = 'state';
const batchBytesMax = 1024 * 1024;
const recordOverheadBytes = 128;
const pauseAfterErrorMs = 100;

const passingCodes: ReadonlySet<number> = new Set([
  ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ErrorCode.LEADER_NOT_AVAILABLE,
  ErrorCode.NOT_LEADER_OR_FOLLOWER,
  ErrorCode.REQUEST_TIMED_OUT,
  ErrorCode.NETWORK_EXCEPTION,
  ErrorCode.NOT_ENOUGH_REPLICAS,
  ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
  ErrorCode.CONCURRENT_TRANSACTIONS,
  ErrorCode.KAFKA_STORAGE_ERROR,
  ErrorCode.COORDINATOR_NOT_AVAILABLE,
  ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
  ErrorCode.NOT_COORDINATOR,
]);

const passingFaults: ReadonlySet<ClusterErrorCode> = new Set([
  'UNREACHABLE',
  'TIMEOUT',
  'UNKNOWN_NODE',
]);

/** Returns how large it is. @throws StateError UNAVAILABLE for one that no broker would take */
export function checkRecordSize({ key, value }: KeyValue): number {
  const bytes = Buffer.byteLength(key) + Buffer.byteLength(value ?? '') + recordOverheadBytes;
  if (bytes <= messageBytesMax) return bytes;
  throw new StateError('UNAVAILABLE', `state record "${key}" of ${bytes} bytes is too large`);
}

export class PartitionWriter {
  readonly #cluster: Cluster;
  readonly #topic: string;
  readonly #now: () => number;
  readonly #wallMs: () => number;
  readonly #signal: AbortSignal;
  #leaderId: number | undefined;
  #sequence = 0;

  constructor(options: {
    cluster: Cluster;
    topic: string;
    now: () => number;
    wallMs: () => number;
    signal: AbortSignal;
  }) {
    this.#cluster = options.cluster;
    this.#topic = options.topic;
    this.#now = options.now;
    this.#wallMs = options.wallMs;
    this.#signal = options.signal;
  }

  /** With a new epoch. */
  restartSequence(): void {
    this.#sequence = 0;
  }

  /**
   * Groups records into batches. @throws StateError UNAVAILABLE for a record that no broker would
   * take
   */
  plan(records: readonly KeyValue[]): KeyValue[][] {
    const batches: KeyValue[][] = [];
    let batch: KeyValue[] = [];
    let batchBytes = 0;
    for (const record of records) {
      const bytes = checkRecordSize(record);
      if (batch.length > 0 && batchBytes + bytes > batchBytesMax) {
        batches.push(batch);
        batch = [];
        batchBytes = 0;
      }
      batch.push(record);
      batchBytes += bytes;
    }
    if (batch.length > 0) batches.push(batch);
    return batches;
  }

  /** Returns the offset after the last record. @throws StateError UNAVAILABLE, FencedError */
  async write(
    batches: readonly (readonly KeyValue[])[],
    producer: Producer,
    deadlineMs: number,
  ): Promise<bigint> {
    let next = 0n;
    for (const records of batches) {
      const baseOffset = await this.#writeBatch(records, producer, deadlineMs);
      next = baseOffset + BigInt(records.length);
      this.#sequence = (this.#sequence + records.length) & 0x7fffffff;
    }
    return next;
  }

  #request(records: readonly KeyValue[], producer: Producer, timeoutMs: number): ProduceRequest {
    const timestamp = BigInt(Math.round(this.#wallMs()));
    const batch = buildBatch({
      baseOffset: 0n,
      records: records.map(({ key, value }) => ({
        key: Buffer.from(key),
        value: value === null ? null : Buffer.from(value),
        timestamp,
      })),
      producerId: producer.producerId,
      producerEpoch: producer.producerEpoch,
      baseSequence: this.#sequence,
      isTransactional: true,
    });
    const partition = createPartitionProduceData({ index: 0, records: batch });
    return createProduceRequest({
      transactionalId: producer.transactionalId,
      acks: -1,
      timeoutMs: Math.max(1, Math.round(timeoutMs)),
      topicData: [createTopicProduceData({ name: this.#topic, partitionData: [partition] })],
    });
  }

  async #writeBatch(
    records: readonly KeyValue[],
    producer: Producer,
    deadlineMs: number,
  ): Promise<bigint> {
    const request = this.#request(records, producer, Math.max(1, deadlineMs - this.#now()));
    for (;;) {
      const outcome = await this.#tryWrite(request, deadlineMs);
      if (typeof outcome === 'bigint') return outcome;
      this.#leaderId = undefined;
      if (this.#now() >= deadlineMs || this.#signal.aborted) {
        const message = `the state cannot be written, nothing was committed: Produce: ${outcome}`;
        throw new StateError('UNAVAILABLE', message);
      }
      await pauseMs(pauseAfterErrorMs, this.#signal);
    }
  }

  /** The base offset, or why to try again. */
  async #tryWrite(request: ProduceRequest, deadlineMs: number): Promise<bigint | string> {
    try {
      this.#leaderId ??= await this.#findLeader();
      if (this.#leaderId < 0) return 'no leader';
      const response = await this.#cluster.send(
        { kind: 'node', nodeId: this.#leaderId },
        produceApi,
        request,
        { versionMax, lane, timeoutMs: Math.max(1, Math.min(deadlineMs - this.#now(), 5_000)) },
      );
      const result = response.responses[0]?.partitionResponses[0];
      const code = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
      if (code === ErrorCode.NONE) return result?.baseOffset ?? 0n;
      if (code === ErrorCode.DUPLICATE_SEQUENCE_NUMBER) return 0n;
      if (isFencedCode(code)) throw new FencedError(code, false);
      if (passingCodes.has(code)) return errorName(code);
      const reason = brokerReason(code, result?.errorMessage);
      const message = `the state cannot be written, nothing was committed: Produce: ${reason}`;
      throw new StateError('UNAVAILABLE', message);
    } catch (error) {
      if (error instanceof ClusterError && passingFaults.has(error.code)) return error.message;
      throw error;
    }
  }

  async #findLeader(): Promise<number> {
    const info = (await this.#cluster.metadata([this.#topic])).topics.get(this.#topic);
    return info?.partitions[0]?.leaderId ?? -1;
  }
}
