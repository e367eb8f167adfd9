// What the gateway asks about a topic, on the hot path: synchronous look-ups over the committed
// state and the open mirror logs. Refuses to know links and sources. Ordinary topics are simply not
// in it, so a caller must look at `isSettled` before it takes absence for "ordinary" (design §3:
// not knowing never means ordinary).
import type { MirrorLog } from '../../storage/mirror-log.ts';
import type { VirtualEpoch } from '../timeline/offsets.ts';
import type { Timeline } from '../timeline/timeline.ts';

/**
 * mirror: read-only, led by the link node. switching: as mirror, but writers get a retriable
 * NOT_LEADER_OR_FOLLOWER. promoted: ends in a native extent, led by the shell's leaders.
 * unavailable: state in doubt or not read to its end: every leader-bound request is answered
 * retriably.
 */
export type TopicMode = 'mirror' | 'switching' | 'promoted' | 'unavailable';

export interface PartitionView {
  readonly partition: number;
  readonly timeline: Timeline;
  /** The open log, or null when it should be there and cannot be used: answered 56 (R19). */
  readonly log: MirrorLog | null;
  /** While mirrored: the epoch in Metadata, from durable batches; never goes back. */
  readonly advertisedEpoch: VirtualEpoch;
  /**
   * A truncation at the source was followed and no batch of its new epoch is durable yet: answered
   * 6, so that no client takes the lower end for an offset out of range (design §6).
   */
  readonly isTruncating?: boolean;
}

export interface TopicView {
  readonly name: string;
  /** Null while only the intent is committed. */
  readonly topicId: string | null;
  readonly link: string;
  /** Ids of the clusters that a mirror's records came through, its own source last. */
  readonly sourceClusters?: readonly string[];
  readonly mode: TopicMode;
  /**
   * Committed offsets of its groups are being rewritten: nobody may take one up meanwhile, or go on
   * from one.
   */
  readonly areCommitsMoving?: boolean;
  /**
   * Partitions with a timeline; in mirror modes any other index is a mirror too (gating is per
   * topic).
   */
  partition(index: number): PartitionView | undefined;
  readonly partitionCount: number;
}

export interface TopicDirectory {
  byName(name: string): TopicView | undefined;
  byId(topicId: string): TopicView | undefined;
  /** Anything in mirror or switching mode: the link node is listed then. */
  readonly hasMirrors: boolean;
  /** Anything promoted: responses may need a shift. */
  readonly hasPromoted: boolean;
  readonly isSettled: boolean;
  /** Called after the mode or a timeline of one of these changed: parked fetches look again. */
  onChangeOf(topics: Iterable<string>, listener: () => void): () => void;
}
