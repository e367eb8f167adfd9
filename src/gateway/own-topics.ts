// The service's own topics in the destination (state, logs), which clients may read but not change. Owns the
// answer to "is this one of them", by name and by the ids seen so far. Invariant: ids are learned from the
// destination at the start and from every metadata answer that passes, so a client cannot know one that we
// do not (but from elsewhere, and then the destination's ACLs decide).
import { zeroUuid } from '../../protocol/index.ts';

export class OwnTopics {
  readonly #prefix: string;
  readonly #ids = new Map<string, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  learn(name: string | null, topicId: string): void {
    if (name?.startsWith(this.#prefix) && topicId !== zeroUuid) this.#ids.set(topicId, name);
  }

  has(topic: { readonly name?: string | null; readonly topicId?: string }): boolean {
    if (topic.name?.startsWith(this.#prefix)) return true;
    return topic.topicId !== undefined && this.#ids.has(topic.topicId);
  }
}
