// What becomes of one partition's part of a Fetch answer: appended to its mirror log as bytes, or
// followed (leader, log start, truncation), retried, or the topic is failed with a named cause.
// Records are never decoded. Refuses to know sessions and loops, and what was appended while the
// answer came in (fetch-round.ts). Invariants: one partition's trouble touches no other; nothing is
// appended without a valid lease; a history that does not continue ours is never mixed into it.

import type { PartitionData } from '../../../protocol/generated/fetch-response.ts';
import {
  ErrorCode,
  errorName,
  forEachBatch,
  ProtocolError,
  readBatchHeader,
  readMagic,
  wholeBatches,
} from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { grantCommand } from '../../cluster/grant-command.ts';
import type { MirrorErrorCode } from '../../state/records.ts';
import type { LinkClock } from '../context.ts';
import { messageOf } from '../signal.ts';
import { assertWithinSource, positionBehind } from './answered-records.ts';
import { resolveOutOfRange } from './out-of-range.ts';
import type { PartitionFeed } from './partition-feed.ts';
import type { FeedLink } from './source-link.ts';
import { proveSource } from './source-proof.ts';

const emptyBytes = Buffer.alloc(0);

const leaderErrors: ReadonlySet<number> = new Set([
  ErrorCode.NOT_LEADER_OR_FOLLOWER,
  ErrorCode.LEADER_NOT_AVAILABLE,
  ErrorCode.FENCED_LEADER_EPOCH,
  ErrorCode.UNKNOWN_LEADER_EPOCH,
  ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ErrorCode.UNKNOWN_TOPIC_ID,
  ErrorCode.INCONSISTENT_TOPIC_ID,
  ErrorCode.REPLICA_NOT_AVAILABLE,
  ErrorCode.KAFKA_STORAGE_ERROR,
]);

const deniedErrors: ReadonlySet<number> = new Set([
  ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
  ErrorCode.GROUP_AUTHORIZATION_FAILED,
]);

/** Causes of storage that end a mirror: fetching again cannot help. */
const fatalStorageErrors: Readonly<Partial<Record<StorageError['code'], MirrorErrorCode>>> = {
  UNSUPPORTED_MAGIC: 'UNSUPPORTED_MESSAGE_FORMAT',
  EPOCH_WENT_BACK: 'NON_MONOTONIC_LOG_APPEND_EPOCH',
};

/**
 * `from`: where what is left of the answer begins, possibly before earlier answers were appended.
 * `isByName`: the broker was asked by the topic's name (Fetch before version 13), and has looked at
 * no id.
 */
export async function acceptPartition(
  feed: PartitionFeed,
  data: PartitionData,
  parts: { link: FeedLink; clock: LinkClock; from?: bigint; isByName?: boolean },
): Promise<void> {
  const { link, clock, from, isByName = !feed.hasTopicId } = parts;
  // The log has not come to where this was fetched from: an earlier answer was not appended. What
  // lies between would be missing for ever, so it is fetched again from there.
  if (from !== undefined && from !== feed.position) return;
  const isDiverging = data.divergingEpoch.endOffset >= 0n;
  if (feed.isReadNear && (data.errorCode !== ErrorCode.NONE || isDiverging)) {
    // Only the leader knows what became of the history.
    feed.readAtLeader();
    feed.fail(`replica answers ${errorName(data.errorCode)}`, clock.monotonicMs());
    link.nearFailed();
    link.reassign(feed);
    return;
  }
  if (data.errorCode !== ErrorCode.NONE) {
    onError(feed, data, parts);
    return;
  }
  if (data.preferredReadReplica >= 0 && link.knowsNode(data.preferredReadReplica)) {
    feed.readNear(data.preferredReadReplica, clock.monotonicMs());
    link.reassign(feed);
    return;
  }
  if (!isByName) feed.noteProved();
  if (feed.hasTopicId && !feed.isProved) {
    // The next look at the source's metadata tells, and ends the mirror of a topic made again.
    feed.fail('source topic not confirmed by its id yet', clock.monotonicMs(), 100);
    link.refreshMetadata();
    return;
  }
  if (isDiverging) {
    await feed.exclusively(() => truncate(feed, data.divergingEpoch, parts));
    return;
  }
  if (!feed.isProved) {
    await proveSource(feed, parts);
    if (!feed.isProved) return;
  }
  if (data.highWatermark >= 0n) {
    const at = { nowMs: clock.monotonicMs(), unixMs: clock.unixMs() };
    feed.lag.observeSource(data.highWatermark, at);
  }
  try {
    await feed.exclusively(() => append(feed, data, link));
    feed.succeed();
  } catch (error) {
    onAppendError(feed, error, parts);
  }
}

