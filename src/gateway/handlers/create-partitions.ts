// CreatePartitions: a mirror grows with its source only (37 INVALID_PARTITIONS); our own topics are
// refused; the rest goes on.
import {
  type CreatePartitionsRequest,
  type CreatePartitionsTopic,
  createPartitionsRequestCodec,
} from '../../../protocol/generated/create-partitions-request.ts';
import {
  type CreatePartitionsResponse,
  type CreatePartitionsTopicResult,
  createCreatePartitionsTopicResult,
  createPartitionsResponseCodec,
} from '../../../protocol/generated/create-partitions-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { AclOperation } from '../authorizer.ts';
import type { Handler, RequestContext } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';
import { mirrorRefusal, ownTopicRefusal, type Refusal, unsettledRefusal } from '../refusals.ts';
import { isMirrored, topicStanding } from '../topic-standing.ts';

export function createCreatePartitionsHandler(ownTopics: OwnTopics): Handler {
  const refusal = ({ name }: CreatePartitionsTopic, context: RequestContext): Refusal | null => {
    if (ownTopics.has({ name })) return ownTopicRefusal();
    const standing = topicStanding(context.session.services.directory, { name });
    if (standing.kind === 'unsettled') return unsettledRefusal();
    if (standing.kind === 'ordinary' || !isMirrored(standing.view)) return null;
    const { errorMessage } = mirrorRefusal(standing.view, 'its partitions follow the source');
    return { errorCode: ErrorCode.INVALID_PARTITIONS, errorMessage };
  };
  const api: ListedRequest<
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult
  > = {
    request: createPartitionsRequestCodec,
    response: createPartitionsResponseCodec,
    entries: ({ topics }) => topics,
    keeping: (request, topics) => ({ ...request, topics }),
    answered: (topic, context) => {
      const refused = refusal(topic, context);
      return refused && createCreatePartitionsTopicResult({ name: topic.name, ...refused });
    },
    results: ({ results }) => results,
    right: {
      operation: AclOperation.ALTER,
      topicOf: ({ name }) => name,
      refused: ({ name }, refused) => createCreatePartitionsTopicResult({ name, ...refused }),
    },
  };
  return (context) => answerInPart(context, api);
}
