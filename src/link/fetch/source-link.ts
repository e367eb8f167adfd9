// What a fetcher and its helpers may ask of the link that they work for. The link implements it;
// tests put a scripted one in its place.
import type { Cluster } from '../../cluster/cluster.ts';
import type { Events } from '../../observe/events.ts';
import type { MirrorError } from '../../state/records.ts';
import type { PartitionFeed } from './partition-feed.ts';

/** Offsets [from, to) of a partition that were gone before they were read. */
export interface Loss {
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
}

export interface FeedLink {
  readonly name: string;
  readonly cluster: Cluster;
  readonly events: Events;
  /** The lease is valid and the link not failed or paused: checked before each change. */
  mayAct(): boolean;
  /** The mirror cannot go on: its fetching stops now, the state follows. */
  failTopic(topic: string, error: MirrorError, loss?: Loss): void;
  /** What is done when records were gone from the source before they were read. */
  readonly lostHistory: 'stop' | 'continue';
  /** The mirror was made just now: where the source starts once it is read is where it begins. */
  isBeginning(topic: string): boolean;
  /** What of lost offsets is not on record yet; null: nothing. */
  unrecorded(topic: string, loss: Loss): Loss | null;
  /** Puts lost offsets on record, before anything goes on behind them. */
  noteLoss(topic: string, loss: Loss): Promise<void>;
  /**
   * Puts on record which of these partitions may hold keys that the source has deleted and cleaned
   * away, so that a restart does not forget it; nothing is done where that is on record already.
   */
  keepUnseenCleaning(topic: string, isUnseen: ReadonlyMap<number, boolean>): void;
  /** A tail is about to be cut: readers must not take the lower end for an offset out of range. */
  truncating(topic: string, partition: number): void;
  refreshMetadata(): void;
  knowsNode(nodeId: number): boolean;
  /** The feed's leader has changed: another fetcher has it now. */
  reassign(feed: PartitionFeed): void;
  /** A replica that the leader had sent us to does not answer: it is not asked for for a while. */
  nearFailed(): void;
  /** Runs beside the fetch loop; failures are logged and the link goes on. */
  inBackground(work: () => Promise<void>): void;
  wake(): void;
  /** The source answered. */
  contacted(): void;
  /** The source did not. */
  lost(error: Error): void;
}
