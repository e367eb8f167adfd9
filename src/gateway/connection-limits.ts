// Whether the destination's brokers let as many connections in as we may make: their limits for
// connections, in all and from one address, and for new ones per second, against our own. To
// brokers all our clients come from one address. Owns the comparison and the words; changes
// nothing.
// Invariant: what cannot be read is said, and never taken for enough.
import { describeClientQuotasRequestCodec } from '../../protocol/generated/describe-client-quotas-request.ts';
import { describeClientQuotasResponseCodec } from '../../protocol/generated/describe-client-quotas-response.ts';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
} from '../../protocol/generated/describe-configs-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { describeConfigsApi } from '../cluster/apis.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { connectionsMax } from './limits.ts';
import { apiOf } from './messages.ts';
import type { UpstreamAddresses } from './upstream-addresses.ts';

/** After a restart of the proxy all clients come back; they should not wait longer than this. */
const returnSecondsMax = 60;
/** New connections to one broker in a second. */
export const connectionRateMin = Math.ceil(connectionsMax / returnSecondsMax);

const brokerResource = 4;
const anyName = 2;

const describeQuotasApi = apiOf(
  describeClientQuotasRequestCodec,
  describeClientQuotasResponseCodec,
);

/** One sentence for each limit that is too low, or that cannot be read. @throws ClusterError */
export async function connectionLimitWarnings(
  cluster: Cluster,
  addresses: Pick<UpstreamAddresses, 'has'>,
): Promise<string[]> {
  const { brokers } = await cluster.metadata([]);
  const warnings: string[] = [];
  for (const { nodeId } of brokers) warnings.push(...(await ofBroker(cluster, nodeId, addresses)));
  warnings.push(...(await ofQuotas(cluster, addresses)));
  return warnings;
}

type Config = { readonly name: string; readonly value: string | null };

async function ofBroker(
  cluster: Cluster,
  nodeId: number,
  addresses: Pick<UpstreamAddresses, 'has'>,
): Promise<string[]> {
  const resource = { resourceType: brokerResource, resourceName: String(nodeId) };
  const { results } = await cluster.send(
    { kind: 'node', nodeId },
    describeConfigsApi,
    createDescribeConfigsRequest({
      resources: [createDescribeConfigsResource({ ...resource, configurationKeys: null })],
    }),
  );
  const errorCode = results[0]?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (errorCode !== ErrorCode.NONE) {
    return [`limits of broker ${nodeId} cannot be read: ${reasonOf(errorCode)}`];
  }
  const configs = results[0]?.configs ?? [];
  return configs
    .flatMap((config) => ofConfig(config, configs, addresses))
    .map((words) => `broker ${nodeId}: ${words}`);
}

/** Also those of one listener: `listener.name.NAME.max.connections`. */
function ofConfig(
  { name, value }: Config,
  all: readonly Config[],
  addresses: Pick<UpstreamAddresses, 'has'>,
): string[] {
  const limit = Number(value);
  const setting = /(?:^|\.)(max\.connection.*)$/.exec(name)?.[1];
  if (setting === 'max.connections' && limit < connectionsMax) {
    return [`${name} is ${limit}, below the ${connectionsMax} connections that we may make`];
  }
  if (setting === 'max.connections.per.ip') {
    const overrides = all.find((config) => config.name === `${name}.overrides`)?.value ?? '';
    const own = ownOverride(overrides, addresses);
    if ((own ?? limit) >= connectionsMax) return [];
    const which = own === null ? `${name} is ${limit}` : `${name}.overrides has ${own} for us`;
    const needed = `all our clients come from one address, up to ${connectionsMax}`;
    return [`${which}, and ${needed}: an override for the proxy's address helps`];
  }
  if (setting === 'max.connection.creation.rate' && limit < connectionRateMin) {
    return [`${name} is ${limit} per second, below ${connectionRateMin}: ${slow}`];
  }
  return [];
}

function reasonOf(errorCode: number): string {
  if (errorCode !== ErrorCode.CLUSTER_AUTHORIZATION_FAILED) return errorName(errorCode);
  return 'our login needs DESCRIBE_CONFIGS on CLUSTER';
}

const slow = `after a restart clients wait longer than ${returnSecondsMax} s`;

/** `10.0.0.7:500,host:20`: the one for an address of ours; null without. */
function ownOverride(overrides: string, addresses: Pick<UpstreamAddresses, 'has'>): number | null {
  for (const entry of overrides.split(',')) {
    const [, address = '', count] = /^\s*(.*):(\d+)\s*$/.exec(entry) ?? [];
    if (count !== undefined && addresses.has(address)) return Number(count);
  }
  return null;
}

async function ofQuotas(
  cluster: Cluster,
  addresses: Pick<UpstreamAddresses, 'has'>,
): Promise<string[]> {
  const components = [{ entityType: 'ip', matchType: anyName, match: null }];
  const answer = await cluster.send({ kind: 'any' }, describeQuotasApi, {
    components,
    strict: false,
  });
  if (answer.errorCode !== ErrorCode.NONE) {
    return [`quotas by address cannot be read: ${reasonOf(answer.errorCode)}`];
  }
  let ofAll: number | undefined;
  let own: number | undefined;
  for (const { entity, values } of answer.entries ?? []) {
    const rate = values.find(({ key }) => key === 'connection_creation_rate')?.value;
    const name = entity.find(({ entityType }) => entityType === 'ip')?.entityName;
    if (rate === undefined || name === undefined) continue;
    if (name === null) ofAll = rate;
    else if (addresses.has(name)) own = Math.min(rate, own ?? rate);
  }
  const rate = own ?? ofAll;
  if (rate === undefined || rate >= connectionRateMin) return [];
  const words = `the quota connection_creation_rate of our address is ${rate} per second`;
  return [`${words}, below ${connectionRateMin}: ${slow}`];
}
