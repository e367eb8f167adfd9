// What DescribeConfigs says of topics and brokers of either cluster, and what an answer without
// configs means. Knows nothing of which of them a mirror takes over.
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import {
  type DescribedConfigs,
  readBrokerConfig,
  readTopicConfigs,
} from '../../cluster/config-requests.ts';
import { LinkError } from '../link-error.ts';
import { missingRight } from './missing-right.ts';
import type { SourceConfig } from './topic-configs.ts';

function orUnreadable(
  name: string,
  { errorCode, configs }: DescribedConfigs,
): readonly SourceConfig[] | LinkError {
  return errorCode === ErrorCode.NONE ? configs : unreadableConfigs(name, errorCode);
}

function unreadableConfigs(name: string, errorCode: number): LinkError {
  const remedy = missingRight(errorCode, name, 'DescribeConfigs');
  return new LinkError(
    remedy === '' ? 'SOURCE_TOPIC_NOT_FOUND' : 'SOURCE_UNAUTHORIZED',
    `The configs of '${name}' cannot be read: ${errorName(errorCode)}${remedy}`,
  );
}

/** Of each topic its configs, or why they cannot be read. @throws ClusterError */
export async function manyTopicConfigs(
  cluster: Cluster,
  topics: readonly string[],
): Promise<ReadonlyMap<string, readonly SourceConfig[] | LinkError>> {
  const described = await readTopicConfigs(cluster, topics, null);
  return new Map([...described].map(([name, one]) => [name, orUnreadable(name, one)] as const));
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
  const found = orUnreadable(String(nodeId), await readBrokerConfig(cluster, nodeId, key));
  return orThrow(found).find(({ name }) => name === key)?.value ?? null;
}
