// Which configs a shell topic takes from its source when it is made. Pure. Refuses to know brokers.
// Invariant: nothing that could weaken or block the destination's own replication is ever copied,
// and a compacted shell keeps its tombstones for ever, or a deleted key of the copy could come
// back.

/** Cluster Linking's lists, without what older or newer brokers do not have. */
export const alwaysSynced: readonly string[] = [
  'cleanup.policy',
  'max.message.bytes',
  'message.timestamp.type',
];

export const syncedByDefault: readonly string[] = [
  'compression.type',
  'delete.retention.ms',
  'file.delete.delay.ms',
  'flush.messages',
  'flush.ms',
  'index.interval.bytes',
  'max.compaction.lag.ms',
  'min.compaction.lag.ms',
  'message.timestamp.before.max.ms',
  'message.timestamp.after.max.ms',
  'min.cleanable.dirty.ratio',
  'preallocate',
  'retention.bytes',
  'retention.ms',
  'segment.bytes',
  'segment.index.bytes',
  'segment.jitter.ms',
  'segment.ms',
];

/** Old sources have one setting where newer destinations have two. */
const timestampDifference = 'message.timestamp.difference.max.ms';

/** Never taken from a source, and never accepted for a mirror's shell by us. */
export const neverSynced: readonly string[] = [
  'min.insync.replicas',
  'unclean.leader.election.enable',
  'leader.replication.throttled.replicas',
  'follower.replication.throttled.replicas',
];

/** DescribeConfigs' source of a value that nobody set: Kafka's own default. */
const defaultConfig = 5;
const isSynced = new Set([...alwaysSynced, ...syncedByDefault]);
const pinnedRetention = '9223372036854775807';

export interface SourceConfig {
  readonly name: string;
  readonly value: string | null;
  readonly configSource: number;
}

/**
 * The configs of a new shell. Of the always-synced keys the source's effective value is taken,
 * whatever it comes from; of the others what somebody set, on the topic or its brokers.
 */
export function shellConfigs(
  source: readonly SourceConfig[],
  overrides: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const configs: Record<string, string> = {};
  for (const { name, value, configSource } of source) {
    if (value === null) continue;
    const isSet = configSource !== defaultConfig;
    if (name === timestampDifference && isSet) {
      configs['message.timestamp.before.max.ms'] = value;
      configs['message.timestamp.after.max.ms'] = value;
    } else if (isSynced.has(name) && (isSet || alwaysSynced.includes(name))) {
      configs[name] = value;
    }
  }
  Object.assign(configs, overrides);
  const policies = (configs['cleanup.policy'] ?? 'delete').split(',').map((part) => part.trim());
  if (policies.includes('compact')) configs['delete.retention.ms'] = pinnedRetention;
  return configs;
}

/** The operator's own configs that cannot be honoured, with the reason; null when all can. */
export function refusedOverride(overrides: Readonly<Record<string, string>>): string | null {
  for (const name of Object.keys(overrides)) {
    if (alwaysSynced.includes(name)) return `'${name}' always follows the source`;
  }
  return null;
}
