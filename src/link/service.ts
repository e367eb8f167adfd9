// What operators can do with links and mirrors, as the admin API calls it and link-service.ts does
// it. Every command is idempotent, has a dry run (`validateOnly`) and is an event with its actor.
import type {
  LinkRecord,
  LostRange,
  LostTotal,
  MirrorError,
  MirrorState,
  ReceiptRecord,
} from '../state/records.ts';
import type { LinkError } from './link-error.ts';
import type { Growth } from './mirror/mirror-growth.ts';
import type { WrittenShells } from './mirror/shell-measure.ts';
import type { Blocking } from './switch/blocking.ts';
import type { TailLine } from './switch/export-tail.ts';

export interface CreateLink {
  readonly name: string;
  /** Kafka client settings (`bootstrap.servers`, ...) and link settings. */
  readonly configs: Readonly<Record<string, string>>;
  /** Optional: a wrong one is refused. */
  readonly sourceClusterId?: string;
  readonly validateOnly: boolean;
  readonly actor: string;
}

export interface LinkStatus {
  readonly record: LinkRecord;
  readonly linkState: 'ACTIVE' | 'PAUSED' | 'UNAVAILABLE' | 'FAILED';
  // NO_ERROR, BOOTSTRAP_TCP_CONNECTION_FAILED ... (Cluster Linking's names)
  readonly linkError: string;
  readonly linkErrorMessage: string | null;
  readonly topicNames: readonly string[];
  /** Unix ms of the last answer of the source, or -1. */
  readonly lastContactTimeMs: number;
  /**
   * The source has not answered this process: the last contact is the one that was written down
   * before a restart, and may have been later than that.
   */
  readonly isContactRecorded: boolean;
  /** False as soon as a request to the source has failed, long before the link is UNAVAILABLE. */
  readonly isAnswering: boolean;
  /**
   * now - the last moment at which we had all that the source had just reported, of the mirror that
   * is the worst off, paused and failed ones included; null = UNKNOWN.
   */
  readonly rpoSeconds: number | null;
  /** That moment was written down before a restart, and may have been later: it is at most that. */
  readonly isRpoAtMost: boolean;
  /** Mirrors that never had all: one that is fetched makes it UNKNOWN, others are not in it. */
  readonly rpoUnknownTopics: readonly string[];
  readonly tasks: readonly TaskStatus[];
}

export interface TaskStatus {
  readonly name: string; // Cluster Linking's task names: ConsumerOffsetSync, ...
  readonly state:
    | 'ACTIVE'
    | 'IN_ERROR'
    | 'NOT_CONFIGURED'
    | 'LINK_FAILED'
    | 'LINK_UNAVAILABLE'
    | 'LINK_PAUSED';
  readonly errors: readonly {
    readonly code: string;
    readonly message: string;
    /** Nothing fails for it, and the link is none the worse. */
    readonly isHarmless?: boolean;
  }[];
  readonly lastSuccessTimeMs: number;
  /** What the last round found and did, by the task's own names. */
  readonly counts?: Readonly<Record<string, number>>;
}

/** What a task would do now. */
export interface TaskPlan {
  readonly task: string;
  readonly changes: readonly {
    /** `keep` and `wait` are what it would not touch, or not yet, with the reason in `detail`. */
    readonly action: 'create' | 'set' | 'unset' | 'delete' | 'pause' | 'resume' | 'keep' | 'wait';
    readonly subject: string;
    readonly detail: string;
  }[];
  readonly problems: readonly { readonly code: string; readonly message: string }[];
}

export interface PartitionStatus {
  readonly partition: number;
  readonly logStart: bigint;
  /** Durable end of the mirror (next offset to fetch once durable). */
  readonly mirrorEnd: bigint;
  /** Last known end of the source, before a restart too; -1 when never seen. */
  readonly sourceEnd: bigint;
  /** When that was, Unix ms; -1: never. */
  readonly heardTimeMs: number;
  /** sourceEnd - mirrorEnd; null = UNKNOWN (no sample younger than 15 s). */
  readonly lagRecords: bigint | null;
  /**
   * What it is at least, by the last known end of the source however old that is; null when that
   * was never seen.
   */
  readonly lagRecordsMin: bigint | null;
  /**
   * An estimate: lagRecords at the mean size of what was mirrored lately. Null also when nothing
   * was mirrored yet that would tell it.
   */
  readonly lagBytes: bigint | null;
  readonly lagSeconds: number | null;
  readonly isStalled: boolean;
  readonly stallCause: string | null;
  /** Of the mirror log, after a promotion too: what its history takes. Null: it cannot be used. */
  readonly sizeBytes: bigint | null;
  /**
   * Ranges of offsets of the mirror log that reads have found damaged and that nobody has had back
   * yet (see `MirrorLog.damage`): readers get error 56 there. Null: the log cannot be used.
   */
  readonly damagedRanges: number | null;
}

