// DeleteRecords, looked at on every node, partition by partition. Who may not delete is told that
// (29), and nothing else of what is refused here.
//  * Our own topics and mirrors: 44 (a mirror follows the source's log start).
//  * Promoted, at the link node, or a topic that is not settled: 6, the client asks the leader.
//  * Promoted, below the splice: the shell's broker is asked to delete nothing, so that it says
//    what rights, leadership and cleanup.policy allow; then the head of the copy goes. Below the
//    log's start nothing is left to go, as at a broker.
//  * Promoted, from the splice on: the shell's records go at the shifted offset and, once the
//    destination has done that, the copy goes whole. -1 (all there is) stays -1. The low watermark
//    comes back shifted.
// As at a broker, a partition that is named more than once has one result, and its last offset
// counts.
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
import { partitionKey } from '../../cluster/partition-key.ts';
import { isCopyOutlived } from '../../timeline/merged-view.ts';
import { type NativeOffset, nativeOffset, virtualOffset } from '../../timeline/offsets.ts';
import { type NativeExtent, toNativeOffset } from '../../timeline/timeline.ts';
import { AclOperation, authorize } from '../authorizer.ts';
import type { Handler, SessionView } from '../handler.ts';
import { decodeBody, requestWith, responseTo, rewriting } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { hasCopy, promotedStart } from '../shell-starts.ts';
import { ThrottledSession } from '../throttled-session.ts';
import type { PartitionView } from '../topic-directory.ts';
import { isMirrored, openNativeExtent, topicStanding } from '../topic-standing.ts';

type Verdict =
  | { readonly errorCode: number }
  /** Forwarded at this (native) offset. */
  | { readonly offset: bigint };

/** By topic and by partition. */
type RefusedPartitions = Map<string, Map<number, DeleteRecordsPartitionResult>>;

/** Below it a broker deletes nothing; it refuses that as it refuses anything else. */
const nothing = 0n;

export function createDeleteRecordsHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { session } = context;
    const request = decodeBody(context, deleteRecordsRequestCodec);
    const refused: RefusedPartitions = new Map();
    const offsets = new Map<string, bigint>();
    const topics: DeleteRecordsTopic[] = [];
    let isChanged = false;
    for (const { name, partitions } of request.topics) {
      const kept: DeleteRecordsPartition[] = [];
      for (const partition of partitions) {
        const verdict = judge(session, ownTopics, name, partition);
        if ('offset' in verdict) {
          kept.push({ ...partition, offset: verdict.offset });
          isChanged ||= verdict.offset !== partition.offset;
          offsets.set(partitionKey(name, partition.partitionIndex), partition.offset);
        } else {
          const results = refused.get(name) ?? new Map<number, DeleteRecordsPartitionResult>();
          refused.set(name, results);
          results.set(partition.partitionIndex, refusal(partition, verdict.errorCode));
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
      const isShifted = await finish(session, response, offsets);
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
  const isInCopy = offset < extent.start;
  return { offset: isInCopy ? nothing : toNativeOffset(extent, virtualOffset(offset)) };
}

function refusal(
  { partitionIndex }: { readonly partitionIndex: number },
  errorCode: number,
): DeleteRecordsPartitionResult {
  return createDeleteRecordsPartitionResult({ partitionIndex, lowWatermark: -1n, errorCode });
}

/** Does with copies what the brokers have allowed. `offsets`: as the client gave them. */
async function finish(
  { services }: SessionView,
  response: DeleteRecordsResponse,
  offsets: ReadonlyMap<string, bigint>,
): Promise<boolean> {
  let isChanged = false;
  for (const { name, partitions } of response.topics) {
    const standing = topicStanding(services.directory, { name });
    if (standing.kind !== 'known') continue;
    const { topicId } = standing.view;
    for (const result of partitions) {
      const view = standing.view.partition(result.partitionIndex);
      const native = openNativeExtent(view);
      if (view === undefined || native === undefined || result.errorCode !== ErrorCode.NONE)
        continue;
      const offset = offsets.get(partitionKey(name, result.partitionIndex)) ?? nothing;
      const nativeStart = nativeOffset(result.lowWatermark);
      isChanged = true;
      try {
        await cutCopy({ view, native, nativeStart, offset });
        const place = { topicId, partition: result.partitionIndex, native };
        result.lowWatermark = promotedStart(services, place, view, nativeStart);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        Object.assign(result, refusal(result, ErrorCode.KAFKA_STORAGE_ERROR));
      }
    }
  }
  return isChanged;
}

interface Cut {
  readonly view: PartitionView;
  readonly native: NativeExtent;
  readonly nativeStart: NativeOffset;
  /** Virtual, or -1: all there is. */
  readonly offset: bigint;
}

/** @throws StorageError also when a copy of which something is left cannot be reached */
async function cutCopy({ view, native, nativeStart, offset }: Cut): Promise<void> {
  const { log } = view;
  if (!hasCopy(view, native)) return;
  if (log === null) {
    if (isCopyOutlived(native, nativeStart)) return;
    throw new StorageError('MISSING', 'the copy cannot be reached');
  }
  const isInCopy = offset >= 0n && offset < native.start;
  const start = isInCopy ? offset : native.start;
  if (start > log.logStart) await log.deleteHead(start);
}

async function addRefused(
  client: SessionView,
  response: DeleteRecordsResponse,
  refused: RefusedPartitions,
): Promise<void> {
  const session = new ThrottledSession(client);
  const verdicts = await authorize(session, refused.keys(), AclOperation.DELETE);
  session.tell(response);
  const answered = new Map(response.topics.map((topic) => [topic.name, topic]));
  for (const [name, results] of refused) {
    const verdict = verdicts.get(name);
    const topic = answered.get(name) ?? createDeleteRecordsTopicResult({ name });
    if (!answered.has(name)) response.topics.push(topic);
    for (const result of results.values()) {
      if (verdict === ErrorCode.TOPIC_AUTHORIZATION_FAILED) result.errorCode = verdict;
      topic.partitions.push(result);
    }
  }
}
