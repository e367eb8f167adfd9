// DescribeConfigs: the link node as a broker has no configs and is answered here, without an error,
// so that tools that walk over all nodes go on. A mirror's configs have one more entry: where it
// came from. A broker's configs that hold real addresses are shown as sensitive, without a value.
// Everything else is the destination's.
import {
  type DescribeConfigsRequest,
  type DescribeConfigsResource,
  describeConfigsRequestCodec,
} from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResult,
  type DescribeConfigsResponse,
  type DescribeConfigsResult,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { hideAddress, isBroker, isLinkNode } from '../config-resources.ts';
import type { Handler } from '../handler.ts';
import { decodeBody } from '../messages.ts';
import { originsAskedFor, originsEntry } from '../mirror-origins.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';

const api: ListedRequest<
  DescribeConfigsRequest,
  DescribeConfigsResponse,
  DescribeConfigsResource,
  DescribeConfigsResult
> = {
  request: describeConfigsRequestCodec,
  response: describeConfigsResponseCodec,
  entries: ({ resources }) => resources,
  keeping: (request, resources) => ({ ...request, resources }),
  answered: ({ resourceType, resourceName }, { session }) => {
    const resource = { resourceType, resourceName };
    return isLinkNode(session.services, resource) ? createDescribeConfigsResult(resource) : null;
  },
  results: ({ results }) => results,
};

export const describeConfigsHandler: Handler = (context) => {
  const { directory } = context.session.services;
  const { resources } = decodeBody(context, describeConfigsRequestCodec);
  const origins = originsAskedFor(directory, resources);
  if (origins.size === 0 && !resources.some(isBroker)) return answerInPart(context, api);
  return answerInPart(context, api, ({ results }) => {
    for (const result of results) {
      const clusters = isBroker(result) ? undefined : origins.get(result.resourceName);
      if (clusters !== undefined && result.errorCode === ErrorCode.NONE) {
        result.configs.push(originsEntry(clusters));
      }
      if (isBroker(result)) result.configs.forEach(hideAddress);
    }
    return true;
  });
};
