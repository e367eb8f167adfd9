// DeleteTopics: our own topics and mirrors are refused, by name and by id; the rest goes on. A
// promoted topic may be deleted like any other.
import {
  createDeleteTopicState,
  type DeleteTopicState,
  type DeleteTopicsRequest,
  deleteTopicsRequestCodec,
} from '../../../protocol/generated/delete-topics-request.ts';
import {
  createDeletableTopicResult,
  type DeletableTopicResult,
  type DeleteTopicsResponse,
  deleteTopicsResponseCodec,
} from '../../../protocol/generated/delete-topics-response.ts';
import { AclOperation } from '../authorizer.ts';
import type { Handler, RequestContext } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';
import { mirrorRefusal, ownTopicRefusal, type Refusal, unsettledRefusal } from '../refusals.ts';
import { isMirrored, topicStanding } from '../topic-standing.ts';

export function createDeleteTopicsHandler(ownTopics: OwnTopics): Handler {
  const refusal = (topic: DeleteTopicState, context: RequestContext): Refusal | null => {
    if (ownTopics.has(topic)) return ownTopicRefusal();
    const standing = topicStanding(context.session.services.directory, topic);
    if (standing.kind === 'unsettled') return unsettledRefusal();
    if (standing.kind === 'ordinary' || !isMirrored(standing.view)) return null;
    return mirrorRefusal(standing.view, 'it cannot be deleted');
  };
  const api: ListedRequest<
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DeletableTopicResult
  > = {
    request: deleteTopicsRequestCodec,
    response: deleteTopicsResponseCodec,
    entries: ({ topics, topicNames }) => [
      ...topics,
      ...topicNames.map((name) => createDeleteTopicState({ name })),
    ],
    keeping: (request, entries) =>
      request.topicNames.length > 0
        ? { ...request, topicNames: entries.flatMap(({ name }) => name ?? []) }
        : { ...request, topics: entries },
    answered: (topic, context) => {
      const refused = refusal(topic, context);
      return refused && resultOf(topic, refused, context);
    },
    results: ({ responses }) => responses,
    right: {
      operation: AclOperation.DELETE,
      topicOf: ({ name, topicId }, { session }) =>
        name ?? session.services.directory.byId(topicId)?.name ?? null,
      refused: resultOf,
    },
  };
  return (context) => answerInPart(context, api);
}

function resultOf(
  { name, topicId }: DeleteTopicState,
  refusal: Refusal,
  context: RequestContext,
): DeletableTopicResult {
  return createDeletableTopicResult({ name, topicId, ...forVersion(refusal, context) });
}

/** The message has a place from version 5 on, and an earlier one may not carry it. */
function forVersion(refusal: Refusal, { header }: RequestContext): Partial<Refusal> {
  return header.apiVersion >= 5 ? refusal : { errorCode: refusal.errorCode };
}
