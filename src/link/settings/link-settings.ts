// The settings of a link: which there are, what they mean, which values this version can honour.
// Pure. Refuses to know how a source is connected. Invariant: a setting that would be ignored is
// refused by name, and no secret is ever part of an error or accepted inline.
import { isSensitiveSetting } from '../../config/client-settings.ts';
import {
  isKeptSecret,
  isSecuritySetting,
  securityFaults,
  securitySettingDefaults,
} from '../../config/security-settings.ts';
import { withoutProtocol } from '../../config/values.ts';
import { type GroupFilter, parseGroupFilters } from '../../tasks/group-filters.ts';
import type { LinkLimits } from '../context.ts';
import { type AnswerSizes, answerBytesMax } from '../fetch/limits.ts';
import { LinkError } from '../link-error.ts';
import { earliestStart, startOffsetSetting, startTimestamp } from '../mirror/start-offset.ts';
import { boolean, filters, integer, list, refuse } from './setting-values.ts';
import { parseSyncSettings, type SyncSettings, syncSettingDefaults } from './sync-settings.ts';

export interface LinkSettings extends SyncSettings {
  readonly bootstrapServers: readonly string[];
  /** advertised host:port -> reachable host:port */
  readonly addressMap: Readonly<Record<string, string>>;
  readonly prefix: string;
  readonly paused: boolean;
  /** After so long without its topic at the source a mirror is FAILED. */
  readonly retryTimeoutMs: number;
  readonly fetchBytesMax: number | null;
  readonly fetchPartitionBytesMax: number | null;
  readonly fetchWaitMs: number | null;
  /** Connections to each source broker. */
  readonly fetchersPerBroker: number;
  /** Of the link's fetching; null does not limit. */
  readonly bytesPerSecond: number | null;
  /** Where we are: the source may name a replica that is nearer than the leader. */
  readonly rack: string;
  readonly metadataMaxAgeMs: number | null;
  /** A promotion waits until the source has not been written to for so long. */
  readonly promoteQuietMs: number | null;
  /** Where mirrors begin, unless said otherwise of one. */
  readonly startOffset: string;
  /** What is done when the source deleted records before they were read. */
  readonly lostHistory: 'stop' | 'continue';
  readonly offsetSync: {
    readonly enabled: boolean;
    readonly periodMs: number;
    readonly filters: readonly GroupFilter[] | null;
    /** Groups have the prefix of the link too. */
    readonly isPrefixed: boolean;
  };
}

/** Name -> default, for `config list`. Settings of Cluster Linking and of Kafka's clients. */
export const linkSettingDefaults: Readonly<Record<string, string>> = {
  'bootstrap.servers': '',
  ...securitySettingDefaults,
  'client.id': '',
  'client.rack': '',
  'client.dns.lookup': 'use_all_dns_ips',
  'address.map': '',
  'link.mode': 'DESTINATION',
  'connection.mode': 'OUTBOUND',
  'cluster.link.prefix': '',
  'cluster.link.paused': 'false',
  'cluster.link.retry.timeout.ms': '300000',
  'consumer.offset.sync.enable': 'false',
  'consumer.offset.sync.ms': '1000',
  'consumer.offset.group.filters': '',
  'consumer.group.prefix.enable': 'false',
  ...syncSettingDefaults,
  'num.cluster.link.fetchers': '1',
  'cluster.link.io.max.bytes.per.second': '-1',
  [startOffsetSetting]: earliestStart,
  'mirror.lost.history.policy': 'stop',
  'promote.quiet.ms': '2000',
  'metadata.max.age.ms': '2000',
  'request.timeout.ms': '10000',
  'retry.backoff.ms': '100',
  'reconnect.backoff.ms': '50',
  'reconnect.backoff.max.ms': '1000',
  'connections.max.idle.ms': '600000',
  'replica.fetch.max.bytes': '4194304',
  'replica.fetch.response.max.bytes': '8388608',
  'replica.fetch.wait.max.ms': '500',
};

