// Committed offsets of groups, written and read with our own client at any endpoint.
//
// Owns: OffsetCommit as an administrator sends it (no members), OffsetFetch. Knows nothing of who
// else writes. Invariant: an error code of any partition is a rejection; "no commit" is -1.

import {
  createOffsetCommitRequest,
  createOffsetCommitRequestPartition,
  createOffsetCommitRequestTopic,
} from '../../protocol/generated/offset-commit-request.ts';
import {
  createOffsetFetchRequest,
  createOffsetFetchRequestGroup,
  createOffsetFetchRequestTopics,
} from '../../protocol/generated/offset-fetch-request.ts';
import { offsetCommitApi, offsetFetchApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { until } from './wait.ts';

/** Commits one offset for each partition, from partition 0 on. The group must have no members. */
export async function commitOffsets(
  cluster: Cluster,
  groupId: string,
  topic: string,
  offsets: readonly (bigint | number)[],
): Promise<void> {
  const partitions = offsets.map((offset, partitionIndex) =>
    createOffsetCommitRequestPartition({
      partitionIndex,
      committedOffset: BigInt(offset),
      committedLeaderEpoch: -1,
    }),
  );
  const request = createOffsetCommitRequest({
    groupId,
    generationIdOrMemberEpoch: -1,
    topics: [createOffsetCommitRequestTopic({ name: topic, partitions })],
  });
  await until(`a commit of ${groupId}`, async () => {
    const answer = await cluster.send({ kind: 'group', groupId }, offsetCommitApi, request);
    const codes = answer.topics.flatMap((one) => one.partitions.map(({ errorCode }) => errorCode));
    const code = codes.find((one) => one !== 0);
    if (code !== undefined) throw new Error(`OffsetCommit: error ${code}`);
    return true;
  });
}

/** One offset for each partition, from partition 0 on; -1 where nothing is committed. */
export async function committedOffsets(
  cluster: Cluster,
  groupId: string,
  topic: string,
  partitionsCount: number,
): Promise<number[]> {
  const partitionIndexes = Array.from({ length: partitionsCount }, (_, index) => index);
  const topics = [createOffsetFetchRequestTopics({ name: topic, partitionIndexes })];
  const group = createOffsetFetchRequestGroup({ groupId, topics });
  const request = createOffsetFetchRequest({ groups: [group] });
  const options = { versionMax: 9 };
  const target = { kind: 'group', groupId } as const;
  return until(`offsets of ${groupId}`, async () => {
    const answer = await cluster.send(target, offsetFetchApi, request, options);
    const found = answer.groups[0];
    if (found?.errorCode !== 0) throw new Error(`OffsetFetch: error ${found?.errorCode}`);
    return partitionIndexes.map((index) => {
      const partition = found.topics[0]?.partitions.find((one) => one.partitionIndex === index);
      return Number(partition?.committedOffset ?? -1n);
    });
  });
}
