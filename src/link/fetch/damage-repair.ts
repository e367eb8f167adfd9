// Fetches damaged ranges of a mirror log again. Owns when and how often that is tried, and what is
// said of it; refuses to know what may be written (the log decides). Invariant: a range that cannot
// be had back stays an error for readers and is never skipped; that is an event, and it is asked
// for again as long as the mirror is fetched: another leader may have it, or the same one later. A
// fault of ours is no such cause: it ends the repairs of the partition, and the link tells it.
import { ErrorCode, errorName, forEachBatch, ProtocolError } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogDamage } from '../../../storage/mirror-log.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import type { LinkClock } from '../context.ts';
import { messageOf, Signal } from '../signal.ts';
import { fetchOnce } from '../source-offsets.ts';
import type { LinkBounds } from './link-bounds.ts';
import type { FeedLink } from './source-link.ts';

/** A range that could not be had back is asked for again after so long, doubled each time. */
const retryMsMin = 1_000;
const retryMsMax = 600_000;
/** More than the range: an answer ends with whole batches. */
const extraBytes = 64 * 1024;

/** What of a feed a repair needs. */
export interface DamagedFeed {
  readonly topic: string;
  readonly sourceTopic: string;
  readonly sourceTopicId: string;
  readonly partition: number;
  readonly leaderId: number;
  readonly isStopped: boolean;
  readonly log: {
    readonly damage: readonly LogDamage[];
    onDamage(listener: () => void): () => void;
    repair(damage: LogDamage, records: Buffer): Promise<void>;
  };
}

export interface DamageRepairParts {
  readonly link: FeedLink;
  readonly clock: LinkClock;
  readonly bounds: LinkBounds;
}

/** The source does not give the range now, or nobody is to ask for it any more. */
class NotHadBack extends Error {}

/** What a later attempt, or another leader, may not meet with. */
type Passing = NotHadBack | ClusterError | StorageError | ProtocolError;

function isPassing(error: unknown): error is Passing {
  return (
    error instanceof NotHadBack ||
    error instanceof ClusterError ||
    error instanceof StorageError ||
    error instanceof ProtocolError
  );
}

/** How it went with one range so far. */
interface Attempts {
  readonly count: number;
  readonly retryAtMs: number;
  readonly cause: string;
}

/** Repairs what is found from now on, and what is known already. Returns how to end it. */
export function watchDamage(feed: DamagedFeed, parts: DamageRepairParts): () => void {
  const repairs = new DamageRepairs(feed, parts);
  const unsubscribe = feed.log.onDamage(() => repairs.wake());
  repairs.wake();
  return () => {
    unsubscribe();
    repairs.wake();
  };
}

class DamageRepairs {
  readonly #feed: DamagedFeed;
  readonly #parts: DamageRepairParts;
  readonly #woken = new Signal();
  /** By the offset that a range begins with. */
  readonly #failed = new Map<bigint, Attempts>();
  #isRunning = false;

  constructor(feed: DamagedFeed, parts: DamageRepairParts) {
    this.#feed = feed;
    this.#parts = parts;
  }

