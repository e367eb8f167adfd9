// Whether a shell is gone from the destination, as all of its brokers see it: one that was just
// started, or that its controller does not reach, does not know topics that are there; and of new
// topics, which brokers hear of late, as the controller does. Refuses to know what follows.
// Invariant: what one broker shows is not gone, and neither is what most brokers say nothing of.
import { ErrorCode } from '../../../protocol/index.ts';
import { metadataApi } from '../../cluster/apis.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../../cluster/cluster.ts';
import { clusterMetadata, metadataRequest } from '../../cluster/metadata.ts';
import type { TopicRecord } from '../../state/records.ts';
import { forEachLimited } from '../signal.ts';
import { createShells } from './shell-topic.ts';

const brokersInFlight = 16;
/** A broker that takes longer says nothing. */
const answerTimeoutMs = 2_000;
/** A connection that hangs holds up nothing else. */
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
  const { brokers } = destination;
  const request = metadataRequest(records.map(({ name }) => name));
  const seen: ReadonlyMap<string, TopicInfo>[] = [];
  await forEachLimited(brokers, brokersInFlight, async ({ nodeId }) => {
    try {
      const options = { lane, timeoutMs: answerTimeoutMs };
      const answer = await destination.send(
        { kind: 'node', nodeId },
        metadataApi,
        request,
        options,
      );
      if (answer.errorCode !== ErrorCode.NONE) return;
      // One that does not know itself was told nothing yet, of topics neither.
      const { brokers: known, topics } = clusterMetadata(answer);
      if (known.some((broker) => broker.nodeId === nodeId)) seen.push(topics);
    } catch (error) {
      // Counted as one that does not answer.
      if (!(error instanceof ClusterError)) throw error;
    }
  });
  if (seen.length <= brokers.length / 2) return [];
  return records.filter((record) =>
    seen.every((topics) => isGone(record, topics.get(record.name))),
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
