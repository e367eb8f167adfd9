// Who is in the groups of a cluster, and which topics they read, for groups of every protocol that
// have members now. Owns the asking; refuses to know what the topics are. Invariant: a group that
// could not be asked is left out by name, never shown as one without members.
import { consumerGroupDescribeRequestCodec } from '../../protocol/generated/consumer-group-describe-request.ts';
import { consumerGroupDescribeResponseCodec } from '../../protocol/generated/consumer-group-describe-response.ts';
import { decodeConsumerProtocolAssignment } from '../../protocol/generated/consumer-protocol-assignment.ts';
import { describeGroupsRequestCodec } from '../../protocol/generated/describe-groups-request.ts';
import { describeGroupsResponseCodec } from '../../protocol/generated/describe-groups-response.ts';
import { shareGroupDescribeRequestCodec } from '../../protocol/generated/share-group-describe-request.ts';
import { shareGroupDescribeResponseCodec } from '../../protocol/generated/share-group-describe-response.ts';
import { streamsGroupDescribeRequestCodec } from '../../protocol/generated/streams-group-describe-request.ts';
import { streamsGroupDescribeResponseCodec } from '../../protocol/generated/streams-group-describe-response.ts';
import { ErrorCode, ProtocolError, Reader } from '../../protocol/index.ts';
import type { Cluster, Target } from '../cluster/cluster.ts';
import { type GroupKind, listGroups } from '../tasks/group-listing.ts';
import { apiOf } from './messages.ts';

export interface TopicRead {
  readonly name: string;
  /** Where the group's protocol has it. */
  readonly topicId?: string;
}

export interface GroupMember {
  readonly clientId: string;
  /** As the broker tells it: `/10.0.0.7`. */
  readonly host: string;
  readonly topics: readonly TopicRead[];
}

export interface GroupWithMembers {
  readonly group: string;
  readonly members: readonly GroupMember[];
}

const classicApi = apiOf(describeGroupsRequestCodec, describeGroupsResponseCodec);
const consumerApi = apiOf(consumerGroupDescribeRequestCodec, consumerGroupDescribeResponseCodec);
const shareApi = apiOf(shareGroupDescribeRequestCodec, shareGroupDescribeResponseCodec);
const streamsApi = apiOf(streamsGroupDescribeRequestCodec, streamsGroupDescribeResponseCodec);

const groupsInOneRequest = 100;

type Describe = (
  cluster: Cluster,
  target: Target,
  groups: string[],
) => Promise<readonly GroupWithMembers[]>;

const describers: Partial<Record<GroupKind, Describe>> = {
  classic: describeClassic,
  consumer: describeConsumer,
  share: describeShare,
  streams: describeStreams,
};

/** @throws ClusterError */
export async function groupsWithMembers(cluster: Cluster): Promise<readonly GroupWithMembers[]> {
  const { groups } = await listGroups(cluster);
  const byPlace = new Map<string, { kind: GroupKind; nodeId: number; names: string[] }>();
  for (const [name, { kind, nodeId, state }] of groups) {
    if (state === 'Empty' || state === 'Dead') continue;
    const place = byPlace.get(`${kind}/${nodeId}`) ?? { kind, nodeId, names: [] };
    place.names.push(name);
    byPlace.set(`${kind}/${nodeId}`, place);
  }
  const found: GroupWithMembers[] = [];
  for (const { kind, nodeId, names } of byPlace.values()) {
    const describe = describers[kind];
    if (describe === undefined) continue;
    const target = { kind: 'node', nodeId } as const;
    for (let at = 0; at < names.length; at += groupsInOneRequest) {
      const chunk = names.slice(at, at + groupsInOneRequest);
      found.push(...(await describe(cluster, target, chunk)));
    }
  }
  return found.filter(({ members }) => members.length > 0);
}

async function describeClassic(cluster: Cluster, target: Target, groups: string[]) {
  const request = { groups, includeAuthorizedOperations: false };
  const answer = await cluster.send(target, classicApi, request);
  return answer.groups.filter(isAnswered).map(
    ({ groupId, members }): GroupWithMembers => ({
      group: groupId,
      members: members.map(({ clientId, clientHost, memberAssignment }) => ({
        clientId,
        host: clientHost,
        topics: assignedTopics(memberAssignment),
      })),
    }),
  );
}

/** Opaque to brokers: what is not of the consumer protocol names no topics that we know of. */
function assignedTopics(assignment: Buffer): readonly TopicRead[] {
  if (assignment.length < 2) return [];
  const version = Math.min(3, Math.max(0, assignment.readInt16BE(0)));
  try {
    const reader = new Reader(assignment, 2);
    const { assignedPartitions } = decodeConsumerProtocolAssignment(reader, version);
    return assignedPartitions.map(({ topic }) => ({ name: topic }));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return [];
  }
}

async function describeConsumer(cluster: Cluster, target: Target, groupIds: string[]) {
  const request = { groupIds, includeAuthorizedOperations: false };
  const answer = await cluster.send(target, consumerApi, request);
  return answer.groups.filter(isAnswered).map(withAssignments);
}

async function describeShare(cluster: Cluster, target: Target, groupIds: string[]) {
  const request = { groupIds, includeAuthorizedOperations: false };
  const answer = await cluster.send(target, shareApi, request);
  return answer.groups.filter(isAnswered).map(withAssignments);
}

interface WithAssignments {
  readonly groupId: string;
  readonly members: readonly {
    readonly clientId: string;
    readonly clientHost: string;
    readonly assignment: {
      readonly topicPartitions: readonly { readonly topicId: string; readonly topicName: string }[];
    };
  }[];
}

function withAssignments({ groupId, members }: WithAssignments): GroupWithMembers {
  return {
    group: groupId,
    members: members.map(({ clientId, clientHost, assignment }) => ({
      clientId,
      host: clientHost,
      topics: assignment.topicPartitions.map(({ topicId, topicName }) => ({
        name: topicName,
        topicId,
      })),
    })),
  };
}

/** Members have tasks of subtopologies; each may get any of them, so all count for all. */
async function describeStreams(cluster: Cluster, target: Target, groupIds: string[]) {
  const request = {
    groupIds,
    includeAuthorizedOperations: false,
    includeTopologyDescription: false,
  };
  const answer = await cluster.send(target, streamsApi, request);
  return answer.groups.filter(isAnswered).map(({ groupId, members, topology }) => {
    const subtopologies = topology?.subtopologies ?? [];
    const names = new Set(subtopologies.flatMap(({ sourceTopics }) => sourceTopics));
    const topics = [...names].map((name) => ({ name }));
    return {
      group: groupId,
      members: members.map(({ clientId, clientHost }) => ({ clientId, host: clientHost, topics })),
    };
  });
}

/** A group may have moved, ended or changed its kind since it was listed: the next look has it. */
function isAnswered({ errorCode }: { readonly errorCode: number }): boolean {
  return errorCode === ErrorCode.NONE;
}
