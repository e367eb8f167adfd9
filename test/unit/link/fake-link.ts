// A link that writes down what is asked of it, over a source that the test scripts.
//
// Owns: nothing that outlives a test. Invariant: an event that a test does not expect is an error.
import type { Cluster } from '../../../src/cluster/cluster.ts';
import { systemClock } from '../../../src/link/context.ts';
import { ByteThrottle } from '../../../src/link/fetch/byte-throttle.ts';
import { LinkBounds, type LinkBoundsParts } from '../../../src/link/fetch/link-bounds.ts';
import type { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import type { FeedLink, Loss } from '../../../src/link/fetch/source-link.ts';
import { unrecordedLoss, withLosses } from '../../../src/link/mirror/lost-history.ts';
import { Events } from '../../../src/observe/events.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import type { FakeCluster } from './fakes.ts';

export class FakeLink<Source extends Cluster = FakeCluster> implements FeedLink {
  readonly name = 'dr';
  readonly cluster: Source;
  readonly events = new Events();
  readonly failures: string[] = [];
  readonly truncations: string[] = [];
  readonly reassigned: PartitionFeed[] = [];
  /** As they were put on record last, by `topic-partition`. */
  readonly unseen = new Map<string, boolean>();
  refreshes = 0;
  nearFailures = 0;
  isOwner = true;
  work: Promise<void> = Promise.resolve();

  constructor(cluster: Source) {
    this.cluster = cluster;
  }

  mayAct(): boolean {
    return this.isOwner;
  }

  failTopic(_topic: string, error: { code: string; message: string }): void {
    this.failures.push(`${error.code}: ${error.message}`);
  }

  truncating(topic: string, partition: number): void {
    this.truncations.push(`${topic}-${partition}`);
  }

  keepUnseenCleaning(topic: string, isUnseen: ReadonlyMap<number, boolean>): void {
    for (const [partition, unseen] of isUnseen) this.unseen.set(`${topic}-${partition}`, unseen);
  }

  refreshMetadata(): void {
    this.refreshes++;
  }

  knowsNode(nodeId: number): boolean {
    return nodeId <= 3;
  }

  reassign(feed: PartitionFeed): void {
    this.reassigned.push(feed);
  }

  nearFailed(): void {
    this.nearFailures++;
  }

  inBackground(work: () => Promise<void>): void {
    this.work = work();
  }

  wake(): void {
    this.refreshes += 0;
  }

  contacted(): void {
    this.refreshes += 0;
  }

  lost(error: Error): void {
    throw error;
  }

  lostHistory: 'stop' | 'continue' = 'stop';
  isNew = false;
  losses: Pick<TopicRecord, 'lost' | 'lostBefore'> = {};

  isBeginning(): boolean {
    return this.isNew;
  }

  unrecorded(_topic: string, loss: Loss): Loss | null {
    return unrecordedLoss(this.losses, loss);
  }

  async noteLoss(_topic: string, loss: Loss): Promise<void> {
    this.losses = withLosses(this.losses, [loss], 1);
  }
}

/** What a rebuild or a repair may take: all that there is, unless the test says otherwise. */
export function linkBounds(parts: Partial<LinkBoundsParts> = {}): LinkBounds {
  return new LinkBounds({
    clock: systemClock,
    limits: { rebuildReserveBytes: 0 },
    throttle: new ByteThrottle(),
    settings: () => ({ partitionBytesMax: 1 << 20, bytesPerSecond: null }),
    storage: { roomBytes: async () => Number.POSITIVE_INFINITY },
    ...parts,
  });
}
