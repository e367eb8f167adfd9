// A destination in memory with one state topic: producer epochs, transactions, sequences and
// read_committed as Kafka has them, as far as the state uses them. Requests can be lost before or
// after they took effect. Refuses to be a Kafka: any other request is an error.
import {
  createAddPartitionsToTxnPartitionResult,
  createAddPartitionsToTxnResponse,
  createAddPartitionsToTxnTopicResult,
} from '../../../protocol/generated/add-partitions-to-txn-response.ts';
import type { DescribeConfigsRequest } from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
} from '../../../protocol/generated/describe-configs-response.ts';
import type { EndTxnRequest } from '../../../protocol/generated/end-txn-request.ts';
import { createEndTxnResponse } from '../../../protocol/generated/end-txn-response.ts';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createAbortedTransaction,
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import type { InitProducerIdRequest } from '../../../protocol/generated/init-producer-id-request.ts';
import { createInitProducerIdResponse } from '../../../protocol/generated/init-producer-id-response.ts';
import type { ProduceRequest } from '../../../protocol/generated/produce-request.ts';
import {
  createPartitionProduceResponse,
  createProduceResponse,
  createTopicProduceResponse,
} from '../../../protocol/generated/produce-response.ts';
import { buildControlBatch, ErrorCode, readBatchHeader } from '../../../protocol/index.ts';
import {
  type Api,
  type Cluster,
  ClusterError,
  type ClusterMetadata,
  type Target,
  type VersionRange,
} from '../../../src/cluster/cluster.ts';

export type Fault = 'none' | 'lost request' | 'lost answer';

interface Batch {
  readonly offset: bigint;
  readonly next: bigint;
  readonly bytes: Buffer;
}

type TransactionState = 'empty' | 'open' | 'committed' | 'aborted';

const producerId = 1_000n;
const topicId = 'AAAAAAAAAAAAAAAAAAAACA';

export class FakeStateCluster implements Cluster {
  readonly brokers = [{ nodeId: 1, host: 'fake', port: 9092, rack: null }];
  readonly bootstrap = [];
  /** Decides about each request by its name. */
  fault: (name: string) => Fault = () => 'none';
  /** What DescribeConfigs says of the topic before it shows its settings, one by one. */
  configErrors: number[] = [];
  /** So many Fetch answers more are emptied by a quota. */
  heldBack = 0;
  /** Names of all requests, in order. */
  readonly seen: string[] = [];
  #log: Batch[] = [];
  #end = 0n;
  #epoch = -1;
  #epochBefore = -1;
  #state: TransactionState = 'empty';
  #openFrom: bigint | undefined;
  #aborted: { from: bigint; to: bigint }[] = [];
  #sequence = 0;
  #lastBatch: { sequence: number; offset: bigint } | undefined;

  async send<Request, Response>(
    _target: Target,
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
  ): Promise<Response> {
    // Every answer takes a turn of the event loop, as a real one does.
    await new Promise((resolve) => setImmediate(resolve));
    this.seen.push(api.name);
    const fault = this.fault(api.name);
    const lost = new ClusterError('UNREACHABLE', `fake: ${fault}`, { maybeSent: true });
    if (fault === 'lost request') throw lost;
    const response = this.#answer(api.name, request) as Response;
    if (fault === 'lost answer') throw lost;
    return response;
  }

