// The link layer between two real clusters, without gateway and admin API: what the tests of links
// share.
//
// Owns: opening and closing state, storage and links over two clusters, as often as a test restarts
// them, and small producers and admin calls of our own. Refuses to know what is tested. Invariant:
// a world that is closed leaves nothing behind but its state topic.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {
  createAddPartitionsToTxnRequest,
  createAddPartitionsToTxnTopic,
} from '../../protocol/generated/add-partitions-to-txn-request.ts';
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
} from '../../protocol/generated/create-partitions-request.ts';
import {
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
} from '../../protocol/generated/delete-records-request.ts';
import { createDeleteTopicsRequest } from '../../protocol/generated/delete-topics-request.ts';
import { createEndTxnRequest } from '../../protocol/generated/end-txn-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
} from '../../protocol/generated/produce-request.ts';
import { buildBatch } from '../../protocol/index.ts';
import { connectSource } from '../../src/clients.ts';
import {
  addPartitionsToTxnApi,
  createPartitionsApi,
  createTopicsApi,
  deleteRecordsApi,
  deleteTopicsApi,
  endTxnApi,
  initProducerIdApi,
  produceApi,
} from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type LinkLimits, systemClock } from '../../src/link/context.ts';
import type { LinkService, MirrorStatus } from '../../src/link/service.ts';
import { type StartedLinks, startLinks } from '../../src/link/start.ts';
import { Events } from '../../src/observe/events.ts';
import { emitStorageReport } from '../../src/observe/storage-events.ts';
import { openState } from '../../src/state/open-state.ts';
import type { OpenedState } from '../../src/state/options.ts';
import {
  type DiskStorageOptions,
  nodeClock,
  nodeDisk,
  type OpenedStorage,
  openDiskStorage,
} from '../../storage/index.ts';
import { counted } from '../helpers/counted-cluster.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { listOffset, openCluster } from '../helpers/raw-batches.ts';
import { GiveUp, uniqueName, until } from '../helpers/wait.ts';

export class LinkWorld {
  readonly name = uniqueName('linktest');
  readonly events = new Events();
  /** Our own clients, for looking and for admin calls. */
  readonly source: Cluster;
  readonly destination: Cluster;
  readonly sourceKafka: KafkaCluster;
  readonly destinationKafka: KafkaCluster;
  readonly #limits: Partial<LinkLimits>;
  readonly #storageOptions: Partial<DiskStorageOptions>;
  /** Requests sent to the destination, by name of the API. */
  readonly sent = new Map<string, number>();
  /** As `sent`, to sources; and by `NAME of NODE` where one broker was meant. */
  readonly asked = new Map<string, number>();
  #directory = '';
  #destinationClient: Cluster | undefined;
  #state: OpenedState | undefined;
  #storage: OpenedStorage | undefined;
  #links: StartedLinks | undefined;

  constructor(parts: {
    source: KafkaCluster;
    destination: KafkaCluster;
    limits?: Partial<LinkLimits>;
    storage?: Partial<DiskStorageOptions>;
  }) {
    this.sourceKafka = parts.source;
    this.destinationKafka = parts.destination;
    this.#limits = parts.limits ?? {};
    this.#storageOptions = parts.storage ?? {};
    this.source = openCluster(parts.source);
    this.destination = openCluster(parts.destination);
  }

