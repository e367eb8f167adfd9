// Pieces of a FetchResponse that we make ourselves: refusals, hints where the leader is (KIP-951),
// answers out of a copy, and their assembly in the order of the request. Refuses to know where
// records come from. Invariant: a field that the client's version lacks is never set.
import type {
  FetchPartition,
  FetchRequest,
  FetchTopic,
} from '../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionData,
  type FetchableTopicResponse,
  type FetchResponse,
  fetchResponseCodec,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ErrorCode, type RequestHeader } from '../../protocol/index.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import type { ExtentAnswer } from './extent-reader.ts';
import type { GatewayServices } from './handler.ts';
import { responseTo } from './messages.ts';
import {
  hasEndpoint,
  hintEndpoints,
  type LeaderHint,
  type LeaderHints,
  noLeader,
} from './node-endpoints.ts';

export const currentLeaderFrom = 12;
export const topicIdsFrom = 13;
const nodeEndpointsFrom = 16;
const noRecords = Buffer.alloc(0);

/** As `partitionKey`, for a request and its answer: their version has names of topics or ids. */
export function fetchKey(
  topic: { readonly topic: string; readonly topicId: string },
  partition: number,
): string {
  return partitionKey(topic.topic || topic.topicId, partition);
}

export function refusal(partition: number, errorCode: number): PartitionData {
  return createPartitionData({
    partitionIndex: partition,
    errorCode,
    highWatermark: -1n,
    records: noRecords,
    abortedTransactions: null,
  });
}

export function fromExtent(partition: number, answer: ExtentAnswer): PartitionData {
  return createPartitionData({
    partitionIndex: partition,
    errorCode: answer.errorCode,
    highWatermark: answer.highWatermark,
    lastStableOffset: answer.lastStableOffset,
    logStartOffset: answer.logStartOffset,
    abortedTransactions:
      answer.abortedTransactions?.map(({ producerId, firstOffset }) => ({
        producerId,
        firstOffset,
      })) ?? null,
    records: answer.records,
  });
}

export function setLeader(
  data: PartitionData,
  hint: LeaderHint | undefined,
  version: number,
): PartitionData {
  if (hint !== undefined && version >= currentLeaderFrom) {
    data.currentLeader = createLeaderIdAndEpoch(hint);
  }
  return data;
}

/** Gives leaders to partitions that were answered 6 or 74 and whose topic name has hints. */
export function hintFor(
  hints: LeaderHints | undefined,
  topicName: string,
  partition: number,
): LeaderHint | undefined {
  return hints?.get(topicName)?.get(partition);
}

/** All partitions of the request, in its order, out of answers by `fetchKey`. */
export function inRequestOrder(
  topics: readonly FetchTopic[],
  answers: ReadonlyMap<string, PartitionData>,
): FetchableTopicResponse[] {
  return topics.map((topic) =>
    createFetchableTopicResponse({
      topic: topic.topic,
      topicId: topic.topicId,
      partitions: topic.partitions.map(
        ({ partition }: FetchPartition) =>
          answers.get(fetchKey(topic, partition)) ??
          refusal(partition, ErrorCode.UNKNOWN_SERVER_ERROR),
      ),
    }),
  );
}

/** Sessionless: session id 0, which every client accepts (splice-facts, "Fetch sessions"). */
export function sessionlessResponse(
  request: FetchRequest,
  answers: ReadonlyMap<string, PartitionData>,
): FetchResponse {
  return createFetchResponse({ responses: inRequestOrder(request.topics, answers) });
}

/**
 * The endpoints of all leaders that the answer names (version 16 on). One that has none is not
 * named (`dropLostHints` has the reason).
 */
export function completeHints(
  services: GatewayServices,
  response: FetchResponse,
  version: number,
): void {
  const leaderIds: number[] = [];
  for (const topic of response.responses) {
    for (const { currentLeader } of topic.partitions) {
      if (hasEndpoint(services, currentLeader.leaderId)) leaderIds.push(currentLeader.leaderId);
      else Object.assign(currentLeader, noLeader);
    }
  }
  if (version < nodeEndpointsFrom) return;
  response.nodeEndpoints = hintEndpoints(services, leaderIds).map((endpoint) =>
    createNodeEndpoint(endpoint),
  );
}

/** As a broker answers a follower that lacks CLUSTER_ACTION. */
export function refusedReplica(header: RequestHeader, request: FetchRequest): readonly Buffer[] {
  const answers = new Map<string, PartitionData>();
  for (const topic of request.topics) {
    for (const { partition } of topic.partitions) {
      const answer = refusal(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
      answers.set(fetchKey(topic, partition), answer);
    }
  }
  return responseTo(header, fetchResponseCodec, sessionlessResponse(request, answers));
}

/** The client drops its session and asks again in full. */
export function sessionNotFound(header: RequestHeader): readonly Buffer[] {
  return responseTo(
    header,
    fetchResponseCodec,
    createFetchResponse({ errorCode: ErrorCode.FETCH_SESSION_ID_NOT_FOUND }),
  );
}
