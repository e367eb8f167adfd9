// IncrementalAlterConfigs: our own topics and the link node are refused (config-resources.ts); the
// rest goes on.
import {
  type AlterConfigsResource,
  type IncrementalAlterConfigsRequest,
  incrementalAlterConfigsRequestCodec,
} from '../../../protocol/generated/incremental-alter-configs-request.ts';
import {
  type AlterConfigsResourceResponse,
  createAlterConfigsResourceResponse,
  type IncrementalAlterConfigsResponse,
  incrementalAlterConfigsResponseCodec,
} from '../../../protocol/generated/incremental-alter-configs-response.ts';
import { alterationRefusal } from '../config-resources.ts';
import type { Handler } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';

export function createIncrementalAlterConfigsHandler(ownTopics: OwnTopics): Handler {
  const api: ListedRequest<
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    AlterConfigsResource,
    AlterConfigsResourceResponse
  > = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
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
