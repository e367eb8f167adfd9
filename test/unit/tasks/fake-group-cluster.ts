// A cluster of one broker with groups in memory, as far as the group task speaks to a destination
// or to a source: coordinators, listing, reading and writing of offsets, ids of topics. Every
// request is counted. What is committed expires when the clock says so, as at a broker.
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
} from '../../../protocol/generated/describe-configs-response.ts';
import type { FindCoordinatorRequest } from '../../../protocol/generated/find-coordinator-request.ts';
import {
  createCoordinator,
  createFindCoordinatorResponse,
} from '../../../protocol/generated/find-coordinator-response.ts';
import {
  createListedGroup,
  createListGroupsResponse,
} from '../../../protocol/generated/list-groups-response.ts';
import type { MetadataRequest } from '../../../protocol/generated/metadata-request.ts';
import type { OffsetCommitRequest } from '../../../protocol/generated/offset-commit-request.ts';
import {
  createOffsetCommitResponse,
  createOffsetCommitResponsePartition,
  createOffsetCommitResponseTopic,
} from '../../../protocol/generated/offset-commit-response.ts';
import type { OffsetFetchRequest } from '../../../protocol/generated/offset-fetch-request.ts';
import {
  createOffsetFetchResponse,
  createOffsetFetchResponseGroup,
  createOffsetFetchResponsePartitions,
  createOffsetFetchResponseTopics,
} from '../../../protocol/generated/offset-fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Api, Cluster, ClusterMetadata, TopicInfo } from '../../../src/cluster/cluster.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { metadataAnswer } from '../link/metadata-answer.ts';

const broker = { nodeId: 1, host: 'fake', port: 1, rack: null };

interface Stored {
  readonly offset: bigint;
  readonly metadata: string;
  readonly atMs: number;
}

export class FakeGroupCluster implements Cluster {
  readonly brokers = [broker];
  readonly bootstrap: Cluster['bootstrap'] = [];
  readonly sent: string[] = [];
  readonly topics = new Map<string, TopicInfo>();
  /** Topics whose metadata was asked for, one entry for each request. */
  readonly topicsAsked: (readonly string[])[] = [];
  isDead = false;
  /** Protocol types of groups that have, or had, members here. */
  readonly withMembers = new Set<string>();
  /** By group and `topic/partition`. */
  readonly #offsets = new Map<string, Map<string, Stored>>();
  readonly #nowMs: () => number;
  readonly #retentionMs: number;
  /** What commits of a group are answered with. */
  readonly refusals = new Map<string, number>();
  /** Groups that FindCoordinator has no answer for. */
  readonly withoutCoordinator = new Set<string>();
  /** The longest time between two commits of an offset. */
  gapMaxMs = 0;

  constructor(parts: { nowMs: () => number; retentionMs: number }) {
    this.#nowMs = parts.nowMs;
    this.#retentionMs = parts.retentionMs;
  }

  count(api: string): number {
    return this.sent.filter((name) => name === api).length;
  }

  delete(group: string): void {
    this.#offsets.delete(group);
  }

  commit(group: string, key: string, offset: bigint): void {
    const offsets = this.#offsets.get(group) ?? new Map<string, Stored>();
    this.#offsets.set(group, offsets.set(key, { offset, metadata: '', atMs: this.#nowMs() }));
  }

  committed(group: string, key: string): bigint | null {
    const stored = this.#offsets.get(group)?.get(key);
    const isAlive = stored !== undefined && this.#nowMs() - stored.atMs < this.#retentionMs;
    return isAlive ? stored.offset : null;
  }

  async send<Request, Response>(
    _target: unknown,
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
  ): Promise<Response> {
    this.#checkAlive();
    this.sent.push(api.name);
    if (api.name === 'Metadata') {
      const { topics } = request as MetadataRequest;
      const names = topics?.map((topic) => topic.name ?? '') ?? [...this.topics.keys()];
      return metadataAnswer(this.#metadataOf(names)) as Response;
    }
    return this.#answer(api.name, request) as Response;
  }

  #answer(name: string, request: unknown): unknown {
    switch (name) {
      case 'FindCoordinator':
        return this.#coordinators(request as FindCoordinatorRequest);
      case 'ListGroups':
        return this.#list();
      case 'DescribeConfigs':
        return this.#configs();
      case 'OffsetFetch':
        return this.#read(request as OffsetFetchRequest);
      case 'OffsetCommit':
        return this.#write(request as OffsetCommitRequest);
      default:
        throw new Error(`no answer to ${name}`);
    }
  }

