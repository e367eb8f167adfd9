// AlterConfigs, which replaces all configs of a resource: our own topics and the link node are
// refused (config-resources.ts); the rest goes on. For a mirror the destination is asked first what
// its always synced keys are now: a request that would change one, by naming another value or by
// leaving it out, is refused as IncrementalAlterConfigs is. No answer means no.
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
  createAlterConfigsResponse,
} from '../../../protocol/generated/alter-configs-response.ts';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
  describeConfigsRequestCodec,
} from '../../../protocol/generated/describe-configs-request.ts';
import {
  type DescribeConfigsResult,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { alwaysSynced } from '../../link/mirror/topic-configs.ts';
import { AclOperation, authorize } from '../authorizer.ts';
import { alterationRefusal, mirrorOf, syncedKeyRefusal, topicOf } from '../config-resources.ts';
import type { Handler, RequestContext, SessionView } from '../handler.ts';
import { apiOf, decodeBody, responseTo } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { answerInPart, type ListedRequest } from '../partial-answer.ts';
import { forbiddenTopic, type Refusal } from '../refusals.ts';
import { ThrottledSession } from '../throttled-session.ts';

const alterConfigsApi = apiOf(alterConfigsRequestCodec, alterConfigsResponseCodec);
const describeConfigsApi = apiOf(describeConfigsRequestCodec, describeConfigsResponseCodec, {
  min: 1,
});
const setOnTopic = 1;

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
    answered: (resource, { session }) => {
      const refusal = alterationRefusal(session.services, ownTopics, resource);
      return refusal && refused(resource, refusal);
    },
    results: ({ responses }) => responses,
    right: { operation: AclOperation.ALTER_CONFIGS, topicOf, refused },
  };
  return (context) => {
    const { resources } = decodeBody(context, alterConfigsRequestCodec);
    const { services } = context.session;
    const mirrors = resources.filter((one) => mirrorOf(services, one) !== undefined);
    if (mirrors.length === 0) return answerInPart(context, api);
    return { kind: 'answer', response: answerForMirrors(context, ownTopics, mirrors) };
  };
}

function refused(
  { resourceType, resourceName }: AlterConfigsResource,
  { errorCode, errorMessage }: Refusal,
): AlterConfigsResourceResponse {
  return createAlterConfigsResourceResponse({
    resourceType,
    resourceName,
    errorCode,
    errorMessage,
  });
}

async function answerForMirrors(
  context: RequestContext,
  ownTopics: OwnTopics,
  mirrors: readonly AlterConfigsResource[],
): Promise<readonly Buffer[]> {
  const { header } = context;
  const session = new ThrottledSession(context.session);
  const request = decodeBody(context, alterConfigsRequestCodec);
  const names = request.resources.flatMap((resource) => topicOf(resource) ?? []);
  const verdicts = await authorize(session, names, AclOperation.ALTER_CONFIGS);
  const isForbidden = (resource: AlterConfigsResource): boolean =>
    verdicts.get(topicOf(resource) ?? '') === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
  const configs = await currentConfigs(session, mirrors);
  const response = createAlterConfigsResponse();
  const kept: AlterConfigsResource[] = [];
  for (const resource of request.resources) {
    const refusal =
      (isForbidden(resource) ? forbiddenTopic : null) ??
      alterationRefusal(session.services, ownTopics, resource) ??
      (mirrorOf(session.services, resource) === undefined
        ? null
        : changeRefusal(session, resource, configs.get(resource.resourceName)));
    if (refusal === null) kept.push(resource);
    else response.responses.push(refused(resource, refusal));
  }
  if (kept.length > 0) {
    const options = { versionMax: header.apiVersion };
    const changed = { ...request, resources: kept };
    const answer = await session.callUpstream(alterConfigsApi, changed, options);
    response.responses.push(...answer.responses);
  }
  session.tell(response);
  return responseTo(header, alterConfigsResponseCodec, response);
}

async function currentConfigs(
  session: SessionView,
  mirrors: readonly AlterConfigsResource[],
): Promise<ReadonlyMap<string, DescribeConfigsResult>> {
  const request = createDescribeConfigsRequest({
    resources: mirrors.map(({ resourceType, resourceName }) =>
      createDescribeConfigsResource({
        resourceType,
        resourceName,
        configurationKeys: [...alwaysSynced],
      }),
    ),
  });
  const { results } = await session.callUpstream(describeConfigsApi, request);
  return new Map(results.map((one) => [one.resourceName, one]));
}

function changeRefusal(
  session: SessionView,
  resource: AlterConfigsResource,
  current: DescribeConfigsResult | undefined,
): Refusal | null {
  if (current === undefined || current.errorCode !== ErrorCode.NONE) {
    return {
      errorCode: current?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR,
      errorMessage:
        // Empty where the broker says no more than the code.
        current?.errorMessage ||
        `the configs of mirror ${resource.resourceName}, which follow its source, cannot be read`,
    };
  }
  const named = new Map(resource.configs.map(({ name, value }) => [name, value]));
  const changed = current.configs.filter(({ name, value, configSource }) =>
    named.has(name) ? named.get(name) !== value : configSource === setOnTopic,
  );
  const keys = changed.map(({ name }) => name);
  return syncedKeyRefusal(session.services, resource, keys);
}
