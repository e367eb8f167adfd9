// What a topic named by a client is to us: ordinary, ours (mirrored or promoted), or not known well
// enough to say. Refuses to know any API. Invariant: absence is taken for "ordinary" only while the
// directory is settled (design §3: not knowing never means ordinary).
import { zeroUuid } from '../../protocol/bytes/uuid.ts';
import type { NativeExtent } from '../timeline/timeline.ts';
import { isReplaced, pendingById } from './passing-ids.ts';
import type { PartitionView, TopicDirectory, TopicView } from './topic-directory.ts';

export type TopicStanding =
  | { readonly kind: 'ordinary' }
  /** Answered retriably: it may be a mirror. */
  | { readonly kind: 'unsettled' }
  | { readonly kind: 'known'; readonly view: TopicView };

const ordinary: TopicStanding = { kind: 'ordinary' };
const unsettled: TopicStanding = { kind: 'unsettled' };

/** By whichever of name and id the request carries; null, empty and zero count as not given. */
export function topicStanding(
  directory: TopicDirectory,
  topic: { readonly name?: string | null; readonly topicId?: string },
): TopicStanding {
  const { name, topicId } = topic;
  const hasId = topicId !== undefined && topicId !== zeroUuid;
  const view =
    (hasId ? (directory.byId(topicId) ?? pendingById(directory, topicId)) : undefined) ??
    (name ? directory.byName(name) : undefined);
  if (view === undefined) return directory.isSettled ? ordinary : unsettled;
  // Another id under the same name is another topic. While only our intent is committed no id is
  // known.
  if (hasId && view.topicId !== null && view.topicId !== topicId) return ordinary;
  if (view.mode === 'unavailable') return unsettled;
  // Until it is certain which topic the name means. A mirror's refuses to be written to anyhow.
  if (!hasId && view.mode === 'promoted' && isReplaced(directory, view)) return unsettled;
  return { kind: 'known', view };
}

export function isMirrored(view: TopicView): boolean {
  return view.mode === 'mirror' || view.mode === 'switching';
}

/** The native extent that a promoted partition ends in. */
export function openNativeExtent(partition: PartitionView | undefined): NativeExtent | undefined {
  const last = partition?.timeline.extents.at(-1);
  return last?.where === 'native' ? last : undefined;
}

/**
 * The leader epoch that clients are told for a mirrored partition. An empty mirror shows 0: a
 * client that was told -1 would keep no epoch at all and could not be fenced later.
 */
export function mirrorLeaderEpoch(view: TopicView, partition: number): number {
  return Math.max(0, view.partition(partition)?.advertisedEpoch ?? 0);
}
