// The records of the state topic, as values in memory. One record per key; a topic's whole state is
// one record, so that a topic switches in one write. Formats are versioned
// (`encodeRecord`/`decodeRecord` in record-format.ts, with a golden file of each). Refuses to know
// how records are stored or replayed.
import type { Timeline } from '../timeline/timeline.ts';

/** Cluster Linking's REST names (design §7). */
export type MirrorState =
  | 'PENDING_MIRROR'
  | 'ACTIVE'
  | 'PAUSED'
  | 'LINK_PAUSED'
  | 'SOURCE_UNAVAILABLE'
  | 'LINK_FAILED'
  | 'FAILED'
  | 'PENDING_STOPPED'
  | 'PENDING_SYNCHRONIZE'
  | 'PENDING_SETUP_FOR_RESTORE'
  | 'PENDING_RESTORE'
  | 'STOPPED';

/**
 * Cluster Linking's `mirror_topic_error` codes that we use, plus LOST_HISTORY and SHELL_* of our
 * own.
 */
export type MirrorErrorCode =
  | 'NO_ERROR'
  | 'SOURCE_TOPIC_MAY_BE_DELETED'
  | 'SOURCE_TOPIC_ID_CHANGED'
  | 'SOURCE_PARTITIONS_DECREASED'
  | 'NON_MONOTONIC_SOURCE_EPOCH'
  | 'NON_MONOTONIC_LOG_APPEND_EPOCH'
  | 'UNEXPECTED_TRUNCATION'
  | 'UNSUPPORTED_MESSAGE_FORMAT'
  | 'ILLEGAL_STATE'
  | 'LOST_HISTORY'
  | 'SHELL_TOPIC_CHANGED'
  | 'SHELL_TOPIC_DELETED'
  | 'SHELL_TOPIC_WRITTEN'
  | 'STORAGE_ERROR';

export interface MirrorError {
  readonly code: MirrorErrorCode;
  readonly message: string;
}

export interface LinkRecord {
  readonly kind: 'link';
  readonly name: string;
  /** Kafka uuid, base64url. */
  readonly linkId: string;
  readonly sourceClusterId: string;
  /**
   * As given by the operator: Kafka client settings and Cluster Linking's link settings, secrets as
   * references.
   */
  readonly configs: Readonly<Record<string, string>>;
  readonly paused: boolean;
  readonly createdTimeMs: number;
}

export interface TopicRecord {
  readonly kind: 'topic';
  /** The destination topic's name. */
  readonly name: string;
  /** The shell topic's id, null while only the intent is committed (PENDING_MIRROR). */
  readonly topicId: string | null;
  readonly link: string;
  /** Of that link: another one may get its name once it was deleted. Absent in old records. */
  readonly linkId?: string;
  readonly sourceTopic: string;
  /** All zero where the source has no topic ids. */
  readonly sourceTopicId: string;
  readonly state: MirrorState;
  readonly stateTimeMs: number;
  readonly error: MirrorError | null;
  /**
   * One timeline per partition, by index. In a mirror state every partition ends in a mirror
   * extent.
   */
  readonly partitions: readonly Timeline[];
  /** How the topic left mirroring: null before. */
  readonly stoppedBy: 'promote' | 'failover' | null;
  /** Only in PENDING_MIRROR: what the shell is to be created with, so that a restart can go on. */
  readonly creating?: PendingCreation;
  /**
   * A promotion under way (PENDING_STOPPED), or a failover that has to append ABORT batches (in any
   * state, until its switch is committed): what a restart needs to finish the one and undo the
   * other.
   */
  readonly stopping?: PendingStop;
  /**
   * Topic configs as they were last taken over from the source (absent: not set there): what tells
   * an edit at the destination from a change at the source.
   */
  readonly syncedConfigs?: Readonly<Record<string, string>>;
  /**
   * Denials of WRITE that we made at the source for a promotion; on record before they are made. To
   * be undone unless the promotion goes on or has been carried out.
   */
  readonly fence?: { readonly acls: readonly Acl[] };
  /** A promoted topic whose timeline is to end: what a restart needs to go on with it. */
  readonly detaching?: PendingDetach;
  /** When its mirror was made; absent in old records. */
  readonly madeTimeMs?: number;
  /** Offsets that were gone from the source before they were read, the latest of them. */
  readonly lost?: readonly LostRange[];
  /** Sums of the ranges that `lost` does not list any more, by partition. */
  readonly lostBefore?: readonly LostTotal[];
  /**
   * Partitions of a compacted topic whose source had cleaned records away that were not read: their
   * copies may hold deleted keys, and are to be built anew. Absent: none.
   */
  readonly unseenCleaning?: readonly number[];
  /**
   * Ids of the clusters that the records came through before they reached the source, the first one
   * first; absent when the source topic was no mirror.
   */
  readonly origins?: readonly string[];
  /**
   * Whose mirror logs these are, where it is not `topicId`: an archived copy keeps the id of the
   * shell that it was made with.
   */
  readonly logTopicId?: string;
  /** Only of mirrors that the link's topic filters made. */
  readonly auto?: {
    /** It left the filters and was paused for that; a resume by an operator is respected. */
    readonly isFilteredOut: boolean;
  };
}

