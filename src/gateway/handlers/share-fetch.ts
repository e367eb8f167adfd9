// ShareFetch: topics that are or were mirrored are taken out and answered with an error
// (share-topics.ts); the rest, also when nothing is left, goes on, because the request carries the
// share session. Endpoints are ours.
import {
  type FetchTopic,
  shareFetchRequestCodec,
} from '../../../protocol/generated/share-fetch-request.ts';
import {
  createPartitionData,
  createShareFetchableTopicResponse,
  type ShareFetchableTopicResponse,
  shareFetchResponseCodec,
} from '../../../protocol/generated/share-fetch-response.ts';
import { emptyBytes } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { decodeBody, requestWith, rewriting } from '../messages.ts';
import { advertiseNodes } from '../node-endpoints.ts';
import { refuseShare, type ShareRefusal } from '../share-topics.ts';

export const shareFetchHandler: Handler = (context) => {
  const { header, session } = context;
  const request = decodeBody(context, shareFetchRequestCodec);
  const refused: ShareFetchableTopicResponse[] = [];
  const topics = request.topics.filter((topic) => {
    const refusal = refuseShare(session, topic.topicId);
    if (refusal !== null) refused.push(refusedTopic(topic, refusal));
    return refusal === null;
  });
  const forgottenTopicsData = request.forgottenTopicsData.filter(
    ({ topicId }) => refuseShare(session, topicId) === null,
  );
  const rewrite = rewriting(header, shareFetchResponseCodec, async (response) => {
    await advertiseNodes(session.services, response.nodeEndpoints);
    response.responses.push(...refused);
    return response.nodeEndpoints.length > 0 || refused.length > 0;
  });
  const isWhole =
    refused.length === 0 && forgottenTopicsData.length === request.forgottenTopicsData.length;
  if (isWhole) return { kind: 'forward', rewrite };
  const kept = { ...request, topics, forgottenTopicsData };
  return { kind: 'forward', request: requestWith(context, shareFetchRequestCodec, kept), rewrite };
};

function refusedTopic(topic: FetchTopic, refusal: ShareRefusal): ShareFetchableTopicResponse {
  return createShareFetchableTopicResponse({
    topicId: topic.topicId,
    partitions: topic.partitions.map(({ partitionIndex }) =>
      createPartitionData({ partitionIndex, ...refusal, records: emptyBytes }),
    ),
  });
}
