// Fetches a damaged range of a mirror log again. Owns when and how often that is tried, and what is
// said of it; refuses to know what may be written (the log decides). Invariant: a range that cannot
// be had back stays an error for readers, is never skipped, and that is an event.
import { ErrorCode, errorName, forEachBatch } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogDamage } from '../../../storage/mirror-log.ts';
import { messageOf, Signal } from '../signal.ts';
import { fetchOnce } from '../source-offsets.ts';
import type { FeedLink } from './source-link.ts';

/** Waits between attempts that failed for a passing reason. */
const retryMs = [1_000, 5_000, 30_000];
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

/** The source has not got the range any more, or has something else there. */
class NotThere extends Error {}

/** Trying again cannot help: it is not there, or it is not what we had. */
function isFinal(error: Error): boolean {
  if (error instanceof NotThere) return true;
  return error instanceof StorageError && error.code === 'CORRUPT_BATCH';
}

async function rangeOfSource(
  feed: DamagedFeed,
  link: FeedLink,
  damage: LogDamage,
): Promise<Buffer> {
  const { sourceTopic: topic, sourceTopicId: topicId, partition } = feed;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let offset = damage.from;
  while (bytes < damage.bytes) {
    const { leaderId } = feed;
    const bytesMax = damage.bytes - bytes + extraBytes;
    const wanted = { topic, topicId, partition, leaderId, offset, bytesMax };
    const { errorCode, records } = await fetchOnce(link.cluster, wanted);
    if (errorCode === ErrorCode.OFFSET_OUT_OF_RANGE) {
      throw new NotThere(`the source does not have offset ${offset} any more`);
    }
    if (errorCode !== ErrorCode.NONE) throw new Error(`source answers ${errorName(errorCode)}`);
    const start = bytes;
    forEachBatch(records, (header) => {
      if (bytes >= damage.bytes) return false;
      bytes += header.sizeInBytes;
      offset = header.baseOffset + BigInt(header.lastOffsetDelta) + 1n;
      return undefined;
    });
    if (bytes === start) throw new NotThere(`the source has nothing at offset ${offset}`);
    chunks.push(records.subarray(0, bytes - start));
  }
  return Buffer.concat(chunks);
}

/** True when nothing is left to be tried. */
async function repairOne(feed: DamagedFeed, link: FeedLink, damage: LogDamage): Promise<boolean> {
  const { from, to } = damage;
  const place = `${feed.topic}-${feed.partition}`;
  const fields = {
    topic: feed.topic,
    partition: feed.partition,
    link: link.name,
    from: String(from),
    to: String(to),
  };
  try {
    const records = await rangeOfSource(feed, link, damage);
    if (feed.isStopped || !link.mayAct()) return false;
    await feed.log.repair(damage, records);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    link.events.error(
      'mirror_damage_not_repaired',
      `${place}: damaged records at offsets [${from}, ${to}) cannot be fetched again: ` +
        messageOf(error),
      { ...fields, isFinal: isFinal(error) },
    );
    return isFinal(error);
  }
  link.events.warn(
    'mirror_damage_repaired',
    `${place}: damaged records at offsets [${from}, ${to}) were fetched from the source again`,
    fields,
  );
  return true;
}

async function repairAll(feed: DamagedFeed, link: FeedLink, stopped: Signal): Promise<void> {
  const settled = new Set<bigint>();
  for (let attempt = 0; !feed.isStopped; attempt++) {
    for (const damage of feed.log.damage) {
      if (settled.has(damage.from)) continue;
      if (await repairOne(feed, link, damage)) settled.add(damage.from);
    }
    if (feed.log.damage.every(({ from }) => settled.has(from))) return;
    const waitMs = retryMs[attempt];
    if (waitMs === undefined) return;
    await stopped.wait(waitMs);
  }
}

/** Repairs what is found from now on, and what is known already. Returns how to end it. */
export function watchDamage(feed: DamagedFeed, link: FeedLink): () => void {
  const stopped = new Signal();
  let isRunning = false;
  const run = (): void => {
    if (isRunning) return;
    isRunning = true;
    link.inBackground(async () => {
      try {
        await repairAll(feed, link, stopped);
      } finally {
        isRunning = false;
      }
    });
  };
  const unsubscribe = feed.log.onDamage(run);
  if (feed.log.damage.length > 0) run();
  return () => {
    unsubscribe();
    stopped.notify();
  };
}
