// What DescribeConfigs says of topics and brokers of either cluster, and what an answer without
// configs means. Knows nothing of which of them a mirror takes over.
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
} from '../../../protocol/generated/describe-configs-request.ts';
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { describeConfigsApi } from '../../cluster/apis.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { LinkError } from '../link-error.ts';
import { missingRight } from './missing-right.ts';
import type { SourceConfig } from './topic-configs.ts';

const topicResource = 2;
const brokerResource = 4;

interface DescribedResource {
  readonly type: number;
  readonly name: string;
  readonly keys: readonly string[] | null;
}

async function describe(
  cluster: Cluster,
  resources: readonly DescribedResource[],
  target: { kind: 'any' } | { kind: 'node'; nodeId: number },
): Promise<ReadonlyMap<string, readonly SourceConfig[] | LinkError>> {
  const response = await cluster.send(
    target,
    describeConfigsApi,
    createDescribeConfigsRequest({
      resources: resources.map(({ type, name, keys }) =>
        createDescribeConfigsResource({
          resourceType: type,
          resourceName: name,
          configurationKeys: keys === null ? null : [...keys],
        }),
      ),
    }),
  );
  const results = new Map(response.results.map((result) => [result.resourceName, result] as const));
  return new Map(
    resources.map(({ name }) => {
      const result = results.get(name);
      const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
      const isRead = result !== undefined && errorCode === ErrorCode.NONE;
      return [name, isRead ? result.configs : unreadableConfigs(name, errorCode)];
    }),
  );
}

function unreadableConfigs(name: string, errorCode: number): LinkError {
  const remedy = missingRight(errorCode, name, 'DescribeConfigs');
  return new LinkError(
    remedy === '' ? 'SOURCE_TOPIC_NOT_FOUND' : 'SOURCE_UNAUTHORIZED',
    `The configs of '${name}' cannot be read: ${errorName(errorCode)}${remedy}`,
  );
}

/** Of each topic its configs, or why they cannot be read. @throws ClusterError */
export function manyTopicConfigs(
  cluster: Cluster,
  topics: readonly string[],
): Promise<ReadonlyMap<string, readonly SourceConfig[] | LinkError>> {
  const resources = topics.map((name) => ({ type: topicResource, name, keys: null }));
  return describe(cluster, resources, { kind: 'any' });
}

/** @throws LinkError, ClusterError */
export async function topicConfigs(
  cluster: Cluster,
  topic: string,
): Promise<readonly SourceConfig[]> {
  return orThrow((await manyTopicConfigs(cluster, [topic])).get(topic));
}

function orThrow(found: readonly SourceConfig[] | LinkError | undefined): readonly SourceConfig[] {
  if (found instanceof LinkError) throw found;
  return found ?? [];
}

/** One broker setting, or null when the broker does not say. */
export async function brokerConfig(
  cluster: Cluster,
  nodeId: number,
  key: string,
): Promise<string | null> {
  const resource = { type: brokerResource, name: String(nodeId), keys: [key] };
  const found = await describe(cluster, [resource], { kind: 'node', nodeId });
  return orThrow(found.get(resource.name)).find(({ name }) => name === key)?.value ?? null;
}
