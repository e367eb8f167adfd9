// A source of one topic that a test makes lie. All records are in partition 0.
//
// Owns: honest answers to what a link asks (metadata, configs, offsets, fetches) over batches in
// memory, the place where an answer to Fetch is falsified, and what metadata say of the topic.
// Knows nothing of links. Invariant: without a lie it answers as a broker does; the test that uses
// it compares it with a real one.
import {
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
  encodeDescribeConfigsResponse,
} from '../../protocol/generated/describe-configs-response.ts';
import { decodeFetchRequest } from '../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  encodeFetchResponse,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { decodeListOffsetsRequest } from '../../protocol/generated/list-offsets-request.ts';
import {
  createListOffsetsPartitionResponse,
  createListOffsetsResponse,
  createListOffsetsTopicResponse,
  encodeListOffsetsResponse,
} from '../../protocol/generated/list-offsets-response.ts';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  createMetadataResponsePartition,
  createMetadataResponseTopic,
  encodeMetadataResponse,
} from '../../protocol/generated/metadata-response.ts';
import { buildBatch, ErrorCode, nextOffset, readBatchHeader } from '../../protocol/index.ts';
import { type FakeAnswer, FakeBroker, type FakeHandler } from '../unit/cluster/fake-broker.ts';

export type Lie =
  | { readonly kind: 'partition'; readonly falsify: (data: PartitionData) => PartitionData }
  | { readonly kind: 'frame'; readonly answer: (honest: FakeAnswer, id: number) => FakeAnswer };

const versions = { 1: [4, 12], 2: [1, 7], 32: [1, 4] } as const;
const advertised = 'liar.invalid';
const sourceTopicId = 'AAAAAAAAAAAAAAAAAAAABw';

export class LyingSource {
  readonly broker: FakeBroker;
  readonly topic: string;
  readonly batches: Buffer[] = [];
  lie: Lie | null = null;
  fetches = 0;
  /** Of its batches from now on, and of its leaders. */
  epoch = 5;
  partitions = 1;
  /** Times that metadata were asked for. */
  looks = 0;

  /** `hasIds`: its topic has an id, as of Kafka 2.8. */
  constructor(topic: string, { hasIds = true }: { readonly hasIds?: boolean } = {}) {
    this.topic = topic;
    this.broker = new FakeBroker({ ...versions, 3: [0, hasIds ? 12 : 9] });
    this.broker.handlers.set(1, (request) => this.#fetch(request));
    this.broker.handlers.set(2, (request) => this.#listOffsets(request));
    this.broker.handlers.set(3, (request) => this.#metadata(request));
    this.broker.handlers.set(32, ({ header }) => {
      const results = [createDescribeConfigsResult({ resourceType: 2, resourceName: topic })];
      const response = createDescribeConfigsResponse({ results });
      return (writer) => encodeDescribeConfigsResponse(writer, response, header.apiVersion);
    });
  }

  /** Settings of a link to it. */
  get linkConfigs(): Record<string, string> {
    const { address } = this.broker;
    return { 'bootstrap.servers': address, 'address.map': `${advertised}:9092=${address}` };
  }

  get end(): bigint {
    const last = this.batches.at(-1);
    return last === undefined ? 0n : nextOffset(readBatchHeader(last, 0));
  }

  /** One more batch of so many records. */
  append(count: number): void {
    this.batches.push(this.batchAt(this.end, count));
  }

  batchAt(baseOffset: bigint, count: number): Buffer {
    return buildBatch({
      baseOffset,
      partitionLeaderEpoch: this.epoch,
      records: Array.from({ length: count }, (_, index) => ({
        key: Buffer.from(`key-${baseOffset}-${index}`),
        value: Buffer.alloc(50, 120),
        timestamp: 1_700_000_000_000n,
      })),
    });
  }

  #endOf(partition: number): bigint {
    return partition === 0 ? this.end : 0n;
  }

  #fetch({ header, reader }: Parameters<FakeHandler>[0]): FakeAnswer {
    this.fetches++;
    const request = decodeFetchRequest(reader, header.apiVersion);
    const responses = request.topics.map(({ topic, partitions }) =>
      createFetchableTopicResponse({
        topic,
        partitions: partitions.map(({ partition, fetchOffset }) => {
          const honest = this.#partition(partition, fetchOffset);
          return this.lie?.kind === 'partition' ? this.lie.falsify(honest) : honest;
        }),
      }),
    );
    const response = createFetchResponse({ responses });
    const answer: FakeAnswer = (writer) => encodeFetchResponse(writer, response, header.apiVersion);
    return this.lie?.kind === 'frame' ? this.lie.answer(answer, header.correlationId) : answer;
  }

  #partition(partitionIndex: number, fetchOffset: bigint): PartitionData {
    const end = this.#endOf(partitionIndex);
    if (fetchOffset < 0n || fetchOffset > end) {
      const errorCode = ErrorCode.OFFSET_OUT_OF_RANGE;
      return createPartitionData({ partitionIndex, errorCode, highWatermark: -1n });
    }
    const held = partitionIndex === 0 ? this.batches : [];
    const from = held.findIndex((batch) => nextOffset(readBatchHeader(batch, 0)) > fetchOffset);
    const records = from < 0 ? Buffer.alloc(0) : Buffer.concat(held.slice(from));
    return createPartitionData({
      partitionIndex,
      highWatermark: end,
      lastStableOffset: end,
      logStartOffset: 0n,
      records,
    });
  }

  #listOffsets({ header, reader }: Parameters<FakeHandler>[0]): FakeAnswer {
    const request = decodeListOffsetsRequest(reader, header.apiVersion);
    const topics = request.topics.map(({ name, partitions }) =>
      createListOffsetsTopicResponse({
        name,
        partitions: partitions.map(({ partitionIndex, timestamp }) =>
          createListOffsetsPartitionResponse({
            partitionIndex,
            timestamp: -1n,
            offset: timestamp === -2n ? 0n : this.#endOf(partitionIndex),
          }),
        ),
      }),
    );
    const response = createListOffsetsResponse({ topics });
    return (writer) => encodeListOffsetsResponse(writer, response, header.apiVersion);
  }

  #metadata({ header }: Parameters<FakeHandler>[0]): FakeAnswer {
    this.looks++;
    const partitions = Array.from({ length: this.partitions }, (_, partitionIndex) =>
      createMetadataResponsePartition({
        partitionIndex,
        leaderId: 1,
        leaderEpoch: this.epoch,
        replicaNodes: [1],
        isrNodes: [1],
      }),
    );
    const response = createMetadataResponse({
      brokers: [createMetadataResponseBroker({ nodeId: 1, host: advertised, port: 9092 })],
      controllerId: 1,
      clusterId: 'cluster-of-lies',
      topics: [
        createMetadataResponseTopic({ name: this.topic, topicId: sourceTopicId, partitions }),
      ],
    });
    return (writer) => encodeMetadataResponse(writer, response, header.apiVersion);
  }
}
