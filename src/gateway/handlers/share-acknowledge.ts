// ShareAcknowledge: as ShareFetch. Nothing of a mirror was ever acquired, so nothing is lost when
// it is taken out and refused; of promoted topics the offsets go as native ones.
import {
  type AcknowledgeTopic,
  shareAcknowledgeRequestCodec,
} from '../../../protocol/generated/share-acknowledge-request.ts';
import {
  createLeaderIdAndEpoch,
  createPartitionData,
  createShareAcknowledgeResponse,
  createShareAcknowledgeTopicResponse,
  type ShareAcknowledgeResponse,
  shareAcknowledgeResponseCodec,
} from '../../../protocol/generated/share-acknowledge-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Disposition, Handler, RequestContext } from '../handler.ts';
import { answer, decodeBody, requestWith, rewriting } from '../messages.ts';
import { advertiseNodes, dropLostHints, noLeader } from '../node-endpoints.ts';
import {
  isAnyUnsettled,
  type RefusedShareTopic,
  type ShareRefusal,
  sharePlace,
  shiftLeader,
  splitShareTopics,
} from '../share-topics.ts';
import type { TopicDirectory } from '../topic-directory.ts';

export const shareAcknowledgeHandler: Handler = (context) => {
  const { header, session } = context;
  const { directory } = session.services;
  const request = decodeBody(context, shareAcknowledgeRequestCodec);
  const topicIds = request.topics.map(({ topicId }) => topicId);
  const isAtLinkNode = session.role.kind === 'link';
  if (isAtLinkNode || isAnyUnsettled(directory, topicIds)) return answerNoSession(context);
  const { kept, refused } = splitShareTopics(directory, request.topics);
  const rewrite = rewriting(header, shareAcknowledgeResponseCodec, async (response) => {
    const isAdvertised = await advertiseNodes(session.services, response.nodeEndpoints);
    const isShifted = shiftResponse(directory, response);
    const answered = response.responses.flatMap(({ partitions }) => partitions);
    const isDropped = dropLostHints(response.nodeEndpoints, answered);
    response.responses.push(...refused.map(refusedTopic));
    return isShifted || isDropped || isAdvertised || refused.length > 0;
  });
  if (kept === null) return { kind: 'forward', rewrite };
  const native = { ...request, topics: kept };
  const changed = requestWith(context, shareAcknowledgeRequestCodec, native);
  return { kind: 'forward', request: changed, rewrite };
};

function answerNoSession(context: RequestContext): Disposition {
  const errorCode = ErrorCode.SHARE_SESSION_NOT_FOUND;
  const response = createShareAcknowledgeResponse({ errorCode });
  return answer(context, shareAcknowledgeResponseCodec, response);
}

function refusedTopic({ topic, refusals }: RefusedShareTopic<AcknowledgeTopic>) {
  const partitions = [...refusals].map(([partition, refusal]) =>
    refusedPartition(partition, refusal),
  );
  return createShareAcknowledgeTopicResponse({ topicId: topic.topicId, partitions });
}

function refusedPartition(partitionIndex: number, refusal: ShareRefusal) {
  const currentLeader = createLeaderIdAndEpoch(noLeader);
  return createPartitionData({ partitionIndex, ...refusal, currentLeader });
}

function shiftResponse(directory: TopicDirectory, response: ShareAcknowledgeResponse): boolean {
  let isChanged = false;
  for (const topic of response.responses) {
    for (const data of topic.partitions) {
      const place = sharePlace(directory, topic, data.partitionIndex);
      if (place.kind === 'ordinary') continue;
      isChanged = true;
      // Acknowledged is acknowledged, also when the topic is no longer known; its leader is not.
      data.currentLeader =
        place.kind === 'promoted'
          ? shiftLeader(data.currentLeader, place.native)
          : createLeaderIdAndEpoch(noLeader);
    }
  }
  return isChanged;
}
