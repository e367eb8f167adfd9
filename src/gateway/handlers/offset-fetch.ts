// OffsetFetch: a committed leader epoch above the one that we advertise becomes -1, by name and by
// topic id. (With such an epoch Java clients take every metadata answer for stale and read nothing,
// in silence. -1 is always safe.) Offsets are virtual in the group already and pass. Ordinary
// topics pass. While a topic's offsets are being rewritten they are not told: try again.
import { offsetFetchResponseCodec } from '../../../protocol/generated/offset-fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { AdvertisedEpochs } from '../advertised-epochs.ts';
import type { GatewayServices, Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';
import type { TopicView } from '../topic-directory.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from '../topic-standing.ts';

interface Topic {
  readonly name: string;
  readonly topicId?: string;
  readonly partitions: readonly {
    partitionIndex: number;
    committedOffset: bigint;
    committedLeaderEpoch: number;
    errorCode: number;
  }[];
}

export function createOffsetFetchHandler(epochs: AdvertisedEpochs): Handler {
  return ({ header, session }) => {
    const { services } = session;
    const { hasMirrors, hasPromoted, isSettled } = services.directory;
    if (isSettled && !hasMirrors && !hasPromoted) return { kind: 'forward' };
    return {
      kind: 'forward',
      rewrite: rewriting(header, offsetFetchResponseCodec, (response) => {
        const topics: Topic[] = [...response.topics];
        for (const group of response.groups) topics.push(...group.topics);
        let isChanged = false;
        for (const topic of topics) {
          if (withhold(services, topic) || lowerEpochs(services, epochs, topic)) isChanged = true;
        }
        return isChanged;
      }),
    };
  };
}

/** The code that clients have to try again on, as while a transaction commits offsets. */
function withhold(services: GatewayServices, topic: Topic): boolean {
  const { directory } = services;
  const byId = topic.topicId === undefined ? undefined : directory.byId(topic.topicId);
  const view = byId ?? directory.byName(topic.name);
  if (view?.areCommitsMoving !== true) return false;
  for (const partition of topic.partitions) {
    partition.errorCode = ErrorCode.UNSTABLE_OFFSET_COMMIT;
    partition.committedOffset = -1n;
    partition.committedLeaderEpoch = -1;
  }
  return true;
}

function lowerEpochs(services: GatewayServices, epochs: AdvertisedEpochs, topic: Topic): boolean {
  const standing = topicStanding(services.directory, topic);
  if (standing.kind === 'ordinary') return false;
  let isChanged = false;
  for (const partition of topic.partitions) {
    const { committedLeaderEpoch, partitionIndex } = partition;
    const limit =
      standing.kind === 'unsettled' ? -1 : advertised(standing.view, epochs, partitionIndex);
    if (committedLeaderEpoch <= limit) continue;
    partition.committedLeaderEpoch = -1;
    isChanged = true;
  }
  return isChanged;
}

function advertised(view: TopicView, epochs: AdvertisedEpochs, partition: number): number {
  if (isMirrored(view)) return mirrorLeaderEpoch(view, partition);
  const extent = openNativeExtent(view.partition(partition));
  const { topicId } = view;
  if (extent === undefined || topicId === null) return Number.POSITIVE_INFINITY;
  return epochs.highest({ topicId, partition }, extent.firstEpoch);
}
