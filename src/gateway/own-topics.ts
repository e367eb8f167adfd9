// The service's own topics in the destination (state, logs), which clients may read but not change.
// Owns the answer to "is this one of them", by name and by the ids seen so far. Invariant: ids are
// learned from the destination at the start and from every metadata answer that passes, so a client
// cannot know one that we do not (but from elsewhere, and then the destination's ACLs decide).
import { zeroUuid } from '../../protocol/index.ts';

export class OwnTopics {
  readonly #prefixes: readonly string[];
  readonly #ids = new Set<string>();

  constructor(...prefixes: readonly string[]) {
    this.#prefixes = prefixes;
  }

  learn(name: string | null, topicId: string): void {
    if (this.#isOwnName(name) && topicId !== zeroUuid) this.#ids.add(topicId);
  }

  has(topic: { readonly name?: string | null; readonly topicId?: string }): boolean {
    if (this.#isOwnName(topic.name)) return true;
    return topic.topicId !== undefined && this.#ids.has(topic.topicId);
  }

  #isOwnName(name: string | null | undefined): boolean {
    return name != null && this.#prefixes.some((prefix) => name.startsWith(prefix));
  }
}
