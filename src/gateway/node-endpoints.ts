// Broker addresses in responses: every host and port that a client reads is one of our listeners,
// under the broker's own node id. Owns the rewriting of endpoint lists and the KIP-951 hints that
// we give ourselves. Invariants: no endpoint leaves here that is not bound, so that a broker for
// which no port is left is not named; the pair (leader id, endpoint) changes together, so a hint
// goes with the endpoint that it led to.
import {
  createMetadataRequest,
  createMetadataRequestTopic,
  metadataRequestCodec,
} from '../../protocol/generated/metadata-request.ts';
import { metadataResponseCodec } from '../../protocol/generated/metadata-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import type { Endpoint, GatewayServices, SessionView } from './handler.ts';
import { apiOf } from './messages.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from './topic-standing.ts';

/** The fields that all of Kafka's endpoint structs share, whatever they call the id. */
export interface WireNode {
  nodeId: number;
  host: string;
  port: number;
  rack?: string | null;
  /** Of DescribeCluster alone. */
  isFenced?: boolean;
}

/**
 * Puts our addresses in place of the brokers' own, after binding what is new, and takes those out
 * that have no port. Changes the list given; true when there was anything to change.
 */
export async function advertiseNodes(
  services: GatewayServices,
  nodes: WireNode[],
): Promise<boolean> {
  if (nodes.length === 0) return false;
  await services.ensureEndpoints(
    nodes.map(({ nodeId, host, port, rack, isFenced }) => {
      return { nodeId, host, port, rack: rack ?? null, isFenced };
    }),
  );
  let served = 0;
  for (const node of nodes) {
    const endpoint = services.endpoint(node.nodeId);
    if (endpoint === undefined) continue;
    node.host = endpoint.host;
    node.port = endpoint.port;
    nodes[served++] = node;
  }
  nodes.length = served;
  return true;
}

export interface LeaderHint {
  readonly leaderId: number;
  /** Virtual. */
  readonly leaderEpoch: number;
}

/** Hints by topic name and partition; only partitions whose leader is known and has a port. */
export type LeaderHints = ReadonlyMap<string, ReadonlyMap<number, LeaderHint>>;

const metadataApi = apiOf(metadataRequestCodec, metadataResponseCodec, { min: 7 });

/**
 * Asks the destination, with the client's own rights, who leads the given topics now. For mirrored
 * ones the answer is the link node. Topics that the client may not see are missing.
 */
export async function findLeaders(
  session: SessionView,
  topics: readonly string[],
): Promise<LeaderHints> {
  const request = createMetadataRequest({
    topics: topics.map((name) => createMetadataRequestTopic({ name })),
    allowAutoTopicCreation: false,
  });
  const response = await session.callUpstream(metadataApi, request);
  const { services } = session;
  await advertiseNodes(services, response.brokers);
  const hints = new Map<string, Map<number, LeaderHint>>();
  for (const topic of response.topics) {
    if (topic.name === null) continue;
    const standing = topicStanding(services.directory, topic);
    if (standing.kind === 'unsettled') continue;
    const view = standing.kind === 'known' ? standing.view : undefined;
    const partitions = new Map<number, LeaderHint>();
    for (const { partitionIndex, leaderId, leaderEpoch } of topic.partitions) {
      if (view !== undefined && isMirrored(view)) {
        const epoch = mirrorLeaderEpoch(view, partitionIndex);
        partitions.set(partitionIndex, { leaderId: services.linkNodeId, leaderEpoch: epoch });
      } else if (leaderEpoch >= 0 && hasEndpoint(services, leaderId)) {
        const shift = openNativeExtent(view?.partition(partitionIndex))?.epochShift ?? 0;
        partitions.set(partitionIndex, { leaderId, leaderEpoch: leaderEpoch + shift });
      }
    }
    hints.set(topic.name, partitions);
  }
  return hints;
}

/** A leader that nobody knows; a zero would name broker 0. */
export const noLeader: LeaderHint = { leaderId: -1, leaderEpoch: -1 };

/** Whether a hint to that leader leads anywhere. */
export function hasEndpoint(services: GatewayServices, leaderId: number): boolean {
  return leaderId >= 0 && services.endpoint(leaderId) !== undefined;
}

interface HintedPartition {
  readonly errorCode: number;
  readonly currentLeader: { leaderId: number; leaderEpoch: number };
}

/**
 * Takes hints out of an answer that has no endpoint for them: what they name has no port of ours,
 * or the broker itself knew none. Clients would have to pass them over (Java does unless its
 * metadata has the node), and look the leader up. Without an error there is no hint, whatever the
 * fields say. True when anything was taken out.
 */
export function dropLostHints(
  nodeEndpoints: readonly WireNode[],
  partitions: readonly HintedPartition[],
): boolean {
  const reachable = new Set(nodeEndpoints.map(({ nodeId }) => nodeId));
  let isChanged = false;
  for (const { errorCode, currentLeader } of partitions) {
    if (errorCode === ErrorCode.NONE || currentLeader.leaderId < 0) continue;
    if (reachable.has(currentLeader.leaderId)) continue;
    Object.assign(currentLeader, noLeader);
    isChanged = true;
  }
  return isChanged;
}

/** The endpoints that belong to hints, each node once. */
export function hintEndpoints(
  services: GatewayServices,
  leaderIds: Iterable<number>,
): readonly Endpoint[] {
  const endpoints: Endpoint[] = [];
  for (const nodeId of new Set(leaderIds)) {
    const endpoint = services.endpoint(nodeId);
    if (endpoint !== undefined) endpoints.push(endpoint);
  }
  return endpoints;
}
