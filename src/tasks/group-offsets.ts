// Reading and writing the committed offsets of many groups of one cluster: coordinators and
// batches. Owns the differences between broker versions; refuses to know what the offsets are
// compared with. Invariants: only OffsetCommit with generation -1 and without a member is ever
// sent, which brokers accept for groups without members only; a group that could not be read has an
// error, never an empty set of offsets.
import { createFindCoordinatorRequest } from '../../protocol/generated/find-coordinator-request.ts';
import {
  createOffsetCommitRequest,
  createOffsetCommitRequestPartition,
  createOffsetCommitRequestTopic,
} from '../../protocol/generated/offset-commit-request.ts';
import {
  createOffsetFetchRequest,
  createOffsetFetchRequestGroup,
  createOffsetFetchRequestTopic,
  createOffsetFetchRequestTopics,
  type OffsetFetchRequest,
} from '../../protocol/generated/offset-fetch-request.ts';
import type { OffsetFetchResponse } from '../../protocol/generated/offset-fetch-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { findCoordinatorApi, offsetCommitApi, offsetFetchApi } from '../cluster/apis.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import type { Position } from './group-diff.ts';

const severalGroupsFrom = 8;
const requireStableFrom = 7;
const severalCoordinatorsFrom = 4;
const groupCoordinator = 0;

export interface TopicPartitions {
  readonly topic: string;
  readonly partitions: readonly number[];
}

export interface GroupRead {
  readonly errorCode: number;
  /** By `topic/partition`; only what is committed. */
  readonly offsets: ReadonlyMap<string, Position & { topic: string; partition: number }>;
  /** Of partitions by themselves, e.g. a transaction that is about to commit offsets. */
  readonly partitionErrors: readonly PartitionError[];
}

export interface PartitionError {
  readonly topic: string;
  readonly errorCode: number;
}

export const movedCoordinatorErrors: ReadonlySet<number> = new Set([
  ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
  ErrorCode.COORDINATOR_NOT_AVAILABLE,
  ErrorCode.NOT_COORDINATOR,
]);

/** How a coordinator refuses offsets of a group that has members. */
export const liveGroupErrors: ReadonlySet<number> = new Set([
  ErrorCode.UNKNOWN_MEMBER_ID,
  ErrorCode.ILLEGAL_GENERATION,
  ErrorCode.REBALANCE_IN_PROGRESS,
  ErrorCode.NON_EMPTY_GROUP,
  ErrorCode.FENCED_MEMBER_EPOCH,
  ErrorCode.STALE_MEMBER_EPOCH,
  ErrorCode.FENCED_INSTANCE_ID,
]);

/** group -> coordinator, remembered until it turns out to be wrong. */
export class CoordinatorMap {
  readonly #cluster: Cluster;
  readonly #nodes = new Map<string, number>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  forget(group: string): void {
    this.#nodes.delete(group);
  }

  /** Groups whose coordinator is known or could be found, by coordinator. */
  async locate(groups: readonly string[]): Promise<ReadonlyMap<number, readonly string[]>> {
    const unknown = groups.filter((group) => !this.#nodes.has(group));
    if (unknown.length > 0) await this.#find(unknown);
    const byNode = new Map<number, string[]>();
    for (const group of groups) {
      const nodeId = this.#nodes.get(group);
      if (nodeId === undefined) continue;
      const members = byNode.get(nodeId);
      if (members) members.push(group);
      else byNode.set(nodeId, [group]);
    }
    return byNode;
  }

  async #find(groups: readonly string[]): Promise<void> {
    const versions = await this.#cluster.apiVersions();
    const isBatched = (versions.get(findCoordinatorApi.key)?.max ?? 0) >= severalCoordinatorsFrom;
    if (!isBatched) {
      for (const group of groups) await this.#findOne(group);
      return;
    }
    const response = await this.#cluster.send(
      { kind: 'any' },
      findCoordinatorApi,
      createFindCoordinatorRequest({ keyType: groupCoordinator, coordinatorKeys: [...groups] }),
    );
    for (const { key, nodeId, errorCode } of response.coordinators) {
      if (errorCode === ErrorCode.NONE) this.#nodes.set(key, nodeId);
    }
  }

  async #findOne(group: string): Promise<void> {
    const response = await this.#cluster.send(
      { kind: 'any' },
      findCoordinatorApi,
      createFindCoordinatorRequest({ key: group, keyType: groupCoordinator }),
      { versionMax: severalCoordinatorsFrom - 1 },
    );
    if (response.errorCode === ErrorCode.NONE) this.#nodes.set(group, response.nodeId);
  }
}

export interface ReadOptions {
  readonly nodeId: number;
  readonly requireStable: boolean;
  /** Null: everything that the group has committed. */
  readonly topicsOf: ((group: string) => readonly TopicPartitions[]) | null;
}

