// Committing a group's offsets without a member, and waiting for the link to carry them over.
//
// Owns: one OffsetCommit with generation -1, and the look at what the proxy has synced.
// Invariant: when `commitOffsets` resolves the coordinator has accepted every offset.

import {
  createOffsetCommitRequest,
  createOffsetCommitRequestPartition,
  createOffsetCommitRequestTopic,
} from '../../protocol/generated/offset-commit-request.ts';
import { offsetCommitApi } from '../../src/cluster/apis.ts';
import type { CausewayProcess } from './causeway-process.ts';
import { type Endpoint, openCluster } from './raw-batches.ts';
import { until } from './wait.ts';

export interface GroupOffsets {
  readonly group: string;
  readonly topic: string;
  /** By partition. */
  readonly offsets: readonly number[];
}

export async function commitOffsets(
  endpoint: Endpoint,
  { group, topic, offsets }: GroupOffsets,
): Promise<void> {
  const cluster = openCluster(endpoint);
  try {
    const request = createOffsetCommitRequest({
      groupId: group,
      generationIdOrMemberEpoch: -1,
      topics: [
        createOffsetCommitRequestTopic({
          name: topic,
          partitions: offsets.map((offset, partitionIndex) =>
            createOffsetCommitRequestPartition({
              partitionIndex,
              committedOffset: BigInt(offset),
              committedMetadata: '',
            }),
          ),
        }),
      ],
    });
    const answer = await cluster.send({ kind: 'group', groupId: group }, offsetCommitApi, request);
    for (const { errorCode, partitionIndex } of answer.topics.flatMap((one) => one.partitions)) {
      if (errorCode !== 0) {
        throw new Error(`commit of ${group} for ${topic}-${partitionIndex}: error ${errorCode}`);
      }
    }
  } finally {
    await cluster.close();
  }
}

interface GroupRow {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly destinationOffset: number | string;
}

/** Waits until the link's group task has brought these commits to the destination. */
export async function waitForSyncedOffsets(
  causeway: CausewayProcess,
  link: string,
  wanted: readonly GroupOffsets[],
): Promise<void> {
  let seen = '';
  await until(
    'synced group offsets',
    async () => {
      const { groups } = await causeway.get<{ groups: readonly GroupRow[] }>(
        `/causeway/v1/links/${link}/groups`,
      );
      seen = JSON.stringify(groups);
      return wanted.every(({ group, topic, offsets }) =>
        offsets.every((offset, partition) =>
          groups.some(
            (row) =>
              row.group === group &&
              row.topic === topic &&
              row.partition === partition &&
              Number(row.destinationOffset) === offset,
          ),
        ),
      );
    },
    { describe: () => seen },
  );
}
