// Shapes of the answers of /causeway/v1 that commands read. Offsets beyond 2^53 come as strings.

export type Int64 = number | string;

export interface Coded {
  readonly code: string;
  readonly message: string;
}

export interface Reason extends Coded {
  readonly remedy: string | null;
}

export interface LinkAnswer {
  readonly name: string;
  readonly linkId: string;
  readonly sourceClusterId: string;
  readonly state: string;
  readonly error: string;
  readonly errorMessage: string | null;
  readonly configs: Readonly<Record<string, string>>;
  readonly topicNames: readonly string[];
  readonly lastContactTimeMs: number;
  readonly isContactRecorded: boolean;
  readonly isAnswering: boolean;
  readonly rpoSeconds: number | null;
  readonly isRpoAtMost: boolean;
  readonly rpoUnknownTopics: readonly string[];
  readonly tasks: readonly TaskAnswer[];
}

export interface TaskPlanAnswer {
  readonly task: string;
  readonly changes: readonly {
    readonly action: string;
    readonly subject: string;
    readonly detail: string;
  }[];
  readonly problems: readonly Coded[];
}

export interface TaskAnswer {
  readonly name: string;
  readonly state: string;
  readonly errors: readonly Coded[];
  readonly lastSuccessTimeMs: number;
  readonly counts?: Readonly<Record<string, number>>;
}

export interface PartitionAnswer {
  readonly partition: number;
  readonly logStart: Int64;
  readonly mirrorEnd: Int64;
  readonly sourceEnd: Int64;
  readonly heardTimeMs: number;
  readonly lagRecords: Int64 | null;
  readonly lagRecordsMin: Int64 | null;
  readonly lagBytes: Int64 | null;
  readonly lagSeconds: number | null;
  readonly isStalled: boolean;
  readonly stallCause: string | null;
  readonly sizeBytes: number | string | null;
  readonly damagedRanges: number | null;
}

export interface VerifyAnswer {
  readonly topic: string;
  readonly partition: number;
  readonly start: Int64;
  readonly end: Int64;
  readonly next: Int64;
  readonly batches: number;
  readonly bytes: number;
  readonly hash: string;
  readonly isDone: boolean;
  readonly difference: {
    readonly offset: Int64;
    readonly kind: string;
    readonly message: string;
  } | null;
}

/** One partition of `mirror verify`; what is not known of one that failed is null. */
export interface VerifiedRow
  extends Omit<VerifyAnswer, 'partition' | 'start' | 'end' | 'next' | 'hash'> {
  readonly partition: number | null;
  readonly start: Int64 | null;
  readonly end: Int64 | null;
  /** So far it was compared. */
  readonly next: Int64 | null;
  readonly hash: string | null;
  /** Why it could not be compared, or not to its end. */
  readonly error: Coded | null;
}

export interface MirrorAnswer {
  readonly name: string;
  readonly topicId: string | null;
  readonly link: string;
  readonly sourceTopic: string;
  readonly state: string;
  readonly phase: string | null;
  readonly stateTimeMs: number;
  readonly error: Coded | null;
  readonly stoppedBy: string | null;
  readonly partitions: readonly PartitionAnswer[];
  /** What it lacks of its source's partitions. */
  readonly growth: {
    readonly sourcePartitions: number;
    readonly sinceTimeMs: number;
    readonly cause: string | null;
  } | null;
  readonly blocking: readonly Reason[];
  readonly notices: readonly Reason[];
  /** Null before a switch, or while the source has not been read after it. */
  readonly strayRecords: Int64 | null;
  /** The latest offsets [from, to) that were gone from the source before they were read. */
  readonly lostRanges: readonly {
    readonly partition: number;
    readonly from: Int64;
    readonly to: Int64;
    readonly timeMs: number;
  }[];
  /** All of them by partition, also those that are not listed. */
  readonly lostTotals: readonly {
    readonly partition: number;
    readonly ranges: number;
    readonly records: Int64;
  }[];
}

export interface CommandRow {
  readonly topic: string;
  readonly state: string | null;
  readonly error: Coded | null;
  readonly partitions: readonly PartitionAnswer[];
}

export interface ReceiptAnswer {
  readonly id: string;
  readonly command: string;
  readonly actor: string;
  readonly timeMs: number;
  readonly topics: readonly {
    readonly topic: string;
    readonly link: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly virtualEnd: Int64;
      readonly nativeEnd: Int64;
      readonly firstEpoch: number;
      readonly sourceEnd: Int64;
      readonly mirroredEnd: Int64;
      readonly lostRecords: Int64;
      readonly lostBytes: Int64;
      readonly lostSeconds: number;
      readonly lastContactTimeMs: number;
      readonly abortedTransactions: number;
      readonly found: { readonly sourceEnd: Int64; readonly lostRecords: Int64 } | null;
    }[];
    readonly groups: readonly {
      readonly group: string;
      readonly partition: number;
      readonly oldOffset: Int64;
      readonly newOffset: Int64;
    }[];
    readonly groupsCount: number;
    readonly duplicates: {
      readonly expected: Int64;
      readonly possible: Int64;
      readonly readTimeMs: number;
      readonly groups: readonly {
        readonly group: string;
        readonly partition: number;
        readonly position: Int64;
        readonly expected: Int64;
        readonly possible: Int64;
      }[];
      readonly groupsCount: number;
    };
    readonly historyCopies: number;
    readonly completedTimeMs: number;
  }[];
}

export interface CommandAnswer {
  readonly rows: readonly CommandRow[];
  readonly receipt: ReceiptAnswer | null;
}

export interface WritersAnswer {
  readonly writers: readonly {
    readonly link: string;
    readonly topic: string;
    readonly partition: number;
    readonly producerId: Int64;
    readonly producerEpoch: number;
    readonly lastTimeMs: Int64;
    readonly isInTransaction: boolean;
  }[];
  readonly writersCount: number;
  readonly problems: readonly { readonly topic: string; readonly message: string }[];
  readonly problemsCount: number;
}

export interface HandoverAnswer {
  readonly group: string;
  readonly state: 'WAITING' | 'DONE' | 'EXPIRED' | 'CANCELLED';
  readonly waitingFor: string | null;
  readonly deadlineTimeMs: number;
}

export interface GroupAnswer {
  readonly group: string;
  readonly kind: string;
  readonly topic: string;
  readonly partition: number;
  readonly sourceOffset: Int64;
  readonly destinationOffset: Int64;
  readonly held: string | null;
}

export interface EventAnswer {
  readonly id: number;
  readonly timeMs: number;
  readonly level: string;
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface EventsAnswer {
  readonly instanceId: string;
  readonly lastId: number;
  readonly events: readonly EventAnswer[];
}

export interface HealthAnswer {
  readonly healthy: boolean;
  readonly checks: readonly { name: string; healthy: boolean; message: string | null }[];
}

export interface StatusAnswer {
  readonly version: string;
  readonly name: string;
  readonly role: string;
  readonly clusterId: string;
  readonly gateway: {
    advertise: string;
    bootstrapPort: number;
    connections: number;
    bypassGroups: readonly {
      group: string;
      members: readonly { clientId: string; host: string }[];
      topics: readonly string[];
    }[];
  };
  readonly storage: {
    directory: string;
    usable: boolean;
    usedBytes: number | null;
    freeBytes: number | null;
    isFull: boolean;
  };
  readonly healthy: boolean;
  readonly linksCount: number;
  readonly ready: HealthAnswer;
  readonly links: HealthAnswer;
}
