// ShareAcknowledge: as ShareFetch. Nothing of a refused topic was ever acquired, so nothing is
// lost.
import { shareAcknowledgeRequestCodec } from '../../../protocol/generated/share-acknowledge-request.ts';
import {
  createPartitionData,
  createShareAcknowledgeTopicResponse,
  type ShareAcknowledgeTopicResponse,
  shareAcknowledgeResponseCodec,
} from '../../../protocol/generated/share-acknowledge-response.ts';
import type { Handler } from '../handler.ts';
import { decodeBody, requestWith, rewriting } from '../messages.ts';
import { advertiseNodes } from '../node-endpoints.ts';
import { refuseShare } from '../share-topics.ts';

export const shareAcknowledgeHandler: Handler = (context) => {
  const { header, session } = context;
  const request = decodeBody(context, shareAcknowledgeRequestCodec);
  const refused: ShareAcknowledgeTopicResponse[] = [];
  const topics = request.topics.filter(({ topicId, partitions }) => {
    const refusal = refuseShare(session, topicId);
    if (refusal === null) return true;
    refused.push(
      createShareAcknowledgeTopicResponse({
        topicId,
        partitions: partitions.map(({ partitionIndex }) =>
          createPartitionData({ partitionIndex, ...refusal }),
        ),
      }),
    );
    return false;
  });
  const rewrite = rewriting(header, shareAcknowledgeResponseCodec, async (response) => {
    await advertiseNodes(session.services, response.nodeEndpoints);
    response.responses.push(...refused);
    return response.nodeEndpoints.length > 0 || refused.length > 0;
  });
  if (refused.length === 0) return { kind: 'forward', rewrite };
  const kept = requestWith(context, shareAcknowledgeRequestCodec, { ...request, topics });
  return { kind: 'forward', request: kept, rewrite };
};
