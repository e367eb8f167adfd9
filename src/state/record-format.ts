// Records of the state topic as bytes: one JSON object with a format version and a kind, 64-bit
// numbers as decimal strings. Every format has a golden file in test/golden/state; a change of a
// format is a new version. Invariants: what is encoded can be decoded by this version; what a newer
// version wrote is an error that says so, never a guess.
import { virtualEpoch, virtualOffset } from '../timeline/offsets.ts';
import type { Extent, Timeline } from '../timeline/timeline.ts';
import { Fields } from './fields.ts';
import { readReceipt, switchCommands } from './receipt-format.ts';
import {
  type Acl,
  type HandoversRecord,
  type LeaseRecord,
  type LinkAclsRecord,
  type LinkRecord,
  type LogRemovalRecord,
  type LostRange,
  type LostTotal,
  type MirrorError,
  type MirrorErrorCode,
  type MirrorState,
  type NodePortsRecord,
  type PendingCreation,
  type PendingDetach,
  type PendingStop,
  type SeenGrowth,
  type SeenTopic,
  type ShareGroupOffset,
  type ShareGroupsRecord,
  type SourceSeenRecord,
  type StateRecord,
  type StorageRecord,
  stateKey,
  type TopicGrantsRecord,
  type TopicRecord,
} from './records.ts';
import { StateError } from './state.ts';

/** The newest format of each kind, which is written; all older ones stay readable. */
export const formatVersions: Readonly<Record<StateRecord['kind'], number>> = {
  link: 1,
  /**
   * 2: `syncedConfigs`, `auto`. 3: `stopping.atomic`. 4: `stopping.fenceSource`, `fence`,
   * `detaching`, `lost`, `creating.startOffset`, `origins`, `unseenCleaning`. 5: `linkId`.
   * 6: `madeTimeMs`, `lostBefore`.
   */
  topic: 6,
  'node-ports': 1,
  storage: 1,
  /** 2: `place`. */
  lease: 2,
  'log-removal': 1,
  /**
   * 2: groups, copies, lost bytes and seconds, and what the source was found to have. 3:
   * `duplicates`.
   */
  receipt: 3,
  /** 2: `held`. */
  'link-acls': 2,
  'topic-grants': 1,
  'share-groups': 1,
  handovers: 1,
  /** 2: `growth`. */
  'source-seen': 2,
};

/** All names of a union: the compiler asks for each one, and for no other. */
function namesOf<Name extends string>(names: Readonly<Record<Name, true>>): readonly Name[] {
  return Object.keys(names) as Name[];
}

const mirrorStates = namesOf<MirrorState>({
  PENDING_MIRROR: true,
  ACTIVE: true,
  PAUSED: true,
  LINK_PAUSED: true,
  SOURCE_UNAVAILABLE: true,
  LINK_FAILED: true,
  FAILED: true,
  PENDING_STOPPED: true,
  PENDING_SYNCHRONIZE: true,
  PENDING_SETUP_FOR_RESTORE: true,
  PENDING_RESTORE: true,
  STOPPED: true,
});

const mirrorErrorCodes = namesOf<MirrorErrorCode>({
  NO_ERROR: true,
  SOURCE_TOPIC_MAY_BE_DELETED: true,
  SOURCE_TOPIC_ID_CHANGED: true,
  SOURCE_PARTITIONS_DECREASED: true,
  NON_MONOTONIC_SOURCE_EPOCH: true,
  NON_MONOTONIC_LOG_APPEND_EPOCH: true,
  UNEXPECTED_TRUNCATION: true,
  UNSUPPORTED_MESSAGE_FORMAT: true,
  ILLEGAL_STATE: true,
  LOST_HISTORY: true,
  SHELL_TOPIC_CHANGED: true,
  SHELL_TOPIC_DELETED: true,
  SHELL_TOPIC_WRITTEN: true,
  STORAGE_ERROR: true,
});

function readStringMap(fields: Fields, name: string): Record<string, string> {
  return fields.map(name, (values, key) => values.string(key));
}

