// What can stand in a promotion's way: stable codes, each with what an operator can do about it.
// Owns the words; refuses to know how any of it is found out. Invariant: a code never changes its
// meaning, and each of ours has a remedy.

export interface Blocking {
  readonly code: string;
  readonly message: string;
  /** Null for a code of another part, whose message says all there is. */
  readonly remedy: string | null;
}

const remedies = {
  SOURCE_UNREACHABLE:
    'Bring the source back, or fail over: that needs no source, and its receipt says what is lost.',
  SOURCE_TOPIC_UNCONFIRMED:
    'Wait: it is asked again. If another topic has the name by now, the mirror fails, and can ' +
    'only be failed over.',
  DISK_FULL:
    'Free space in the file system of storage.directory, or lower storage.minFreeBytes: fetching ' +
    'goes on by itself. Or fail over, which needs no space: its receipt says what is lost.',
  MIRROR_LAG: 'Wait; if it does not shrink, stop the producers and see why the mirror is slow.',
  PRODUCERS_WRITING: 'Stop the producers at the source: what they write after the switch is lost.',
  TRANSACTION_OPEN:
    'Let the producer end its transaction, or abort it at the source with ' +
    'kafka-transactions --abort; failing over aborts it here.',
  PARTITIONS_GROWING:
    'Wait: the mirror follows its source to the new partitions. If a cause is named, mend it: it ' +
    'is tried again at least once a minute. A failover leaves those partitions out.',
  GROUP_OFFSETS_UNSTABLE: 'Let the transaction that commits offsets end at the source.',
  SOURCE_FENCED:
    'When the source may be written to again: causeway mirror unfence TOPIC. The denial is ours ' +
    'and holds for everybody but super users.',
  WRITE_GRANTS_PENDING:
    'Nothing stands in the way: it is tried again. The log of Causeway says what the destination ' +
    'refuses.',
  HISTORY_SINGLE_COPY:
    'Nothing stands in the way. What lies below S is in the storage of Causeway only: keep that ' +
    'disk safe, or promote with --require-replicated to have it refused.',
  RECORDS_DAMAGED:
    'See what the disk does: its bytes have changed. While the topic is mirrored they are asked ' +
    'of the source again and again; after a switch they are not, so wait, or see in the log of ' +
    'Causeway why the source cannot give them back.',
  SHARE_GROUP_BEHIND:
    'Let its consumers read to the end at the source: after the promotion it starts at S. Or ' +
    'give up what it has not read with kafka-share-groups --reset-offsets --to-latest there, or ' +
    'leave it out of consumer.offset.group.filters of the link.',
  GROUP_LIVE_AT_DESTINATION:
    'Nothing stands in the way. The group has members here, so its offsets are its own; stop its ' +
    "members if it is to go on from the source's offsets.",
  ATOMIC_WAITING: 'See what blocks the other topics; promote without --atomic to let them go.',
  SWITCH_TIMEOUT: 'Wait: it is tried again. If it repeats, source or destination are slow.',
  SHELL_TOPIC_WRITTEN:
    'Somebody writes to the topic past Causeway. Fail over with --adopt or --discard.',
  STORAGE_ERROR: 'See the log of Causeway: the mirror log of this partition cannot be used.',
  DESTINATION_UNREACHABLE: 'Wait for the destination: the switch is committed there.',
  NOT_OWNER: 'Ask the instance that holds the lease; if there is none, wait for it to be taken.',
  STATE_UNAVAILABLE: 'Wait for the destination: the state topic cannot be written.',
  SOURCE_FENCE_REFUSED:
    'Give the principal of the link ALTER on the cluster at the source, or promote without ' +
    '--fence-source and stop the producers yourself.',
  HISTORY_LEFT:
    'Wait until the history below S has aged out, or give it up with --drop-history: nobody can ' +
    'read it afterwards.',
  GROUP_NOT_EMPTY: 'Stop the consumers of the topic: their offsets are rewritten.',
  GROUPS_UNREADABLE: 'Wait for the coordinators of the destination, then try again.',
  TOO_MANY_COMMITS: 'Delete groups that nobody needs any more, or their offsets of this topic.',
  HIDDEN_RECORDS:
    'Records that were discarded at the failover would be seen again, and a topic that is only ' +
    'compacted cannot be cut: keep it behind Causeway, or copy it.',
  LINK_NOT_FOUND: 'The link was deleted: only a failover is possible.',
} as const;

export type BlockingCode = keyof typeof remedies;

export const blockingCodes = Object.keys(remedies) as readonly BlockingCode[];

export function blocking(code: BlockingCode, message: string): Blocking {
  return { code, message, remedy: remedies[code] };
}

/** A reason that another part gave, with our remedy if the code is one of ours. */
export function withRemedy(reason: { code: string; message: string }): Blocking {
  const isOurs = Object.hasOwn(remedies, reason.code);
  return { ...reason, remedy: isOurs ? remedies[reason.code as BlockingCode] : null };
}