async function append(feed: PartitionFeed, data: PartitionData, link: FeedLink): Promise<void> {
  const { log } = feed;
  const records = data.records ?? emptyBytes;
  // The last batch of an answer may be cut.
  const covered = wholeBatches(records).bytes;
  // None is whole: named here when the first is one that never can be.
  if (covered === 0 && records.length > 0) {
    const magic = readMagic(records, 0);
    if (magic !== null && magic < 2) readBatchHeader(records, 0);
    forEachBatch(records, () => false);
  }
  if (covered > 0) {
    const behind = positionBehind(records);
    if (behind !== null) assertWithinSource(behind.offset, data.highWatermark);
    if (!link.mayAct()) return;
    await feed.append(covered === records.length ? records : records.subarray(0, covered));
  }
  const logStartOffset = feed.logStartFor(data.logStartOffset);
  if (logStartOffset > log.logStart && logStartOffset <= log.end && link.mayAct()) {
    await log.deleteHead(logStartOffset);
  }
}

function onAppendError(
  feed: PartitionFeed,
  error: unknown,
  { link, clock }: { link: FeedLink; clock: LinkClock },
): void {
  const place = `${feed.topic}-${feed.partition}`;
  const isOldFormat = error instanceof ProtocolError && error.code === 'UNSUPPORTED_MAGIC';
  const fatal = error instanceof StorageError ? fatalStorageErrors[error.code] : undefined;
  if (isOldFormat || fatal !== undefined) {
    link.failTopic(feed.topic, {
      code: fatal ?? 'UNSUPPORTED_MESSAGE_FORMAT',
      message: `${place} at offset ${feed.fetchOffset}: ${messageOf(error)}`,
    });
    return;
  }
  if (!(error instanceof StorageError || error instanceof ProtocolError)) throw error;
  const code = error instanceof StorageError ? error.code : 'CORRUPT_BATCH';
  // A full disk is waited for; what arrived damaged is dropped and fetched again.
  const delayMs = code === 'DISK_FULL' ? 1_000 : 50;
  const cause = `${code}: ${messageOf(error)} (at offset ${feed.fetchOffset})`;
  feed.fail(cause, clock.monotonicMs(), delayMs);
}

function onError(
  feed: PartitionFeed,
  data: PartitionData,
  { link, clock }: { link: FeedLink; clock: LinkClock },
): void {
  const { errorCode, currentLeader } = data;
  const nowMs = clock.monotonicMs();
  if (errorCode === ErrorCode.OFFSET_OUT_OF_RANGE) {
    feed.isSuspended = true;
    link.inBackground(async () => {
      try {
        await resolveOutOfRange(feed, link, clock);
      } finally {
        feed.isSuspended = false;
        link.wake();
      }
    });
    return;
  }
  const name = errorName(errorCode);
  if (leaderErrors.has(errorCode)) {
    // As brokers answer in the moments in which a topic is deleted and made again, too.
    feed.unprove();
    const hasHint = currentLeader.leaderId >= 0 && currentLeader.leaderEpoch > feed.leaderEpoch;
    if (hasHint && link.knowsNode(currentLeader.leaderId)) {
      feed.follow(currentLeader.leaderId, currentLeader.leaderEpoch);
      link.reassign(feed);
      return;
    }
    feed.fail(name, nowMs);
    link.refreshMetadata();
    return;
  }
  const remedy =
    errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED
      ? `; grant it with ${grantCommand({ topic: feed.sourceTopic }, 'Read')}`
      : '';
  const pauseMs = deniedErrors.has(errorCode) ? 2_000 : 100;
  feed.fail(`source answers ${name}${remedy}`, nowMs, pauseMs);
}

/**
 * The source's history parts from ours: proved by epochs, followed as long as something of ours is
 * left. A source that has lost all of it (a disk, an empty replica elected) shares nothing with us
 * that proves anything, and ours may be the last copy.
 */
async function truncate(
  feed: PartitionFeed,
  diverging: { readonly epoch: number; readonly endOffset: bigint },
  { link, clock }: { link: FeedLink; clock: LinkClock },
): Promise<void> {
  const { log } = feed;
  const ours = log.epochEnd(diverging.epoch);
  const common =
    ours.epoch === diverging.epoch && diverging.endOffset < ours.endOffset
      ? diverging.endOffset
      : ours.endOffset;
  const place = `${feed.topic}-${feed.partition}`;
  if (common <= log.logStart || common >= log.end) {
    link.failTopic(feed.topic, {
      code: 'UNEXPECTED_TRUNCATION',
      message:
        `${place}: the source's epoch ${diverging.epoch} ends at ${diverging.endOffset}, ` +
        `which cannot be followed in a mirror that holds [${log.logStart}, ${log.end})`,
    });
    return;
  }
  if (!link.mayAct()) return;
  const end = log.end;
  link.truncating(feed.topic, feed.partition);
  try {
    await log.truncate(common);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    feed.fail(`${error.code}: ${error.message}`, clock.monotonicMs(), 1_000);
    return;
  }
  feed.lag.observeMirror(log.visibleEnd, clock.monotonicMs());
  link.events.warn(
    'mirror_truncated',
    `${place} followed a truncation at the source: offsets [${common}, ${end}) were removed`,
    { topic: feed.topic, partition: feed.partition, link: link.name, from: Number(common) },
  );
}
