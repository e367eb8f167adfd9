// A partition whose next offset the source does not have. Finds out why, at the leader, and
// decides: moved start of a mirror that begins, lost history, an end below ours, or only forgotten
// epochs. Refuses to know fetch loops. Invariant: history is never skipped in silence, and only
// what is proved is followed.
import { ErrorCode } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { StateError } from '../../state/state.ts';
import type { LinkClock } from '../context.ts';
import { lossMessage, lossRemedy, tellLoss, tellStartMoved } from '../mirror/lost-history.ts';
import { isMirroredStill } from '../source-identity.ts';
import {
  earliestTimestamp,
  firstBatchBase,
  latestTimestamp,
  listOffsets,
} from '../source-offsets.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink, Loss } from './source-link.ts';

interface Range {
  readonly earliest: bigint;
  readonly latest: bigint;
}

async function sourceRange(feed: PartitionFeed, link: FeedLink): Promise<Range | null> {
  const partition = { topic: feed.sourceTopic, partition: feed.partition, leaderId: feed.leaderId };
  const key = partitionKey(feed.sourceTopic, feed.partition);
  // The start first: it only moves up, so that an end read later cannot lie below it by chance.
  const starts = await listOffsets(link.cluster, [partition], { timestamp: earliestTimestamp });
  const ends = await listOffsets(link.cluster, [partition], { timestamp: latestTimestamp });
  const start = starts.get(key);
  const end = ends.get(key);
  if (start?.errorCode !== ErrorCode.NONE || end?.errorCode !== ErrorCode.NONE) return null;
  // Both are asked for by name.
  if (!(await isMirroredStill(link, feed))) return null;
  return { earliest: start.offset, latest: end.offset };
}

/** Null: not to be had now. */
async function readRange(feed: PartitionFeed, link: FeedLink): Promise<Range | null> {
  try {
    return await sourceRange(feed, link);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return null;
  }
}

export async function resolveOutOfRange(
  feed: PartitionFeed,
  link: FeedLink,
  clock: LinkClock,
): Promise<void> {
  const range = await readRange(feed, link);
  // Of another feed's copy, or another mirror of the name, it says nothing.
  if (feed.isStopped) return;
  if (range === null) {
    feed.fail('OFFSET_OUT_OF_RANGE', clock.monotonicMs());
    link.refreshMetadata();
    return;
  }
  const { log } = feed;
  const place = `${feed.topic}-${feed.partition}`;
  const { earliest, latest } = range;
  if (log.end > latest) {
    link.failTopic(feed.topic, {
      code: 'UNEXPECTED_TRUNCATION',
      message:
        `${place}: the source ends at ${latest}, the mirror at ${log.end}, ` +
        'and no epoch proves why',
    });
  } else if (log.end >= earliest) {
    forgottenEpochs(feed, link, range);
  } else {
    await sourceStartsAbove(feed, link, { earliest, clock });
  }
}

/**
 * Also of a copy without any batch: one that begins at the source's end, or whose link was paused
 * for long, or that goes on behind history lost before, loses what it was to have.
 */
async function sourceStartsAbove(
  feed: PartitionFeed,
  link: FeedLink,
  { earliest, clock }: { earliest: bigint; clock: LinkClock },
): Promise<void> {
  // The log may begin below, with the batch that holds the first offset.
  const from = feed.logStartFor(feed.position);
  const found = { partition: feed.partition, from, to: earliest };
  const loss = from < earliest ? link.unrecorded(feed.topic, found) : null;
  if (loss !== null && !(await goesOnBehind(feed, link, { loss, clock }))) return;
  await moveStart(feed, link, { earliest, clock });
}

/** The policy of the link decides; either way the range is on record, never skipped in silence. */
async function goesOnBehind(
  feed: PartitionFeed,
  link: FeedLink,
  { loss, clock }: { loss: Loss; clock: LinkClock },
): Promise<boolean> {
  const { topic } = feed;
  const isBeginning = feed.log.lastEpoch < 0 && link.isBeginning(topic);
  if (link.lostHistory === 'stop' && !isBeginning) {
    const message = `${lossMessage(topic, loss)}; ${lossRemedy}`;
    link.failTopic(topic, { code: 'LOST_HISTORY', message }, loss);
    return false;
  }
  try {
    await link.noteLoss(topic, loss);
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    feed.fail(`LOST_HISTORY: ${error.message}`, clock.monotonicMs(), 1_000);
    return false;
  }
  const tell = isBeginning ? tellStartMoved : tellLoss;
  tell(link.events, loss, { topic, link: link.name });
  return true;
}

/**
 * Our end is within the source's range, but the source cannot say where our last epoch ended: only
 * right when it holds nothing below our end any more.
 */
function forgottenEpochs(feed: PartitionFeed, link: FeedLink, range: Range): void {
  const { log } = feed;
  if (log.end === range.earliest || log.lastEpoch < 0) {
    feed.omitsLastEpoch = true;
    feed.startOverride = null;
    return;
  }
  link.failTopic(feed.topic, {
    code: 'UNEXPECTED_TRUNCATION',
    message:
      `${feed.topic}-${feed.partition}: the source holds [${range.earliest}, ${range.latest}) ` +
      `and does not know the mirror's last epoch ${log.lastEpoch}`,
  });
}

/**
 * The copy goes on at the source's start. What it holds below is not the start of an unbroken
 * history any more, and has left the source too: a reader there is told, instead of led over a gap.
 */
async function moveStart(
  feed: PartitionFeed,
  link: FeedLink,
  { earliest, clock }: { earliest: bigint; clock: LinkClock },
): Promise<void> {
  const { log } = feed;
  try {
    const base = await firstBatchBase(link.cluster, {
      topic: feed.sourceTopic,
      topicId: feed.sourceTopicId,
      partition: feed.partition,
      leaderId: feed.leaderId,
      offset: earliest,
    });
    await feed.exclusively(async () => {
      if (!link.mayAct()) return;
      const start = base !== null && base < earliest ? base : earliest;
      if (start > log.end) await log.deleteHead(start);
      feed.startOverride = start < earliest ? earliest : null;
    });
  } catch (error) {
    if (!(error instanceof ClusterError || error instanceof StorageError)) throw error;
    feed.fail(`OFFSET_OUT_OF_RANGE: ${error.message}`, clock.monotonicMs());
  }
}