export interface MirrorStatus {
  readonly name: string;
  readonly topicId: string | null;
  readonly link: string;
  readonly sourceTopic: string;
  readonly state: MirrorState;
  /** Finer than the state: DRAINING, SWITCHING ... or null. */
  readonly phase: string | null;
  readonly stateTimeMs: number;
  readonly error: MirrorError | null;
  readonly stoppedBy: 'promote' | 'failover' | null;
  readonly partitions: readonly PartitionStatus[];
  /** What it lacks of its source's partitions; null: nothing, or its source is not looked at. */
  readonly growth: Growth | null;
  /** Why a promotion does not go on: stable code, sentence, and what to do about it. */
  readonly blocking: readonly Blocking[];
  /** What an operator should know while it is promoted, and what does not block it. */
  readonly notices: readonly Blocking[];
  /** Records that the source got after the switch; null before, or while it is not known. */
  readonly strayRecords: bigint | null;
  /** Offsets that were gone from the source before they were read: the latest ranges. */
  readonly lostRanges: readonly LostRange[];
  /** All of them, those that are not listed any more too, by partition. */
  readonly lostTotals: readonly LostTotal[];
}

export type MirrorCommand = 'promote' | 'failover' | 'pause' | 'resume' | 'cancel';

export interface MirrorCommandRequest {
  readonly command: MirrorCommand;
  /** Null: the link of each topic is looked up by name. */
  readonly link: string | null;
  readonly topics: readonly string[];
  readonly validateOnly: boolean;
  readonly actor: string;
  /** Promote only; default 300,000. */
  readonly deadlineMs?: number;
  /** Promote only: all topics by one state transaction, or none. */
  readonly atomic?: boolean;
  /** Promote only: WRITE is denied at the source until it is promoted, and from then on. */
  readonly fenceSource?: boolean;
  /** Promote only: refused while there is one copy of what lies below S. */
  readonly requireReplicated?: boolean;
  /** Failover only: what becomes of records that were written into the shell past us. */
  readonly written?: WrittenShells;
  /** Failover only: what is in mirror logs that cannot be used is given up. */
  readonly acceptLoss?: boolean;
}

/** One row per topic; an error concerns that topic only. */
export interface MirrorCommandRow {
  readonly topic: string;
  readonly error: LinkError | null;
  /** State after the call. */
  readonly state: MirrorState | null;
  readonly partitions: readonly PartitionStatus[];
}

export interface MirrorCommandResult {
  readonly rows: readonly MirrorCommandRow[];
  /** Of a failover (or its dry run): what was, or would be, lost. */
  readonly receipt: ReceiptRecord | null;
}

export interface DetachRequest {
  readonly topic: string;
  /** What lies below S is in the proxy only, and is given up. */
  readonly dropHistory: boolean;
  readonly validateOnly: boolean;
  readonly actor: string;
}

export interface DetachPartition {
  readonly partition: number;
  /** S. */
  readonly virtualEnd: bigint;
  /** What offsets become smaller by. */
  readonly offsetShift: bigint;
  /** Where the history begins that would be gone; S when there is none, null when not known. */
  readonly historyStart: bigint | null;
  readonly historyBytes: bigint | null;
}

export interface MovedCommit {
  readonly group: string;
  readonly partition: number;
  readonly oldOffset: bigint;
  readonly newOffset: bigint;
}

/** What a detach did, or would do and what stands in its way. */
export interface DetachReport {
  readonly topic: string;
  readonly isDone: boolean;
  readonly partitions: readonly DetachPartition[];
  readonly groups: readonly MovedCommit[];
  readonly blocking: readonly Blocking[];
}

/** Something that the proxy has made in one of its clusters, and that stays when it goes. */
export interface Leftover {
  readonly kind: 'topic' | 'config' | 'acl' | 'group';
  readonly subject: string;
  readonly detail: string;
  readonly remedy: string;
}

/** A producer with an id that the source knows: idempotent or transactional. */
export interface RecentWriter {
  readonly link: string;
  /** Of ours. */
  readonly topic: string;
  readonly partition: number;
  readonly producerId: bigint;
  readonly producerEpoch: number;
  /** Timestamp of its last record, by its own clock, Unix ms; -1 when not known. */
  readonly lastTimeMs: number;
  readonly isInTransaction: boolean;
}

/** What the source says of who writes. Producers without an id leave no trace there. */
export interface RecentWriters {
  /** The latest of them. */
  readonly writers: readonly RecentWriter[];
  readonly writersCount: number;
  /** Topics whose writers are not told, and why. */
  readonly problems: readonly { readonly topic: string; readonly message: string }[];
  readonly problemsCount: number;
}

export interface CreateMirror {
  readonly link: string;
  readonly sourceTopic: string;
  /** Default: prefix of the link + source topic. */
  readonly mirrorTopic?: string;
  readonly configs?: Readonly<Record<string, string>>;
  readonly replicationFactor?: number;
  readonly validateOnly: boolean;
  readonly actor: string;
}

export interface RecreateMirror {
  /** The old copy becomes the history of a topic of this name; null: it is deleted. */
  readonly archiveAs: string | null;
  readonly validateOnly: boolean;
  readonly actor: string;
}

