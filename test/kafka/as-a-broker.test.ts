// What a broker says to odd questions, asked of the broker itself and of us. A topic of the
// destination is shown once as a mirror of itself, and once as promoted at an offset at which its
// leader epoch rose: both views have the offsets and epochs of the broker's own log, so whatever
// differs between the answers is ours.
//
// Owns: the topic and its two views, a gateway for each. Refuses to know what the answers are.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { MessageCodec } from '../../protocol/codec.ts';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
  deleteRecordsRequestCodec,
} from '../../protocol/generated/delete-records-request.ts';
import {
  type DeleteRecordsResponse,
  deleteRecordsResponseCodec,
} from '../../protocol/generated/delete-records-response.ts';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  fetchRequestCodec,
} from '../../protocol/generated/fetch-request.ts';
import { type FetchResponse, fetchResponseCodec } from '../../protocol/generated/fetch-response.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  listOffsetsRequestCodec,
} from '../../protocol/generated/list-offsets-request.ts';
import {
  type ListOffsetsResponse,
  listOffsetsResponseCodec,
} from '../../protocol/generated/list-offsets-response.ts';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
  offsetForLeaderEpochRequestCodec,
} from '../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  type OffsetForLeaderEpochResponse,
  offsetForLeaderEpochResponseCodec,
} from '../../protocol/generated/offset-for-leader-epoch-response.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  produceRequestCodec,
} from '../../protocol/generated/produce-request.ts';
import {
  type ProduceResponse,
  produceResponseCodec,
} from '../../protocol/generated/produce-response.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { apiOf } from '../../src/gateway/messages.ts';
import { virtualEpoch, virtualOffset } from '../../src/timeline/offsets.ts';
import { newMirror, type Timeline } from '../../src/timeline/timeline.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { listOffset, readBatches } from '../helpers/raw-batches.ts';
import { RawConnection } from '../helpers/raw-connection.ts';
import { write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeDirectory, type TopicFixture } from '../unit/gateway/read-fixtures.ts';
import { type GatewayUnderTest, gatewayFor, linkNodeId } from './gateway-fixture.ts';

const name = 'same';
const brokerId = 1;
const nobody = 9;

type View = 'mirror' | 'promoted';
const views: readonly View[] = ['mirror', 'promoted'];

let kafka: KafkaCluster;
let cluster: Cluster;
let direct: RawConnection;
let virtualEnd: bigint;
let epoch: number;
const gateways: GatewayUnderTest[] = [];
const proxied = new Map<View, RawConnection>();

function promotedAt(start: bigint, firstEpoch: number): Timeline {
  const copied = { where: 'mirror', start: virtualOffset(0n), end: virtualOffset(start) } as const;
  const native = {
    where: 'native',
    start: virtualOffset(start),
    end: null,
    offsetShift: 0n,
    epochShift: 0,
    firstEpoch: virtualEpoch(firstEpoch),
  } as const;
  return { extents: [copied, native] };
}

async function connectView(view: View, topic: TopicFixture): Promise<void> {
  const directory = new FakeDirectory();
  directory.put(topic);
  const underTest = await gatewayFor(kafka, { directory });
  gateways.push(underTest);
  const served = view === 'mirror' ? linkNodeId : brokerId;
  const endpoint = underTest.gateway.endpoints().find(({ nodeId }) => nodeId === served);
  proxied.set(view, await RawConnection.open(endpoint?.port ?? 0));
}

/** A committed, an aborted and an open transaction, and an election in between. */
async function writeLog(): Promise<void> {
  await createTopic(cluster, name, { configs: { 'retention.ms': '-1' } });
  // The mirror's log in memory looks for times by batch: one time for all records of one.
  for (const timestamp of [1000n, 4000n, 2000n]) {
    await write(cluster, name, 0, ['a', 'b', 'c'], { timestamp });
  }
  const transaction = new Transaction(cluster, 'ended');
  for (const outcome of ['abort', 'commit'] as const) {
    await transaction.begin(name, [0]);
    await produce(cluster, { topic: name, transaction }, ['in a transaction']);
    await transaction.end(outcome);
  }
  virtualEnd = await listOffset(cluster, name, 0, -1n);
  await kafka.restartBroker(brokerId);
  epoch = await until('the broker leads again', async () => {
    const [partition] = (await cluster.metadata([name])).topics.get(name)?.partitions ?? [];
    return partition?.leaderId === brokerId && partition.leaderEpoch > 0
      ? partition.leaderEpoch
      : undefined;
  });
  await write(cluster, name, 0, ['d', 'e'], { timestamp: 3000n });
  const open = new Transaction(cluster, 'open');
  await open.begin(name, [0]);
  await produce(cluster, { topic: name, transaction: open }, ['undecided']);
}

