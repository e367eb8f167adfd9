// The two questions that parallel reading of one partition asks of its leader: records from an
// offset without any session, and where an epoch ends. Owns the wording of both; refuses to know
// what is done with the answers. Invariant: both name the leader's epoch, so that an answer is of
// the one leader's term that the reading began in, and of no other.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../../../protocol/generated/fetch-request.ts';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
} from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { fetchApi, offsetForLeaderEpochApi } from '../../cluster/apis.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { FrameBuffer } from '../../cluster/frame-buffer.ts';
import { isHeldBack } from '../../cluster/held-back.ts';
import { fetchTopicIdsFrom } from './fetch-session.ts';

export interface RangeSource {
  readonly sourceTopic: string;
  readonly sourceTopicId: string;
  readonly partition: number;
  readonly leaderId: number;
  readonly leaderEpoch: number;
}

export interface RangeAnswer {
  readonly errorCode: number;
  readonly records: Buffer;
  readonly highWatermark: bigint;
  readonly throttleTimeMs: number;
  /** By a quota of the broker; it says nothing of the partition. */
  readonly isHeldBack: boolean;
}

const none = Buffer.alloc(0);
const answerTimeoutMs = 30_000;
/** No session is opened or gone on with. */
const sessionless = -1;

/** @throws ClusterError */
export async function fetchRange(
  cluster: Cluster,
  source: RangeSource,
  wanted: { offset: bigint; bytesMax: number; lane: string; into: FrameBuffer },
): Promise<RangeAnswer> {
  const { sourceTopic: topic, sourceTopicId: topicId, leaderEpoch: currentLeaderEpoch } = source;
  const partition = createFetchPartition({
    partition: source.partition,
    currentLeaderEpoch,
    fetchOffset: wanted.offset,
    lastFetchedEpoch: -1,
    partitionMaxBytes: wanted.bytesMax,
  });
  const request = createFetchRequest({
    maxWaitMs: 0,
    minBytes: 0,
    maxBytes: wanted.bytesMax,
    sessionEpoch: sessionless,
    topics: [createFetchTopic({ topic, topicId, partitions: [partition] })],
  });
  const response = await cluster.send(
    { kind: 'node', nodeId: source.leaderId },
    fetchApi,
    request,
    {
      lane: wanted.lane,
      into: wanted.into,
      timeoutMs: answerTimeoutMs,
      ...(topicId === zeroUuid ? { versionMax: fetchTopicIdsFrom - 1 } : {}),
    },
  );
  const data = response.responses[0]?.partitions[0];
  const errorCode = response.errorCode || (data?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
  const { records, highWatermark = -1n } = data ?? {};
  const { throttleTimeMs } = response;
  const how = { throttleTimeMs, isHeldBack: isHeldBack(response) };
  return { errorCode, records: records ?? none, highWatermark, ...how };
}

/** Where the leader says that `epoch` ends; null when it has no such epoch or does not say. */
export async function endOfEpoch(
  cluster: Cluster,
  source: RangeSource,
  epoch: number,
): Promise<bigint | null> {
  const partition = createOffsetForLeaderPartition({
    partition: source.partition,
    currentLeaderEpoch: source.leaderEpoch,
    leaderEpoch: epoch,
  });
  const response = await cluster.send(
    { kind: 'node', nodeId: source.leaderId },
    offsetForLeaderEpochApi,
    createOffsetForLeaderEpochRequest({
      replicaId: -1,
      topics: [createOffsetForLeaderTopic({ topic: source.sourceTopic, partitions: [partition] })],
    }),
  );
  const data = response.topics[0]?.partitions[0];
  if (data === undefined || data.errorCode !== ErrorCode.NONE) return null;
  return data.leaderEpoch === epoch ? data.endOffset : null;
}
