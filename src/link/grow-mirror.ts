// Partition growth: the source has more partitions than the mirror. Owns the order of the steps,
// each of which can be repeated: starts at the source, the shell grown, logs made, the state
// committed. Invariant: a new partition is a mirror from birth (gating is per topic), and is
// fetched from the source's first offset.
import { ErrorCode } from '../../protocol/index.ts';
import type { Cluster, TopicInfo } from '../cluster/cluster.ts';
import type { TopicRecord } from '../state/records.ts';
import { virtualOffset } from '../timeline/offsets.ts';
import { appendPartitions } from '../timeline/timeline.ts';
import type { LinkContext } from './context.ts';
import { partitionKey } from './fetch-session.ts';
import { isMirror } from './mirror-state.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { growShell } from './shell-topic.ts';
import { earliestTimestamp, firstBatchBase, listOffsets } from './source-offsets.ts';
import type { TopicChanges } from './topic-changes.ts';

export interface SourceStart {
  /** The source's log start: where the timeline begins. */
  readonly start: bigint;
  /** Base offset of the first batch, at or below the start: where the log has to begin. */
  readonly base: bigint;
}

/** Log starts of all partitions of a source topic, by index; null when one cannot be read now. */
export async function sourceStarts(
  source: Cluster,
  info: TopicInfo,
  from = 0,
): Promise<readonly SourceStart[] | null> {
  const partitions = info.partitions
    .filter(({ partition }) => partition >= from)
    .map(({ partition, leaderId }) => ({ topic: info.name, partition, leaderId }))
    .sort((left, right) => left.partition - right.partition);
  const answers = await listOffsets(source, partitions, { timestamp: earliestTimestamp });
  const starts: SourceStart[] = [];
  for (const partition of partitions) {
    const answer = answers.get(partitionKey(partition.topic, partition.partition));
    if (answer?.errorCode !== ErrorCode.NONE) return null;
    const start = answer.offset;
    // DeleteRecords may have put the log start inside a batch, which comes whole.
    const base =
      start === 0n
        ? null
        : await firstBatchBase(source, { ...partition, topicId: info.topicId, offset: start });
    starts.push({ start, base: base !== null && base < start ? base : start });
  }
  return starts;
}

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
  const starts = await sourceStarts(source, info, record.partitions.length);
  if (starts === null) return;
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
