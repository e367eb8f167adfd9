// How links and mirrors are shown: states seen through their link, partitions with lag, what
// blocks. Owns no data; refuses to change any. Invariant: what is not known is null or -1, never 0,
// and a partition that does not move although it should is never shown as healthy.
import type { MirrorState } from '../state/records.ts';
import { openNativeExtent } from '../timeline/timeline.ts';
import type { LinkContext } from './context.ts';
import type { PartitionFeed } from './fetch/partition-feed.ts';
import type { LinkRuntime } from './link.ts';
import { lostTotals } from './mirror/lost-history.ts';
import { isFetching, type LinkConditions, shownState } from './mirror/mirror-state.ts';
import type { MirrorTopic } from './mirror/mirror-topics.ts';
import type { LinkStatus, MirrorStatus, PartitionStatus, TaskStatus } from './service.ts';
import type { Blocking } from './switch/blocking.ts';

export const goneLink: LinkConditions = { linkFailed: true, linkPaused: false, sourceLost: false };

/** What stands still in these, their own name explains; nothing is missing that should come. */
const restingStates: ReadonlySet<MirrorState> = new Set(['PAUSED', 'LINK_PAUSED', 'FAILED']);

export function partitionStatuses(
  topic: MirrorTopic,
  link: LinkRuntime | undefined,
  context: LinkContext,
): readonly PartitionStatus[] {
  const nowMs = context.clock.monotonicMs();
  const ageMaxMs = context.limits.sampleAgeMaxMs;
  const isStopped = topic.record.state === 'STOPPED';
  const causes = stallCauses(topic, link, context);
  return topic.partitions.map(({ partition, timeline, log }) => {
    const tracker = link?.feeds.lag(topic.name, partition);
    const lag = tracker?.lag(nowMs, ageMaxMs);
    const native = openNativeExtent(timeline);
    const mirrorEnd = native?.start ?? log?.visibleEnd ?? -1n;
    const base = {
      partition,
      logStart: log?.logStart ?? -1n,
      mirrorEnd,
      sourceEnd: lag?.sourceEnd ?? -1n,
      heardTimeMs: tracker?.contactUnixMs ?? -1,
      sizeBytes: log === null ? null : BigInt(log.sizeBytes),
      damagedRanges: log === null ? null : log.damage.length,
    };
    if (isStopped) {
      const unknown = { lagRecords: null, lagRecordsMin: null, lagBytes: null, lagSeconds: null };
      return { ...base, ...unknown, isStalled: false, stallCause: null };
    }
    const stallCause = causes.get(partition) ?? null;
    const lagRecords = lag?.records ?? null;
    return {
      ...base,
      lagRecords,
      lagRecordsMin: lagRecordsMin(base),
      lagBytes: lagRecords === null ? null : (tracker?.bytesOf(lagRecords, log) ?? null),
      lagSeconds: lag?.seconds ?? null,
      isStalled: stallCause !== null,
      stallCause,
    };
  });
}

function lagRecordsMin({
  sourceEnd,
  mirrorEnd,
}: Pick<PartitionStatus, 'sourceEnd' | 'mirrorEnd'>): bigint | null {
  if (sourceEnd < 0n) return null;
  return sourceEnd > mirrorEnd ? sourceEnd - mirrorEnd : 0n;
}

/** Why partitions do not move although they should: of those that are STALLED, by number. */
export function stallCauses(
  topic: MirrorTopic,
  link: LinkRuntime | undefined,
  context: LinkContext,
): ReadonlyMap<number, string> {
  const causes = new Map<number, string>();
  const { state } = topic.record;
  if (state === 'STOPPED') return causes;
  const nowMs = context.clock.monotonicMs();
  const ageMaxMs = context.limits.sampleAgeMaxMs;
  const isResting = restingStates.has(shownState(state, link?.conditions ?? goneLink));
  const feeds = new Map<number, PartitionFeed>();
  for (const feed of link?.feeds.feeds(topic.name) ?? []) feeds.set(feed.partition, feed);
  for (const { partition, log } of topic.partitions) {
    if (log === null) {
      causes.set(partition, 'STORAGE_ERROR: the mirror log cannot be used');
      continue;
    }
    if (isResting) continue;
    const feed = feeds.get(partition);
    const isSilent = feed !== undefined && nowMs - feed.heardAtMs >= ageMaxMs;
    const standing = feed?.stallCause ?? (isSilent ? silentCause(feed, link, context) : null);
    if (standing !== null) causes.set(partition, standing);
    else if (link?.feeds.lag(topic.name, partition)?.isStalled(nowMs, ageMaxMs) === true) {
      causes.set(partition, idleCause(feed, link, context));
    }
  }
  return causes;
}

function generalCause(link: LinkRuntime | undefined, context: LinkContext): string {
  if (context.storage.isFull) return 'DISK_FULL: the storage has less free space than it must keep';
  if (link === undefined) return 'LINK_NOT_FOUND: the link is gone';
  const { error } = link.health;
  if (error !== null) return `${error.name}: ${error.message}`;
  if (link.record.paused) return 'LINK_PAUSED';
  if (!context.state.lease.isValid()) return 'NOT_OWNER: this instance does not hold the lease';
  return noProgress;
}

const noProgress = 'NO_PROGRESS: the source answers without new records';

