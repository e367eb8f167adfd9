// What a switch did, as it is written down with it: per partition the ends and what may be lost,
// per topic the groups that had committed beyond S. Pure over what it is given. Refuses to know
// when a switch is right. Invariant: what is not known is -1 or null, never 0; a dry run and the
// real thing have the same fields.
import type { ReceiptGroup, ReceiptPartition, ReceiptTopic } from '../../state/records.ts';
import { virtualEpoch } from '../../timeline/offsets.ts';
import { nextEpoch } from '../../timeline/timeline.ts';
import type { LinkClock } from '../context.ts';
import { bytesAtMean, type CopySize, type LagTracker } from '../fetch/lag.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import { endOf, type SwitchPartition, type SwitchTopic } from '../mirror/splice.ts';
import type { GroupPosition } from '../service.ts';
import { expectedDuplicates } from './duplicates.ts';

/** Bounds the record; the count says how many there are. */
const groupsListed = 500;
/** The mirror logs of one directory: what is below S exists once. */
export const historyCopies = 1;

/** It has a history, and the loss of one disk would be its end. */
export function hasSingleCopy({ partitions }: Pick<MirrorTopic, 'partitions'>): boolean {
  return partitions.some(({ log }) => log === null || log.logStart < log.end);
}

export interface ReceiptParts {
  readonly clock: LinkClock;
  readonly lag: (link: string, topic: string, partition: number) => LagTracker | undefined;
  readonly groups: (link: string, topics: ReadonlySet<string>) => readonly GroupPosition[];
  /** When the source's commits for a topic were read last, Unix ms; -1: never, or not synced. */
  readonly groupsReadMs: (link: string, topic: string) => number;
}

export interface ReceiptOptions {
  readonly command: 'promote' | 'failover';
  /** After the ABORT batches; otherwise what it would be. */
  readonly isDone: boolean;
}

export function receiptTopics(
  topics: readonly SwitchTopic[],
  parts: ReceiptParts,
  options: ReceiptOptions,
): ReceiptTopic[] {
  const byTopic = groupsByTopic(topics, parts);
  let left = groupsListed;
  let duplicatesLeft = groupsListed;
  return topics.map((topic) => {
    const { name, link } = topic.record;
    const partitions = topic.partitions.map((partition) =>
      receiptPartition(partition, {
        lag: parts.lag(link, name, partition.view.partition),
        nowMs: parts.clock.monotonicMs(),
        options,
      }),
    );
    const ends = new Map(partitions.map((one) => [one.partition, one] as const));
    const positions = byTopic.get(name) ?? [];
    const groups = clampedGroups(positions, ends);
    const listed = groups.slice(0, left);
    left -= listed.length;
    const readTimeMs = parts.groupsReadMs(link, name);
    const duplicates = expectedDuplicates(positions, ends, {
      readTimeMs,
      listedMax: duplicatesLeft,
    });
    duplicatesLeft -= duplicates.groups.length;
    return {
      topic: name,
      link,
      partitions,
      groups: listed,
      groupsCount: groups.length,
      duplicates,
      historyCopies,
      completedTimeMs: options.command === 'promote' ? parts.clock.unixMs() : -1,
    };
  });
}

function groupsByTopic(
  topics: readonly SwitchTopic[],
  parts: ReceiptParts,
): ReadonlyMap<string, readonly GroupPosition[]> {
  const byTopic = new Map<string, GroupPosition[]>();
  for (const link of new Set(topics.map(({ record }) => record.link))) {
    const own = topics.filter(({ record }) => record.link === link);
    const names = new Set(own.map(({ record }) => record.name));
    for (const status of parts.groups(link, names)) {
      const known = byTopic.get(status.topic);
      if (known) known.push(status);
      else byTopic.set(status.topic, [status]);
    }
  }
  return byTopic;
}

/** What the source has of a group beyond S is set back to S: those records are not here. */
function clampedGroups(
  statuses: readonly GroupPosition[],
  ends: ReadonlyMap<number, ReceiptPartition>,
): ReceiptGroup[] {
  return statuses.flatMap(({ group, partition, sourceOffset }) => {
    const end = ends.get(partition)?.virtualEnd;
    if (end === undefined || sourceOffset <= end) return [];
    return [{ group, partition, oldOffset: sourceOffset, newOffset: end }];
  });
}

function receiptPartition(
  partition: SwitchPartition,
  seen: {
    readonly lag: LagTracker | undefined;
    readonly nowMs: number;
    readonly options: ReceiptOptions;
  },
): ReceiptPartition {
  const { view, log, shell, openCount, mirroredEnd, end, lastEpoch } = partition;
  const { lag, nowMs, options } = seen;
  const isPromotion = options.command === 'promote';
  const sourceEnd = isPromotion ? mirroredEnd : (lag?.sourceEnd ?? -1n);
  const lostRecords = lossOf({ sourceEnd, mirroredEnd });
  const { completeAtMs = null } = lag?.lag(nowMs, Number.POSITIVE_INFINITY) ?? {};
  const ageSeconds = completeAtMs === null ? -1 : Math.ceil((nowMs - completeAtMs) / 1000);
  return {
    partition: view.partition,
    virtualEnd: options.isDone ? endOf(partition) : end + BigInt(openCount),
    nativeEnd: shell.nativeEnd,
    firstEpoch: nextEpoch(view.timeline, virtualEpoch(lastEpoch)),
    sourceEnd,
    mirroredEnd,
    lostRecords,
    lostBytes: bytesOf(lostRecords, lag, log),
    lostSeconds: isPromotion ? 0 : ageSeconds,
    lastContactTimeMs: lag?.contactUnixMs ?? -1,
    abortedTransactions: openCount,
    found: isPromotion ? { sourceEnd, lostRecords } : null,
  };
}

/** Records that the source has beyond our end; -1 when its end is not known. */
export function lossOf(ends: { sourceEnd: bigint; mirroredEnd: bigint }): bigint {
  if (ends.sourceEnd < 0n) return -1n;
  return ends.sourceEnd > ends.mirroredEnd ? ends.sourceEnd - ends.mirroredEnd : 0n;
}

/** -1 when it is not known how many, or when nothing tells their size. */
function bytesOf(lostRecords: bigint, lag: LagTracker | undefined, copy: CopySize | null): bigint {
  if (lostRecords <= 0n) return lostRecords;
  return (
    (lag === undefined ? bytesAtMean(lostRecords, copy) : lag.bytesOf(lostRecords, copy)) ?? -1n
  );
}