/** The id by which the storage has the topic's mirror logs; null while there is no shell. */
export function logTopicIdOf({ logTopicId, topicId }: TopicRecord): string | null {
  return logTopicId ?? topicId;
}

/** [from, to) of a partition. */
export interface LostRange {
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
  readonly timeMs: number;
}

/** So many ranges of a partition, with so many offsets in all. */
export interface LostTotal {
  readonly partition: number;
  readonly ranges: number;
  readonly records: bigint;
}

export interface PendingCreation {
  /** -1: the destination's default. */
  readonly replicationFactor: number;
  /** Where the mirror is to begin, as `mirror.start.offset.spec`; absent: at the earliest one. */
  readonly startOffset?: string;
  /** The operator's own topic configs, on top of the synced ones. */
  readonly configs: Readonly<Record<string, string>>;
  /** Only of the gate of an archive: of how many partitions. No mirror is to be made of it. */
  readonly archivedPartitions?: number;
}

export interface PendingStop {
  readonly command: 'promote' | 'failover';
  readonly actor: string;
  /** Unix ms after which a promotion falls back to ACTIVE; -1 for a failover. */
  readonly deadlineTimeMs: number;
  /**
   * Where each mirror log ended before ABORT batches of ours were appended to it. Batches at or
   * above these offsets are not the source's: unless the switch is committed they are cut before
   * anything else.
   */
  readonly cuts: readonly { readonly partition: number; readonly offset: bigint }[];
  /** Only of promotions that are all or none: `count` topics carry the same id, or none goes on. */
  readonly atomic?: { readonly id: string; readonly count: number };
  /** Only of promotions: writers of the source are to be denied there. */
  readonly fenceSource?: true;
}

export interface PendingDetach {
  readonly actor: string;
  /** `gate`: nothing is written yet. `back`: what was written is taken back. */
  readonly step: 'gate' | 'forward' | 'back';
  /** Committed offsets of groups: what is there until we write, and what we write. */
  readonly commits: readonly DetachCommit[];
}

export interface DetachCommit {
  readonly group: string;
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
}

/** The durable map of advertised ports: same ids, same ports over restarts. */
export interface NodePortsRecord {
  readonly kind: 'node-ports';
  readonly ports: Readonly<Record<string, number>>;
}

/** Which storage directory belongs to this state. */
export interface StorageRecord {
  readonly kind: 'storage';
  readonly directoryId: string;
}

export interface LeaseRecord {
  readonly kind: 'lease';
  /** Random per process start. */
  readonly instanceId: string;
  readonly host: string;
  readonly pid: number;
  /** Among which processes the number means one: not those of another container. */
  readonly place?: string;
  readonly renewedTimeMs: number;
  /** True when the owner gave it up in an orderly stop: the next one need not wait. */
  readonly released: boolean;
}