/** Settings with one value only, until what they switch on is there. */
const onlyValues: Readonly<Record<string, string>> = {
  'link.mode': 'DESTINATION',
  'connection.mode': 'OUTBOUND',
  'client.dns.lookup': 'use_all_dns_ips',
  'connections.max.idle.ms': '600000',
};

/** More connections to one broker help nobody, and each holds up to three answers. */
const fetchersMax = 32;

const immutable = new Set([
  'cluster.link.prefix',
  'consumer.group.prefix.enable',
  startOffsetSetting,
  'link.mode',
]);

function checkKnown(name: string, value: string): void {
  if (isSensitiveSetting(name) && value !== '' && !isKeptSecret(name, value)) {
    refuse(name, `is a secret: give it as \${env:NAME} or \${file:PATH:KEY}`);
  }
  if (!Object.hasOwn(linkSettingDefaults, name)) {
    refuse(name, isSecuritySetting(name) ? 'is not supported in this version' : 'is unknown');
  }
  const only = onlyValues[name];
  if (only !== undefined && value.toUpperCase() !== only.toUpperCase()) {
    refuse(name, `can only be '${only}' in this version`);
  }
}

function checkHostPort(name: string, text: string): string {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:\s[\]/=]+):(\d{1,5})$/.exec(text);
  if (match === null || Number(match[2]) < 1 || Number(match[2]) > 65_535) {
    refuse(name, `has an entry that is not HOST:PORT: '${text}'`);
  }
  return text;
}

function bootstrapServers(text: string): string[] {
  const servers = list(text).map((entry) =>
    checkHostPort('bootstrap.servers', withoutProtocol(entry)),
  );
  if (servers.length === 0) refuse('bootstrap.servers', 'is missing');
  return servers;
}

/** `advertised=reachable`, comma separated. */
export function parseAddressMap(text: string): Readonly<Record<string, string>> {
  const map: Record<string, string> = {};
  for (const entry of list(text)) {
    const [from, to, ...rest] = entry.split('=').map((part) => part.trim());
    if (from === undefined || to === undefined || rest.length > 0) {
      refuse('address.map', `has an entry that is not ADVERTISED=REACHABLE: '${entry}'`);
    }
    map[checkHostPort('address.map', from)] = checkHostPort('address.map', to);
  }
  return map;
}

/** -1: not limited. */
function throttle(configs: Readonly<Record<string, string>>): number | null {
  const name = 'cluster.link.io.max.bytes.per.second';
  if (configs[name]?.trim() === '-1') return null;
  return integer(configs, name, 1);
}

function prefix(text: string): string {
  if (!/^[a-zA-Z0-9._-]*$/.test(text) || text.length > 200) {
    refuse('cluster.link.prefix', 'must be part of a topic name: letters, digits, . _ -');
  }
  if (text.startsWith('__causeway')) {
    refuse('cluster.link.prefix', "must not begin with '__causeway': such topics are our own");
  }
  return text;
}

function startOffset(spec: string): string {
  startTimestamp(spec);
  return spec;
}

function lostHistory(text: string): 'stop' | 'continue' {
  const value = text.toLowerCase();
  if (value === 'stop' || value === 'continue') return value;
  return refuse('mirror.lost.history.policy', "must be 'stop' or 'continue'");
}

