// DeleteRecords, looked at on every node, partition by partition. Who may not delete is told that
// (29), and nothing else of what is refused here.
//  * Our own topics and mirrors: 44 (a mirror follows the source's log start).
//  * Promoted, at the link node, or a topic that is not settled: 6, the client asks the leader.
//  * Promoted, at its leader: below the splice 44; from it on the shell's records go at the shifted
//    offset and, once the destination has done that, the copy goes whole. -1 (all there is) stays
//    -1. The low watermark comes back shifted.
import {
  createDeleteRecordsTopic,
  type DeleteRecordsPartition,
  type DeleteRecordsRequest,
  type DeleteRecordsTopic,
  deleteRecordsRequestCodec,
} from '../../../protocol/generated/delete-records-request.ts';
import {
  createDeleteRecordsPartitionResult,
  createDeleteRecordsResponse,
  createDeleteRecordsTopicResult,
  type DeleteRecordsPartitionResult,
  type DeleteRecordsResponse,
  deleteRecordsResponseCodec,
} from '../../../protocol/generated/delete-records-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { nativeOffset } from '../../timeline/offsets.ts';
import { toVirtualBound } from '../../timeline/timeline.ts';
import { AclOperation, authorize } from '../authorizer.ts';
import type { Handler, SessionView } from '../handler.ts';
import { decodeBody, requestWith, responseTo, rewriting } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { isMirrored, openNativeExtent, topicStanding } from '../topic-standing.ts';

type Verdict =
  | { readonly errorCode: number }
  /** Forwarded at this (native) offset. */
  | { readonly offset: bigint };

export function createDeleteRecordsHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { session } = context;
    const request = decodeBody(context, deleteRecordsRequestCodec);
    const refused = new Map<string, DeleteRecordsPartitionResult[]>();
    const topics: DeleteRecordsTopic[] = [];
    let isChanged = false;
    for (const { name, partitions } of request.topics) {
      const kept: DeleteRecordsPartition[] = [];
      for (const partition of partitions) {
        const verdict = judge(session, ownTopics, name, partition);
        if ('offset' in verdict) {
          kept.push({ ...partition, offset: verdict.offset });
          isChanged ||= verdict.offset !== partition.offset;
        } else {
          const { partitionIndex } = partition;
          const result = { partitionIndex, lowWatermark: -1n, errorCode: verdict.errorCode };
          const results = refused.get(name) ?? [];
          results.push(createDeleteRecordsPartitionResult(result));
          refused.set(name, results);
        }
      }
      if (kept.length > 0) topics.push(createDeleteRecordsTopic({ name, partitions: kept }));
    }
    if (topics.length === 0) {
      const message = createDeleteRecordsResponse();
      const response = addRefused(session, message, refused).then(() =>
        responseTo(context.header, deleteRecordsResponseCodec, message),
      );
      return { kind: 'answer', response };
    }
    const rewrite = rewriting(context.header, deleteRecordsResponseCodec, async (response) => {
      const isShifted = await shift(session, response);
      await addRefused(session, response, refused);
      return isShifted || refused.size > 0;
    });
    if (!isChanged && refused.size === 0) return { kind: 'forward', rewrite };
    const changed: DeleteRecordsRequest = { ...request, topics };
    return {
      kind: 'forward',
      request: requestWith(context, deleteRecordsRequestCodec, changed),
      rewrite,
      asksUpstream: refused.size > 0,
    };
  };
}

function judge(
  session: SessionView,
  ownTopics: OwnTopics,
  name: string,
  { partitionIndex, offset }: DeleteRecordsPartition,
): Verdict {
  if (ownTopics.has({ name })) return { errorCode: ErrorCode.POLICY_VIOLATION };
  const standing = topicStanding(session.services.directory, { name });
  if (standing.kind === 'unsettled') return { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER };
  if (standing.kind === 'known' && isMirrored(standing.view)) {
    return { errorCode: ErrorCode.POLICY_VIOLATION };
  }
  if (session.role.kind === 'link') return { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER };
  const view = standing.kind === 'known' ? standing.view : undefined;
  const extent = openNativeExtent(view?.partition(partitionIndex));
  if (extent === undefined || offset < 0n) return { offset };
  if (offset < extent.start) return { errorCode: ErrorCode.POLICY_VIOLATION };
  return { offset: offset - extent.offsetShift };
}

async function shift(session: SessionView, response: DeleteRecordsResponse): Promise<boolean> {
  let isChanged = false;
  for (const { name, partitions } of response.topics) {
    const standing = topicStanding(session.services.directory, { name });
    if (standing.kind !== 'known') continue;
    for (const result of partitions) {
      const partition = standing.view.partition(result.partitionIndex);
      const extent = openNativeExtent(partition);
      if (extent === undefined || result.errorCode !== ErrorCode.NONE) continue;
      result.lowWatermark = toVirtualBound(extent, nativeOffset(result.lowWatermark));
      isChanged = true;
      try {
        await partition?.log?.deleteHead(extent.start);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        result.errorCode = ErrorCode.KAFKA_STORAGE_ERROR;
      }
    }
  }
  return isChanged;
}

async function addRefused(
  session: SessionView,
  response: DeleteRecordsResponse,
  refused: ReadonlyMap<string, DeleteRecordsPartitionResult[]>,
): Promise<void> {
  const verdicts = await authorize(session, refused.keys(), AclOperation.DELETE);
  for (const [name, partitions] of refused) {
    const verdict = verdicts.get(name);
    if (verdict === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
      for (const partition of partitions) partition.errorCode = verdict;
    }
    const topic = response.topics.find((candidate) => candidate.name === name);
    if (topic) topic.partitions.push(...partitions);
    else response.topics.push(createDeleteRecordsTopicResult({ name, partitions }));
  }
}