export interface VerifyRequest {
  readonly topic: string;
  readonly partition: number;
  /** Offsets below are not compared. */
  readonly since: bigint | null;
  /** Where the step before ended, its hash, and the end that the first step found. */
  readonly from: bigint | null;
  readonly end: bigint | null;
  readonly hash: string | null;
  /** The pace, counted in bytes of the mirror. */
  readonly bytesPerSecond: number;
}

export interface VerifyDifference {
  /** First offset that is not the same on both sides. */
  readonly offset: bigint;
  readonly kind: 'DIFFERENT' | 'MISSING' | 'MIRROR_CORRUPT' | 'SOURCE_CORRUPT';
  readonly message: string;
}

/** What one step of a comparison has found; `isDone` ends it. */
export interface VerifyStep {
  readonly topic: string;
  readonly partition: number;
  /** The common range of source and mirror. */
  readonly start: bigint;
  readonly end: bigint;
  /** Everything from the step's beginning to here is the same on both sides. */
  readonly next: bigint;
  readonly batches: number;
  readonly bytes: number;
  /** SHA-256 over the hash so far and the header of each batch, in hex. */
  readonly hash: string;
  readonly isDone: boolean;
  readonly difference: VerifyDifference | null;
}

export interface GroupStatus {
  /** At the destination. */
  readonly group: string;
  readonly sourceGroup: string;
  /** classic, consumer, streams, simple, share. */
  readonly kind: string;
  readonly topic: string;
  readonly partition: number;
  readonly sourceOffset: bigint;
  readonly destinationOffset: bigint;
  /**
   * null when in step; otherwise why the destination is left as it is: `live`, `moved`, `clamped`,
   * `deleted`, `error`, or `share` for a share group, of which the source's start is only shown.
   */
  readonly held: string | null;
}

/** What is known of one offset of a group at a switch. */
export type GroupPosition = Omit<GroupStatus, 'sourceGroup' | 'kind'>;

export interface HandoverStatus {
  /** At the destination. */
  readonly group: string;
  readonly sourceGroup: string;
  readonly link: string;
  readonly state: 'WAITING' | 'DONE' | 'EXPIRED' | 'CANCELLED';
  /** What is missing, or was missing at its end. */
  readonly waitingFor: string | null;
  readonly deadlineTimeMs: number;
  /** -1 while it is under way. */
  readonly endTimeMs: number;
}

export interface HandoverRequest {
  readonly link: string;
  /** By its name at the source. */
  readonly group: string;
  readonly deadlineMs: number;
  readonly validateOnly: boolean;
  readonly actor: string;
}

/** All methods throw LinkError; rows carry per-topic errors. */
export interface LinkService {
  createLink(request: CreateLink): Promise<LinkStatus>;
  listLinks(): readonly LinkStatus[];
  describeLink(name: string): LinkStatus;
  alterLink(
    name: string,
    changes: readonly { name: string; value: string | null }[],
    options: { validateOnly: boolean; actor: string },
  ): Promise<LinkStatus>;
  deleteLink(
    name: string,
    options: { force: boolean; validateOnly: boolean; actor: string },
  ): Promise<void>;
  createMirror(request: CreateMirror): Promise<MirrorStatus>;
  listMirrors(link?: string): readonly MirrorStatus[];
  describeMirror(topic: string): MirrorStatus;
  /**
   * Ends the mirror; the shell topic is deleted too unless `keepTopic` (it then stays, empty and
   * ordinary).
   */
  deleteMirror(
    topic: string,
    options: { keepTopic: boolean; validateOnly: boolean; actor: string },
  ): Promise<void>;
  /** A mirror FAILED because its source was made again begins anew, without its old copy. */
  recreateMirror(topic: string, request: RecreateMirror): Promise<MirrorStatus>;
  command(request: MirrorCommandRequest): Promise<MirrorCommandResult>;
  /** Ends the timeline of a promoted topic: clients may go to its brokers directly. */
  detach(request: DetachRequest): Promise<DetachReport>;
  /** Takes back the denial of WRITE at the source of a switched topic; none is fine. */
  unfence(topic: string, options: { readonly actor: string }): Promise<void>;
  /** All that was made in the clusters, with what to do about it. */
  leftovers(): Promise<readonly Leftover[]>;
  /** Who has written to the sources of mirrors within so long; asked there now. */
  recentWriters(topics: readonly string[], withinMs: number): Promise<RecentWriters>;
  /** Compares a part of a mirror partition with its source. Changes nothing. */
  verifyMirror(request: VerifyRequest): Promise<VerifyStep>;
  listGroups(link: string): readonly GroupStatus[];
  /** Members joining at the destination wait until the source's last commit is there. */
  handOver(request: HandoverRequest): Promise<HandoverStatus>;
  cancelHandover(link: string, group: string, actor: string): HandoverStatus;
  listHandovers(link: string): readonly HandoverStatus[];
  /** The dry run of a link's sync tasks. */
  planTasks(link: string): Promise<readonly TaskPlan[]>;
  receipt(id: string): ReceiptRecord | undefined;
  /** What the source has of a switched topic and the topic has not, read there now. */
  exportTail(topic: string): Promise<AsyncIterable<TailLine>>;
}