function readLink(fields: Fields): LinkRecord {
  return {
    kind: 'link',
    name: fields.string('name'),
    linkId: fields.uuid('linkId'),
    sourceClusterId: fields.string('sourceClusterId'),
    configs: readStringMap(fields, 'configs'),
    paused: fields.boolean('paused'),
    createdTimeMs: fields.integer('createdTimeMs'),
  };
}

function readExtent(fields: Fields): Extent {
  const where = fields.oneOf('where', ['mirror', 'native'] as const);
  const start = virtualOffset(fields.bigint('start'));
  const end = fields.nullable('end', (name) => virtualOffset(fields.bigint(name)));
  if (where === 'mirror') return { where, start, end };
  return {
    where,
    start,
    end,
    offsetShift: fields.bigint('offsetShift'),
    epochShift: fields.integer('epochShift'),
    firstEpoch: virtualEpoch(fields.integer('firstEpoch')),
  };
}

function readTimeline(fields: Fields): Timeline {
  return { extents: fields.list('extents', readExtent) };
}

function readMirrorError(fields: Fields): MirrorError {
  return { code: fields.oneOf('code', mirrorErrorCodes), message: fields.string('message') };
}

function readCreation(fields: Fields): PendingCreation {
  return {
    replicationFactor: fields.integer('replicationFactor'),
    configs: readStringMap(fields, 'configs'),
    ...(fields.has('startOffset') ? { startOffset: fields.string('startOffset') } : {}),
    ...(fields.has('archivedPartitions')
      ? { archivedPartitions: fields.integer('archivedPartitions') }
      : {}),
  };
}

function readLost(fields: Fields): LostRange {
  return {
    partition: fields.integer('partition'),
    from: fields.bigint('from'),
    to: fields.bigint('to'),
    timeMs: fields.integer('timeMs'),
  };
}

function readLostTotal(fields: Fields): LostTotal {
  const [partition, ranges] = [fields.integer('partition'), fields.integer('ranges')];
  return { partition, ranges, records: fields.bigint('records') };
}

function readStop(fields: Fields): PendingStop {
  return {
    command: fields.oneOf('command', switchCommands),
    actor: fields.string('actor'),
    deadlineTimeMs: fields.integer('deadlineTimeMs'),
    cuts: fields.list('cuts', (cut) => ({
      partition: cut.integer('partition'),
      offset: cut.bigint('offset'),
    })),
    ...(fields.has('atomic') ? { atomic: fields.object('atomic', readAtomic) } : {}),
    ...(fields.has('fenceSource') ? { fenceSource: readTrue(fields, 'fenceSource') } : {}),
  };
}

function readTrue(fields: Fields, name: string): true {
  if (!fields.boolean(name)) throw fields.fail(name, 'is not true');
  return true;
}

function readDetach(fields: Fields): PendingDetach {
  return {
    actor: fields.string('actor'),
    step: fields.oneOf('step', ['gate', 'forward', 'back'] as const),
    commits: fields.list('commits', (commit) => ({
      group: commit.string('group'),
      partition: commit.integer('partition'),
      from: commit.bigint('from'),
      to: commit.bigint('to'),
    })),
  };
}

function readAtomic(fields: Fields): { id: string; count: number } {
  return { id: fields.string('id'), count: fields.integer('count') };
}

function readTopic(fields: Fields, version: number): TopicRecord {
  return {
    kind: 'topic',
    name: fields.string('name'),
    topicId: fields.nullable('topicId', (name) => fields.uuid(name)),
    link: fields.string('link'),
    ...(version >= 5 && fields.has('linkId') ? { linkId: fields.uuid('linkId') } : {}),
    sourceTopic: fields.string('sourceTopic'),
    sourceTopicId: fields.uuid('sourceTopicId'),
    state: fields.oneOf('state', mirrorStates),
    stateTimeMs: fields.integer('stateTimeMs'),
    error: fields.nullable('error', (name) => fields.object(name, readMirrorError)),
    partitions: fields.list('partitions', readTimeline),
    stoppedBy: fields.nullable('stoppedBy', (name) => fields.oneOf(name, switchCommands)),
    ...(fields.has('creating') ? { creating: fields.object('creating', readCreation) } : {}),
    ...(fields.has('stopping') ? { stopping: fields.object('stopping', readStop) } : {}),
    ...(version >= 2 ? readSyncedState(fields) : {}),
    ...(version >= 4 ? readEndings(fields) : {}),
    ...(version >= 4 && fields.has('lost') ? { lost: fields.list('lost', readLost) } : {}),
    ...(version >= 4 ? readOrigins(fields) : {}),
    ...(version >= 4 ? readUnseenCleaning(fields) : {}),
    ...(version >= 5 && fields.has('logTopicId') ? { logTopicId: fields.uuid('logTopicId') } : {}),
    ...(version >= 6 ? readBeginning(fields) : {}),
  };
}

