// AlterConfigs: our own topics and the link node are refused (config-resources.ts); the rest goes
// on.
import {
  type AlterConfigsRequest,
  type AlterConfigsResource,
  alterConfigsRequestCodec,
} from '../../../protocol/generated/alter-configs-request.ts';
import {
  type AlterConfigsResourceResponse,
  type AlterConfigsResponse,
  alterConfigsResponseCodec,
  createAlterConfigsResourceResponse,
} from '../../../protocol/generated/alter-configs-response.ts';
import { alterationRefusal } from '../config-resources.ts';
import type { Handler } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';

export function createAlterConfigsHandler(ownTopics: OwnTopics): Handler {
  const api: ListedRequest<
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResource,
    AlterConfigsResourceResponse
  > = {
    request: alterConfigsRequestCodec,
    response: alterConfigsResponseCodec,
    entries: ({ resources }) => resources,
    keeping: (request, resources) => ({ ...request, resources }),
    answered: ({ resourceType, resourceName }, { session }) => {
      const resource = { resourceType, resourceName };
      const refused = alterationRefusal(session.services, ownTopics, resource);
      return refused && createAlterConfigsResourceResponse({ ...resource, ...refused });
    },
    results: ({ responses }) => responses,
  };
  return (context) => answerInPart(context, api);
}
