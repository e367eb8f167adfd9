// Reading and altering configs of topics and brokers of one cluster. Owns the requests and the
// error codes of each resource; refuses to know what is compared. Invariants: what could not be
// read has an error, never an empty set of configs; only single keys are ever altered, never a
// topic's whole set.
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
} from '../../protocol/generated/describe-configs-request.ts';
import type { DescribeConfigsResourceResult } from '../../protocol/generated/describe-configs-response.ts';
import {
  createAlterableConfig,
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
} from '../../protocol/generated/incremental-alter-configs-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { describeConfigsApi, incrementalAlterConfigsApi } from './apis.ts';
import type { Cluster, Target } from './cluster.ts';

const topicResource = 2;
const brokerResource = 4;
const setOperation = 0;
const deleteOperation = 1;

export interface DescribedConfigs {
  readonly errorCode: number;
  /** Null where the broker says no more than the code. */
  readonly errorMessage: string | null;
  readonly configs: readonly DescribeConfigsResourceResult[];
}

const unread: DescribedConfigs = {
  errorCode: ErrorCode.UNKNOWN_SERVER_ERROR,
  errorMessage: null,
  configs: [],
};

/** By topic; `keys` null: all of them. @throws ClusterError */
export function readTopicConfigs(
  cluster: Cluster,
  topics: readonly string[],
  keys: readonly string[] | null,
): Promise<ReadonlyMap<string, DescribedConfigs>> {
  return describe(cluster, { kind: 'any' }, { resourceType: topicResource, names: topics, keys });
}

/** One setting of one broker; only the broker itself tells it. @throws ClusterError */
export async function readBrokerConfig(
  cluster: Cluster,
  nodeId: number,
  key: string,
): Promise<DescribedConfigs> {
  const name = String(nodeId);
  const asked = { resourceType: brokerResource, names: [name], keys: [key] };
  return (await describe(cluster, { kind: 'node', nodeId }, asked)).get(name) ?? unread;
}

async function describe(
  cluster: Cluster,
  target: Target,
  asked: {
    readonly resourceType: number;
    readonly names: readonly string[];
    readonly keys: readonly string[] | null;
  },
): Promise<ReadonlyMap<string, DescribedConfigs>> {
  const { resourceType, names, keys } = asked;
  const response = await cluster.send(
    target,
    describeConfigsApi,
    createDescribeConfigsRequest({
      resources: names.map((resourceName) =>
        createDescribeConfigsResource({
          resourceType,
          resourceName,
          configurationKeys: keys === null ? null : [...keys],
        }),
      ),
    }),
  );
  const results = new Map(response.results.map((result) => [result.resourceName, result] as const));
  return new Map(names.map((name) => [name, results.get(name) ?? unread] as const));
}

export interface ConfigChange {
  readonly name: string;
  /** Null: unset, so that the cluster's own default applies. */
  readonly value: string | null;
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
