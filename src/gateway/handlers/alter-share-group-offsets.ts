// AlterShareGroupOffsets: offsets of promoted topics go to the coordinator as native ones; what
// lies before the splice counts as S, where share groups start. Mirrors are refused with a
// sentence. While we cannot tell what a topic is, the group is loading: 14.
import {
  type AlterShareGroupOffsetsRequest,
  type AlterShareGroupOffsetsRequestPartition,
  type AlterShareGroupOffsetsRequestTopic,
  alterShareGroupOffsetsRequestCodec,
  createAlterShareGroupOffsetsRequestTopic,
} from '../../../protocol/generated/alter-share-group-offsets-request.ts';
import {
  type AlterShareGroupOffsetsResponseTopic,
  alterShareGroupOffsetsResponseCodec,
  createAlterShareGroupOffsetsResponse,
  createAlterShareGroupOffsetsResponsePartition,
  createAlterShareGroupOffsetsResponseTopic,
} from '../../../protocol/generated/alter-share-group-offsets-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { virtualOffset } from '../../timeline/offsets.ts';
import { firstNativeOffset, type NativeExtent, toNativeOffset } from '../../timeline/timeline.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody, requestWith, rewriting } from '../messages.ts';
import { mirrorRefusal, unsettledRefusal } from '../refusals.ts';
import type { TopicDirectory, TopicView } from '../topic-directory.ts';
import { isMirrored, openNativeExtent, topicStanding } from '../topic-standing.ts';

export const alterShareGroupOffsetsHandler: Handler = (context) => {
  const request = decodeBody(context, alterShareGroupOffsetsRequestCodec);
  const split = splitRequest(context.session.services.directory, request);
  if (split === 'unsettled') {
    const { errorMessage } = unsettledRefusal();
    const errorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS;
    const response = createAlterShareGroupOffsetsResponse({ errorCode, errorMessage });
    return answer(context, alterShareGroupOffsetsResponseCodec, response);
  }
  const { topics, refused, isChanged } = split;
  if (!isChanged) return { kind: 'forward' };
  if (topics.length === 0) {
    const response = createAlterShareGroupOffsetsResponse({ responses: refused });
    return answer(context, alterShareGroupOffsetsResponseCodec, response);
  }
  return {
    kind: 'forward',
    request: requestWith(context, alterShareGroupOffsetsRequestCodec, { ...request, topics }),
    rewrite: rewriting(context.header, alterShareGroupOffsetsResponseCodec, ({ responses }) => {
      responses.push(...refused);
      return refused.length > 0;
    }),
  };
};

interface SplitRequest {
  /** For the destination, in native offsets. */
  readonly topics: AlterShareGroupOffsetsRequestTopic[];
  readonly refused: AlterShareGroupOffsetsResponseTopic[];
  readonly isChanged: boolean;
}

function splitRequest(
  directory: TopicDirectory,
  request: AlterShareGroupOffsetsRequest,
): SplitRequest | 'unsettled' {
  const topics: AlterShareGroupOffsetsRequestTopic[] = [];
  const refused: AlterShareGroupOffsetsResponseTopic[] = [];
  let isChanged = false;
  for (const topic of request.topics) {
    const standing = topicStanding(directory, { name: topic.topicName });
    if (standing.kind === 'unsettled') return 'unsettled';
    if (standing.kind === 'ordinary') {
      topics.push(topic);
      continue;
    }
    isChanged = true;
    const { view } = standing;
    if (isMirrored(view)) refused.push(refusedTopic(topic, view));
    else topics.push(toNative(topic, view));
  }
  return { topics, refused, isChanged };
}

function toNative(
  topic: AlterShareGroupOffsetsRequestTopic,
  view: TopicView,
): AlterShareGroupOffsetsRequestTopic {
  const partitions = topic.partitions.map((partition): AlterShareGroupOffsetsRequestPartition => {
    const native = openNativeExtent(view.partition(partition.partitionIndex));
    if (native === undefined) return partition;
    return { ...partition, startOffset: nativeStart(native, partition.startOffset) };
  });
  return createAlterShareGroupOffsetsRequestTopic({ ...topic, partitions });
}

function nativeStart(native: NativeExtent, start: bigint): bigint {
  if (start >= 0n && start < native.start) return firstNativeOffset(native);
  return toNativeOffset(native, virtualOffset(start));
}

function refusedTopic(
  { topicName, partitions }: AlterShareGroupOffsetsRequestTopic,
  view: TopicView,
): AlterShareGroupOffsetsResponseTopic {
  const refusal = mirrorRefusal(view, 'share groups cannot read it');
  return createAlterShareGroupOffsetsResponseTopic({
    topicName,
    ...(view.topicId !== null && { topicId: view.topicId }),
    partitions: partitions.map(({ partitionIndex }) =>
      createAlterShareGroupOffsetsResponsePartition({ partitionIndex, ...refusal }),
    ),
  });
}
