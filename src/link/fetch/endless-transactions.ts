// Transactions that a copy holds open although they have ended at the source: their markers were
// cleaned away before they were read (design §6). Owns how that is proved; refuses to know what is
// done about it. Invariant: one that is open at the source too is never taken for ended, and the
// marker of one that has ended is never missed when it is only late.
//
// The proof: the source's last stable offset is beyond the transaction, and the copy reaches an end
// that was read after it. So the marker lay below that end, and it is not in the copy.
import { ErrorCode } from '../../../protocol/index.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { latestTimestamp, listOffsets } from '../source-offsets.ts';
import type { PartitionFeed } from './partition-feed.ts';

interface Suspect {
  /** First offset of the copy's first open transaction. */
  readonly firstOffset: bigint;
  /** The source's end, read when the transaction had ended there; null while it had not. */
  readonly sourceEnd: bigint | null;
}

/** Of the transactions that are open in the copy, the first offset. */
export function firstOpenOffset(feed: PartitionFeed): bigint | null {
  const [first = null] = feed.log
    .openTransactions()
    .map(({ firstOffset }) => firstOffset)
    .sort((left, right) => (left < right ? -1 : 1));
  return first;
}

export class EndlessTransactions {
  readonly #suspects = new WeakMap<PartitionFeed, Suspect>();

  /** Those of the feeds whose first open transaction has ended at the source. */
  async find(cluster: Cluster, feeds: Iterable<PartitionFeed>): Promise<readonly PartitionFeed[]> {
    const found: PartitionFeed[] = [];
    const asked: PartitionFeed[] = [];
    for (const feed of feeds) {
      const firstOffset = feed.isStopped || feed.leaderId < 0 ? null : firstOpenOffset(feed);
      const suspect = this.#suspects.get(feed);
      if (firstOffset === null) this.#suspects.delete(feed);
      else if (suspect?.firstOffset !== firstOffset) {
        // Most have ended by the next look.
        this.#suspects.set(feed, { firstOffset, sourceEnd: null });
      } else if (suspect.sourceEnd === null) asked.push(feed);
      else if (feed.log.end >= suspect.sourceEnd) found.push(feed);
    }
    if (asked.length > 0) await this.#ask(cluster, asked);
    return found;
  }

  async #ask(cluster: Cluster, feeds: readonly PartitionFeed[]): Promise<void> {
    const partitions = feeds.map(({ sourceTopic: topic, partition, leaderId }) => {
      return { topic, partition, leaderId };
    });
    const query = { timestamp: latestTimestamp };
    const stable = await listOffsets(cluster, partitions, { ...query, isCommittedOnly: true });
    const ends = await listOffsets(cluster, partitions, query);
    for (const feed of feeds) {
      const key = partitionKey(feed.sourceTopic, feed.partition);
      const [before, after] = [stable.get(key), ends.get(key)];
      const suspect = this.#suspects.get(feed);
      if (suspect === undefined) continue;
      if (before?.errorCode !== ErrorCode.NONE || after?.errorCode !== ErrorCode.NONE) continue;
      if (before.offset <= suspect.firstOffset) continue;
      this.#suspects.set(feed, { ...suspect, sourceEnd: after.offset });
    }
  }
}
