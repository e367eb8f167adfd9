// CreateTopics: names of our own topics are refused, and so is the name of a mirror whose shell
// topic is about to be made (the intent is committed before it exists). An existing mirror is the
// destination's "already exists". While we cannot tell which names those are, nothing is made.
import {
  type CreatableTopic,
  type CreateTopicsRequest,
  createTopicsRequestCodec,
} from '../../../protocol/generated/create-topics-request.ts';
import {
  type CreatableTopicResult,
  type CreateTopicsResponse,
  createCreatableTopicResult,
  createTopicsResponseCodec,
} from '../../../protocol/generated/create-topics-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler, RequestContext } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';
import { learnId } from '../passing-ids.ts';
import { ownTopicRefusal, type Refusal, unsettledRefusal } from '../refusals.ts';

export function createCreateTopicsHandler(ownTopics: OwnTopics): Handler {
  const refusal = ({ name }: CreatableTopic, context: RequestContext): Refusal | null => {
    if (ownTopics.has({ name })) return ownTopicRefusal();
    const { directory } = context.session.services;
    const view = directory.byName(name);
    if (view === undefined) return directory.isSettled ? null : unsettledRefusal();
    if (view.topicId !== null) return null;
    const errorMessage = `topic ${name} is being created as a mirror over link ${view.link}`;
    return { errorCode: ErrorCode.TOPIC_ALREADY_EXISTS, errorMessage };
  };
  const api: ListedRequest<
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreatableTopic,
    CreatableTopicResult
  > = {
    request: createTopicsRequestCodec,
    response: createTopicsResponseCodec,
    entries: ({ topics }) => topics,
    keeping: (request, topics) => ({ ...request, topics }),
    answered: (topic, context) => {
      const refused = refusal(topic, context);
      return refused && createCreatableTopicResult({ name: topic.name, ...refused });
    },
    results: ({ topics }) => topics,
  };
  return (context) =>
    answerInPart(context, api, ({ topics }) => {
      for (const topic of topics) learnId(context.session.services.directory, topic);
      return false;
    });
}