  get state(): OpenedState {
    assert.ok(this.#state, 'open');
    return this.#state;
  }

  /** Where the files of a mirror log are. */
  logDirectory(topic: string, partition: number): string {
    const topicId = this.directory.byName(topic)?.topicId;
    assert.ok(topicId, `${topic} has an id`);
    return path.join(this.#directory, 'storage', 'logs', `${topicId}-${partition}`);
  }

  get service(): LinkService {
    assert.ok(this.#links, 'open');
    return this.#links.service;
  }

  get directory() {
    assert.ok(this.#links, 'open');
    return this.#links.directory;
  }

  async open(): Promise<this> {
    if (this.#directory === '') {
      this.#directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-link-'));
    }
    const destination = counted(openCluster(this.destinationKafka), this.sent);
    this.#destinationClient = destination;
    this.#state = await openState({
      name: this.name,
      cluster: destination,
      clock: { now: () => performance.now(), wallMs: () => Date.now() },
      events: this.events,
      snapshotDirectory: this.#directory,
      mirrorStorageExists: false,
    });
    const { state } = this;
    await until('the lease', () => state.lease.isValid(), { deadlineMs: 20_000 });
    const { clusterId } = this.destinationKafka;
    this.#storage = await openDiskStorage({
      directory: path.join(this.#directory, 'storage'),
      disk: nodeDisk,
      clock: nodeClock,
      clusterId,
      instanceName: this.name,
      expectedDirectoryId: this.state.view.storage?.directoryId ?? null,
      onReport: (report) => emitStorageReport(this.events, report),
      ...this.#storageOptions,
    });
    const { directoryId } = this.#storage;
    if (this.state.view.storage?.directoryId !== directoryId) {
      await this.state.commit([{ put: { kind: 'storage', directoryId } }]);
    }
    this.#links = await startLinks({
      state: this.state,
      storage: this.#storage,
      destination,
      connectSource: async (record) => counted(await connectSource(record), this.asked),
      events: this.events,
      clock: systemClock,
      limits: this.#limits,
      retentionCheckMs: 500,
    });
    return this;
  }

  async #stop(): Promise<void> {
    await this.#links?.close();
    await this.#storage?.close();
    await this.#state?.close();
    await this.#destinationClient?.close();
    this.#links = undefined;
  }

  async restart(): Promise<void> {
    await this.#stop();
    await this.open();
  }

  async close(): Promise<void> {
    await this.#stop();
    await this.source.close();
    await this.destination.close();
    if (this.#directory !== '') await rm(this.#directory, { recursive: true, force: true });
  }

  async createLink(name: string, configs: Record<string, string> = {}): Promise<void> {
    const addressMap = Object.entries(this.sourceKafka.addressMap)
      .map(([from, to]) => `${from}=${to}`)
      .join(',');
    await this.service.createLink({
      name,
      configs: {
        'bootstrap.servers': this.sourceKafka.bootstrap,
        'address.map': addressMap,
        ...configs,
      },
      validateOnly: false,
      actor: 'test',
    });
  }

  async createMirror(
    link: string,
    sourceTopic: string,
    configs: Record<string, string> = {},
  ): Promise<MirrorStatus> {
    const options = { validateOnly: false, actor: 'test' };
    return this.service.createMirror({ link, sourceTopic, configs, ...options });
  }

  async command(
    command: 'promote' | 'failover' | 'pause' | 'resume' | 'cancel',
    topic: string,
    options: { validateOnly?: boolean; deadlineMs?: number } = {},
  ) {
    const { deadlineMs } = options;
    return this.service.command({
      command,
      link: null,
      topics: [topic],
      validateOnly: options.validateOnly ?? false,
      actor: 'test',
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    });
  }

  /** Waits until the mirror durably ends where the source does. */
  async caughtUp(topic: string, ends: readonly bigint[]): Promise<void> {
    await until(
      `${topic} at ${ends}`,
      () => {
        const { partitions } = this.service.describeMirror(topic);
        return ends.every((end, index) => partitions[index]?.mirrorEnd === end);
      },
      { deadlineMs: 30_000, describe: () => this.describe(topic) },
    );
  }

  async inState(topic: string, state: string, deadlineMs = 30_000): Promise<void> {
    await until(`${topic} is ${state}`, () => this.service.describeMirror(topic).state === state, {
      deadlineMs,
      describe: () => this.describe(topic),
    });
  }

  describe(topic: string): string {
    const events = this.events.since(0).map(({ event, message }) => `${event}: ${message}`);
    const status = JSON.stringify(this.service.describeMirror(topic), (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    return `${status}\n${events.slice(-15).join('\n')}`;
  }
}

/** What a mirror says of lost history, but for when it was found. */
export function lostRanges(
  status: MirrorStatus,
): { partition: number; from: bigint; to: bigint }[] {
  return status.lostRanges.map(({ partition, from, to }) => ({ partition, from, to }));
}

export async function createTopic(
  cluster: Cluster,
  name: string,
  options: { partitions?: number; replicas?: number; configs?: Record<string, string> } = {},
): Promise<void> {
  const { partitions = 1, replicas = 1, configs = {} } = options;
  const response = await cluster.send(
    { kind: 'controller' },
    createTopicsApi,
    createCreateTopicsRequest({
      topics: [
        createCreatableTopic({
          name,
          numPartitions: partitions,
          replicationFactor: replicas,
          configs: Object.entries(configs).map(([key, value]) =>
            createCreatableTopicConfig({ name: key, value }),
          ),
        }),
      ],
      timeoutMs: 20_000,
    }),
  );
  assert.equal(response.topics[0]?.errorCode, 0, response.topics[0]?.errorMessage ?? name);
  await until(`leaders of ${name}`, async () => {
    const info = (await cluster.metadata([name])).topics.get(name);
    return (
      info?.partitions.length === partitions &&
      info.partitions.every(({ leaderId, errorCode }) => leaderId >= 0 && errorCode === 0)
    );
  });
}

export async function deleteTopic(cluster: Cluster, name: string): Promise<void> {
  const response = await cluster.send(
    { kind: 'controller' },
    deleteTopicsApi,
    createDeleteTopicsRequest({ topicNames: [name], timeoutMs: 20_000 }),
    { versionMax: 5 },
  );
  assert.equal(response.responses[0]?.errorCode, 0);
}

export async function growTopic(cluster: Cluster, name: string, count: number): Promise<void> {
  const response = await cluster.send(
    { kind: 'controller' },
    createPartitionsApi,
    createCreatePartitionsRequest({
      topics: [createCreatePartitionsTopic({ name, count, assignments: null })],
      timeoutMs: 20_000,
    }),
  );
  assert.equal(response.results[0]?.errorCode, 0);
}

async function leaderOf(cluster: Cluster, topic: string, partition: number): Promise<number> {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const found = info?.partitions.find((candidate) => candidate.partition === partition);
  assert.ok(found && found.leaderId >= 0, `${topic}-${partition} has a leader`);
  return found.leaderId;
}

export async function deleteRecords(
  cluster: Cluster,
  topic: string,
  partition: number,
  before: bigint,
): Promise<void> {
  const response = await cluster.send(
    { kind: 'node', nodeId: await leaderOf(cluster, topic, partition) },
    deleteRecordsApi,
    createDeleteRecordsRequest({
      topics: [
        createDeleteRecordsTopic({
          name: topic,
          partitions: [createDeleteRecordsPartition({ partitionIndex: partition, offset: before })],
        }),
      ],
      timeoutMs: 10_000,
    }),
  );
  assert.equal(response.topics[0]?.partitions[0]?.errorCode, 0);
}

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
