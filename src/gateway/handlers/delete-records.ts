// DeleteRecords, looked at on every node, partition by partition. Who may not delete is told that
// (29), and nothing else of what is refused here.
//  * Our own topics and mirrors: 44 (a mirror follows the source's log start).
//  * Promoted, at the link node, or a topic that is not settled: 6, the client asks the leader.
//  * Promoted, at its leader, below the splice: the head of the copy goes, the shell is not asked.
//    Below the log's start nothing is left to go, as at a broker.
//  * Promoted, at its leader, from the splice on: the shell's records go at the shifted offset and,
//    once the destination has done that, the copy goes whole. -1 (all there is) stays -1. The low
//    watermark comes back shifted.
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
import type { MirrorLog } from '../../../storage/mirror-log.ts';
import { nativeOffset } from '../../timeline/offsets.ts';
import { toVirtualBound } from '../../timeline/timeline.ts';
import { AclOperation, authorize } from '../authorizer.ts';
import type { Handler, SessionView } from '../handler.ts';
import { decodeBody, requestWith, responseTo, rewriting } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { isMirrored, openNativeExtent, topicStanding } from '../topic-standing.ts';

/** What goes out of a copy; without a log there should be one, and it cannot be reached. */
interface Cut {
  readonly log: MirrorLog | null;
  readonly offset: bigint;
}

type Verdict =
  | { readonly errorCode: number }
  /** Forwarded at this (native) offset. */
  | { readonly offset: bigint }
  | { readonly cut: Cut };

/** A partition that the destination is not asked about. */
interface AnsweredHere {
  readonly result: DeleteRecordsPartitionResult;
  readonly cut: Cut | null;
}

export function createDeleteRecordsHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { session } = context;
    const request = decodeBody(context, deleteRecordsRequestCodec);
    const here = new Map<string, AnsweredHere[]>();
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
          const answers = here.get(name) ?? [];
          answers.push(answeredHere(partition, verdict));
          here.set(name, answers);
        }
      }
      if (kept.length > 0) topics.push(createDeleteRecordsTopic({ name, partitions: kept }));
    }
    if (topics.length === 0) {
      const message = createDeleteRecordsResponse();
      const response = addAnswersFromHere(session, message, here).then(() =>
        responseTo(context.header, deleteRecordsResponseCodec, message),
      );
      return { kind: 'answer', response };
    }
    const rewrite = rewriting(context.header, deleteRecordsResponseCodec, async (response) => {
      const isShifted = await shift(session, response);
      await addAnswersFromHere(session, response, here);
      return isShifted || here.size > 0;
    });
    if (!isChanged && here.size === 0) return { kind: 'forward', rewrite };
    const changed: DeleteRecordsRequest = { ...request, topics };
    return {
      kind: 'forward',
      request: requestWith(context, deleteRecordsRequestCodec, changed),
      rewrite,
      asksUpstream: here.size > 0,
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
  if (offset < extent.start)
    return { cut: { log: view?.partition(partitionIndex)?.log ?? null, offset } };
  return { offset: offset - extent.offsetShift };
}

function answeredHere(
  { partitionIndex }: DeleteRecordsPartition,
  verdict: Exclude<Verdict, { offset: bigint }>,
): AnsweredHere {
  const cut = 'cut' in verdict ? verdict.cut : null;
  const errorCode = 'cut' in verdict ? ErrorCode.NONE : verdict.errorCode;
  const fields = { partitionIndex, lowWatermark: -1n, errorCode };
  return { result: createDeleteRecordsPartitionResult(fields), cut };
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

async function addAnswersFromHere(
  session: SessionView,
  response: DeleteRecordsResponse,
  here: ReadonlyMap<string, readonly AnsweredHere[]>,
): Promise<void> {
  const verdicts = await authorize(session, here.keys(), AclOperation.DELETE);
  for (const [name, answers] of here) {
    const verdict = verdicts.get(name);
    for (const { result, cut } of answers) {
      if (verdict === ErrorCode.TOPIC_AUTHORIZATION_FAILED) result.errorCode = verdict;
      else if (cut !== null) await cutHead(cut, result, verdict);
    }
    const partitions = answers.map(({ result }) => result);
    const topic = response.topics.find((candidate) => candidate.name === name);
    if (topic) topic.partitions.push(...partitions);
    else response.topics.push(createDeleteRecordsTopicResult({ name, partitions }));
  }
}

/** Nothing goes unless the destination has said that the client may delete. */
async function cutHead(
  { log, offset }: Cut,
  result: DeleteRecordsPartitionResult,
  verdict: number = ErrorCode.NOT_LEADER_OR_FOLLOWER,
): Promise<void> {
  result.errorCode = log === null ? ErrorCode.KAFKA_STORAGE_ERROR : verdict;
  if (log === null || verdict !== ErrorCode.NONE) return;
  try {
    if (offset > log.logStart) await log.deleteHead(offset);
    result.lowWatermark = log.logStart;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    result.errorCode = ErrorCode.KAFKA_STORAGE_ERROR;
  }
}