before(async () => {
  kafka = await startKafkaCluster({ name: 'odd' });
  const { addressMap, bootstrap } = kafka;
  cluster = connectCluster({ bootstrapServers: bootstrap.split(','), addressMap });
  await writeLog();
  const { topicId } = (await cluster.metadata([name])).topics.get(name) ?? {};
  assert.ok(topicId !== undefined);
  const batches = await readBatches(cluster, name, 0);
  const all = batches.map(({ bytes }) => bytes);
  const copied = batches.filter(({ baseOffset }) => baseOffset < virtualEnd);
  await connectView('mirror', {
    name,
    topicId,
    mode: 'mirror',
    log: new MemoryMirrorLog(0n, ...all),
    timeline: newMirror(virtualOffset(0n)),
    advertisedEpoch: epoch,
  });
  await connectView('promoted', {
    name,
    topicId,
    mode: 'promoted',
    log: new MemoryMirrorLog(0n, ...copied.map(({ bytes }) => bytes)),
    timeline: promotedAt(virtualEnd, epoch),
  });
  direct = await RawConnection.open(kafka.brokers[0]?.port ?? 0);
});

after(async () => {
  direct?.close();
  for (const connection of proxied.values()) connection.close();
  for (const gateway of gateways) await gateway.close();
  await cluster?.close();
  await kafka?.stop();
});

interface Codecs<Request extends object, Response extends object> {
  readonly request: MessageCodec<Request>;
  readonly response: MessageCodec<Response>;
}

/** Asks all of them, and compares what `seen` makes of the answers. */
async function same<Request extends object, Response extends object>(
  { request: asks, response: answers }: Codecs<Request, Response>,
  asked: { readonly version: number; readonly request: Request; readonly views?: readonly View[] },
  seen: (response: Response) => unknown,
): Promise<unknown> {
  const { version, request } = asked;
  const api = apiOf(asks, answers);
  const expected = seen((await direct.ask(api, version, request)).response);
  for (const view of asked.views ?? views) {
    const connection = proxied.get(view);
    assert.ok(connection);
    const found = seen((await connection.ask(api, version, request)).response);
    assert.deepEqual(found, expected, view);
  }
  return expected;
}

/** Brokers answer out of hash maps: any order is as good. */
function sorted<Value>(values: readonly Value[], text: (value: Value) => string): Value[] {
  return [...values].sort((one, other) => (text(one) < text(other) ? -1 : 1));
}

const listOffsets = { request: listOffsetsRequestCodec, response: listOffsetsResponseCodec };

interface OffsetAsked {
  readonly partition?: number;
  readonly timestamp: bigint;
  readonly currentLeaderEpoch?: number;
}

function listRequest(topics: readonly (readonly OffsetAsked[])[], isolationLevel = 0) {
  return createListOffsetsRequest({
    replicaId: -1,
    isolationLevel,
    topics: topics.map((partitions) =>
      createListOffsetsTopic({
        name,
        partitions: partitions.map(({ partition = 0, ...asked }) =>
          createListOffsetsPartition({ partitionIndex: partition, ...asked }),
        ),
      }),
    ),
  });
}

function listed({ topics }: ListOffsetsResponse) {
  return topics.map((topic) => ({
    name: topic.name,
    partitions: sorted(topic.partitions, ({ partitionIndex }) => String(partitionIndex)),
  }));
}

const latest: OffsetAsked = { timestamp: -1n };
const earliest: OffsetAsked = { timestamp: -2n };

