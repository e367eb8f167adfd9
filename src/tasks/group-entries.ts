// What the group task knows of each offset that it keeps: what it wrote last, when it compared, and
// why it leaves it alone. Pure memory. Refuses to know brokers and decisions. Invariant: what is
// known of one topic id is never taken for another topic of the same name.
import { partitionKey } from '../cluster/partition-key.ts';
import type { Synced } from './group-diff.ts';

export interface Commit {
  /** Destination topic. */
  readonly topic: string;
  readonly partition: number;
}

/** One offset of one group as it is shown. */
export interface GroupRow extends Commit {
  /** Its name at the destination. */
  readonly group: string;
  readonly sourceOffset: bigint;
  readonly destinationOffset: bigint;
  readonly held: string | null;
}

export interface GroupEntry {
  synced: Synced | null;
  /** Monotonic ms of the last comparison with the destination. */
  comparedAtMs: number;
  topicId: string | null;
  row: GroupRow;
}

interface Note {
  readonly topicId: string | null;
  readonly comparedAtMs: number;
  readonly sourceOffset: bigint;
  readonly destinationOffset: bigint;
  readonly held: string | null;
}

export class GroupEntries {
  /** By group, topic and partition. */
  readonly #groups = new Map<string, Map<string, Map<number, GroupEntry>>>();

  rows(): readonly GroupRow[] {
    return [...this.#groups.keys()].flatMap((group) => this.rowsOf(group));
  }

  /** Of these topics, of all groups. */
  rowsIn(wanted: ReadonlySet<string>): readonly GroupRow[] {
    const rows: GroupRow[] = [];
    for (const topics of this.#groups.values()) {
      const [few, many] = topics.size < wanted.size ? [topics, wanted] : [wanted, topics];
      for (const topic of few.keys()) {
        if (!many.has(topic)) continue;
        for (const { row } of topics.get(topic)?.values() ?? []) rows.push(row);
      }
    }
    return rows;
  }

  rowsOf(group: string): readonly GroupRow[] {
    return [...this.#entriesOf(group)].map(({ row }) => row);
  }

  *#entriesOf(group: string): Iterable<GroupEntry> {
    for (const partitions of this.#groups.get(group)?.values() ?? []) yield* partitions.values();
  }

  of(group: string, at: Commit, topicId: string | null): GroupEntry | undefined {
    const entry = this.#groups.get(group)?.get(at.topic)?.get(at.partition);
    return entry?.topicId === topicId ? entry : undefined;
  }

  note(group: string, at: Commit, note: Note): GroupEntry {
    const { topicId, comparedAtMs, ...shown } = note;
    const topics = this.#groups.get(group) ?? new Map<string, Map<number, GroupEntry>>();
    this.#groups.set(group, topics);
    const partitions = topics.get(at.topic) ?? new Map<number, GroupEntry>();
    topics.set(at.topic, partitions);
    const synced = this.of(group, at, topicId)?.synced ?? null;
    const row = { group, topic: at.topic, partition: at.partition, ...shown };
    const entry = { synced, comparedAtMs, topicId, row };
    partitions.set(at.partition, entry);
    return entry;
  }

  /** All offsets of a group, or one. */
  hold(group: string, held: string, at?: Commit): void {
    for (const entry of this.#entriesOf(group)) {
      const { topic, partition } = entry.row;
      if (at !== undefined && (at.topic !== topic || at.partition !== partition)) continue;
      entry.row = { ...entry.row, held };
    }
  }

  /** An offset was written, and this was found when it was read back. */
  confirm(
    group: string,
    offset: Commit & { readonly position: { readonly offset: bigint } },
    back: { readonly found: bigint | null; readonly atMs: number },
  ): void {
    const entry = this.#groups.get(group)?.get(offset.topic)?.get(offset.partition);
    if (entry === undefined) return;
    const isThere = back.found === offset.position.offset;
    if (isThere) entry.synced = { offset: offset.position.offset, atMs: back.atMs };
    entry.row = {
      ...entry.row,
      destinationOffset: back.found ?? entry.row.destinationOffset,
      held: isThere ? entry.row.held : 'moved',
    };
  }

  /** Forgets what is not wanted. Returns the groups of which nothing is left. */
  retain(wanted: ReadonlyMap<string, readonly Commit[]>): readonly string[] {
    const gone: string[] = [];
    for (const [group, topics] of this.#groups) {
      const keep = new Set(
        (wanted.get(group) ?? []).map((at) => partitionKey(at.topic, at.partition)),
      );
      for (const [topic, partitions] of topics) {
        for (const partition of partitions.keys()) {
          if (!keep.has(partitionKey(topic, partition))) partitions.delete(partition);
        }
        if (partitions.size === 0) topics.delete(topic);
      }
      if (topics.size > 0) continue;
      this.#groups.delete(group);
      gone.push(group);
    }
    return gone;
  }
}
