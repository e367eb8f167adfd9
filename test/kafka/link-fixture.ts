// The link layer between two real clusters, without gateway and admin API: what the tests of links
// share.
//
// Owns: opening and closing state, storage and links over two clusters, as often as a test restarts
// them; on request new clusters; making mirrors, and waiting for and reading what they have.
// Refuses to know what is tested. Invariant: a world that is closed leaves nothing behind but its
// state topic.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { connectSource } from '../../src/clients.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type LinkLimits, systemClock } from '../../src/link/context.ts';
import type { LinkService, MirrorStatus } from '../../src/link/service.ts';
import { type StartedLinks, startLinks } from '../../src/link/start.ts';
import { Events } from '../../src/observe/events.ts';
import { emitStorageReport } from '../../src/observe/storage-events.ts';
import { openState } from '../../src/state/open-state.ts';
import type { OpenedState } from '../../src/state/options.ts';
import { logTopicIdOf } from '../../src/state/records.ts';
import {
  type DiskStorageOptions,
  type MirrorLog,
  nodeClock,
  nodeDisk,
  type OpenedStorage,
  openDiskStorage,
} from '../../storage/index.ts';
import {
  type ClusterPair,
  type ClusterPairOptions,
  startClusterPair,
} from '../helpers/cluster-pair.ts';
import { counted } from '../helpers/counted-cluster.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { offsets } from '../helpers/linked-stage.ts';
import { mirrorNewTopic, type Records } from '../helpers/mirrored-topic.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { openCluster, readBatches } from '../helpers/raw-batches.ts';
import type { NewTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { readAll } from '../unit/storage/fixtures.ts';

interface WorldOptions {
  readonly limits?: Partial<LinkLimits>;
  readonly storage?: Partial<DiskStorageOptions>;
}

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
  /** As `sent`, to sources; by `NAME of NODE` where one broker was meant, by `NAME by LINK`. */
  readonly asked = new Map<string, number>();
  #directory = '';
  #destinationClient: Cluster | undefined;
  #state: OpenedState | undefined;
  #storage: OpenedStorage | undefined;
  #links: StartedLinks | undefined;

  constructor(parts: ClusterPair & WorldOptions) {
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
    const record = this.state.view.topics.get(topic);
    const topicId = record && logTopicIdOf(record);
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
      connectSource: async (record) =>
        counted(await connectSource(record), this.asked, record.name),
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

  /** With its clusters. */
  async end(): Promise<void> {
    await this.close();
    await Promise.all([this.sourceKafka.stop(), this.destinationKafka.stop()]);
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

  /** A new topic of the source, and its mirror when it durably ends where the source does. */
  mirrorNewTopic(
    topic: string,
    records: Records,
    { link = 'dr', ...options }: NewTopic & { readonly link?: string } = {},
  ): Promise<bigint[]> {
    const mirror = async (): Promise<bigint[]> => {
      const { name } = await this.createMirror(link, topic);
      const ends = await offsets(this.source, topic, -1n);
      await this.caughtUp(name, ends);
      return ends;
    };
    return mirrorNewTopic({ source: this.source, topic, records, options, mirror });
  }

  /** The same with one record, in a transaction that is open: no promotion passes it. */
  async mirrorOpenTransaction(topic: string, link = 'dr'): Promise<Transaction> {
    const transaction = new Transaction(this.source, uniqueName('txn'));
    const writeOne = async (): Promise<void> => {
      await transaction.begin(topic, [0]);
      await produce(this.source, { topic, transaction }, ['open']);
    };
    assert.deepEqual(await this.mirrorNewTopic(topic, writeOne, { link }), [1n]);
    return transaction;
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

  logOf(topic: string, partition = 0): MirrorLog {
    const log = this.directory.byName(topic)?.partition(partition)?.log;
    assert.ok(log, `the mirror log of ${topic}-${partition} is open`);
    return log;
  }

  /** All that a mirror log gives readers. */
  stored(topic: string, partition = 0): Promise<Buffer> {
    return readAll(this.logOf(topic, partition));
  }

  /** The mirror has, byte for byte, what the source gives readers of its topic of that name. */
  async assertIdentical(topic: string, partition = 0): Promise<void> {
    const batches = await readBatches(this.source, topic, partition);
    const expected = Buffer.concat(batches.map(({ bytes }) => bytes));
    const actual = await this.stored(topic, partition);
    assert.ok(expected.equals(actual), `${topic}-${partition}: ${expected.length} bytes`);
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

/** A world over clusters of its own, which `end` stops with it. */
export async function startLinkWorld({
  limits = {},
  storage = {},
  ...clusters
}: ClusterPairOptions & WorldOptions = {}): Promise<LinkWorld> {
  const pair = await startClusterPair(clusters);
  const world = new LinkWorld({ ...pair, limits, storage });
  try {
    return await world.open();
  } catch (error) {
    await world.end();
    throw error;
  }
}

/** What a mirror says of lost history, but for when it was found. */
export function lostRanges(
  status: MirrorStatus,
): { partition: number; from: bigint; to: bigint }[] {
  return status.lostRanges.map(({ partition, from, to }) => ({ partition, from, to }));
}
