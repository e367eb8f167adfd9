// What groups have committed at the source for mirrored topics, as far as that is known: the memory
// of the group task from one reading to the next, under destination names. Pure. Refuses to know
// clusters. Invariants: what was read of a topic that could not be confirmed to be the mirrored one
// is never taken over, what was known of it stays; what was not read is not forgotten.
import { partitionKey } from '../cluster/partition-key.ts';
import type { SourceCommit } from './group-writer.ts';

export type GroupsCommits = ReadonlyMap<string, readonly SourceCommit[]>;

export interface Reading {
  /** Of the groups that could be read. */
  readonly commits: GroupsCommits;
  /** Destination topics that were asked for. */
  readonly topics: ReadonlySet<string>;
  /** All groups were read: one that is not there has no commits. */
  readonly isWhole: boolean;
}

export interface Taking {
  readonly isHeldBack: (topic: string) => boolean;
  /** Whether what is known and was not read, or is held back, is still worth knowing. */
  readonly isKept: (commit: SourceCommit) => boolean;
}

export class GroupCommits {
  readonly #known = new Map<string, readonly SourceCommit[]>();

  /** By group. */
  get known(): GroupsCommits {
    return this.#known;
  }

  /** Topics of which something else was read than is known. */
  changedTopics({ commits, topics, isWhole }: Reading): ReadonlySet<string> {
    const changed = new Set<string>();
    for (const [group, read] of commits) {
      const known = this.#known.get(group) ?? [];
      if (changed.size < topics.size) addChanged(known, { read, topics }, changed);
    }
    if (!isWhole) return changed;
    for (const [group, known] of this.#known) {
      if (commits.has(group)) continue;
      for (const { topic } of known) if (topics.has(topic)) changed.add(topic);
    }
    return changed;
  }

  /** Takes over what was read. Returns what counts now of what was asked for. */
  take({ commits, topics, isWhole }: Reading, taking: Taking): GroupsCommits {
    const counting = new Map<string, readonly SourceCommit[]>();
    const heldBack = new Set([...topics].filter(taking.isHeldBack));
    const set = (group: string, read: readonly SourceCommit[]): void => {
      const isRead = ({ topic }: SourceCommit): boolean => topics.has(topic);
      const kept = (this.#known.get(group) ?? []).filter(
        (one) => (heldBack.has(one.topic) || !isRead(one)) && taking.isKept(one),
      );
      const taken = heldBack.size === 0 ? read : read.filter(({ topic }) => !heldBack.has(topic));
      const all = kept.length === 0 ? taken : [...kept, ...taken];
      if (all.length === 0) this.#known.delete(group);
      else this.#known.set(group, all);
      const own = kept.length === 0 ? taken : all.filter(isRead);
      if (own.length > 0) counting.set(group, own);
    };
    for (const [group, read] of commits) set(group, read);
    if (!isWhole) return counting;
    for (const group of [...this.#known.keys()]) if (!commits.has(group)) set(group, []);
    return counting;
  }
}

function addChanged(
  known: readonly SourceCommit[],
  found: { readonly read: readonly SourceCommit[]; readonly topics: ReadonlySet<string> },
  changed: Set<string>,
): void {
  const { read, topics } = found;
  // A broker gives them in the same order, as long as there are no others.
  if (known.length === read.length && known.every((one, at) => isSame(one, read[at]))) return;
  const left = new Map(known.map((one) => [partitionKey(one.topic, one.partition), one] as const));
  for (const one of read) {
    const key = partitionKey(one.topic, one.partition);
    if (!isSame(one, left.get(key))) changed.add(one.topic);
    left.delete(key);
  }
  for (const { topic } of left.values()) if (topics.has(topic)) changed.add(topic);
}

function isSame(one: SourceCommit, other: SourceCommit | undefined): boolean {
  return (
    other !== undefined &&
    one.partition === other.partition &&
    one.position.offset === other.position.offset &&
    one.topic === other.topic &&
    one.topicId === other.topicId &&
    one.position.metadata === other.position.metadata
  );
}
