// What answers that pass tell of the ids behind names of ours before the state knows it. Owns what
// was seen; refuses to know who asks. Invariants (R3): between CreateTopics and the commit of a
// mirror's id, an id that passed to a client under the name of the mirror being made is that
// mirror, so that nobody writes to its shell by id. When a promoted topic was deleted and its name
// has another id, the name is not taken for it: what is kept of it is not the new topic's.
import { zeroUuid } from '../../protocol/bytes/uuid.ts';
import { SweepMark } from './sweep-mark.ts';
import type { TopicDirectory, TopicView } from './topic-directory.ts';

interface PassingIds {
  /** Of mirrors being made, by the id that was told. */
  readonly pending: Map<string, string>;
  /** Ids of ours whose names were last told with another id. */
  readonly replaced: Set<string>;
  readonly mark: SweepMark;
}

const seen = new WeakMap<TopicDirectory, PassingIds>();
/** Up to it, ids that nothing depends on any more are kept. */
const idsLeast = 1_000;

/** To be called with every topic of an answer, before it goes to the client. */
export function learnId(
  directory: TopicDirectory,
  topic: { readonly name: string | null; readonly topicId: string },
): void {
  const { name, topicId } = topic;
  const view = name === null ? undefined : directory.byName(name);
  if (view === undefined || topicId === zeroUuid) return;
  let ids = seen.get(directory);
  if (ids === undefined) {
    ids = { pending: new Map(), replaced: new Set(), mark: new SweepMark(idsLeast) };
    seen.set(directory, ids);
  }
  if (view.topicId === null) ids.pending.set(topicId, view.name);
  else if (view.topicId !== topicId) ids.replaced.add(view.topicId);
  // A broker that was behind told of a topic that was there before.
  else ids.replaced.delete(topicId);
  const { pending, replaced, mark } = ids;
  mark.grown(pending.size + replaced.size, () => forget(ids, directory));
}

/** Returns how many are left. */
function forget({ pending, replaced }: PassingIds, directory: TopicDirectory): number {
  for (const [id, name] of pending) {
    if (directory.byName(name)?.topicId !== null) pending.delete(id);
  }
  for (const id of replaced) if (directory.byId(id) === undefined) replaced.delete(id);
  return pending.size + replaced.size;
}

/** The mirror that is being made under this id, as far as an answer has told. */
export function pendingById(directory: TopicDirectory, topicId: string): TopicView | undefined {
  const name = seen.get(directory)?.pending.get(topicId);
  const view = name === undefined ? undefined : directory.byName(name);
  // With an id of its own, the mirror is found by that or is another topic.
  return view?.topicId === null ? view : undefined;
}

/** Whether the last answer that told the id of this name told another: it was made again. */
export function isReplaced(directory: TopicDirectory, { topicId }: TopicView): boolean {
  return topicId !== null && seen.get(directory)?.replaced.has(topicId) === true;
}
