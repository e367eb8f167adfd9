// A LinkService in memory, for tests of what talks to it: real rules for names that exist and
// states that change, nothing of Kafka. Commands are recorded.

import type { AdminServices } from '../../../src/admin/services.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import type {
  CreateLink,
  CreateMirror,
  HandoverRequest,
  HandoverStatus,
  LinkService,
  LinkStatus,
  MirrorCommand,
  MirrorCommandRequest,
  MirrorCommandResult,
  MirrorStatus,
  PartitionStatus,
  VerifyStep,
} from '../../../src/link/service.ts';
import { Events } from '../../../src/observe/events.ts';
import { Health } from '../../../src/observe/health.ts';
import type { MirrorState, ReceiptRecord } from '../../../src/state/records.ts';

export const clusterId = 'destination-cluster-id';

export function partitionStatus(changes: Partial<PartitionStatus> = {}): PartitionStatus {
  return {
    partition: 0,
    logStart: 0n,
    mirrorEnd: 90n,
    sourceEnd: 100n,
    heardTimeMs: 5000,
    lagRecords: 10n,
    lagRecordsMin: 10n,
    lagBytes: 640n,
    lagSeconds: 1.5,
    isStalled: false,
    stallCause: null,
    sizeBytes: 4_096n,
    damagedRanges: 0,
    ...changes,
  };
}

export function mirrorStatus(name: string, changes: Partial<MirrorStatus> = {}): MirrorStatus {
  return {
    name,
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    link: 'dr',
    sourceTopic: name,
    state: 'ACTIVE',
    phase: null,
    stateTimeMs: 1_700_000_000_000,
    error: null,
    stoppedBy: null,
    partitions: [partitionStatus()],
    growth: null,
    blocking: [],
    notices: [],
    strayRecords: null,
    lostRanges: [],
    lostTotals: [],
    ...changes,
  };
}

export function linkStatus(name: string, changes: Partial<LinkStatus> = {}): LinkStatus {
  return {
    record: {
      kind: 'link',
      name,
      linkId: 'AAAAAAAAAAAAAAAAAAAAAg',
      sourceClusterId: 'source-cluster-id',
      configs: { 'bootstrap.servers': 'source:9092' },
      paused: false,
      createdTimeMs: 1,
    },
    linkState: 'ACTIVE',
    linkError: 'NO_ERROR',
    linkErrorMessage: null,
    topicNames: [],
    lastContactTimeMs: 5000,
    isContactRecorded: false,
    isAnswering: true,
    rpoSeconds: 0.25,
    isRpoAtMost: false,
    rpoUnknownTopics: [],
    tasks: [{ name: 'ConsumerOffsetSync', state: 'ACTIVE', errors: [], lastSuccessTimeMs: 5000 }],
    ...changes,
  };
}

const nextStates: Readonly<Record<MirrorCommand, MirrorState>> = {
  promote: 'STOPPED',
  failover: 'STOPPED',
  pause: 'PAUSED',
  resume: 'ACTIVE',
  cancel: 'ACTIVE',
};

export class FakeLinks implements LinkService {
  readonly links = new Map<string, LinkStatus>();
  readonly mirrors = new Map<string, MirrorStatus>();
  readonly receipts = new Map<string, ReceiptRecord>();
  readonly calls: { readonly method: string; readonly argument: unknown }[] = [];
  /** Thrown by the next call that changes something. */
  nextError: Error | undefined;
  /** How a promotion goes: states that describeMirror shows one after the other. */
  promotionStates: MirrorStatus[] = [];

