// Whether a shell is gone from the destination, as all of its brokers see it: one that was just
// started, or that its controller does not reach, does not know topics that are there; and of new
// topics, which brokers hear of late, as the controller does. Refuses to know what follows.
// Invariant: what one broker shows is not gone, and neither is what most brokers say nothing of.
import { ErrorCode } from '../../../protocol/index.ts';
import type { Cluster, TopicInfo } from '../../cluster/cluster.ts';
import type { TopicRecord } from '../../state/records.ts';
import { askEveryBroker } from '../every-broker.ts';
import { createShells } from './shell-topic.ts';

const lane = 'shell-absence';

/** Certainly not there or another topic; errors that say neither are no reason. */
export function isGone(record: TopicRecord, info: TopicInfo | undefined): boolean {
  if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) return true;
  return isReplaced(record, info);
}

/** Its name is another topic's. */
export function isReplaced(record: TopicRecord, info: TopicInfo | undefined): boolean {
  return info?.errorCode === ErrorCode.NONE && info.topicId !== record.topicId;
}

/** Which of `records` each broker that answers calls gone; none unless most of them answer. */
export async function goneEverywhere(
  destination: Cluster,
  records: readonly TopicRecord[],
): Promise<readonly TopicRecord[]> {
  const names = records.map(({ name }) => name);
  const { seen, isMost } = await askEveryBroker(destination, names, lane);
  if (!isMost(seen.length)) return [];
  return records.filter((record) =>
    seen.every(({ topics }) => isGone(record, topics.get(record.name))),
  );
}

/** Which names the controller would give to a new topic: it knows what brokers hear of later. */
export async function freeAtController(
  destination: Cluster,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  const topic = { partitionsCount: 1, replicationFactor: -1, configs: {} };
  const shells = names.map((name) => ({ name, ...topic }));
  const outcomes = await createShells(destination, shells, { validateOnly: true });
  return new Set(names.filter((name) => typeof outcomes.get(name) === 'string'));
}
