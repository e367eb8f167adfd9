// Is the source topic still the one that was mirrored? Of a topic with an id nobody asks here, its
// answers or the source's metadata tell; old brokers have none, and a topic that was deleted and
// made again has the same name, and may have the same epochs and a longer log. Owns the comparison
// of our last batch with what the source has there. Refuses to know fetch loops. Invariant: until a
// partition without a topic id is proved, nothing that the source answers is appended to its copy.
import { ErrorCode, errorName, readBatchHeader } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import type { LinkClock } from '../context.ts';
import { messageOf } from '../signal.ts';
import { fetchOnce } from '../source-offsets.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';

interface Parts {
  readonly link: FeedLink;
  readonly clock: LinkClock;
}

/**
 * Afterwards the feed is proved, or its topic is failed, or it is tried again later. Whoever stops
 * the feed does not wait for the source.
 */
export async function proveSource(feed: PartitionFeed, parts: Parts): Promise<void> {
  try {
    await prove(feed, parts);
  } catch (error) {
    if (!(error instanceof ClusterError || error instanceof StorageError)) throw error;
    feed.fail(`UNPROVED: ${messageOf(error)}`, parts.clock.monotonicMs(), 100);
  }
}

async function prove(feed: PartitionFeed, { link, clock }: Parts): Promise<void> {
  const { log, sourceTopic: topic, sourceTopicId: topicId, partition, leaderId } = feed;
  const offset = log.visibleEnd - 1n;
  // Of an empty copy there is nothing that another history could be mixed with.
  if (offset < log.logStart) return feed.noteProved();
  const { chunks } = await log.read(offset, { bytesMax: 1, atLeastOneBatch: true });
  const ours = Buffer.concat([...chunks]);
  const bytesMax = Math.max(1, ours.length);
  const lane = `proof-${link.name}`;
  // The memory of an answer waits for this: it is tried again like after any other refusal.
  const wanted = { topic, topicId, partition, leaderId, offset, bytesMax, lane, heldBackMsMax: 0 };
  const { errorCode, records } = await fetchOnce(link.cluster, wanted);
  if (feed.isStopped) return;
  // Retention has taken it, or the log is shorter: what that means is found out by fetching on.
  if (errorCode === ErrorCode.OFFSET_OUT_OF_RANGE) return feed.noteProved();
  if (errorCode !== ErrorCode.NONE) {
    feed.fail(`source answers ${errorName(errorCode)}`, clock.monotonicMs(), 100);
    link.refreshMetadata();
    return;
  }
  if (records.subarray(0, ours.length).equals(ours)) return feed.noteProved();
  // The source's cleaner changes batches too, but then there are fewer records in them.
  if (feed.isCompacted() && wasCleaned(records, ours)) return feed.noteProved();
  link.failTopic(feed.topic, {
    code: 'SOURCE_TOPIC_ID_CHANGED',
    message:
      `Source topic '${topic}' was recreated: partition ${partition} has another batch at ` +
      `offset ${offset} than was mirrored (it has no topic id that would tell)`,
  });
}

function wasCleaned(theirs: Buffer, ours: Buffer): boolean {
  if (theirs.length === 0) return true;
  const before = readBatchHeader(ours, 0);
  const after = readBatchHeader(theirs, 0);
  const isSame = after.baseOffset === before.baseOffset && after.producerId === before.producerId;
  return (
    after.baseOffset > before.baseOffset || (isSame && after.recordsCount < before.recordsCount)
  );
}
