// Share groups on topics of ours. Their offsets are native ones, kept by the destination: what
// goes there is shifted back, what comes is shifted. Owns what a topic is to a share group, and
// which partitions of a request go there; refuses to know the rest of requests. Invariants: a
// share group has no part in a copy, it starts at S (the copy's records were never acquired
// through a broker of ours); no native offset leaves unshifted.
//
// While a topic is mirrored there is nobody who could hold acquired records: 29 with a sentence,
// as Java's share consumer takes any other final code for a bug of its own. It may poll on, and
// reads once the topic is promoted.
import { ErrorCode } from '../../protocol/index.ts';
import { nativeEpoch } from '../timeline/offsets.ts';
import { type NativeExtent, toVirtualEpoch } from '../timeline/timeline.ts';
import type { TopicDirectory, TopicView } from './topic-directory.ts';
import { isMirrored, openNativeExtent, topicStanding } from './topic-standing.ts';

export interface ShareRefusal {
  readonly errorCode: number;
  readonly errorMessage: string | null;
}

export type SharePlace =
  /** The broker's alone. */
  | { readonly kind: 'ordinary' }
  | { readonly kind: 'promoted'; readonly native: NativeExtent }
  | { readonly kind: 'refused'; readonly refusal: ShareRefusal };

const ordinary: SharePlace = { kind: 'ordinary' };

/** It leads nothing here, or we cannot tell yet: ask for metadata and come again. */
export const notLeaderForShare: ShareRefusal = {
  errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
  errorMessage: null,
};

function mirrorShareRefusal(view: TopicView): ShareRefusal {
  if (view.mode === 'switching') return notLeaderForShare;
  const errorMessage =
    `topic ${view.name} is a mirror over link ${view.link}: ` +
    'share groups can read it when it is promoted or failed over';
  return { errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED, errorMessage };
}

export function sharePlace(
  directory: TopicDirectory,
  topic: { readonly name?: string; readonly topicId?: string },
  partition: number,
): SharePlace {
  const standing = topicStanding(directory, topic);
  if (standing.kind === 'ordinary') return ordinary;
  if (standing.kind === 'unsettled') return { kind: 'refused', refusal: notLeaderForShare };
  const { view } = standing;
  if (isMirrored(view)) return { kind: 'refused', refusal: mirrorShareRefusal(view) };
  const place = view.partition(partition);
  // Added after the promotion: the shell's own, unshifted.
  if (place === undefined) return ordinary;
  const native = openNativeExtent(place);
  if (native === undefined) return { kind: 'refused', refusal: notLeaderForShare };
  return { kind: 'promoted', native };
}

interface OffsetRange {
  firstOffset: bigint;
  lastOffset: bigint;
}

/**
 * Ranges of acquired records are never sentinels. Markers that hide below n are acquired like any
 * record, and released as a gap: with S below n their virtual offsets are negative, on purpose.
 */
export function shiftRanges<Range extends OffsetRange>(
  ranges: readonly Range[],
  shift: bigint,
): Range[] {
  return ranges.map((range) => ({
    ...range,
    firstOffset: range.firstOffset + shift,
    lastOffset: range.lastOffset + shift,
  }));
}

interface SharePartition {
  readonly partitionIndex: number;
  readonly acknowledgementBatches: OffsetRange[];
}

interface ShareTopic {
  readonly topicId: string;
  readonly partitions: SharePartition[];
}

export interface RefusedShareTopic<Topic extends ShareTopic> {
  /** With the refused partitions only. */
  readonly topic: Topic;
  readonly refusals: ReadonlyMap<number, ShareRefusal>;
}

export interface SplitShareTopics<Topic extends ShareTopic> {
  /** For the broker, or null when the request can go as it is. */
  readonly kept: Topic[] | null;
  readonly refused: readonly RefusedShareTopic<Topic>[];
}

/** What of a ShareFetch or ShareAcknowledge goes to the broker, in native offsets. */
export function splitShareTopics<Topic extends ShareTopic>(
  directory: TopicDirectory,
  topics: readonly Topic[],
): SplitShareTopics<Topic> {
  const refused: RefusedShareTopic<Topic>[] = [];
  const kept: Topic[] = [];
  let isChanged = false;
  for (const topic of topics) {
    const refusals = new Map<number, ShareRefusal>();
    const partitions = topic.partitions.flatMap((partition) => {
      const place = sharePlace(directory, topic, partition.partitionIndex);
      if (place.kind === 'ordinary') return [partition];
      isChanged = true;
      if (place.kind === 'promoted') {
        const shift = -place.native.offsetShift;
        const shifted = shiftRanges(partition.acknowledgementBatches, shift);
        return [{ ...partition, acknowledgementBatches: shifted }];
      }
      refusals.set(partition.partitionIndex, place.refusal);
      return [];
    });
    if (refusals.size > 0) {
      const without = topic.partitions.filter((one) => refusals.has(one.partitionIndex));
      refused.push({ topic: { ...topic, partitions: without }, refusals });
    }
    if (partitions.length > 0) kept.push({ ...topic, partitions });
  }
  return { kept: isChanged ? kept : null, refused };
}

export function shiftLeader<Leader extends { readonly leaderEpoch: number }>(
  leader: Leader,
  native: NativeExtent,
): Leader {
  return { ...leader, leaderEpoch: toVirtualEpoch(native, nativeEpoch(leader.leaderEpoch)) };
}

/**
 * Whether one of the topics may be a mirror for all that we know. A share session keeps its
 * partitions at the broker, so none can be left out for a while: the client begins a new session.
 */
export function isAnyUnsettled(directory: TopicDirectory, topicIds: readonly string[]): boolean {
  return topicIds.some((topicId) => topicStanding(directory, { topicId }).kind === 'unsettled');
}
