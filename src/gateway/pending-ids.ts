// Ids of shell topics that clients may know before we have committed them: between CreateTopics and
// the commit of a mirror's id, any metadata answer tells the new id beside the name. Owns what was
// seen; refuses to know who asks. Invariant (R3): an id that passed to a client under the name of a
// mirror being made is that mirror, so that nobody writes to its shell by id.
import { zeroUuid } from '../../protocol/bytes/uuid.ts';
import type { TopicDirectory, TopicView } from './topic-directory.ts';

const namesById = new WeakMap<TopicDirectory, Map<string, string>>();
/** Above it, ids whose mirrors are made or given up are forgotten. */
const idsKept = 1_000;

/** To be called with every topic of an answer, before it goes to the client. */
export function learnPendingId(
  directory: TopicDirectory,
  topic: { readonly name: string | null; readonly topicId: string },
): void {
  const { name, topicId } = topic;
  if (name === null || topicId === zeroUuid || !isPending(directory, name)) return;
  let names = namesById.get(directory);
  if (names === undefined) {
    names = new Map();
    namesById.set(directory, names);
  }
  names.set(topicId, name);
  if (names.size <= idsKept) return;
  for (const [id, known] of names) if (!isPending(directory, known)) names.delete(id);
}

/** The mirror that is being made under this id, as far as an answer has told. */
export function pendingById(directory: TopicDirectory, topicId: string): TopicView | undefined {
  const name = namesById.get(directory)?.get(topicId);
  const view = name === undefined ? undefined : directory.byName(name);
  // With an id of its own, the mirror is found by that or is another topic.
  return view?.topicId === null ? view : undefined;
}

function isPending(directory: TopicDirectory, name: string): boolean {
  return directory.byName(name)?.topicId === null;
}
