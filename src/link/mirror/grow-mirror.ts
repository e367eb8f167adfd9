// Partition growth: the source has more partitions than the mirror. Owns the order of the steps,
// each of which can be repeated: the shell grown, logs made, the state committed. Invariant: a new
// partition is a mirror from birth (gating is per topic), and begins at the first offset that there
// is: what the source has of it no more by the time that it is read is lost history. Nothing is
// asked of its leader, so that one without a leader holds up no other.
import type { Cluster } from '../../cluster/cluster.ts';
import type { LinkRecord, TopicRecord } from '../../state/records.ts';
import { virtualOffset } from '../../timeline/offsets.ts';
import { appendPartitions } from '../../timeline/timeline.ts';
import type { LinkContext } from '../context.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { isMirror } from './mirror-state.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { growShell } from './shell-topic.ts';
import type { TopicChanges } from './topic-changes.ts';

const firstOffset = 0n;

export interface GrowthParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
}

/**
 * Null: done, or it is no mirror any more. Else why it has to wait.
 * @throws ClusterError, StateError, StorageError, LinkError
 */
export async function growMirror(
  { context, topics, changes }: GrowthParts,
  source: { readonly cluster: Cluster; readonly record: LinkRecord },
  { record, count }: { readonly record: TopicRecord; readonly count: number },
): Promise<string | null> {
  const doubt = (await unconfirmedSources(source, [record])).get(record.name);
  if (doubt !== undefined) return doubt.cause;
  await changes.locks.run(record.name, async () => {
    const now = changes.record(record.name);
    const { topicId } = record;
    if (now === undefined || topicId === null || now.topicId !== topicId) return;
    const before = now.partitions.length;
    if (!isMirror(now.state) || before >= count) return;
    context.state.lease.check();
    await growShell(context.destination, record.name, count);
    for (let partition = before; partition < count; partition++) {
      await topics.createLog({ topicId, partition }, firstOffset);
    }
    const unchanged = now.partitions.map(() => virtualOffset(0n));
    const added = Array.from({ length: count - before }, () => virtualOffset(firstOffset));
    await changes.commit([
      {
        put: { ...now, partitions: appendPartitions(now.partitions, [...unchanged, ...added]) },
      },
    ]);
    context.events.info(
      'mirror_grown',
      `Topic '${record.name}' followed its source to ${count} partitions`,
      { topic: record.name, link: record.link, partitions: count },
    );
  });
  return null;
}
