// DescribeShareGroupOffsets: the coordinator keeps native offsets of share groups; those of
// promoted topics come out virtual, and what lies before the splice counts as S. A mirror has no
// share offsets, whatever its shell's are. While we cannot tell what a topic is, a group is
// loading: 14.
import {
  createDescribeShareGroupOffsetsResponsePartition,
  type DescribeShareGroupOffsetsResponseGroup,
  type DescribeShareGroupOffsetsResponsePartition,
  type DescribeShareGroupOffsetsResponseTopic,
  describeShareGroupOffsetsResponseCodec,
} from '../../../protocol/generated/describe-share-group-offsets-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { nativeOffset } from '../../timeline/offsets.ts';
import { firstNativeOffset, type NativeExtent, toVirtualBound } from '../../timeline/timeline.ts';
import type { Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';
import { sharePlace, shiftLeader } from '../share-topics.ts';
import type { TopicDirectory } from '../topic-directory.ts';
import { topicStanding } from '../topic-standing.ts';

export const describeShareGroupOffsetsHandler: Handler = ({ header, session }) => ({
  kind: 'forward',
  rewrite: rewriting(header, describeShareGroupOffsetsResponseCodec, ({ groups }) => {
    let isChanged = false;
    for (const group of groups) {
      if (shiftGroup(session.services.directory, group)) isChanged = true;
    }
    return isChanged;
  }),
});

function shiftGroup(
  directory: TopicDirectory,
  group: DescribeShareGroupOffsetsResponseGroup,
): boolean {
  const standings = group.topics.map((topic) => topicStanding(directory, placeOf(topic)).kind);
  if (standings.includes('unsettled')) {
    group.topics = [];
    group.errorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS;
    group.errorMessage = 'the state of mirrors is being read again; try again in a moment';
    return true;
  }
  for (const topic of group.topics) {
    topic.partitions = topic.partitions.map((partition) => {
      const place = sharePlace(directory, placeOf(topic), partition.partitionIndex);
      if (place.kind === 'ordinary') return partition;
      return place.kind === 'promoted'
        ? shifted(partition, place.native)
        : withoutOffset(partition);
    });
  }
  return standings.includes('known');
}

/** A topic of that name only: an answer about a topic that is gone has no id. */
function placeOf({ topicName, topicId }: DescribeShareGroupOffsetsResponseTopic) {
  return { name: topicName, topicId };
}

function shifted(
  partition: DescribeShareGroupOffsetsResponsePartition,
  native: NativeExtent,
): DescribeShareGroupOffsetsResponsePartition {
  const start = nativeOffset(partition.startOffset);
  const first = firstNativeOffset(native);
  // The broker counts hidden offsets as lag; nobody will ever read them.
  const hidden = start >= 0n && start < first ? first - start : 0n;
  const lag = partition.lag > hidden ? partition.lag - hidden : 0n;
  return {
    ...shiftLeader(partition, native),
    startOffset: toVirtualBound(native, start),
    lag: partition.lag < 0n ? partition.lag : lag,
  };
}

function withoutOffset(
  partition: DescribeShareGroupOffsetsResponsePartition,
): DescribeShareGroupOffsetsResponsePartition {
  return createDescribeShareGroupOffsetsResponsePartition({
    ...partition,
    startOffset: -1n,
    leaderEpoch: 0,
    lag: -1n,
  });
}