function readBeginning(fields: Fields): Pick<TopicRecord, 'madeTimeMs' | 'lostBefore'> {
  return {
    ...(fields.has('madeTimeMs') ? { madeTimeMs: fields.integer('madeTimeMs') } : {}),
    ...(fields.has('lostBefore') ? { lostBefore: fields.list('lostBefore', readLostTotal) } : {}),
  };
}

function readSyncedState(fields: Fields): Pick<TopicRecord, 'syncedConfigs' | 'auto'> {
  const auto = (value: Fields) => ({ isFilteredOut: value.boolean('isFilteredOut') });
  return {
    ...(fields.has('syncedConfigs')
      ? { syncedConfigs: readStringMap(fields, 'syncedConfigs') }
      : {}),
    ...(fields.has('auto') ? { auto: fields.object('auto', auto) } : {}),
  };
}

function readOrigins(fields: Fields): Pick<TopicRecord, 'origins'> {
  return fields.has('origins') ? { origins: fields.strings('origins') } : {};
}

function readUnseenCleaning(fields: Fields): Pick<TopicRecord, 'unseenCleaning'> {
  return fields.has('unseenCleaning') ? { unseenCleaning: fields.integers('unseenCleaning') } : {};
}

/** What stays to be done when a mirror ends. */
function readEndings(fields: Fields): Pick<TopicRecord, 'fence' | 'detaching'> {
  const fence = (value: Fields) => ({ acls: value.list('acls', readAcl) });
  return {
    ...(fields.has('fence') ? { fence: fields.object('fence', fence) } : {}),
    ...(fields.has('detaching') ? { detaching: fields.object('detaching', readDetach) } : {}),
  };
}

function readAcl(fields: Fields): Acl {
  return {
    resourceType: fields.integer('resourceType'),
    resourceName: fields.string('resourceName'),
    patternType: fields.integer('patternType'),
    principal: fields.string('principal'),
    host: fields.string('host'),
    operation: fields.integer('operation'),
    permissionType: fields.integer('permissionType'),
  };
}

function readLinkAcls(fields: Fields, version: number): LinkAclsRecord {
  return {
    kind: 'link-acls',
    link: fields.string('link'),
    acls: fields.list('acls', readAcl),
    ...(version >= 2 && fields.has('held') ? { held: fields.list('held', readAcl) } : {}),
  };
}

function readTopicGrants(fields: Fields): TopicGrantsRecord {
  return {
    kind: 'topic-grants',
    topic: fields.string('topic'),
    link: fields.string('link'),
    acls: fields.list('acls', readAcl),
  };
}

function readShareOffset(fields: Fields): ShareGroupOffset {
  return {
    group: fields.string('group'),
    topic: fields.string('topic'),
    partition: fields.integer('partition'),
    startOffset: fields.bigint('startOffset'),
  };
}

function readShareGroups(fields: Fields): ShareGroupsRecord {
  const offsets = fields.list('offsets', readShareOffset);
  return { kind: 'share-groups', link: fields.string('link'), offsets };
}

function readHandovers(fields: Fields): HandoversRecord {
  const waiting = fields.list('waiting', (one) => ({
    group: one.string('group'),
    actor: one.string('actor'),
    deadlineTimeMs: one.integer('deadlineTimeMs'),
  }));
  return { kind: 'handovers', link: fields.string('link'), waiting };
}

function readSourceSeen(fields: Fields, version: number): SourceSeenRecord {
  return {
    kind: 'source-seen',
    link: fields.string('link'),
    linkId: fields.uuid('linkId'),
    timeMs: fields.integer('timeMs'),
    contactTimeMs: fields.integer('contactTimeMs'),
    topics: fields.list('topics', (topic) => readSeenTopic(topic, version)),
  };
}

