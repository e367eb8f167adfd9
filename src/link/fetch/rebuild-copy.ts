// Reads a partition of the source again from its log start into a new generation of its mirror log
// and puts it in the place of the old one (design §5 "Compacted topics"). Owns when the new copy is
// whole; refuses to know when one is wanted. Invariant: what takes the place of the copy is what
// the source held at one moment, plus everything after it; never a mix of two cleanings.
//
// Why that holds: a record that the source's cleaner had removed when its range was read has a
// newer one of the same key behind it, which lies below the high watermark of then. So the copy has
// to reach a high watermark that was read after its last range; the stretch up to there must be
// dense, which says that nothing in it was cleaned. Only a tombstone may have gone before it was
// read, `delete.retention.ms` after its key: when reading takes so long, everything is read twice,
// and a copy that is not the same both times is dropped.
import { ErrorCode, errorName, forEachBatch } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogRebuild } from '../../../storage/mirror-log.ts';
import type { LinkClock } from '../context.ts';
import { isMirroredStill } from '../source-identity.ts';
import { fetchOnce } from '../source-offsets.ts';
import type { LinkBounds } from './link-bounds.ts';
import { isDense, type PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';

/** The source cleans faster than it can be read: another look is taken later. */
export class NotWhole extends Error {}

/** Stretches behind the copy that may turn out to be cleaned already before it is given up. */
const attemptsMax = 5;

export interface RebuildParts {
  readonly feed: PartitionFeed;
  readonly link: FeedLink;
  readonly clock: LinkClock;
  readonly bounds: LinkBounds;
  /** First offset that the source has, and the base of the batch that holds it. */
  readonly from: { readonly start: bigint; readonly base: bigint };
  /** How long the source keeps a tombstone; 0 when that is not known. */
  readonly tombstonesMs: number;
}

interface Answer {
  /** Whole batches. */
  readonly records: Buffer;
  readonly highWatermark: bigint;
}

/**
 * Resolves with the bytes before and after.
 * @throws NotWhole, ClusterError, StorageError: the copy stays as it was
 */
export async function rebuildCopy(
  parts: RebuildParts,
): Promise<{ readonly before: number; readonly after: number }> {
  const { log } = parts.feed;
  const before = log.sizeBytes;
  const rebuild = await log.rebuild(parts.from.base);
  try {
    await new Rebuild(parts, rebuild).run();
    return { before, after: log.sizeBytes };
  } finally {
    await rebuild.discard();
  }
}

class Rebuild {
  readonly #parts: RebuildParts;
  readonly #to: LogRebuild;
  readonly #startedMs: number;
  #isVerified = false;

  constructor(parts: RebuildParts, to: LogRebuild) {
    this.#parts = parts;
    this.#to = to;
    this.#startedMs = parts.clock.monotonicMs();
  }

  async run(): Promise<void> {
    for (;;) {
      const { highWatermark } = await this.#copyMore();
      if (this.#to.end >= highWatermark) break;
    }
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      if (this.#tookLong && !this.#isVerified) await this.#verify();
      if (!(await this.#reachEnd())) continue;
      if (this.#tookLong && !this.#isVerified) continue;
      if (await this.#swap()) return;
    }
    throw new NotWhole('the source cleans it faster than it can be read');
  }

  get #tookLong(): boolean {
    const { clock, tombstonesMs } = this.#parts;
    return clock.monotonicMs() - this.#startedMs >= tombstonesMs / 2;
  }

  /** One answer goes to the new copy. */
  async #copyMore(): Promise<Answer & { readonly isDense: boolean }> {
    const end = this.#to.end;
    const { start } = this.#parts.from;
    // The batch at the start may begin below it, and is asked for by the start.
    const isBegun = end >= start;
    const answer = await this.#fetch(isBegun ? end : start);
    if (answer.records.length > 0) {
      await this.#parts.bounds.assertRoom(answer.records.length);
      await this.#to.append(answer.records);
    } else if (end < answer.highWatermark) {
      throw new NotWhole(`the source has no record at ${end}, its end is ${answer.highWatermark}`);
    }
    return { ...answer, isDense: isDense(answer.records, end) };
  }

  /** Goes on to an end that was read after what is here. False: what came was cleaned already. */
  async #reachEnd(): Promise<boolean> {
    const first = await this.#copyMore();
    let isWhole = first.isDense;
    while (this.#to.end < first.highWatermark) {
      const more = await this.#copyMore();
      isWhole &&= more.isDense;
    }
    if (!isWhole) this.#isVerified = false;
    return isWhole;
  }

  /** False: the copy has grown beyond the new one, which has to follow first. */
  async #swap(): Promise<boolean> {
    const { feed, link } = this.#parts;
    let isDone = false;
    while (!isDone && !feed.isStopped) {
      // Brokers before 3.1 are asked for records by the topic's name.
      if (!(await isMirroredStill(link, feed))) {
        throw new NotWhole('the source topic cannot be confirmed to be the mirrored one');
      }
      await feed.exclusively(async () => {
        if (!link.mayAct() || this.#to.end < feed.log.end) return;
        await this.#to.swap();
        isDone = true;
      });
      if (isDone) return true;
      this.#assertGoingOn();
      const more = await this.#copyMore();
      if (!more.isDense) return false;
    }
    this.#assertGoingOn();
    return isDone;
  }

  /** Reads everything again: what is the same both times was all there at one moment between. */
  async #verify(): Promise<void> {
    const { start } = this.#parts.from;
    const end = this.#to.end;
    let offset = start;
    while (offset < end) {
      const { records } = await this.#fetch(offset);
      let next = offset;
      const bytes = forEachBatch(records, (header) => {
        if (header.baseOffset >= end) return false;
        next = header.baseOffset + BigInt(header.lastOffsetDelta) + 1n;
        return undefined;
      });
      const expected = records.subarray(0, next > offset ? bytes : 0);
      if (next === offset || !(await this.#holds(offset, expected, end))) {
        throw new NotWhole(`the source cleaned it at offset ${offset} while it was read`);
      }
      offset = next;
    }
    this.#isVerified = true;
  }

  async #holds(from: bigint, expected: Buffer, end: bigint): Promise<boolean> {
    let offset = from;
    let compared = 0;
    while (compared < expected.length && offset < end) {
      const options = { bytesMax: expected.length - compared, atLeastOneBatch: true };
      const { chunks, bytes, nextOffset } = await this.#to.read(offset, options);
      if (bytes === 0) return false;
      for (const chunk of chunks) {
        if (!chunk.equals(expected.subarray(compared, compared + chunk.length))) return false;
        compared += chunk.length;
      }
      offset = nextOffset;
    }
    return compared === expected.length;
  }

  async #fetch(offset: bigint): Promise<Answer> {
    const { feed, link, bounds } = this.#parts;
    const bytesMax = await bounds.turn(() => this.#assertGoingOn());
    const { sourceTopic: topic, sourceTopicId: topicId, partition, leaderId } = feed;
    const answer = await fetchOnce(link.cluster, {
      ...{ topic, topicId, partition, leaderId, offset, bytesMax },
      lane: `rebuild-${link.name}`,
      isWanted: () => !feed.isStopped && link.mayAct(),
    });
    bounds.took(answer.records.length);
    this.#assertGoingOn();
    if (answer.errorCode !== ErrorCode.NONE) {
      throw new NotWhole(`the source answers ${errorName(answer.errorCode)}`);
    }
    const covered = forEachBatch(answer.records, () => undefined);
    return { ...answer, records: answer.records.subarray(0, covered) };
  }

  #assertGoingOn(): void {
    const { feed, link } = this.#parts;
    if (feed.isStopped) throw new StorageError('CLOSED', 'the mirror is not fetched any more');
    if (!link.mayAct()) throw new StorageError('CLOSED', 'the link may not act');
  }
}
