// IncrementalAlterConfigs: our own topics, the link node and, of mirrors, keys that always follow
// the source are refused (config-resources.ts); the rest goes on. Taking configs away from the link
// node does nothing, since it has none: kafka-reassign-partitions clears throttles on every node.
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
import { AclOperation } from '../authorizer.ts';
import { alterationRefusal, isLinkNode, syncedKeyRefusal, topicOf } from '../config-resources.ts';
import type { Handler } from '../handler.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';

const deletes = 1;

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
    answered: ({ resourceType, resourceName, configs }, { session }) => {
      const resource = { resourceType, resourceName };
      const onlyDeletes =
        configs.length > 0 && configs.every((one) => one.configOperation === deletes);
      if (onlyDeletes && isLinkNode(session.services, resource)) {
        return createAlterConfigsResourceResponse(resource);
      }
      const keys = configs.map(({ name }) => name);
      const refused =
        alterationRefusal(session.services, ownTopics, resource) ??
        syncedKeyRefusal(session.services, resource, keys);
      return refused && createAlterConfigsResourceResponse({ ...resource, ...refused });
    },
    results: ({ responses }) => responses,
    right: {
      operation: AclOperation.ALTER_CONFIGS,
      topicOf,
      refused: ({ resourceType, resourceName }, refused) =>
        createAlterConfigsResourceResponse({ resourceType, resourceName, ...refused }),
    },
  };
  return (context) => answerInPart(context, api);
}