  /** More is damaged, or nothing is to be repaired any more. */
  wake(): void {
    if (this.#isRunning) this.#woken.notify();
    else if (this.#isWanted) this.#parts.link.inBackground(() => this.#run());
  }

  get #isWanted(): boolean {
    return !this.#feed.isStopped && this.#feed.log.damage.length > 0;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      while (this.#isWanted) {
        await this.#repairDue();
        if (this.#isWanted) await this.#woken.wait(this.#waitMs());
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #repairDue(): Promise<void> {
    const { damage } = this.#feed.log;
    const known = new Set(damage.map(({ from }) => from));
    for (const from of this.#failed.keys()) if (!known.has(from)) this.#failed.delete(from);
    for (const range of damage) {
      if (this.#feed.isStopped) return;
      const { retryAtMs = 0 } = this.#failed.get(range.from) ?? {};
      if (this.#parts.clock.monotonicMs() < retryAtMs) continue;
      await this.#parts.bounds.repairs.run(() => this.#repair(range));
    }
  }

  /** Until the first of the known ranges is due; what is found meanwhile wakes. */
  #waitMs(): number {
    const { damage } = this.#feed.log;
    const dueMs = damage.map(({ from }) => this.#failed.get(from)?.retryAtMs ?? 0);
    return Math.max(retryMsMin, Math.min(...dueMs) - this.#parts.clock.monotonicMs());
  }

  async #repair(damage: LogDamage): Promise<void> {
    const { link } = this.#parts;
    const { topic, partition, log } = this.#feed;
    const { from, to } = damage;
    const place = `${topic}-${partition}`;
    const fields = { topic, partition, link: link.name, from: String(from), to: String(to) };
    try {
      const records = await this.#rangeOfSource(damage);
      this.#assertGoingOn();
      // It may have been cut away meanwhile.
      if (!log.damage.some((known) => known.from === from)) return;
      await log.repair(damage, records);
    } catch (error) {
      if (!isPassing(error)) throw error;
      // Nothing was found out about the range.
      if (this.#feed.isStopped || !link.mayAct()) return;
      const cause = this.#noteFailure(from, error);
      if (cause === null) return;
      link.events.error(
        'mirror_damage_not_repaired',
        `${place}: damaged records at offsets [${from}, ${to}) cannot be had back yet: ${cause}`,
        fields,
      );
      return;
    }
    link.events.warn(
      'mirror_damage_repaired',
      `${place}: damaged records at offsets [${from}, ${to}) were fetched from the source again`,
      fields,
    );
  }

  /** The cause, if it is another one than the last time. */
  #noteFailure(from: bigint, error: Passing): string | null {
    const before = this.#failed.get(from);
    const count = (before?.count ?? 0) + 1;
    const cause = messageOf(error);
    const waitMs = backOffMs(count, retryMsMin, retryMsMax);
    const retryAtMs = this.#parts.clock.monotonicMs() + waitMs;
    this.#failed.set(from, { count, retryAtMs, cause });
    return cause === before?.cause ? null : cause;
  }

  async #rangeOfSource(damage: LogDamage): Promise<Buffer> {
    const { link, bounds } = this.#parts;
    const { sourceTopic: topic, sourceTopicId: topicId, partition } = this.#feed;
    const chunks: Buffer[] = [];
    let bytes = 0;
    let offset = damage.from;
    while (bytes < damage.bytes) {
      await bounds.turn(() => this.#assertGoingOn());
      const { leaderId } = this.#feed;
      const bytesMax = damage.bytes - bytes + extraBytes;
      const { errorCode, records } = await fetchOnce(link.cluster, {
        ...{ topic, topicId, partition, leaderId, offset, bytesMax },
        isWanted: () => !this.#feed.isStopped && link.mayAct(),
      });
      bounds.took(records.length);
      if (errorCode === ErrorCode.OFFSET_OUT_OF_RANGE) {
        throw new NotHadBack(`the source does not have offset ${offset} any more`);
      }
      if (errorCode !== ErrorCode.NONE) {
        throw new NotHadBack(`source answers ${errorName(errorCode)}`);
      }
      const start = bytes;
      forEachBatch(records, (header) => {
        if (bytes >= damage.bytes) return false;
        bytes += header.sizeInBytes;
        offset = header.baseOffset + BigInt(header.lastOffsetDelta) + 1n;
        return undefined;
      });
      if (bytes === start) throw new NotHadBack(`the source has nothing at offset ${offset}`);
      chunks.push(records.subarray(0, bytes - start));
    }
    return Buffer.concat(chunks);
  }

  #assertGoingOn(): void {
    if (this.#feed.isStopped) throw new NotHadBack('the mirror is not fetched any more');
    if (!this.#parts.link.mayAct()) throw new NotHadBack('this instance does not hold the lease');
  }
}
