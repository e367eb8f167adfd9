// Stand-ins for the link layer's surroundings: a state in memory whose commits can be made to fail,
// a destination and a source that answer from a table, and mirror logs on real disk storage.
//
// Owns: nothing that outlives a test. Refuses to know what is tested. Invariant: what a test did
// not script is an error, never a silent default.
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { MetadataRequest } from '../../../protocol/generated/metadata-request.ts';
import { buildBatch, patchBatch } from '../../../protocol/index.ts';
import type {
  Api,
  BrokerInfo,
  Cluster,
  ClusterMetadata,
  SendOptions,
  TopicInfo,
} from '../../../src/cluster/cluster.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { defaultLinkLimits, type LinkContext, systemClock } from '../../../src/link/context.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import { Events } from '../../../src/observe/events.ts';
import {
  type HandoversRecord,
  type LinkAclsRecord,
  type LinkRecord,
  type LogRemovalRecord,
  type ReceiptRecord,
  type ShareGroupsRecord,
  type SourceSeenRecord,
  stateKey,
  type TopicGrantsRecord,
  type TopicRecord,
} from '../../../src/state/records.ts';
import {
  type State,
  type StateChange,
  StateError,
  type StateErrorCode,
} from '../../../src/state/state.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { type Disk, nodeClock, nodeDisk, openDiskStorage } from '../../../storage/index.ts';
import type { MirrorLog, MirrorStorage } from '../../../storage/mirror-log.ts';
import { metadataAnswer } from './metadata-answer.ts';

export const shellId = 'AAAAAAAAAAAAAAAAAAAAAQ';
export const sourceId = 'AAAAAAAAAAAAAAAAAAAAAg';

/**
 * What becomes of a commit: done, or refused with a code; in doubt with the truth behind it, or
 * for good; in doubt when another instance takes over.
 */
export type Fate =
  | 'done'
  | StateErrorCode
  | 'doubt-done'
  | 'doubt-lost'
  | 'doubt-stays'
  | 'doubt-fenced';

export class FakeState implements State {
  readonly links = new Map<string, LinkRecord>();
  readonly topics = new Map<string, TopicRecord>();
  readonly receipts = new Map<string, ReceiptRecord>();
  readonly linkAcls = new Map<string, LinkAclsRecord>();
  readonly topicGrants = new Map<string, TopicGrantsRecord>();
  readonly shareGroups = new Map<string, ShareGroupsRecord>();
  readonly handovers = new Map<string, HandoversRecord>();
  readonly sourcesSeen = new Map<string, SourceSeenRecord>();
  readonly logRemovals = new Map<string, LogRemovalRecord>();
  readonly commits: (readonly StateChange[])[] = [];
  /** Of the next commits, in order; afterwards all are done. */
  fates: Fate[] = [];
  isOwner = true;
  /** The renewal is late: the next one that is asked for makes it the owner that it is. */
  isLate = false;
  #doubt = new Set<string>();
  readonly #listeners = new Set<(keys: readonly string[]) => void>();
  readonly lease = {
    instanceId: 'fake',
    isValid: () => this.isOwner && !this.isLate,
    check: () => {
      if (!this.lease.isValid()) throw new StateError('NOT_OWNER', 'the lease is lost');
    },
  };

  async owned(): Promise<void> {
    this.isLate = false;
    this.lease.check();
  }

  get view() {
    const { links, topics, receipts, linkAcls, topicGrants, shareGroups, handovers } = this;
    const { logRemovals, sourcesSeen } = this;
    const byLink = { linkAcls, shareGroups, handovers, sourcesSeen };
    const kinds = { links, topics, receipts, topicGrants, ...byLink, logRemovals };
    const records = () => Object.values(kinds).flatMap((kind) => [...kind.values()]);
    return { ...kinds, nodePorts: undefined, storage: undefined, records };
  }

  get isSettled(): boolean {
    return this.#doubt.size === 0;
  }

  isInDoubt(topic: string): boolean {
    return this.#doubt.has(topic);
  }

