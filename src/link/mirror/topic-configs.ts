// Which configs a shell topic takes from its source, when it is made and later: one rule for both.
// Pure. Refuses to know brokers.
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
export const syncableConfigs: ReadonlySet<string> = new Set([
  ...alwaysSynced,
  ...syncedByDefault,
  timestampDifference,
]);
export const retentionOfTombstones = 'delete.retention.ms';
const pinnedRetention = '9223372036854775807';

/** What is to be asked of a source. */
export const sourceConfigKeys: readonly string[] = [...syncableConfigs];

export function isPinned(configs: Readonly<Record<string, string>>): boolean {
  return configs[retentionOfTombstones] === pinnedRetention && isCompacted(configs);
}

export function policiesOf(value: string | undefined): readonly string[] {
  return (value ?? 'delete').split(',').map((part) => part.trim());
}

export function isCompacted(configs: Readonly<Record<string, string>>): boolean {
  return policiesOf(configs['cleanup.policy']).includes('compact');
}

export interface SourceConfig {
  readonly name: string;
  readonly value: string | null;
  readonly configSource: number;
}

/**
 * What the source's configs mean for a shell. Of the always-synced keys the source's effective
 * value is taken, whatever it comes from; of the others what somebody set, on the topic or its
 * brokers.
 */
export function syncedConfigs(
  source: readonly SourceConfig[],
  include: ReadonlySet<string> = syncableConfigs,
): Readonly<Record<string, string>> {
  const configs: Record<string, string> = {};
  for (const { name, value, configSource } of source) {
    if (value === null || !include.has(name)) continue;
    const isSet = configSource !== defaultConfig;
    if (name === timestampDifference) {
      if (!isSet) continue;
      configs['message.timestamp.before.max.ms'] ??= value;
      configs['message.timestamp.after.max.ms'] ??= value;
    } else if (isSet || alwaysSynced.includes(name)) configs[name] = value;
  }
  return pinned(configs);
}

/** The configs of a new shell: the synced ones, and the operator's own on top. */
export function shellConfigs(
  synced: Readonly<Record<string, string>>,
  overrides: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return pinned({ ...synced, ...overrides });
}

function pinned(configs: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  if (!isCompacted(configs)) return configs;
  return { ...configs, [retentionOfTombstones]: pinnedRetention };
}

/** The operator's own configs that cannot be honoured, with the reason; null when all can. */
export function refusedOverride(overrides: Readonly<Record<string, string>>): string | null {
  for (const name of Object.keys(overrides)) {
    if (alwaysSynced.includes(name)) return `'${name}' always follows the source`;
  }
  return null;
}

/** DescribeConfigs' source of what was set on the topic itself. */
const setOnTopic = 1;

/** What a shell has set on itself that did not come from its source. */
export function ownConfigs(
  synced: Readonly<Record<string, string>>,
  found: readonly SourceConfig[],
): Readonly<Record<string, string>> {
  const own = found.flatMap(({ name, value, configSource }) => {
    const isOwn = configSource === setOnTopic && value !== null && synced[name] !== value;
    return isOwn && !alwaysSynced.includes(name) ? [[name, value] as const] : [];
  });
  return Object.fromEntries(own);
}

/**
 * Whether a topic was made with other configs than these, and how; null when with exactly these.
 */
export function otherConfigs(
  asked: Readonly<Record<string, string>>,
  found: readonly SourceConfig[],
): string | null {
  const own = new Map(
    found
      .filter(({ configSource }) => configSource === setOnTopic)
      .map(({ name, value }) => [name, value] as const),
  );
  for (const [name, value] of Object.entries(asked)) {
    if (own.get(name) !== value) {
      return `it was made with ${name}=${own.get(name) ?? '(nothing)'}, not with ${value}`;
    }
    own.delete(name);
  }
  const [more] = own.keys();
  return more === undefined ? null : `it was made with ${more}, which was not asked for`;
}
