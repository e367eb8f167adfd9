// DescribeConfigs: the link node as a broker has no configs and is answered here, without an error,
// so that tools that walk over all nodes go on. Everything else is the destination's.
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
import { isLinkNode } from '../config-resources.ts';
import type { Handler } from '../handler.ts';
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

export const describeConfigsHandler: Handler = (context) => answerInPart(context, api);