  async commit(changes: readonly StateChange[]): Promise<void> {
    this.isLate = false;
    this.lease.check();
    const fate = this.fates.shift() ?? 'done';
    this.commits.push(changes);
    if (fate.startsWith('doubt-')) {
      for (const change of changes) {
        if ('put' in change && change.put.kind === 'topic') this.#doubt.add(change.put.name);
      }
      if (fate === 'doubt-fenced') this.isOwner = false;
      if (fate !== 'doubt-stays') {
        setTimeout(() => {
          if (fate === 'doubt-done') this.apply(changes);
          this.#doubt = new Set();
        }, 20);
      }
      throw new StateError('IN_DOUBT', 'the answer was lost');
    }
    if (fate !== 'done') throw new StateError(fate as StateErrorCode, `scripted ${fate}`);
    this.apply(changes);
  }

  apply(changes: readonly StateChange[]): void {
    const keys = changes.map((change) => {
      if ('put' in change) {
        const { put } = change;
        if (put.kind === 'topic') this.topics.set(put.name, put);
        if (put.kind === 'link') this.links.set(put.name, put);
        if (put.kind === 'receipt') this.receipts.set(put.id, put);
        if (put.kind === 'link-acls') this.linkAcls.set(put.link, put);
        if (put.kind === 'topic-grants') this.topicGrants.set(put.topic, put);
        if (put.kind === 'share-groups') this.shareGroups.set(put.link, put);
        if (put.kind === 'handovers') this.handovers.set(put.link, put);
        if (put.kind === 'source-seen') this.sourcesSeen.set(put.link, put);
        if (put.kind === 'log-removal') this.logRemovals.set(put.topicId, put);
        return stateKey(put);
      }
      const [kind, name = ''] = change.delete.split('/');
      if (kind === 'topic') this.topics.delete(name);
      if (kind === 'link') this.links.delete(name);
      if (kind === 'topic-grants') this.topicGrants.delete(name);
      if (kind === 'source-seen') this.sourcesSeen.delete(name);
      if (kind === 'log-removal') this.logRemovals.delete(name);
      return change.delete;
    });
    for (const listener of this.#listeners) listener(keys);
  }

  onChange(listener: (keys: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onOwnership(): () => void {
    return () => undefined;
  }

  async close(): Promise<void> {
    this.#listeners.clear();
  }
}

/** `options` as they were sent along: whoever takes the answer in is among them. */
type Script = (request: unknown, options: SendOptions) => unknown;

export class FakeCluster implements Cluster {
  readonly bootstrap = [{ host: 'fake', port: 1 }];
  readonly brokers: readonly BrokerInfo[] = [{ nodeId: 1, host: 'fake', port: 1, rack: null }];
  readonly topics = new Map<string, TopicInfo>();
  /** Ends by `topic/partition`, for ListOffsets latest; starts are 0 unless given. */
  readonly ends = new Map<string, bigint>();
  readonly starts = new Map<string, bigint>();
  readonly #scripts = new Map<string, Script>();
  clusterId = 'fake-cluster';
  isDead = false;

  /** What an API besides ListOffsets and Metadata answers. */
  script(api: string, answer: Script): void {
    this.#scripts.set(api, answer);
  }

  async send<Request, Response>(
    _: unknown,
    api: Api<Request, Response>,
    request: unknown,
    options: SendOptions = {},
  ) {
    this.#checkAlive();
    const value = typeof request === 'function' ? request(api.versionMax) : request;
    const script = this.#scripts.get(api.name);
    if (script !== undefined) return script(value, options) as Response;
    if (api.name === 'Metadata') {
      const { topics } = value as MetadataRequest;
      const names = topics === null ? 'all' : topics.map(({ name }) => name ?? '');
      return metadataAnswer(await this.metadata(names)) as Response;
    }
    if (api.name !== 'ListOffsets') throw new Error(`${api.name} is not scripted`);
    return this.#listOffsets(value) as Response;
  }

  #listOffsets(request: {
    topics: {
      name: string;
      partitions: { partitionIndex: number; timestamp: bigint }[];
    }[];
  }) {
    return {
      throttleTimeMs: 0,
      topics: request.topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionIndex, timestamp }) => {
          const table = timestamp === -1n ? this.ends : this.starts;
          const offset = table.get(`${name}/${partitionIndex}`) ?? 0n;
          return { partitionIndex, errorCode: 0, timestamp: -1n, offset, leaderEpoch: 0 };
        }),
      })),
    };
  }

  async metadata(names: 'all' | readonly string[]): Promise<ClusterMetadata> {
    this.#checkAlive();
    const wanted = names === 'all' ? [...this.topics.keys()] : names;
    const topics = new Map(
      wanted.flatMap((name) => {
        const info = this.topics.get(name);
        return info === undefined ? [] : [[name, info] as const];
      }),
    );
    return { clusterId: this.clusterId, controllerId: 1, brokers: this.brokers, topics };
  }

  async apiVersions() {
    return new Map();
  }

  reach(host: string, port: number) {
    return { host, port };
  }

  async close(): Promise<void> {
    this.isDead = true;
  }

  #checkAlive(): void {
    if (this.isDead) throw new ClusterError('UNREACHABLE', 'scripted', { maybeSent: false });
  }
}