/** @throws LinkError INVALID_CONFIG naming the setting */
export function parseLinkSettings(given: Readonly<Record<string, string>>): LinkSettings {
  for (const [name, value] of Object.entries(given)) checkKnown(name, value);
  const [fault] = securityFaults(given);
  if (fault !== undefined) refuse(fault.setting, fault.reason);
  const configs: Record<string, string> = { ...linkSettingDefaults, ...given };
  const setNumber = (name: string, min: number, max?: number): number | null => {
    const value = integer(configs, name, min, max);
    return Object.hasOwn(given, name) ? value : null;
  };
  for (const name of ['request.timeout.ms', 'retry.backoff.ms', 'reconnect.backoff.ms']) {
    integer(configs, name, 1);
  }
  integer(configs, 'reconnect.backoff.max.ms', 1);
  return {
    ...parseSyncSettings(configs),
    bootstrapServers: bootstrapServers(configs['bootstrap.servers'] ?? ''),
    addressMap: parseAddressMap(configs['address.map'] ?? ''),
    prefix: prefix(configs['cluster.link.prefix'] ?? ''),
    paused: boolean(configs, 'cluster.link.paused'),
    retryTimeoutMs: integer(configs, 'cluster.link.retry.timeout.ms', 1),
    fetchBytesMax: setNumber('replica.fetch.response.max.bytes', 1024, answerBytesMax),
    fetchPartitionBytesMax: setNumber('replica.fetch.max.bytes', 1024, answerBytesMax),
    fetchWaitMs: setNumber('replica.fetch.wait.max.ms', 0),
    fetchersPerBroker: integer(configs, 'num.cluster.link.fetchers', 1, fetchersMax),
    bytesPerSecond: throttle(configs),
    rack: configs['client.rack'] ?? '',
    metadataMaxAgeMs: setNumber('metadata.max.age.ms', 100),
    promoteQuietMs: setNumber('promote.quiet.ms', 0),
    startOffset: startOffset(configs[startOffsetSetting] ?? ''),
    lostHistory: lostHistory(configs['mirror.lost.history.policy'] ?? ''),
    offsetSync: {
      enabled: boolean(configs, 'consumer.offset.sync.enable'),
      periodMs: integer(configs, 'consumer.offset.sync.ms', 100),
      filters: filters(configs, 'consumer.offset.group.filters', parseGroupFilters),
      isPrefixed: boolean(configs, 'consumer.group.prefix.enable'),
    },
  };
}

/** What the link's answers are limited to, as it is set or by default. */
export function answerSizes(settings: LinkSettings, limits: LinkLimits): AnswerSizes {
  return {
    bytesMax: settings.fetchBytesMax ?? limits.fetchBytesMax,
    partitionBytesMax: settings.fetchPartitionBytesMax ?? limits.fetchPartitionBytesMax,
  };
}

/** The settings after a change; null removes one. @throws LinkError INVALID_CONFIG */
export function changedConfigs(
  configs: Readonly<Record<string, string>>,
  changes: readonly { readonly name: string; readonly value: string | null }[],
): Readonly<Record<string, string>> {
  const kept = new Map(Object.entries(configs));
  for (const { name, value } of changes) {
    const before = configs[name] ?? linkSettingDefaults[name];
    const after = value ?? linkSettingDefaults[name];
    if (immutable.has(name) && before !== after) refuse(name, 'cannot be changed');
    if (value === null) {
      if (!Object.hasOwn(linkSettingDefaults, name)) refuse(name, 'is unknown');
      kept.delete(name);
    } else kept.set(name, value);
  }
  const changed = Object.fromEntries(kept);
  parseLinkSettings(changed);
  return changed;
}

/** Settings whose change needs a new connection to the source. */
export function needsReconnect(
  before: Readonly<Record<string, string>>,
  after: Readonly<Record<string, string>>,
): boolean {
  const names = ['bootstrap.servers', 'address.map', 'client.id', 'retry.backoff.ms'];
  const timing = ['request.timeout.ms', 'reconnect.backoff.ms', 'reconnect.backoff.max.ms'];
  const security = Object.keys(securitySettingDefaults);
  return [...names, ...timing, ...security].some((name) => before[name] !== after[name]);
}

const linkName = /^[a-zA-Z0-9._-]{1,200}$/;

/** @throws LinkError INVALID_NAME */
export function checkLinkName(name: string): void {
  if (!linkName.test(name) || name === '.' || name === '..') {
    throw new LinkError(
      'INVALID_NAME',
      `Invalid link name '${name}': 1 to 200 letters, digits, '.', '_', '-'`,
    );
  }
}

const topicName = /^[a-zA-Z0-9._-]{1,249}$/;

/** @throws LinkError INVALID_NAME */
export function checkTopicName(name: string): void {
  if (!topicName.test(name) || name === '.' || name === '..') {
    throw new LinkError('INVALID_NAME', `Invalid topic name '${name}'`);
  }
}
