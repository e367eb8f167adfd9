// What most tests of mirrors begin with: a topic of the source, records in it, and its mirror when
// it has all of them.
//
// Owns the order of these steps. Refuses to know how a mirror is made and looked at: links in this
// process and a proxy beside it do that each in their own way (`LinkWorld`, `LinkedStage`).
// Invariant: it resolves when the mirror ends where the source does; where it wrote the records
// itself, the source ends where they do.
import assert from 'node:assert/strict';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { write } from './raw-writes.ts';
import { createTopic, type NewTopic } from './topic-admin.ts';

/** One batch of these values in partition 0, none where there are none; or what writes more. */
export type Records = readonly string[] | (() => Promise<unknown>);

export interface MirroredTopic {
  readonly source: Cluster;
  readonly topic: string;
  readonly records: Records;
  readonly options: NewTopic;
  /** Makes the mirror; resolves when it is complete, with the ends of its partitions. */
  mirror(): Promise<bigint[]>;
}

/** Resolves with the ends of all partitions, at the source and in its mirror. */
export async function mirrorNewTopic(plan: MirroredTopic): Promise<bigint[]> {
  const { source, topic, records, options } = plan;
  await createTopic(source, topic, options);
  if (typeof records === 'function') {
    await records();
    return plan.mirror();
  }
  if (records.length > 0) await write(source, topic, 0, records);
  const ends = await plan.mirror();
  const written = ends.map((_, partition) => BigInt(partition === 0 ? records.length : 0));
  assert.deepEqual(ends, written, `what ${topic} has is what was written to it`);
  return ends;
}