  async metadata(topics: 'all' | readonly string[]): Promise<ClusterMetadata> {
    const partition = {
      partition: 0,
      leaderId: 1,
      leaderEpoch: 0,
      replicaNodes: [1],
      errorCode: 0,
    };
    const names = topics === 'all' ? [] : topics;
    const infos = names.map((name) => {
      const info = { name, topicId, isInternal: false, errorCode: 0, partitions: [partition] };
      return [name, info] as const;
    });
    return { clusterId: 'fake', controllerId: 1, brokers: this.brokers, topics: new Map(infos) };
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** As if another instance had asked for the transactional id just now. */
  fenceByAnother(): void {
    this.abortOpen();
    this.#epochBefore = -1;
    this.#epoch++;
    this.#state = 'empty';
  }

  /** As the coordinator does with what is open for too long, and before it gives out an epoch. */
  abortOpen(): boolean {
    if (this.#state !== 'open') return false;
    this.#epochBefore = -1;
    this.#epoch++;
    this.#mark('ABORT');
    this.#state = 'aborted';
    return true;
  }

  async apiVersions(): Promise<ReadonlyMap<number, VersionRange>> {
    return new Map();
  }

  reach(host: string, port: number): { host: string; port: number } {
    return { host, port };
  }

  async close(): Promise<void> {
    this.fault = () => 'lost request';
  }

  #answer(name: string, request: unknown): unknown {
    switch (name) {
      case 'DescribeConfigs':
        return this.#describeConfigs(request as DescribeConfigsRequest);
      case 'InitProducerId':
        return this.#initProducerId(request as InitProducerIdRequest);
      case 'AddPartitionsToTxn':
        return this.#addPartitions(
          (request as { v3AndBelowProducerEpoch: number }).v3AndBelowProducerEpoch,
        );
      case 'Produce':
        return this.#produce(request as ProduceRequest);
      case 'EndTxn':
        return createEndTxnResponse({ errorCode: this.#endTxn(request as EndTxnRequest) });
      case 'Fetch':
        return this.#fetch(request as FetchRequest);
      default:
        throw new Error(`the fake cluster does not know ${name}`);
    }
  }

  #describeConfigs({ resources }: DescribeConfigsRequest): unknown {
    const settings = {
      'cleanup.policy': 'compact',
      'unclean.leader.election.enable': 'false',
      'min.insync.replicas': '1',
      'max.message.bytes': String(8 * 1024 * 1024),
    };
    const configs = Object.entries(settings).map(([name, value]) =>
      createDescribeConfigsResourceResult({ name, value }),
    );
    const errorCode = this.configErrors.shift() ?? ErrorCode.NONE;
    // With an error a broker's message is "", not null.
    const results = resources.map(({ resourceName }) =>
      createDescribeConfigsResult(
        errorCode === ErrorCode.NONE
          ? { resourceName, configs }
          : { resourceName, errorCode, errorMessage: '' },
      ),
    );
    return createDescribeConfigsResponse({ results });
  }

  #initProducerId(request: InitProducerIdRequest): unknown {
    const isRepeated = request.producerEpoch === this.#epochBefore && this.#state === 'empty';
    if (request.producerId >= 0n && request.producerEpoch !== this.#epoch && !isRepeated) {
      return createInitProducerIdResponse({ errorCode: ErrorCode.INVALID_PRODUCER_EPOCH });
    }
    if (!(request.producerId >= 0n && isRepeated && request.producerEpoch !== this.#epoch)) {
      this.abortOpen();
      this.#epochBefore = request.producerId >= 0n ? this.#epoch : -1;
      this.#epoch++;
      this.#state = 'empty';
      this.#sequence = 0;
      this.#lastBatch = undefined;
    }
    return createInitProducerIdResponse({ producerId, producerEpoch: this.#epoch });
  }

  #addPartitions(epoch: number): unknown {
    const isStale = epoch !== this.#epoch;
    if (!isStale) this.#state = 'open';
    const result = createAddPartitionsToTxnPartitionResult({
      partitionErrorCode: isStale ? ErrorCode.PRODUCER_FENCED : 0,
    });
    const topic = createAddPartitionsToTxnTopicResult({ resultsByPartition: [result] });
    return createAddPartitionsToTxnResponse({ resultsByTopicV3AndBelow: [topic] });
  }

  #produce(request: ProduceRequest): unknown {
    const bytes = Buffer.from(request.topicData[0]?.partitionData[0]?.records ?? []);
    const result = this.#append(bytes);
    const partition = createPartitionProduceResponse(
      typeof result === 'bigint' ? { baseOffset: result } : { errorCode: result },
    );
    const topic = createTopicProduceResponse({ partitionResponses: [partition] });
    return createProduceResponse({ responses: [topic] });
  }

  /** The base offset, or an error code. */
  #append(bytes: Buffer): bigint | number {
    const header = readBatchHeader(bytes, 0);
    if (header.producerEpoch !== this.#epoch) return ErrorCode.INVALID_PRODUCER_EPOCH;
    if (this.#state !== 'open') return ErrorCode.INVALID_TXN_STATE;
    if (this.#lastBatch?.sequence === header.baseSequence) return this.#lastBatch.offset;
    if (header.baseSequence !== this.#sequence) return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER;
    const offset = this.#end;
    bytes.writeBigInt64BE(offset, 0);
    this.#push(bytes, header.recordsCount);
    this.#openFrom ??= offset;
    this.#sequence += header.recordsCount;
    this.#lastBatch = { sequence: header.baseSequence, offset };
    return offset;
  }

  #endTxn(request: EndTxnRequest): number {
    if (request.producerEpoch !== this.#epoch) return ErrorCode.INVALID_PRODUCER_EPOCH;
    const wanted = request.committed ? 'committed' : 'aborted';
    if (this.#state === wanted) return ErrorCode.NONE;
    if (this.#state !== 'open') return ErrorCode.INVALID_TXN_STATE;
    this.#mark(request.committed ? 'COMMIT' : 'ABORT');
    this.#state = wanted;
    return ErrorCode.NONE;
  }

  #mark(type: 'COMMIT' | 'ABORT'): void {
    if (this.#openFrom !== undefined && type === 'ABORT') {
      this.#aborted.push({ from: this.#openFrom, to: this.#end });
    }
    const marker = buildControlBatch({
      baseOffset: this.#end,
      producerId,
      producerEpoch: this.#epoch,
      partitionLeaderEpoch: 0,
      timestamp: 0n,
      type,
      coordinatorEpoch: 0,
    });
    this.#push(marker, 1);
    this.#openFrom = undefined;
  }

  #push(bytes: Buffer, recordsCount: number): void {
    const offset = this.#end;
    this.#end += BigInt(recordsCount);
    this.#log.push({ offset, next: this.#end, bytes });
  }

  #fetch(request: FetchRequest): unknown {
    if (this.heldBack-- > 0) return createFetchResponse({ throttleTimeMs: 1 });
    const position = request.topics[0]?.partitions[0]?.fetchOffset ?? 0n;
    const stable = this.#openFrom ?? this.#end;
    const batches = this.#log.filter(({ next, offset }) => next > position && offset < stable);
    const data = createPartitionData({
      highWatermark: this.#end,
      lastStableOffset: stable,
      abortedTransactions: this.#aborted
        .filter(({ to }) => to >= position)
        .map(({ from }) => createAbortedTransaction({ producerId, firstOffset: from })),
      records: Buffer.concat(batches.map(({ bytes }) => bytes)),
    });
    const topic = createFetchableTopicResponse({ partitions: [data] });
    return createFetchResponse({ responses: [topic] });
  }
}