function readSeenTopic(fields: Fields, version: number): SeenTopic {
  return {
    topic: fields.string('topic'),
    logTopicId: fields.uuid('logTopicId'),
    sourceEnds: fields.bigints('sourceEnds'),
    contactTimesMs: fields.integers('contactTimesMs'),
    completeTimesMs: fields.integers('completeTimesMs'),
    ...(version >= 2 && fields.has('growth')
      ? { growth: fields.object('growth', readSeenGrowth) }
      : {}),
  };
}

function readSeenGrowth(fields: Fields): SeenGrowth {
  return {
    sourcePartitions: fields.integer('sourcePartitions'),
    sinceTimeMs: fields.integer('sinceTimeMs'),
  };
}

function readNodePorts(fields: Fields): NodePortsRecord {
  return { kind: 'node-ports', ports: fields.map('ports', (ports, id) => ports.integer(id)) };
}

function readStorage(fields: Fields): StorageRecord {
  return { kind: 'storage', directoryId: fields.string('directoryId') };
}

function readLogRemoval(fields: Fields): LogRemovalRecord {
  return { kind: 'log-removal', topicId: fields.uuid('topicId') };
}

function readLease(fields: Fields, version: number): LeaseRecord {
  return {
    kind: 'lease',
    instanceId: fields.string('instanceId'),
    host: fields.string('host'),
    pid: fields.integer('pid'),
    ...(version >= 2 && fields.has('place') ? { place: fields.string('place') } : {}),
    renewedTimeMs: fields.integer('renewedTimeMs'),
    released: fields.boolean('released'),
  };
}

type RecordReader = (fields: Fields, version: number) => StateRecord;

const readers: Readonly<Record<StateRecord['kind'], RecordReader>> = {
  link: readLink,
  topic: readTopic,
  'node-ports': readNodePorts,
  storage: readStorage,
  lease: readLease,
  'log-removal': readLogRemoval,
  receipt: readReceipt,
  'link-acls': readLinkAcls,
  'topic-grants': readTopicGrants,
  'share-groups': readShareGroups,
  handovers: readHandovers,
  'source-seen': readSourceSeen,
};

function isKind(kind: string): kind is StateRecord['kind'] {
  return Object.hasOwn(readers, kind);
}

function readRecord(key: string, value: unknown): StateRecord {
  const where = `state record "${key}"`;
  const fields = new Fields(where, value);
  const version = fields.integer('v');
  const kind = fields.string('kind');
  if (!isKind(kind)) throw fields.fail('kind', `has the unknown value "${kind}"`);
  const newest = formatVersions[kind];
  if (version < 1 || version > newest) {
    const message =
      `${where} has format version ${version}, this version of causeway reads up to ${newest}: ` +
      'it was written by another version of causeway';
    throw new StateError('CORRUPT', message);
  }
  const record = readers[kind](fields, version);
  fields.end();
  if (stateKey(record) !== key) throw fields.fail('kind', `does not belong under the key "${key}"`);
  return record;
}

function toJson(record: StateRecord): string {
  return JSON.stringify({ v: formatVersions[record.kind], ...record }, (_name, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

/**
 * Records are never changed, only replaced: each is encoded once, for the state topic and for
 * however many snapshots it is in. With thousands of topics the encoding of all for each commit
 * would take most of a processor.
 */
const knownTexts = new WeakMap<StateRecord, string>();

/** The text of the value, always with the fields in the same order. @throws StateError CORRUPT */
export function encodeRecord(record: StateRecord): string {
  const known = knownTexts.get(record);
  if (known !== undefined) return known;
  const value = { v: formatVersions[record.kind], ...record };
  const text = toJson(readRecord(stateKey(record), value));
  knownTexts.set(record, text);
  return text;
}

/** @throws StateError CORRUPT */
export function decodeRecord(key: string, text: string): StateRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new StateError('CORRUPT', `state record "${key}": not JSON`, { cause: error });
  }
  return readRecord(key, value);
}
