// Partition growth: the source has more partitions than the mirror. Owns the order of the steps,
// each of which can be repeated: starts at the source, the shell grown, logs made, the state
// committed. Invariant: a new partition is a mirror from birth (gating is per topic), and is
// fetched from the source's first offset.
import type { Cluster, TopicInfo } from '../../cluster/cluster.ts';
import type { TopicRecord } from '../../state/records.ts';
import { virtualOffset } from '../../timeline/offsets.ts';
import { appendPartitions } from '../../timeline/timeline.ts';
import type { LinkContext } from '../context.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { isMirror } from './mirror-state.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { growShell } from './shell-topic.ts';
import { sourceStarts } from './start-offset.ts';
import type { TopicChanges } from './topic-changes.ts';

export interface Growth {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly source: Cluster;
}

/**
 * @throws ClusterError, StateError, StorageError, LinkError: the next look at the source tries
 * again
 */
export async function growMirror(
  { context, topics, changes, source }: Growth,
  record: TopicRecord,
  info: TopicInfo,
): Promise<void> {
  const starts = await sourceStarts(source, info, { from: record.partitions.length });
  if (starts === null) return;
  if ((await unconfirmedSources({ cluster: source }, [record])).size > 0) return;
  const count = record.partitions.length + starts.length;
  await changes.locks.run(record.name, async () => {
    const now = changes.record(record.name);
    const { topicId } = record;
    if (now === undefined || topicId === null || now.topicId !== topicId) return;
    if (!isMirror(now.state) || now.partitions.length !== record.partitions.length) return;
    context.state.lease.check();
    await growShell(context.destination, record.name, count);
    for (const [index, { base }] of starts.entries()) {
      await topics.createLog({ topicId, partition: record.partitions.length + index }, base);
    }
    const unchanged = record.partitions.map(() => virtualOffset(0n));
    const added = starts.map(({ start }) => virtualOffset(start));
    await changes.commit([
      {
        put: { ...now, partitions: appendPartitions(now.partitions, [...unchanged, ...added]) },
      },
    ]);
  });
  context.events.info(
    'mirror_grown',
    `Topic '${record.name}' followed its source to ${count} partitions`,
    { topic: record.name, link: record.link, partitions: count },
  );
}
