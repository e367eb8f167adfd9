// The settings of a link's sync tasks: topics, configs, ACLs. Pure. Refuses to know how tasks work.
// Invariant: a key that no task may ever touch cannot be asked for.
import { MappingRuleError, parsePrincipalMapping } from '../../config/principal-mapping.ts';
import { type AclFilter, parseAclFilters } from '../../tasks/acl-filters.ts';
import { parseList } from '../../tasks/json-filters.ts';
import { type NameFilter, parseNameFilter } from '../../tasks/name-filters.ts';
import { alwaysSynced, neverSynced, syncableConfigs } from '../mirror/topic-configs.ts';
import { boolean, filters, integer, list, refuse } from './setting-values.ts';

export interface SyncSettings {
  readonly topicSync: {
    readonly enabled: boolean;
    /** Null: none were given. */
    readonly filters: readonly NameFilter[] | null;
    readonly mirrorsMax: number;
    /** -1: the destination's default. */
    readonly replicationFactor: number;
  };
  readonly configSync: {
    readonly periodMs: number;
    readonly include: ReadonlySet<string>;
  };
  readonly aclSync: {
    readonly enabled: boolean;
    readonly periodMs: number;
    readonly filters: readonly AclFilter[] | null;
    /** `owned`: ACLs that we made and that the source does not have any more are deleted. */
    readonly mode: 'additive' | 'owned';
    /** Grants of WRITE on topics wait until the topic is promoted. */
    readonly isWriteHeld: boolean;
    /** What a principal of the source is called at the destination. */
    readonly principal: (principal: string) => string;
  };
  /** What is told to MirrorMaker 2's tools, by its own names. */
  readonly emit: {
    readonly checkpoints: boolean;
    readonly checkpointsPeriodMs: number;
    readonly heartbeats: boolean;
    readonly heartbeatsPeriodMs: number;
  };
}

export const syncSettingDefaults: Readonly<Record<string, string>> = {
  'auto.create.mirror.topics.enable': 'false',
  'auto.create.mirror.topics.filters': '',
  'auto.create.mirror.topics.max': '1000',
  'mirror.topic.replication.factor': '-1',
  'topic.config.sync.ms': '5000',
  'topic.config.sync.include': '',
  'acl.sync.enable': 'false',
  'acl.sync.ms': '5000',
  'acl.filters': '',
  'acl.sync.mode': 'additive',
  'acl.sync.write.hold.enable': 'false',
  'acl.principal.mapping.rules': '',
  'emit.checkpoints.enabled': 'false',
  'emit.checkpoints.interval.seconds': '5',
  'emit.heartbeats.enabled': 'false',
  'emit.heartbeats.interval.seconds': '1',
};

const replicationFactorMax = 32_767;

export function parseTopicFilters(text: string): readonly NameFilter[] | null {
  return parseList(text, 'topicFilters', parseNameFilter);
}

function replicationFactor(configs: Readonly<Record<string, string>>): number {
  const name = 'mirror.topic.replication.factor';
  const value = integer(configs, name, -1);
  if (value === 0 || value > replicationFactorMax) {
    refuse(name, `must be -1 (the destination's default) or from 1 to ${replicationFactorMax}`);
  }
  return value;
}

function include(text: string): ReadonlySet<string> {
  const name = 'topic.config.sync.include';
  const keys = list(text);
  if (keys.length === 0) return syncableConfigs;
  for (const key of keys) {
    if (neverSynced.includes(key)) refuse(name, `cannot name '${key}': it is never synchronised`);
    if (!syncableConfigs.has(key)) refuse(name, `names '${key}', which cannot be synchronised`);
  }
  for (const key of alwaysSynced) {
    if (!keys.includes(key)) refuse(name, `must name '${key}', which always follows the source`);
  }
  return new Set(keys);
}

function mode(text: string): 'additive' | 'owned' {
  const value = text.toLowerCase();
  if (value === 'additive' || value === 'owned') return value;
  return refuse('acl.sync.mode', "must be 'additive' or 'owned'");
}

/** Kafka's rules for names of users; a name that no rule fits stays as it is. */
function principalMapping(rules: string): (principal: string) => string {
  if (rules.trim() === '') return (principal) => principal;
  const type = 'User:';
  try {
    const map = parsePrincipalMapping(`${rules.trim()}, DEFAULT`);
    return (principal) =>
      principal.startsWith(type) ? `${type}${map(principal.slice(type.length))}` : principal;
  } catch (error) {
    if (error instanceof MappingRuleError) refuse('acl.principal.mapping.rules', error.message);
    throw error;
  }
}

/** @throws LinkError INVALID_CONFIG naming the setting */
export function parseSyncSettings(configs: Readonly<Record<string, string>>): SyncSettings {
  const topicFilters = 'auto.create.mirror.topics.filters';
  return {
    topicSync: {
      enabled: boolean(configs, 'auto.create.mirror.topics.enable'),
      filters: filters(configs, topicFilters, parseTopicFilters),
      mirrorsMax: integer(configs, 'auto.create.mirror.topics.max', 1),
      replicationFactor: replicationFactor(configs),
    },
    configSync: {
      periodMs: integer(configs, 'topic.config.sync.ms', 100),
      include: include(configs['topic.config.sync.include'] ?? ''),
    },
    aclSync: {
      enabled: boolean(configs, 'acl.sync.enable'),
      periodMs: integer(configs, 'acl.sync.ms', 100),
      filters: filters(configs, 'acl.filters', parseAclFilters),
      mode: mode(configs['acl.sync.mode'] ?? ''),
      isWriteHeld: boolean(configs, 'acl.sync.write.hold.enable'),
      principal: principalMapping(configs['acl.principal.mapping.rules'] ?? ''),
    },
    emit: {
      checkpoints: boolean(configs, 'emit.checkpoints.enabled'),
      checkpointsPeriodMs: 1_000 * integer(configs, 'emit.checkpoints.interval.seconds', 1),
      heartbeats: boolean(configs, 'emit.heartbeats.enabled'),
      heartbeatsPeriodMs: 1_000 * integer(configs, 'emit.heartbeats.interval.seconds', 1),
    },
  };
}