/** A topic that has left the state, whose mirror logs are to be deleted: a crash forgets none. */
export interface LogRemovalRecord {
  readonly kind: 'log-removal';
  readonly topicId: string;
}

/** The ACLs at the destination that a link made: the only ones that it may ever delete. */
export interface LinkAclsRecord {
  readonly kind: 'link-acls';
  /** Or `nameOfDeleted` of one that is gone: its ACLs are nobody's any more, and still listed. */
  readonly link: string;
  readonly acls: readonly Acl[];
  /** Grants of WRITE that the source has and that wait for promotions, as meant here. */
  readonly held?: readonly Acl[];
}

/** What no link can be called, since names have no blanks. */
export function nameOfDeleted({ name, linkId }: LinkRecord): string {
  return `${name} (deleted, id ${linkId})`;
}

/** Grants that the switch of a topic has promised and that are not made yet. */
export interface TopicGrantsRecord {
  readonly kind: 'topic-grants';
  readonly topic: string;
  readonly link: string;
  readonly acls: readonly Acl[];
}

/** Where share groups of a link's source were in mirrored topics: to be shown, also without it. */
export interface ShareGroupsRecord {
  readonly kind: 'share-groups';
  readonly link: string;
  readonly offsets: readonly ShareGroupOffset[];
}

export interface ShareGroupOffset {
  /** At the source. */
  readonly group: string;
  /** Destination topic. */
  readonly topic: string;
  readonly partition: number;
  /** What lies below has been dealt with. */
  readonly startOffset: bigint;
}

/**
 * What was heard of a link's source last, written down from time to time: after a restart nobody
 * else can tell it while the source is gone. What was heard later is not in it.
 */
export interface SourceSeenRecord {
  readonly kind: 'source-seen';
  readonly link: string;
  /** Another link may get its name. */
  readonly linkId: string;
  /** When it was written, Unix ms. */
  readonly timeMs: number;
  /** When the source answered last, Unix ms. */
  readonly contactTimeMs: number;
  readonly topics: readonly SeenTopic[];
}

/** A mirror; its lists go by partition. */
export interface SeenTopic {
  readonly topic: string;
  /** By which the storage has its logs. */
  readonly logTopicId: string;
  /** The source's ends as they were reported last; -1: never. */
  readonly sourceEnds: readonly bigint[];
  /** When they were, Unix ms; -1: never. */
  readonly contactTimesMs: readonly number[];
  /** When all that had been reported was here, Unix ms; -1: never. */
  readonly completeTimesMs: readonly number[];
  /** There where the source had more partitions than the mirror. */
  readonly growth?: SeenGrowth;
}

export interface SeenGrowth {
  readonly sourcePartitions: number;
  /** Since when the mirror was known to lack partitions, Unix ms. */
  readonly sinceTimeMs: number;
}

/** Groups of a link's source that are being handed over: a restart goes on with them. */
export interface HandoversRecord {
  readonly kind: 'handovers';
  readonly link: string;
  readonly waiting: readonly WaitingHandover[];
}

export interface WaitingHandover {
  /** At the source. */
  readonly group: string;
  readonly actor: string;
  /** Unix ms. */
  readonly deadlineTimeMs: number;
}

/** An ACL of a cluster, with Kafka's own numbers for the enumerations. */
export interface Acl {
  readonly resourceType: number;
  readonly resourceName: string;
  readonly patternType: number;
  readonly principal: string;
  readonly host: string;
  readonly operation: number;
  readonly permissionType: number;
}

/**
 * What a failover or promotion did, kept durably; written in the same transaction as the switch.
 */
export interface ReceiptRecord {
  readonly kind: 'receipt';
  readonly id: string;
  readonly command: 'promote' | 'failover';
  readonly actor: string;
  readonly timeMs: number;
  readonly topics: readonly ReceiptTopic[];
}

