// Mirror logs that cannot be used, when an operator gives up what is in them. Owns where such a
// partition goes on, and what takes the lost log's place; refuses to know when that is accepted.
// Invariant: it goes on at or above every offset that its source, or a group here, is known to have
// reached, so that no offset is given twice to anybody's knowledge.
import { partitionKey } from '../../cluster/partition-key.ts';
import { logTopicIdOf } from '../../state/records.ts';
import { readTopicCommits } from '../../tasks/group-shift.ts';
import { lastExtent } from '../../timeline/timeline.ts';
import type { LinkContext } from '../context.ts';
import { LinkError } from '../link-error.ts';
import type { MirrorTopic, MirrorTopics } from '../mirror/mirror-topics.ts';
import type { LostEnds, SwitchTopic } from '../mirror/splice.ts';
import type { ReceiptParts } from './receipt.ts';

/** @throws ClusterError; LinkError DESTINATION_REFUSED when the groups cannot be read */
export async function lostEnds(
  context: LinkContext,
  topics: readonly MirrorTopic[],
  lag: ReceiptParts['lag'],
): Promise<LostEnds> {
  const ends = new Map<string, bigint>();
  for (const { name, link, partitions } of topics) {
    for (const { partition, log, timeline } of partitions) {
      if (log !== null) continue;
      const start: bigint = lastExtent(timeline).start;
      raise(ends, partitionKey(name, partition), start);
      raise(ends, partitionKey(name, partition), lag(link, name, partition)?.sourceEnd ?? -1n);
    }
  }
  if (ends.size === 0) return ends;
  const names = new Set(topics.map(({ name }) => name));
  const { commits, problems } = await readTopicCommits(context.destination, names);
  const [problem] = problems;
  if (problem !== undefined) throw new LinkError('DESTINATION_REFUSED', problem);
  for (const { topic, partition, offset } of commits) {
    const key = partitionKey(topic, partition);
    if (ends.has(key)) raise(ends, key, offset);
  }
  return ends;
}

function raise(ends: Map<string, bigint>, key: string, end: bigint): void {
  const before = ends.get(key) ?? -1n;
  ends.set(key, end > before ? end : before);
}

/** An empty log that begins at S: there is nothing below any more. @throws StorageError */
export async function replaceLost(
  { record, partitions }: SwitchTopic,
  parts: { readonly context: LinkContext; readonly topics: MirrorTopics },
): Promise<void> {
  const { context, topics } = parts;
  const { name, link } = record;
  const topicId = logTopicIdOf(record);
  if (topicId === null) return;
  for (const { view, log, end, mirroredEnd } of partitions) {
    if (log !== null) continue;
    const { partition } = view;
    context.state.lease.check();
    await topics.replaceLog({ topicId, partition }, end);
    context.events.warn(
      'accepted_loss_given_up',
      `Offsets ${mirroredEnd} to ${end} of ${name}-${partition} are lost, as was accepted`,
      { topic: name, link, partition, from: String(mirroredEnd), to: String(end) },
    );
  }
}