export function topicInfo(
  name: string,
  topicId: string,
  leaderEpochs: readonly number[],
): TopicInfo {
  return {
    name,
    topicId,
    isInternal: false,
    errorCode: 0,
    partitions: leaderEpochs.map((leaderEpoch, partition) => ({
      partition,
      leaderId: 1,
      leaderEpoch,
      replicaNodes: [1],
      errorCode: 0,
    })),
  };
}

/** Mirror logs in a directory of the test's own; `reopen` is what a new process finds there. */
export async function openTestStorage(t: TestContext, disk: Disk = nodeDisk) {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-link-unit-'));
  let expectedDirectoryId: string | null = null;
  const open = () =>
    openDiskStorage({
      directory,
      disk,
      clock: nodeClock,
      clusterId: 'fake-cluster',
      instanceName: 'unit',
      expectedDirectoryId,
      flushIntervalMs: 1,
    });
  let storage = await open();
  expectedDirectoryId = storage.directoryId;
  t.after(async () => {
    await storage.close();
    await rm(directory, { recursive: true, force: true });
  });
  const reopen = async () => {
    await storage.close();
    storage = await open();
    return storage;
  };
  return { storage, reopen };
}

export function testContext(parts: {
  state: FakeState;
  storage: MirrorStorage;
  destination: Cluster;
  source: Cluster;
}): LinkContext {
  return {
    state: parts.state,
    storage: parts.storage,
    destination: parts.destination,
    connectSource: async () => parts.source,
    events: new Events(),
    clock: systemClock,
    limits: { ...defaultLinkLimits, fetchWaitMs: 10 },
    ownTopicPrefix: '__causeway',
  };
}

export interface TestBatch {
  readonly base: bigint;
  readonly count?: number;
  readonly epoch?: number;
  /** Of a transactional producer. */
  readonly producerId?: bigint;
  /** Of each record. */
  readonly valueBytes?: number;
}

export function batch(made: TestBatch): Buffer {
  const { base, count = 1, epoch = 0, producerId, valueBytes = 1 } = made;
  const built = buildBatch({
    baseOffset: base,
    records: Array.from({ length: count }, () => ({
      key: null,
      value: Buffer.alloc(valueBytes, 'v'),
      timestamp: 1_700_000_000_000n,
    })),
    partitionLeaderEpoch: 0,
    ...(producerId === undefined
      ? {}
      : { producerId, producerEpoch: 0, baseSequence: 0, isTransactional: true }),
  });
  patchBatch(built, 0, { offsetShift: 0n, epochShift: epoch });
  return built;
}

/** `orders`, an ACTIVE mirror of one partition, unless said otherwise. */
export function mirrorRecord(of: Partial<TopicRecord> = {}): TopicRecord {
  const { name = 'orders' } = of;
  return {
    kind: 'topic',
    name,
    topicId: shellId,
    link: 'dr',
    sourceTopic: name,
    sourceTopicId: sourceId,
    state: 'ACTIVE',
    stateTimeMs: 0,
    error: null,
    partitions: [newMirror(virtualOffset(0n))],
    stoppedBy: null,
    ...of,
  };
}

/** Partition 0 of `orders`, whose leader is broker 1 in epoch 5, unless said otherwise. */
export function feedOf(
  log: MirrorLog,
  of: Partial<ConstructorParameters<typeof PartitionFeed>[0]> = {},
): PartitionFeed {
  const feed = new PartitionFeed({
    topic: 'orders',
    sourceTopic: 'orders',
    sourceTopicId: sourceId,
    partition: 0,
    log,
    lag: new LagTracker(log.visibleEnd, systemClock.monotonicMs()),
    clock: systemClock,
    isCompacted: () => false,
    ...of,
  });
  feed.follow(1, 5);
  return feed;
}
