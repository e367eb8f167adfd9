// Reads the state topic forward, committed records only, and returns the last value of each key.
// Owns the position and the rules of read_committed (aborted transactions, control batches).
// Refuses to know what records mean. Invariants: what one read returns ends between two
// transactions, so it can be applied whole; a hole at the start of the log is an error, because
// nobody may delete records of our state.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  type FetchRequest,
} from '../../protocol/generated/fetch-request.ts';
import type { PartitionData } from '../../protocol/generated/fetch-response.ts';
import {
  type BatchHeader,
  ErrorCode,
  errorName,
  forEachBatch,
  isControl,
  isTransactional,
  lastOffset,
  nextOffset,
  readControlType,
  verifyBatchCrc,
} from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import { fetchApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { isHeldBack } from '../cluster/held-back.ts';
import { pauseMs } from '../cluster/pause.ts';
import { StateError } from './state.ts';

/** By key; null: the key was deleted. */
export type StateTopicRecords = ReadonlyMap<string, string | null>;

export interface ReadOptions {
  /** The last stable offset is enough; else the reader waits until everything has been decided. */
  readonly until: 'stable' | 'end';
  readonly timeoutMs: number;
}

const readCommitted = 1;
const lane = 'state-read';
/** The newest version that names topics, not ids. */
const versionMax = 12;
const responseBytesMax = 4 * 1024 * 1024;
const waitMsMax = 500;
const pauseAfterErrorMs = 100;

/** Errors that go away by themselves, or when the leader has been looked up again. */
const passingCodes: ReadonlySet<number> = new Set([
  ErrorCode.NOT_LEADER_OR_FOLLOWER,
  ErrorCode.LEADER_NOT_AVAILABLE,
  ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ErrorCode.FENCED_LEADER_EPOCH,
  ErrorCode.UNKNOWN_LEADER_EPOCH,
  ErrorCode.OFFSET_NOT_AVAILABLE,
  ErrorCode.KAFKA_STORAGE_ERROR,
  ErrorCode.REPLICA_NOT_AVAILABLE,
]);

export class TopicReader {
  readonly #cluster: Cluster;
  readonly #topic: string;
  readonly #signal: AbortSignal;
  readonly #now: () => number;
  #position = 0n;

  constructor(options: {
    cluster: Cluster;
    topic: string;
    signal: AbortSignal;
    now: () => number;
  }) {
    this.#cluster = options.cluster;
    this.#topic = options.topic;
    this.#signal = options.signal;
    this.#now = options.now;
  }

  /** The next offset to read. */
  get position(): bigint {
    return this.#position;
  }

  /** Everything below was written by ourselves and is known. */
  skipTo(offset: bigint): void {
    if (offset > this.#position) this.#position = offset;
  }

  /**
   * All committed records from the position up to the end as it is now. A failed read can be
   * repeated.
   * @throws StateError UNAVAILABLE when that takes too long, CORRUPT
   */
  async read(options: ReadOptions): Promise<StateTopicRecords> {
    const start = this.#position;
    try {
      return await this.#read(options);
    } catch (error) {
      this.#position = start;
      throw error;
    }
  }

  async #read(options: ReadOptions): Promise<StateTopicRecords> {
    const deadlineMs = this.#now() + options.timeoutMs;
    const records = new Map<string, string | null>();
    let target: bigint | undefined;
    while (target === undefined || this.#position < target) {
      const data = await this.#fetch(deadlineMs, target === undefined ? 0 : waitMsMax);
      target ??= options.until === 'end' ? data.highWatermark : data.lastStableOffset;
      await this.#take(data, records);
      if (this.#signal.aborted) throw new StateError('UNAVAILABLE', 'the state is being closed');
      if (this.#position < target && this.#now() >= deadlineMs) {
        const message =
          `state topic ${this.#topic}: read to offset ${this.#position} of ${target} ` +
          `within ${options.timeoutMs} ms (a transaction may be open)`;
        throw new StateError('UNAVAILABLE', message);
      }
    }
    return records;
  }

  #request(waitMs: number): FetchRequest {
    const partition = createFetchPartition({
      partition: 0,
      fetchOffset: this.#position,
      partitionMaxBytes: responseBytesMax,
    });
    return createFetchRequest({
      maxWaitMs: waitMs,
      minBytes: 1,
      maxBytes: responseBytesMax,
      isolationLevel: readCommitted,
      topics: [createFetchTopic({ topic: this.#topic, partitions: [partition] })],
    });
  }

  /** One partition's answer without an error. */
  async #fetch(deadlineMs: number, waitMs: number): Promise<PartitionData> {
    for (;;) {
      const fault = await this.#tryFetch(waitMs);
      if (typeof fault !== 'string') return fault;
      if (this.#now() >= deadlineMs || this.#signal.aborted) {
        throw new StateError('UNAVAILABLE', `state topic ${this.#topic}: ${fault}`);
      }
      await pauseMs(pauseAfterErrorMs, this.#signal);
    }
  }

  async #tryFetch(waitMs: number): Promise<PartitionData | string> {
    try {
      const info = (await this.#cluster.metadata([this.#topic])).topics.get(this.#topic);
      const leaderId = info?.partitions[0]?.leaderId ?? -1;
      if (leaderId < 0) return 'no leader';
      const response = await this.#cluster.send(
        { kind: 'node', nodeId: leaderId },
        fetchApi,
        this.#request(waitMs),
        { lane, versionMax, timeoutMs: waitMs + 5_000 },
      );
      if (isHeldBack(response)) return 'a quota of the broker holds it back';
      const data = response.responses[0]?.partitions[0];
      const code = data?.errorCode ?? response.errorCode;
      if (code === ErrorCode.OFFSET_OUT_OF_RANGE) return this.#onOutOfRange();
      if (code === ErrorCode.NONE && data) return data;
      if (passingCodes.has(code)) return errorName(code);
      throw new StateError('UNAVAILABLE', `state topic ${this.#topic}: ${errorName(code)}`);
    } catch (error) {
      if (error instanceof ClusterError && error.code !== 'CLOSED') return error.message;
      throw error;
    }
  }

  #onOutOfRange(): never {
    const message =
      `state topic ${this.#topic}: offset ${this.#position} is not there: records were deleted, ` +
      'or the topic was made again. Delete the topic and run causeway state import FILE';
    throw new StateError('CORRUPT', message);
  }

  async #take(data: PartitionData, into: Map<string, string | null>): Promise<void> {
    const records = data.records ?? Buffer.alloc(0);
    const { batches, next } = committedBatches(this.#topic, records, data, this.#position);
    for (const batch of batches) {
      for (const record of await openRecords(batch)) {
        if (record.offset < this.#position) continue;
        into.set(record.key?.toString('utf8') ?? '', record.value?.toString('utf8') ?? null);
      }
    }
    this.skipTo(next);
  }
}

interface WantedBatches {
  readonly batches: readonly Buffer[];
  /** The offset after the last whole batch. */
  readonly next: bigint;
}

/**
 * The batches whose records count: not control, not of an aborted transaction. @throws StateError
 * CORRUPT
 */
export function committedBatches(
  topic: string,
  records: Buffer,
  data: Pick<PartitionData, 'abortedTransactions'>,
  position: bigint,
): WantedBatches {
  const aborted = (data.abortedTransactions ?? [])
    .slice()
    .sort((left, right) => Number(left.firstOffset - right.firstOffset));
  const aborting = new Set<bigint>();
  const batches: Buffer[] = [];
  let next = position;
  const visit = (header: BatchHeader, at: number): void => {
    if (!verifyBatchCrc(records, at, header.sizeInBytes)) {
      const message = `state topic ${topic}: batch at offset ${header.baseOffset} fails its CRC`;
      throw new StateError('CORRUPT', message);
    }
    const last = lastOffset(header);
    while (aborted[0] !== undefined && aborted[0].firstOffset <= last) {
      aborting.add(aborted[0].producerId);
      aborted.shift();
    }
    next = nextOffset(header);
    if (isControl(header)) {
      if (readControlType(records, at, header) === 'ABORT') aborting.delete(header.producerId);
    } else if (!(isTransactional(header) && aborting.has(header.producerId))) {
      batches.push(records.subarray(at, at + header.sizeInBytes));
    }
  };
  forEachBatch(records, visit);
  return { batches, next };
}