/** Nothing failed, and nothing came. */
function idleCause(
  feed: PartitionFeed | undefined,
  link: LinkRuntime | undefined,
  context: LinkContext,
): string {
  const cause = generalCause(link, context);
  const heldBackAtMs = feed?.heldBackAtMs ?? Number.NEGATIVE_INFINITY;
  const isHeldBack = context.clock.monotonicMs() - heldBackAtMs < context.limits.sampleAgeMaxMs;
  if (cause !== noProgress || !isHeldBack) return cause;
  return 'SOURCE_QUOTA: a quota of the source (such as consumer_byte_rate) empties its answers';
}

/** Nothing was heard of it for so long that its lag is not known. */
function silentCause(
  feed: PartitionFeed,
  link: LinkRuntime | undefined,
  context: LinkContext,
): string {
  if (feed.leaderId < 0) return 'LEADER_NOT_AVAILABLE: the source has no leader for the partition';
  const cause = idleCause(feed, link, context);
  return cause === noProgress ? 'NO_ANSWER: the source says nothing of it' : cause;
}

export function mirrorStatus(
  topic: MirrorTopic,
  link: LinkRuntime | undefined,
  parts: {
    readonly context: LinkContext;
    readonly blocking: readonly Blocking[];
    readonly notices: readonly Blocking[];
    readonly strayRecords: bigint | null;
  },
): MirrorStatus {
  const { record } = topic;
  const isFailingOver = topic.phase === 'FAILING_OVER';
  return {
    name: record.name,
    topicId: record.topicId,
    link: record.link,
    sourceTopic: record.sourceTopic,
    state: isFailingOver
      ? 'PENDING_STOPPED'
      : shownState(record.state, link?.conditions ?? goneLink),
    phase: topic.phase,
    stateTimeMs: record.stateTimeMs,
    error: record.error,
    stoppedBy: record.stoppedBy,
    partitions: partitionStatuses(topic, link, parts.context),
    growth: link?.growth.of(record.name) ?? null,
    blocking: parts.blocking,
    notices: parts.notices,
    strayRecords: parts.strayRecords,
    lostRanges: record.lost ?? [],
    lostTotals: lostTotals(record),
  };
}

export function linkStatus(
  link: LinkRuntime,
  topics: readonly MirrorTopic[],
  parts: { readonly context: LinkContext; readonly tasks: readonly TaskStatus[] },
): LinkStatus {
  const { health, record } = link;
  const { error } = health;
  let linkState: LinkStatus['linkState'] = 'ACTIVE';
  if (health.isFailed) linkState = 'FAILED';
  else if (record.paused) linkState = 'PAUSED';
  else if (health.isLost || health.isDenied) linkState = 'UNAVAILABLE';
  // A right that is missing for some topics is shown beside the ones that go on.
  const isBad =
    linkState === 'FAILED' || linkState === 'UNAVAILABLE' || error?.name === 'AUTHORIZATION_ERROR';
  return {
    record,
    linkState,
    linkError: isBad ? (error?.name ?? 'UNKNOWN') : 'NO_ERROR',
    linkErrorMessage: isBad ? (error?.message ?? null) : null,
    topicNames: topics.map(({ name }) => name),
    lastContactTimeMs: health.contactUnixMs,
    isContactRecorded: !health.hasContact && health.contactUnixMs >= 0,
    isAnswering: health.isAnswering,
    ...recoveryPoint(link, topics, parts.context),
    tasks: parts.tasks,
  };
}

/** Monotonic ms; written down before a restart, it may have been later. */
interface CompletePoint {
  readonly atMs: number;
  readonly isRecorded: boolean;
}

function earlier(one: CompletePoint | null, other: CompletePoint): CompletePoint {
  return one === null || other.atMs < one.atMs ? other : one;
}

/**
 * The worst partition decides. One that was never complete makes it unknown while it is fetched:
 * it may yet be. Of one that is not (paused, failed) nothing would ever be known: it is named.
 */
function recoveryPoint(
  link: LinkRuntime,
  topics: readonly MirrorTopic[],
  context: LinkContext,
): Pick<LinkStatus, 'rpoSeconds' | 'isRpoAtMost' | 'rpoUnknownTopics'> {
  const nowMs = context.clock.monotonicMs();
  const unknown = new Set<MirrorTopic>();
  let worst: CompletePoint | null = null;
  for (const topic of topics) {
    if (topic.record.state === 'STOPPED' || topic.record.state === 'PENDING_MIRROR') continue;
    // Partitions that are not here hold what is not here, since they were seen at the latest.
    const lacksSinceMs = link.growth.sinceMs(topic.name);
    if (lacksSinceMs !== null) worst = earlier(worst, { atMs: lacksSinceMs, isRecorded: false });
    for (const { partition } of topic.partitions) {
      const lag = link.feeds.lag(topic.name, partition)?.lag(nowMs, context.limits.sampleAgeMaxMs);
      const atMs = lag?.completeAtMs ?? null;
      if (atMs === null) unknown.add(topic);
      else worst = earlier(worst, { atMs, isRecorded: lag?.isCompleteRecorded ?? false });
    }
  }
  const isUnknown = [...unknown].some(({ record }) => isFetching(record.state));
  const point = isUnknown ? null : worst;
  return {
    rpoSeconds: point === null ? null : (nowMs - point.atMs) / 1000,
    isRpoAtMost: point?.isRecorded ?? false,
    rpoUnknownTopics: [...unknown].map(({ name }) => name),
  };
}