  #record(method: string, argument: unknown): void {
    this.calls.push({ method, argument });
    const error = this.nextError;
    this.nextError = undefined;
    if (error !== undefined) throw error;
  }

  get lastCall(): { readonly method: string; readonly argument: unknown } {
    const call = this.calls.at(-1);
    if (call === undefined) throw new Error('LinkService was not called');
    return call;
  }

  async createLink(request: CreateLink): Promise<LinkStatus> {
    this.#record('createLink', request);
    if (this.links.has(request.name)) {
      throw new LinkError('LINK_EXISTS', `Cluster link '${request.name}' already exists.`);
    }
    const status = linkStatus(request.name);
    const created = { ...status, record: { ...status.record, configs: request.configs } };
    if (!request.validateOnly) this.links.set(request.name, created);
    return created;
  }

  listLinks(): readonly LinkStatus[] {
    return [...this.links.values()];
  }

  describeLink(name: string): LinkStatus {
    const link = this.links.get(name);
    if (link === undefined) throw new LinkError('LINK_NOT_FOUND', `No link ${name}.`);
    return link;
  }

  async alterLink(
    name: string,
    changes: readonly { name: string; value: string | null }[],
    options: { validateOnly: boolean; actor: string },
  ): Promise<LinkStatus> {
    this.#record('alterLink', { name, changes, ...options });
    const link = this.describeLink(name);
    const configs: Record<string, string> = { ...link.record.configs };
    for (const change of changes) {
      if (change.value === null) delete configs[change.name];
      else configs[change.name] = change.value;
    }
    const altered = { ...link, record: { ...link.record, configs } };
    if (!options.validateOnly) this.links.set(name, altered);
    return altered;
  }

  async deleteLink(
    name: string,
    options: { force: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    this.#record('deleteLink', { name, ...options });
    if (this.listMirrors(name).length > 0 && !options.force) {
      throw new LinkError('LINK_IN_USE', `Link ${name} still has mirrors.`);
    }
    if (!options.validateOnly) this.links.delete(name);
  }

  async createMirror(request: CreateMirror): Promise<MirrorStatus> {
    this.#record('createMirror', request);
    const name = request.mirrorTopic ?? request.sourceTopic;
    const status = mirrorStatus(name, { link: request.link, sourceTopic: request.sourceTopic });
    if (!request.validateOnly) this.mirrors.set(name, status);
    return status;
  }

  listMirrors(link?: string): readonly MirrorStatus[] {
    return [...this.mirrors.values()].filter(
      (mirror) => link === undefined || mirror.link === link,
    );
  }

  describeMirror(topic: string): MirrorStatus {
    const next = this.promotionStates.shift();
    if (next !== undefined) this.mirrors.set(topic, next);
    const mirror = this.mirrors.get(topic);
    if (mirror === undefined) {
      throw new LinkError('MIRROR_NOT_FOUND', `Topic ${topic} is not a mirror.`);
    }
    return mirror;
  }

  async deleteMirror(
    topic: string,
    options: { keepTopic: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    this.#record('deleteMirror', { topic, ...options });
    this.describeMirror(topic);
    if (!options.validateOnly) this.mirrors.delete(topic);
  }

  async command(request: MirrorCommandRequest): Promise<MirrorCommandResult> {
    this.#record('command', request);
    const rows = request.topics.map((topic) => {
      const mirror = this.mirrors.get(topic);
      if (mirror === undefined) {
        const error = new LinkError('MIRROR_NOT_FOUND', `Topic ${topic} is not a mirror.`);
        return { topic, error, state: null, partitions: [] };
      }
      const isPending = request.command === 'promote' && this.promotionStates.length > 0;
      const state = isPending ? 'PENDING_STOPPED' : nextStates[request.command];
      if (!request.validateOnly) this.mirrors.set(topic, { ...mirror, state });
      return { topic, error: null, state, partitions: mirror.partitions };
    });
    return { rows, receipt: request.command === 'failover' ? this.#receipt(request) : null };
  }

  #receipt(request: MirrorCommandRequest): ReceiptRecord {
    const receipt: ReceiptRecord = {
      kind: 'receipt',
      id: `r-${this.receipts.size + 1}`,
      command: 'failover',
      actor: request.actor,
      timeMs: 1_700_000_000_000,
      topics: request.topics
        .filter((topic) => this.mirrors.has(topic))
        .map((topic) => ({
          topic,
          link: 'dr',
          partitions: [
            {
              partition: 0,
              virtualEnd: 91n,
              nativeEnd: 0n,
              firstEpoch: 1,
              sourceEnd: 100n,
              mirroredEnd: 90n,
              lostRecords: 10n,
              lostBytes: 1_000n,
              lostSeconds: 2,
              lastContactTimeMs: 1_699_999_999_000,
              abortedTransactions: 1,
              found: null,
            },
          ],
          groups: [{ group: 'billing', partition: 0, oldOffset: 95n, newOffset: 91n }],
          groupsCount: 1,
          duplicates: {
            expected: 3n,
            possible: 8n,
            readTimeMs: 1_699_999_999_000,
            groups: [{ group: 'audit', partition: 0, position: 82n, expected: 3n, possible: 8n }],
            groupsCount: 1,
          },
          historyCopies: 1,
          completedTimeMs: -1,
        })),
    };
    if (!request.validateOnly) this.receipts.set(receipt.id, receipt);
    return receipt;
  }

  /** What stands in the way of a detach. */
  detachBlocking: Awaited<ReturnType<LinkService['detach']>>['blocking'] = [];

  async detach(request: Parameters<LinkService['detach']>[0]): ReturnType<LinkService['detach']> {
    this.#record('detach', request);
    const { topic, validateOnly } = request;
    const base = { partition: 0, virtualEnd: 100n, offsetShift: 98n };
    return {
      topic,
      isDone: !validateOnly,
      partitions: [{ ...base, historyStart: 40n, historyBytes: 4_000n }],
      groups: [{ group: 'billing', partition: 0, oldOffset: 105n, newOffset: 7n }],
      blocking: this.detachBlocking,
    };
  }

  async recreateMirror(
    topic: string,
    request: Parameters<LinkService['recreateMirror']>[1],
  ): ReturnType<LinkService['recreateMirror']> {
    this.#record('recreateMirror', { topic, ...request });
    return this.describeMirror(topic);
  }

  async unfence(topic: string, options: { readonly actor: string }): Promise<void> {
    this.#record('unfence', { topic, ...options });
  }

  async leftovers(): ReturnType<LinkService['leftovers']> {
    const detail = 'made by hand';
    return [{ kind: 'acl', subject: 'allow User:app', detail, remedy: 'kafka-acls --remove' }];
  }

  writers: Awaited<ReturnType<LinkService['recentWriters']>> = {
    writers: [],
    writersCount: 0,
    problems: [],
    problemsCount: 0,
  };

  async recentWriters(): ReturnType<LinkService['recentWriters']> {
    return this.writers;
  }

  /** What verifyMirror comes to, one call after the other. */
  verifySteps: (VerifyStep | LinkError | (() => Promise<VerifyStep>))[] = [];

  async verifyMirror(
    request: Parameters<LinkService['verifyMirror']>[0],
  ): ReturnType<LinkService['verifyMirror']> {
    this.#record('verifyMirror', request);
    const step = this.verifySteps.shift();
    if (step === undefined) throw new LinkError('MIRROR_NOT_FOUND', 'no step is scripted');
    if (step instanceof LinkError) throw step;
    return typeof step === 'function' ? step() : step;
  }

  listGroups(): ReturnType<LinkService['listGroups']> {
    return [
      {
        group: 'billing',
        sourceGroup: 'billing',
        kind: 'classic',
        topic: 'orders',
        partition: 0,
        sourceOffset: 42n,
        destinationOffset: 40n,
        held: 'clamped',
      },
    ];
  }

  handovers: HandoverStatus[] = [];
  plans: Awaited<ReturnType<LinkService['planTasks']>> = [];

  async handOver(request: HandoverRequest): Promise<HandoverStatus> {
    this.#record('handOver', request);
    const { link, group } = request;
    const times = { deadlineTimeMs: Date.now() + request.deadlineMs, endTimeMs: -1 };
    const waitingFor = "the source's group is Stable";
    return { group, sourceGroup: group, link, state: 'WAITING', waitingFor, ...times };
  }

  cancelHandover(link: string, group: string, actor: string): HandoverStatus {
    this.#record('cancelHandover', { link, group, actor });
    const times = { deadlineTimeMs: 0, endTimeMs: 1 };
    return { group, sourceGroup: group, link, state: 'CANCELLED', waitingFor: null, ...times };
  }

  listHandovers(): readonly HandoverStatus[] {
    return this.handovers;
  }

  async planTasks(): ReturnType<LinkService['planTasks']> {
    return this.plans;
  }

  receipt(id: string): ReceiptRecord | undefined {
    return this.receipts.get(id);
  }

  async exportTail(topic: string): ReturnType<LinkService['exportTail']> {
    this.#record('exportTail', topic);
    const gap = { from: 90n, to: 92n, why: 'aged out at the source' };
    const record = { partition: 0, timestamp: 1n, key: null, headers: [], isTransactional: false };
    return (async function* () {
      yield { partition: 0, gap };
      for (const offset of [92n, 93n]) yield { ...record, offset, value: 'eA==' };
    })();
  }
}

export interface FakeServices extends AdminServices {
  readonly links: FakeLinks;
  /** Causes that make readiness fail. */
  readonly notReady: string[];
  /** Causes that keep all links from moving. */
  readonly shared: { name: string; cause: string }[];
}

export function fakeServices(): FakeServices {
  const links = new FakeLinks();
  const events = new Events({ now: () => 1_700_000_000_000 });
  const notReady: string[] = [];
  const shared: { name: string; cause: string }[] = [];
  const health = new Health({
    readiness: [
      {
        name: 'destination',
        check: () => {
          if (notReady.length > 0) throw new Error(notReady.join());
        },
      },
    ],
    links,
    shared: () => shared,
    now: () => performance.now(),
    cacheMs: 0,
  });
  return {
    clusterId,
    instanceId: 'instance-1',
    links,
    events,
    health,
    notReady,
    shared,
    metrics: { contentType: 'text/plain; version=0.0.4', text: async () => 'causeway_up 1\n' },
    status: async () => ({
      version: '0.1.0',
      name: 'causeway',
      instanceId: 'instance-1',
      role: 'owner',
      clusterId,
      gateway: {
        advertise: 'localhost',
        bootstrapPort: 9092,
        connections: 3,
        bypassGroups: [
          { group: 'legacy', topics: ['orders'], members: [{ clientId: 'c', host: '10.0.0.7' }] },
        ],
      },
      storage: {
        directory: '/var/lib/causeway',
        usable: true,
        usedBytes: 10,
        freeBytes: 1000,
        isFull: false,
      },
    }),
    exportState: async () => '{"format":1}\n',
  };
}