/** Committed offsets of groups that one broker coordinates. @throws ClusterError */
export async function readGroups(
  cluster: Cluster,
  groups: readonly string[],
  options: ReadOptions,
): Promise<ReadonlyMap<string, GroupRead>> {
  const versions = await cluster.apiVersions(options.nodeId);
  const version = versions.get(offsetFetchApi.key)?.max ?? 0;
  if (version >= severalGroupsFrom) {
    return toReads(await send(cluster, severalGroups(groups, options), options.nodeId));
  }
  const reads = new Map<string, GroupRead>();
  for (const group of groups) {
    const request = oneGroup(group, options, version);
    const response = await send(cluster, request, options.nodeId);
    reads.set(group, toRead(response.errorCode, response.topics));
  }
  return reads;
}

function send(
  cluster: Cluster,
  request: OffsetFetchRequest,
  nodeId: number,
): Promise<OffsetFetchResponse> {
  return cluster.send({ kind: 'node', nodeId }, offsetFetchApi, request);
}

function severalGroups(groups: readonly string[], options: ReadOptions): OffsetFetchRequest {
  const { topicsOf } = options;
  return createOffsetFetchRequest({
    requireStable: options.requireStable,
    groups: groups.map((groupId) =>
      createOffsetFetchRequestGroup({
        groupId,
        topics:
          topicsOf === null
            ? null
            : topicsOf(groupId).map(({ topic, partitions }) =>
                createOffsetFetchRequestTopics({ name: topic, partitionIndexes: [...partitions] }),
              ),
      }),
    ),
  });
}

function oneGroup(groupId: string, options: ReadOptions, version: number): OffsetFetchRequest {
  const { topicsOf } = options;
  return {
    ...createOffsetFetchRequest({
      groupId,
      requireStable: options.requireStable && version >= requireStableFrom,
    }),
    topics:
      topicsOf === null
        ? null
        : topicsOf(groupId).map(({ topic, partitions }) =>
            createOffsetFetchRequestTopic({ name: topic, partitionIndexes: [...partitions] }),
          ),
  };
}

interface ReadTopic {
  readonly name: string;
  readonly partitions: readonly {
    readonly partitionIndex: number;
    readonly committedOffset: bigint;
    readonly metadata: string | null;
    readonly errorCode: number;
  }[];
}

function toReads(response: OffsetFetchResponse): ReadonlyMap<string, GroupRead> {
  return new Map(
    response.groups.map(({ groupId, errorCode, topics }) => [groupId, toRead(errorCode, topics)]),
  );
}

function toRead(errorCode: number, topics: readonly ReadTopic[]): GroupRead {
  const offsets = new Map<string, Position & { topic: string; partition: number }>();
  const partitionErrors: PartitionError[] = [];
  for (const { name, partitions } of topics) {
    for (const found of partitions) {
      if (found.errorCode !== ErrorCode.NONE) {
        partitionErrors.push({ topic: name, errorCode: found.errorCode });
      } else if (found.committedOffset >= 0n) {
        const partition = found.partitionIndex;
        offsets.set(partitionKey(name, partition), {
          topic: name,
          partition,
          offset: found.committedOffset,
          metadata: found.metadata,
        });
      }
    }
  }
  return { errorCode, offsets, partitionErrors };
}

export interface OffsetToCommit {
  readonly topic: string;
  readonly partition: number;
  readonly position: Position;
}

/** Error codes by `topic/partition`. @throws ClusterError: nobody knows whether it was done */
export async function commitGroup(
  cluster: Cluster,
  commit: { readonly group: string; readonly nodeId: number },
  offsets: readonly OffsetToCommit[],
): Promise<ReadonlyMap<string, number>> {
  const topics = new Map<string, OffsetToCommit[]>();
  for (const offset of offsets) {
    const members = topics.get(offset.topic);
    if (members) members.push(offset);
    else topics.set(offset.topic, [offset]);
  }
  const response = await cluster.send(
    { kind: 'node', nodeId: commit.nodeId },
    offsetCommitApi,
    createOffsetCommitRequest({
      groupId: commit.group,
      generationIdOrMemberEpoch: -1,
      memberId: '',
      topics: [...topics].map(([name, members]) =>
        createOffsetCommitRequestTopic({
          name,
          partitions: members.map(({ partition, position }) =>
            createOffsetCommitRequestPartition({
              partitionIndex: partition,
              committedOffset: position.offset,
              committedLeaderEpoch: -1,
              committedMetadata: position.metadata ?? '',
            }),
          ),
        }),
      ),
    }),
  );
  const errors = new Map<string, number>();
  for (const { name, partitions } of response.topics) {
    for (const { partitionIndex, errorCode } of partitions) {
      errors.set(partitionKey(name, partitionIndex), errorCode);
    }
  }
  return errors;
}
