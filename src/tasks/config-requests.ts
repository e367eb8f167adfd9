// Reading and altering the configs of many topics of one cluster. Owns batches and per-topic error
// codes; refuses to know what is compared. Invariants: a topic that could not be read has an error,
// never an empty set of configs; only single keys are ever altered, never a topic's whole set.
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
} from '../../protocol/generated/describe-configs-request.ts';
import {
  createAlterableConfig,
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
} from '../../protocol/generated/incremental-alter-configs-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { describeConfigsApi, incrementalAlterConfigsApi } from '../cluster/apis.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { SourceConfig } from '../link/mirror/topic-configs.ts';
import type { ConfigChange } from './config-diff.ts';

const topicResource = 2;
const setOperation = 0;
const deleteOperation = 1;

export interface TopicConfigs {
  readonly errorCode: number;
  readonly configs: readonly SourceConfig[];
}

/** @throws ClusterError */
export async function readTopicConfigs(
  cluster: Cluster,
  topics: readonly string[],
  keys: readonly string[],
): Promise<ReadonlyMap<string, TopicConfigs>> {
  const response = await cluster.send(
    { kind: 'any' },
    describeConfigsApi,
    createDescribeConfigsRequest({
      resources: topics.map((resourceName) =>
        createDescribeConfigsResource({
          resourceType: topicResource,
          resourceName,
          configurationKeys: [...keys],
        }),
      ),
    }),
  );
  return new Map(
    response.results.map(({ resourceName, errorCode, configs }) => [
      resourceName,
      { errorCode, configs },
    ]),
  );
}

export interface AlterResult {
  readonly errorCode: number;
  readonly message: string;
}

/** All changes of one topic are made, or none. @throws ClusterError */
export async function alterTopicConfigs(
  cluster: Cluster,
  changes: ReadonlyMap<string, readonly ConfigChange[]>,
): Promise<ReadonlyMap<string, AlterResult>> {
  const response = await cluster.send(
    { kind: 'controller' },
    incrementalAlterConfigsApi,
    createIncrementalAlterConfigsRequest({
      resources: [...changes].map(([resourceName, configs]) =>
        createAlterConfigsResource({
          resourceType: topicResource,
          resourceName,
          configs: configs.map(({ name, value }) =>
            createAlterableConfig({
              name,
              configOperation: value === null ? deleteOperation : setOperation,
              value,
            }),
          ),
        }),
      ),
    }),
  );
  const results = new Map<string, AlterResult>();
  for (const name of changes.keys()) {
    const found = response.responses.find(({ resourceName }) => resourceName === name);
    const errorCode = found?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    const detail = found?.errorMessage ? `: ${found.errorMessage}` : '';
    results.set(name, { errorCode, message: `${errorName(errorCode)}${detail}` });
  }
  return results;
}
