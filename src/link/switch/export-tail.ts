// What the source has of a switched topic that the topic has not: the tail that was lost, and stray
// writes after it. Reads it at the source and gives its records one by one. Refuses to know files.
// Invariant: what cannot be given (aged out at the source) is said as a gap, never left out.
import {
  ErrorCode,
  errorName,
  forEachBatch,
  isControl,
  nextOffset,
} from '../../../protocol/index.ts';
import { openRecords } from '../../../protocol/records.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { ReceiptTopic, TopicRecord } from '../../state/records.ts';
import { LinkError } from '../link-error.ts';
import {
  earliestTimestamp,
  fetchOnce,
  type LeaderPartition,
  latestTimestamp,
  listOffsets,
  type OffsetAnswers,
} from '../source-offsets.ts';

const fetchBytesMax = 1024 * 1024;

export interface TailRecord {
  readonly partition: number;
  readonly offset: bigint;
  readonly timestamp: bigint;
  /** Base64. */
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: readonly { readonly key: string; readonly value: string | null }[];
  /** Of a transactional producer: whether it was committed is not said here. */
  readonly isTransactional: boolean;
}

export interface TailGap {
  readonly partition: number;
  readonly gap: { readonly from: bigint; readonly to: bigint; readonly why: string };
}

export type TailLine = TailRecord | TailGap;

/** @throws LinkError SOURCE_UNREACHABLE, ClusterError */
export async function* readTail(
  cluster: Cluster,
  record: TopicRecord,
  line: ReceiptTopic,
): AsyncGenerator<TailLine> {
  const { sourceTopic, sourceTopicId } = record;
  const info = (await cluster.metadata([sourceTopic])).topics.get(sourceTopic);
  if (info === undefined || info.topicId !== sourceTopicId) {
    throw new LinkError(
      'SOURCE_TOPIC_NOT_FOUND',
      `Source topic '${sourceTopic}' is not there, or was made anew`,
    );
  }
  const leaders = info.partitions.map(({ partition, leaderId }) => ({
    topic: sourceTopic,
    partition,
    leaderId,
  }));
  const [starts, ends] = await Promise.all([
    listOffsets(cluster, leaders, { timestamp: earliestTimestamp }),
    listOffsets(cluster, leaders, { timestamp: latestTimestamp }),
  ]);
  for (const leader of leaders) {
    const known = line.partitions.find(({ partition }) => partition === leader.partition);
    const from = known?.mirroredEnd ?? 0n;
    const range = { start: offsetOf(starts, leader), end: offsetOf(ends, leader) };
    if (from < range.start) {
      const gap = { from, to: range.start, why: 'aged out at the source' };
      yield { partition: leader.partition, gap };
    }
    const begin = from > range.start ? from : range.start;
    yield* readPartition(cluster, { ...leader, topicId: sourceTopicId }, { begin, end: range.end });
  }
}

function offsetOf(answers: OffsetAnswers, { topic, partition }: LeaderPartition): bigint {
  const answer = answers.get(partitionKey(topic, partition));
  if (answer?.errorCode === ErrorCode.NONE) return answer.offset;
  const cause = errorName(answer?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
  throw new LinkError(
    'SOURCE_UNREACHABLE',
    `The ends of '${topic}-${partition}' at the source cannot be read: ${cause}`,
  );
}

async function* readPartition(
  cluster: Cluster,
  place: LeaderPartition & { readonly topicId: string },
  range: { readonly begin: bigint; readonly end: bigint },
): AsyncGenerator<TailLine> {
  let offset = range.begin;
  while (offset < range.end) {
    const { errorCode, records } = await fetchOnce(cluster, {
      ...place,
      offset,
      bytesMax: fetchBytesMax,
    });
    if (errorCode !== ErrorCode.NONE) {
      const at = `'${place.topic}-${place.partition}' at offset ${offset}`;
      throw new LinkError('SOURCE_UNREACHABLE', `${at}: ${errorName(errorCode)}`);
    }
    const batches: { position: number; next: bigint; isData: boolean; isTransactional: boolean }[] =
      [];
    forEachBatch(records, (header, position) => {
      batches.push({
        position,
        next: nextOffset(header),
        isData: !isControl(header),
        isTransactional: header.producerId >= 0n && (header.attributes & 0x10) !== 0,
      });
    });
    // Nothing below the end that was read before: compacted away.
    if (batches.length === 0) return;
    for (const { position, next, isData, isTransactional } of batches) {
      const before = offset;
      offset = next;
      if (!isData) continue;
      for (const found of await openRecords(records.subarray(position))) {
        if (found.offset < before || found.offset >= range.end) continue;
        yield {
          partition: place.partition,
          offset: found.offset,
          timestamp: found.timestamp,
          key: base64(found.key),
          value: base64(found.value),
          headers: found.headers.map(({ key, value }) => ({ key, value: base64(value) })),
          isTransactional,
        };
      }
    }
  }
}

function base64(bytes: Buffer | null): string | null {
  return bytes === null ? null : bytes.toString('base64');
}
