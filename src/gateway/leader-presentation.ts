// How leaders and leader epochs of a topic's partitions look to clients, the same in Metadata and
// in DescribeTopicPartitions. Mirrored: the link node leads, at the mirror's epoch, without an
// error whatever the shell's leader does. Promoted: the shell's leader, at the shifted epoch. Not
// settled: no leader yet. Replicas, ISR and offline lists stay the shell's. Invariant: virtual
// epochs never go back (R8).
import { ErrorCode } from '../../protocol/index.ts';
import type { AdvertisedEpochs } from './advertised-epochs.ts';
import type { GatewayServices } from './handler.ts';
import { learnId } from './passing-ids.ts';
import type { TopicView } from './topic-directory.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from './topic-standing.ts';

export interface WirePartition {
  errorCode: number;
  partitionIndex: number;
  leaderId: number;
  leaderEpoch: number;
}

export interface WireTopic {
  readonly name: string | null;
  readonly topicId: string;
  readonly partitions: readonly WirePartition[];
}

/** Changes the partitions as clients are to see them; true when anything was changed. */
export function presentLeaders(
  services: GatewayServices,
  epochs: AdvertisedEpochs,
  topic: WireTopic,
): boolean {
  learnId(services.directory, topic);
  const standing = topicStanding(services.directory, topic);
  if (standing.kind === 'ordinary' || topic.partitions.length === 0) return false;
  for (const partition of topic.partitions) {
    if (standing.kind === 'unsettled') {
      partition.errorCode = ErrorCode.LEADER_NOT_AVAILABLE;
      partition.leaderId = -1;
      partition.leaderEpoch = -1;
    } else if (isMirrored(standing.view)) {
      partition.errorCode = ErrorCode.NONE;
      partition.leaderId = services.linkNodeId;
      partition.leaderEpoch = mirrorLeaderEpoch(standing.view, partition.partitionIndex);
    } else {
      presentPromoted(services, standing.view, epochs, partition);
    }
  }
  return true;
}

function presentPromoted(
  { directory }: GatewayServices,
  view: TopicView,
  epochs: AdvertisedEpochs,
  partition: WirePartition,
): void {
  const extent = openNativeExtent(view.partition(partition.partitionIndex));
  if (extent === undefined || partition.leaderEpoch < 0) return;
  // A broker that is behind may tell of an epoch from before the splice.
  partition.leaderEpoch = Math.max(extent.firstEpoch, partition.leaderEpoch + extent.epochShift);
  const { topicId } = view;
  if (topicId === null) return;
  const place = { topicId, partition: partition.partitionIndex };
  epochs.note(directory, place, partition.leaderEpoch);
}
