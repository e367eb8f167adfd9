// ShareFetch. Ordinary topics pass; of promoted ones acknowledgements go in native offsets and
// records and acquired ranges come in virtual ones; mirrors are taken out and refused
// (share-topics.ts). The rest goes on also when nothing is left, because the request carries the
// share session. The link node leads mirrors only and has no share sessions: it answers by itself
// (forwarded, the session would take the place of the one at that broker's own port).
import {
  type FetchTopic,
  type ShareFetchRequest,
  shareFetchRequestCodec,
} from '../../../protocol/generated/share-fetch-request.ts';
import {
  createLeaderIdAndEpoch,
  createPartitionData,
  createShareFetchableTopicResponse,
  createShareFetchResponse,
  type PartitionData,
  type ShareFetchableTopicResponse,
  type ShareFetchResponse,
  shareFetchResponseCodec,
} from '../../../protocol/generated/share-fetch-response.ts';
import { ErrorCode, emptyBytes } from '../../../protocol/index.ts';
import { shiftRecords } from '../fetch-shift.ts';
import type { Disposition, Handler, RequestContext } from '../handler.ts';
import { answer, decodeBody, requestWith, responseTo, rewriting } from '../messages.ts';
import { advertiseNodes, dropLostHints, noLeader } from '../node-endpoints.ts';
import { holdBack } from '../produce-refusal.ts';
import {
  isAnyUnsettled,
  notLeaderForShare,
  type ShareRefusal,
  sharePlace,
  shiftLeader,
  shiftRanges,
  splitShareTopics,
} from '../share-topics.ts';
import type { TopicDirectory } from '../topic-directory.ts';

export const shareFetchHandler: Handler = (context) => {
  const { header, session } = context;
  const { directory } = session.services;
  const request = decodeBody(context, shareFetchRequestCodec);
  if (session.role.kind === 'link') return answerAtLinkNode(context, request);
  const topicIds = request.topics.map(({ topicId }) => topicId);
  if (isAnyUnsettled(directory, topicIds)) return answerNoSession(context);
  const { kept, refused } = splitShareTopics(directory, request.topics);
  const rewrite = rewriting(header, shareFetchResponseCodec, async (response) => {
    const isAdvertised = await advertiseNodes(session.services, response.nodeEndpoints);
    const isShifted = shiftResponse(directory, response);
    const answered = response.responses.flatMap(({ partitions }) => partitions);
    const isDropped = dropLostHints(response.nodeEndpoints, answered);
    for (const { topic, refusals } of refused) {
      response.responses.push(
        refusedTopic(topic, (partition) => refusals.get(partition) ?? notLeaderForShare),
      );
    }
    return isShifted || isDropped || isAdvertised || refused.length > 0;
  });
  if (kept === null) return { kind: 'forward', rewrite };
  const changed = requestWith(context, shareFetchRequestCodec, { ...request, topics: kept });
  return { kind: 'forward', request: changed, rewrite };
};

/** No session outlives this: the client asks again in full. */
function answerNoSession(context: RequestContext): Disposition {
  const errorCode = ErrorCode.SHARE_SESSION_NOT_FOUND;
  return answer(context, shareFetchResponseCodec, createShareFetchResponse({ errorCode }));
}

/** Late, so that a consumer that polls on until the promotion does not spin. */
function answerAtLinkNode(context: RequestContext, request: ShareFetchRequest): Disposition {
  if (request.shareSessionEpoch > 0) return answerNoSession(context);
  const { session, header } = context;
  return {
    kind: 'answer',
    response: holdBack(session).then(() => {
      const response = refusedAtLinkNode(session.services.directory, request);
      return responseTo(header, shareFetchResponseCodec, response);
    }),
  };
}

function refusedAtLinkNode(directory: TopicDirectory, request: ShareFetchRequest) {
  const responses = request.topics.map((topic) =>
    refusedTopic(topic, (partition) => {
      const place = sharePlace(directory, topic, partition);
      return place.kind === 'refused' ? place.refusal : notLeaderForShare;
    }),
  );
  return createShareFetchResponse({ responses });
}

function refusedTopic(
  topic: FetchTopic,
  refusalOf: (partition: number) => ShareRefusal,
): ShareFetchableTopicResponse {
  return createShareFetchableTopicResponse({
    topicId: topic.topicId,
    partitions: topic.partitions.map(({ partitionIndex, acknowledgementBatches }) =>
      refusedPartition(partitionIndex, refusalOf(partitionIndex), acknowledgementBatches.length),
    ),
  });
}

function refusedPartition(
  partitionIndex: number,
  refusal: ShareRefusal,
  acknowledgementsCount: number,
): PartitionData {
  return createPartitionData({
    partitionIndex,
    ...refusal,
    ...(acknowledgementsCount > 0 && {
      acknowledgeErrorCode: refusal.errorCode,
      acknowledgeErrorMessage: refusal.errorMessage,
    }),
    currentLeader: createLeaderIdAndEpoch(noLeader),
    records: emptyBytes,
  });
}

/**
 * Also of topics that the request did not name: the session did. A topic of which we cannot tell
 * what its offsets mean gives nothing; the broker hands these records out again when their time has
 * run out.
 */
function shiftResponse(directory: TopicDirectory, response: ShareFetchResponse): boolean {
  let isChanged = false;
  for (const topic of response.responses) {
    topic.partitions = topic.partitions.map((data) => {
      const place = sharePlace(directory, topic, data.partitionIndex);
      if (place.kind === 'ordinary') return data;
      isChanged = true;
      if (place.kind === 'refused') return refusedPartition(data.partitionIndex, place.refusal, 0);
      const { native } = place;
      if (data.records !== null) shiftRecords(data.records, native);
      return {
        ...data,
        currentLeader: shiftLeader(data.currentLeader, native),
        acquiredRecords: shiftRanges(data.acquiredRecords, native.offsetShift),
      };
    });
  }
  return isChanged;
}