export interface ReceiptTopic {
  readonly topic: string;
  readonly link: string;
  readonly partitions: readonly ReceiptPartition[];
  /** Groups that had committed beyond S: what the source has, and what they were set to. */
  readonly groups: readonly ReceiptGroup[];
  /** All of them; `groups` is cut off in a receipt of very many. */
  readonly groupsCount: number;
  readonly duplicates: ReceiptDuplicates;
  /** How many copies there are of what lies below S. */
  readonly historyCopies: number;
  /** When the source was read after the switch, Unix ms; -1 while it was not. */
  readonly completedTimeMs: number;
}

export interface ReceiptGroup {
  readonly group: string;
  readonly partition: number;
  readonly oldOffset: bigint;
  readonly newOffset: bigint;
}

/** Offsets that groups are given again after the switch; all -1 where that is not known. */
export interface ReceiptDuplicates {
  /** Committed at the source as far as was seen. Groups whose position is -1 are in no sum. */
  readonly expected: bigint;
  /** All that a group may have read at the source since: up to the end of what is here. */
  readonly possible: bigint;
  /** When the source's commits were read last, Unix ms. */
  readonly readTimeMs: number;
  /** Those that may be given something again, the most first; cut off where there are many. */
  readonly groups: readonly ReceiptDuplicateGroup[];
  readonly groupsCount: number;
}

export interface ReceiptDuplicateGroup {
  readonly group: string;
  readonly partition: number;
  /** Where it goes on; -1 when nothing is committed, so that its consumers decide. */
  readonly position: bigint;
  readonly expected: bigint;
  readonly possible: bigint;
}

export interface ReceiptPartition {
  readonly partition: number;
  /** S. */
  readonly virtualEnd: bigint;
  /** n. */
  readonly nativeEnd: bigint;
  readonly firstEpoch: number;
  /** Last known end of the source, or -1. */
  readonly sourceEnd: bigint;
  /** End of what came from the source: S without the ABORT batches. */
  readonly mirroredEnd: bigint;
  /** max(0, sourceEnd - mirroredEnd), or -1 when unknown. */
  readonly lostRecords: bigint;
  /** Estimated by the mean size of a record in the copy; -1 when unknown. */
  readonly lostBytes: bigint;
  /** Age of the last moment at which the copy was complete, rounded up; -1 when unknown. */
  readonly lostSeconds: number;
  /** Unix time in ms of the last answer of the source for this partition, or -1. */
  readonly lastContactTimeMs: number;
  readonly abortedTransactions: number;
  /** What the source had when it was read after the switch: the true loss. Null until then. */
  readonly found: { readonly sourceEnd: bigint; readonly lostRecords: bigint } | null;
}

export type StateRecord =
  | LinkRecord
  | TopicRecord
  | NodePortsRecord
  | StorageRecord
  | LeaseRecord
  | LogRemovalRecord
  | LinkAclsRecord
  | TopicGrantsRecord
  | ShareGroupsRecord
  | HandoversRecord
  | SourceSeenRecord
  | ReceiptRecord;

/**
 * Key of a record in the state topic, e.g. `link/dr`, `topic/orders`, `node-ports`, `storage`,
 * `lease`, `receipt/ID`, `link-acls/dr`, `topic-grants/orders`,
 * `share-groups/dr`, `handovers/dr`, `source-seen/dr`, `log-removal/ID`.
 */
export function stateKey(record: StateRecord): string {
  switch (record.kind) {
    case 'link':
    case 'topic':
      return `${record.kind}/${record.name}`;
    case 'receipt':
      return `receipt/${record.id}`;
    case 'link-acls':
    case 'share-groups':
    case 'handovers':
    case 'source-seen':
      return `${record.kind}/${record.link}`;
    case 'log-removal':
      return `log-removal/${record.topicId}`;
    case 'topic-grants':
      return `topic-grants/${record.topic}`;
    default:
      return record.kind;
  }
}