describe('asked as a broker is, mirrors and promoted topics answer as it does', () => {
  test('ListOffsets: each sentinel, fit for the version or not', async () => {
    for (const version of [1, 4, 7, 8, 9, 11]) {
      for (let timestamp = -7n; timestamp < 2n; timestamp++) {
        const request = listRequest([[{ timestamp }]]);
        await same(listOffsets, { version, request }, listed);
      }
    }
  });

  test('ListOffsets: times', async () => {
    const stamps = [999n, 1000n, 1001n, 2000n, 3000n, 3001n, 4000n, 4001n, 2n ** 62n];
    for (const timestamp of stamps) {
      for (const isolationLevel of [0, 1]) {
        const request = listRequest([[{ timestamp }]], isolationLevel);
        await same(listOffsets, { version: 11, request }, listed);
      }
    }
  });

  test('ListOffsets: leader epochs, partitions that are not there, sentinels of nobody', async () => {
    for (const currentLeaderEpoch of [-1, 0, epoch, epoch + 1, 2 ** 31 - 1]) {
      for (const timestamp of [-1n, -2n, 0n, -9n]) {
        for (const partition of [0, nobody]) {
          const asked = { partition, timestamp, currentLeaderEpoch };
          await same(listOffsets, { version: 11, request: listRequest([[asked]]) }, listed);
        }
      }
    }
  });

  test('ListOffsets: a partition that is named more than once', async () => {
    const other = { ...latest, partition: nobody };
    const none = { timestamp: -9n };
    const asks = [[[latest, earliest]], [[latest], [earliest]], [[latest, other, latest, latest]]];
    for (const topics of [...asks, [[other, other, latest]], [[none, none]], [[]]]) {
      for (const version of [1, 6, 11]) {
        await same(listOffsets, { version, request: listRequest(topics) }, listed);
      }
    }
  });

  test('OffsetForLeaderEpoch: epochs, one partition several times', async () => {
    const codecs = {
      request: offsetForLeaderEpochRequestCodec,
      response: offsetForLeaderEpochResponseCodec,
    };
    const currents = [-1, 0, epoch, epoch + 1];
    const partitions = [0, nobody].flatMap((partition) =>
      [-1, 0, epoch - 1, epoch].flatMap((leaderEpoch) =>
        currents.map((currentLeaderEpoch) =>
          createOffsetForLeaderPartition({ partition, leaderEpoch, currentLeaderEpoch }),
        ),
      ),
    );
    const topics = [partitions, [], partitions.slice(0, 3)].map((some) =>
      createOffsetForLeaderTopic({ topic: name, partitions: some }),
    );
    const request = createOffsetForLeaderEpochRequest({ replicaId: -1, topics });
    const told = (response: OffsetForLeaderEpochResponse) => response.topics;
    for (const version of [3, 4]) await same(codecs, { version, request }, told);
  });

  test('Fetch: errors and bounds at every offset, epochs, one partition twice', async () => {
    const codecs = { request: fetchRequestCodec, response: fetchResponseCodec };
    const told = ({ errorCode, responses }: FetchResponse) => [
      errorCode,
      responses.flatMap(({ partitions }) =>
        partitions.map((data) => [
          data.errorCode,
          data.highWatermark,
          data.lastStableOffset,
          data.divergingEpoch,
          data.records?.subarray(0, 61),
        ]),
      ),
    ];
    const partition = (fetchOffset: bigint, more = {}) =>
      createFetchPartition({ partition: 0, fetchOffset, partitionMaxBytes: 1 << 20, ...more });
    const end = await listOffset(cluster, name, 0, -1n);
    const offsets = [0n, 1n, virtualEnd - 1n, virtualEnd, end - 1n, end, end + 1n];
    const asks = [...offsets, 2n ** 63n - 1n].flatMap((offset) => [
      [partition(offset)],
      [partition(offset, { currentLeaderEpoch: epoch - 1 })],
      [partition(offset, { currentLeaderEpoch: epoch + 1 })],
      [partition(offset, { lastFetchedEpoch: epoch - 1 })],
      [partition(offset, { lastFetchedEpoch: epoch })],
      [partition(0n), partition(offset)],
    ]);
    asks.push([partition(-1n)], [partition(-1n, { lastFetchedEpoch: epoch })]);
    for (const partitions of asks) {
      for (const isolationLevel of [0, 1]) {
        const topics = [createFetchTopic({ topic: name, partitions })];
        const fields = { maxBytes: 1 << 20, sessionEpoch: -1, isolationLevel };
        const request = createFetchRequest({ ...fields, topics });
        await same(codecs, { version: 12, request }, told);
      }
    }
  });

  test('DeleteRecords and Produce: one result for a partition that is named twice', async () => {
    const deleted = { request: deleteRecordsRequestCodec, response: deleteRecordsResponseCodec };
    const topics = [1n, 2n].map((offset) =>
      createDeleteRecordsTopic({
        name,
        partitions: [0, 0, nobody].map((partitionIndex) =>
          createDeleteRecordsPartition({ partitionIndex, offset: -9n - offset }),
        ),
      }),
    );
    const request = createDeleteRecordsRequest({ topics, timeoutMs: 10_000 });
    const results = (response: DeleteRecordsResponse) =>
      response.topics.map(({ partitions }) =>
        partitions.map(({ partitionIndex }) => partitionIndex).sort(),
      );
    assert.deepEqual(await same(deleted, { version: 2, request }, results), [[0, nobody]]);
    const codecs = { request: produceRequestCodec, response: produceResponseCodec };
    const partitionData = [0, nobody, 0].map((index) =>
      createPartitionProduceData({ index, records: batch(0n, 1) }),
    );
    const topicData = [createTopicProduceData({ name, partitionData })];
    const writing = createProduceRequest({ acks: -1, timeoutMs: 10_000, topicData });
    const indexes = ({ responses }: ProduceResponse) =>
      responses.map(({ partitionResponses }) =>
        partitionResponses.map(({ index }) => index).sort(),
      );
    assert.deepEqual(await same(codecs, { version: 9, request: writing }, indexes), [[0, nobody]]);
  });
});
