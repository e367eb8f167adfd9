// Where a mirror begins: the setting `mirror.start.offset.spec` and what it means at a source now.
// Owns its three forms; refuses to know what is done with the offsets. Invariant: a mirror begins
// at an offset that the source has, and a time that no record reaches means its end.
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import type { Cluster, TopicInfo } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { refuse } from '../settings/setting-values.ts';
import { forEachLimited } from '../signal.ts';
import {
  earliestTimestamp,
  firstBatchBase,
  latestTimestamp,
  listOffsets,
} from '../source-offsets.ts';

export const startOffsetSetting = 'mirror.start.offset.spec';
export const earliestStart = 'earliest';

const isoTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?$/;

/**
 * The timestamp that ListOffsets is asked for. A time without a zone is in UTC.
 * @throws LinkError INVALID_CONFIG
 */
export function startTimestamp(spec: string): bigint {
  const text = spec.toLowerCase();
  if (text === earliestStart) return earliestTimestamp;
  if (text === 'latest') return latestTimestamp;
  const match = isoTime.exec(spec);
  const timeMs = match === null ? Number.NaN : Date.parse(match[3] ? spec : `${spec}Z`);
  if (Number.isNaN(timeMs) || timeMs < 0) {
    refuse(
      startOffsetSetting,
      `must be 'earliest', 'latest' or a time such as 2026-01-31T12:00:00Z, not '${spec}'`,
    );
  }
  return BigInt(timeMs);
}

export interface SourceStart {
  /** The first offset of the mirror: where the timeline begins. */
  readonly start: bigint;
  /** Base offset of the batch that holds it, at or below: where the log has to begin. */
  readonly base: bigint;
}

/** Partitions whose first batch is looked up at once. */
const lookupsInFlight = 8;

/** First offsets of all partitions of a source topic, by index; null: one cannot be read now. */
export async function sourceStarts(
  source: Cluster,
  info: TopicInfo,
): Promise<readonly SourceStart[] | null> {
  return (await manySourceStarts(source, [info])).get(info.name) ?? null;
}

/** The same of many topics, by name, without those that cannot be read now. */
export async function manySourceStarts(
  source: Cluster,
  infos: readonly TopicInfo[],
  { spec = earliestStart }: { readonly spec?: string } = {},
): Promise<ReadonlyMap<string, readonly SourceStart[]>> {
  const partitions = infos.flatMap((info) =>
    info.partitions
      .map(({ partition, leaderId }) => ({ topic: info.name, partition, leaderId }))
      .sort((left, right) => left.partition - right.partition),
  );
  const ids = new Map(infos.map(({ name, topicId }) => [name, topicId] as const));
  const timestamp = startTimestamp(spec);
  const answers = await listOffsets(source, partitions, { timestamp });
  const ends =
    timestamp < 0n
      ? answers
      : await listOffsets(source, partitions, { timestamp: latestTimestamp });
  const starts = new Map<string, SourceStart>();
  await forEachLimited(partitions, lookupsInFlight, async (partition) => {
    const key = partitionKey(partition.topic, partition.partition);
    const [answer, end] = [answers.get(key), ends.get(key)];
    if (answer?.errorCode !== ErrorCode.NONE || end?.errorCode !== ErrorCode.NONE) return;
    const start = answer.offset < 0n ? end.offset : answer.offset;
    const topicId = ids.get(partition.topic) ?? zeroUuid;
    // It may lie inside a batch, which comes whole.
    const base =
      start === 0n ? null : await firstBatchBase(source, { ...partition, topicId, offset: start });
    starts.set(key, { start, base: base !== null && base < start ? base : start });
  });
  const byTopic = new Map<string, SourceStart[]>(infos.map(({ name }) => [name, []]));
  for (const { topic, partition } of partitions) {
    const start = starts.get(partitionKey(topic, partition));
    if (start === undefined) byTopic.delete(topic);
    else byTopic.get(topic)?.push(start);
  }
  return byTopic;
}
