// Makes our Kafka clients from settings: one for the destination, one for the source of each link.
// Owns which Kafka client setting becomes which limit of the client. Nothing is connected here yet.
import { readFile } from 'node:fs/promises';
import type { Cluster } from './cluster/cluster.ts';
import { connectCluster } from './cluster/cluster-client.ts';
import type { ClusterLimits } from './cluster/limits.ts';
import { ClusterSecurity } from './cluster/security.ts';
import type { CausewayConfig, KafkaClientSettings } from './config/config.ts';
import type { ReferenceSources } from './config/references.ts';
import { parseLinkSettings } from './link/settings/link-settings.ts';
import type { LinkRecord } from './state/records.ts';

const limitOfSetting: Readonly<Record<string, keyof ClusterLimits>> = {
  'request.timeout.ms': 'requestTimeoutMs',
  'reconnect.backoff.ms': 'backoffMs',
  'reconnect.backoff.max.ms': 'backoffMsMax',
  'retry.backoff.ms': 'retryBackoffMs',
};

function limitsFrom(settings: KafkaClientSettings): Partial<ClusterLimits> {
  const limits: Partial<Record<keyof ClusterLimits, number>> = {};
  for (const [name, limit] of Object.entries(limitOfSetting)) {
    const value = settings[name];
    if (value !== undefined) limits[limit] = Number(value);
  }
  return limits;
}

/** References in the settings of links are resolved here, at connection time, and nowhere else. */
const references: ReferenceSources = {
  environment: (name) => process.env[name],
  readFile: (path) => readFile(path, 'utf8'),
};

/** How the destination's brokers are reached, for the connections of the gateway's clients. */
export function destinationSecurity(config: CausewayConfig): ClusterSecurity {
  return new ClusterSecurity(config.destination.client);
}

export function connectDestination(
  config: CausewayConfig,
  changed: Partial<ClusterLimits> = {},
): Cluster {
  const { bootstrapServers, addressMap, client } = config.destination;
  const limits = { ...limitsFrom(client), ...changed };
  return connectCluster({ bootstrapServers, addressMap, client, limits });
}

/** @throws LinkError INVALID_CONFIG, ClusterError UNSUPPORTED */
export async function connectSource(record: LinkRecord): Promise<Cluster> {
  const { bootstrapServers, addressMap } = parseLinkSettings(record.configs);
  const { configs } = record;
  return connectCluster({
    bootstrapServers,
    addressMap,
    client: configs,
    references,
    clientId: configs['client.id'] || `causeway-${record.name}`,
    // Not known yet while a link is being made.
    clusterId: record.sourceClusterId || undefined,
    limits: limitsFrom(configs),
  });
}
