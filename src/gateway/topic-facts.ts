// What is remembered of the partitions of topics of ours, by topic id. Owns the forgetting; refuses
// to know what is remembered. Invariants: nothing is forgotten of a topic that the directory has,
// or may have while it is not settled; of those that it no longer has no more stay than it had at
// the last look, or `topicsLeast`.
import { SweepMark } from './sweep-mark.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface FactPlace {
  readonly topicId: string;
  readonly partition: number;
}

/** So many topics are kept without a look for those that were deleted. */
const topicsLeast = 1_000;

export class TopicFacts<Fact> {
  readonly #topics = new Map<string, Map<number, Fact>>();
  readonly #mark = new SweepMark(topicsLeast);

  get({ topicId, partition }: FactPlace): Fact | undefined {
    return this.#topics.get(topicId)?.get(partition);
  }

  set(directory: TopicDirectory, { topicId, partition }: FactPlace, fact: Fact): void {
    const known = this.#topics.get(topicId);
    if (known !== undefined) {
      known.set(partition, fact);
      return;
    }
    this.#topics.set(topicId, new Map([[partition, fact]]));
    if (!directory.isSettled) return;
    this.#mark.grown(this.#topics.size, () => this.#forgetDeleted(directory));
  }

  #forgetDeleted(directory: TopicDirectory): number {
    for (const topicId of this.#topics.keys()) {
      if (directory.byId(topicId) === undefined) this.#topics.delete(topicId);
    }
    return this.#topics.size;
  }
}
