// Share groups of the source that have not read all of a topic: after its promotion they start at
// S, and what is below is not given to them. Owns the question; refuses to know promotions.
// Invariant: a group whose position cannot be told counts as behind, never as done.
import {
  createDescribeShareGroupOffsetsRequest,
  createDescribeShareGroupOffsetsRequestGroup,
  createDescribeShareGroupOffsetsRequestTopic,
} from '../../protocol/generated/describe-share-group-offsets-request.ts';
import type { DescribeShareGroupOffsetsResponseGroup } from '../../protocol/generated/describe-share-group-offsets-response.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { describeShareGroupOffsetsApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import type { TaskProblem } from './back-offs.ts';
import { chunks } from './chunks.ts';
import type { ListedGroup } from './group-listing.ts';

const groupsAtOnce = 100;

export interface ReadTopic {
  readonly sourceTopic: string;
  /** By partition; the source has no more. */
  readonly ends: readonly bigint[];
}

/** One problem for each group that is behind. @throws ClusterError */
export async function shareGroupsBehind(
  source: Cluster,
  groups: ReadonlyMap<string, ListedGroup>,
  topic: ReadTopic,
): Promise<readonly TaskProblem[]> {
  const byNode = new Map<number, string[]>();
  for (const [group, { kind, nodeId }] of groups) {
    if (kind !== 'share') continue;
    const own = byNode.get(nodeId);
    if (own) own.push(group);
    else byNode.set(nodeId, [group]);
  }
  const problems: TaskProblem[] = [];
  for (const [nodeId, names] of byNode) {
    for (const some of chunks(names, groupsAtOnce)) {
      problems.push(...(await askCoordinator(source, { nodeId, groups: some }, topic)));
    }
  }
  return problems;
}

async function askCoordinator(
  source: Cluster,
  { nodeId, groups }: { readonly nodeId: number; readonly groups: readonly string[] },
  topic: ReadTopic,
): Promise<readonly TaskProblem[]> {
  const partitions = topic.ends.map((_, partition) => partition);
  const topics = [
    createDescribeShareGroupOffsetsRequestTopic({ topicName: topic.sourceTopic, partitions }),
  ];
  const request = createDescribeShareGroupOffsetsRequest({
    groups: groups.map((groupId) =>
      createDescribeShareGroupOffsetsRequestGroup({ groupId, topics }),
    ),
  });
  try {
    const target = { kind: 'node', nodeId } as const;
    const answer = await source.send(target, describeShareGroupOffsetsApi, request);
    const found = new Map(answer.groups.map((group) => [group.groupId, group] as const));
    return groups.flatMap((group) => behind(group, found.get(group), topic) ?? []);
  } catch (error) {
    if (!(error instanceof ClusterError) || error.code !== 'UNSUPPORTED') throw error;
    return groups.map((group) => unknown(group, 'its brokers cannot be asked'));
  }
}

function behind(
  group: string,
  answer: DescribeShareGroupOffsetsResponseGroup | undefined,
  topic: ReadTopic,
): TaskProblem | null {
  const code = answer?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  // Deleted since it was listed.
  if (code === ErrorCode.GROUP_ID_NOT_FOUND) return null;
  if (answer === undefined || code !== ErrorCode.NONE) return unknown(group, errorName(code));
  const own = answer.topics.filter(({ topicName }) => topicName === topic.sourceTopic);
  for (const { partitionIndex, errorCode, startOffset, lag } of own.flatMap(
    ({ partitions }) => partitions,
  )) {
    if (errorCode !== ErrorCode.NONE) return unknown(group, errorName(errorCode));
    // It has never read there.
    if (startOffset < 0n) continue;
    // Brokers before 4.2 do not tell the lag, and move a start later than they could.
    const left = lag >= 0n ? lag : (topic.ends[partitionIndex] ?? startOffset) - startOffset;
    if (left <= 0n) continue;
    const about = lag >= 0n ? '' : 'up to ';
    const message = `share group '${group}' has ${about}${left} records of partition `;
    return { code: 'SHARE_GROUP_BEHIND', message: `${message}${partitionIndex} to read` };
  }
  return null;
}

function unknown(group: string, cause: string): TaskProblem {
  const message = `how far share group '${group}' has read cannot be told: ${cause}`;
  return { code: 'SHARE_GROUP_BEHIND', message };
}