  #list(): unknown {
    const groups = new Set([...this.withMembers, ...this.#offsets.keys()]);
    return createListGroupsResponse({
      groups: [...groups].map((groupId) => {
        const protocolType = this.withMembers.has(groupId) ? 'consumer' : '';
        return createListedGroup({ groupId, protocolType, groupState: 'Empty' });
      }),
    });
  }

  #configs(): unknown {
    const value = String(this.#retentionMs / 60_000);
    const name = 'offsets.retention.minutes';
    const configs = [createDescribeConfigsResourceResult({ name, value })];
    const result = createDescribeConfigsResult({ resourceName: String(broker.nodeId), configs });
    return createDescribeConfigsResponse({ results: [result] });
  }

  #coordinators(request: FindCoordinatorRequest): unknown {
    const coordinators = request.coordinatorKeys.map((key) =>
      this.withoutCoordinator.has(key)
        ? createCoordinator({ key, nodeId: -1, errorCode: ErrorCode.COORDINATOR_NOT_AVAILABLE })
        : createCoordinator({ key, nodeId: broker.nodeId }),
    );
    return createFindCoordinatorResponse({ coordinators });
  }

  #read(request: OffsetFetchRequest): unknown {
    return createOffsetFetchResponse({
      groups: request.groups.map(({ groupId, topics }) =>
        createOffsetFetchResponseGroup({
          groupId,
          topics: (topics ?? this.#committedBy(groupId)).map(({ name, partitionIndexes }) =>
            createOffsetFetchResponseTopics({
              name,
              partitions: partitionIndexes.map((partitionIndex) => {
                const key = `${name}/${partitionIndex}`;
                const committedOffset = this.committed(groupId, key) ?? -1n;
                const metadata = this.#offsets.get(groupId)?.get(key)?.metadata ?? '';
                return createOffsetFetchResponsePartitions({
                  partitionIndex,
                  committedOffset,
                  metadata,
                });
              }),
            }),
          ),
        }),
      ),
    });
  }

  #committedBy(group: string): { name: string; partitionIndexes: number[] }[] {
    return [...(this.#offsets.get(group)?.keys() ?? [])].map((key) => {
      const [name = '', partition] = key.split('/');
      return { name, partitionIndexes: [Number(partition)] };
    });
  }

  #write(request: OffsetCommitRequest): unknown {
    const { groupId } = request;
    const errorCode = this.refusals.get(groupId) ?? 0;
    const offsets = this.#offsets.get(groupId) ?? new Map<string, Stored>();
    this.#offsets.set(groupId, offsets);
    const topics = request.topics.map(({ name, partitions }) =>
      createOffsetCommitResponseTopic({
        name,
        partitions: partitions.map(({ partitionIndex, committedOffset, committedMetadata }) => {
          const metadata = committedMetadata ?? '';
          const stored = { offset: committedOffset, metadata, atMs: this.#nowMs() };
          const key = `${name}/${partitionIndex}`;
          const gapMs = stored.atMs - (offsets.get(key)?.atMs ?? stored.atMs);
          this.gapMaxMs = Math.max(this.gapMaxMs, gapMs);
          if (errorCode === 0) offsets.set(key, stored);
          return createOffsetCommitResponsePartition({ partitionIndex, errorCode });
        }),
      }),
    );
    return createOffsetCommitResponse({ topics });
  }

  async metadata(names: 'all' | readonly string[]): ReturnType<Cluster['metadata']> {
    this.#checkAlive();
    const wanted = names === 'all' ? [...this.topics.keys()] : names;
    if (wanted.length > 0) this.topicsAsked.push(wanted);
    return this.#metadataOf(wanted);
  }

  #metadataOf(names: readonly string[]): ClusterMetadata {
    const topics = new Map([...this.topics].filter(([name]) => names.includes(name)));
    return { clusterId: 'fake', controllerId: 1, brokers: [broker], topics };
  }

  #checkAlive(): void {
    if (this.isDead) throw new ClusterError('UNREACHABLE', 'scripted', { maybeSent: false });
  }

  async apiVersions(): ReturnType<Cluster['apiVersions']> {
    const range = { min: 0, max: 9 };
    return new Map([8, 9, 10, 16].map((key) => [key, range]));
  }

  reach(): never {
    throw new Error('nobody reaches a fake');
  }

  async close(): Promise<void> {
    this.sent.push('close');
  }
}
