// Committed offsets of all groups on some topics: read, and moved from one value to another. Owns
// which groups stand in the way; refuses to know why offsets move. Invariants: a group with members
// is never written; an offset is written only while it is what the caller said it would be, so that
// a move that is repeated after a crash moves nothing twice; what could not be read is a problem,
// never an absence.
import { ErrorCode, errorName } from '../../protocol/index.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import { inPlaceOrder } from '../link/place-order.ts';
import { listGroups } from './group-listing.ts';
import {
  CoordinatorMap,
  commitGroup,
  type GroupRead,
  liveGroupErrors,
  type OffsetToCommit,
  readGroups,
} from './group-offsets.ts';

const groupsAtOnce = 100;
/** The states of a group without members. */
const emptyStates: ReadonlySet<string> = new Set(['Empty', 'Dead', '']);

export interface GroupCommit {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

export interface TopicCommits {
  readonly commits: readonly GroupCommit[];
  /** Groups that have commits there, and members. */
  readonly live: readonly string[];
  readonly problems: readonly string[];
}

/** What all groups of a cluster have committed for these topics. @throws ClusterError */
export async function readTopicCommits(
  cluster: Cluster,
  topics: ReadonlySet<string>,
): Promise<TopicCommits> {
  const { groups, failures } = await listGroups(cluster);
  const problems = failures.map(
    ({ nodeId, cause }) => `groups of broker ${nodeId} cannot be listed: ${cause}`,
  );
  const byNode = new Map<number, string[]>();
  for (const [group, { nodeId, kind }] of groups) {
    // Share groups have native offsets anyway, and the workers of Connect have none.
    if (kind === 'share' || kind === 'connect') continue;
    const own = byNode.get(nodeId);
    if (own) own.push(group);
    else byNode.set(nodeId, [group]);
  }
  const commits: GroupCommit[] = [];
  for (const [nodeId, names] of byNode) {
    for (let index = 0; index < names.length; index += groupsAtOnce) {
      const batch = names.slice(index, index + groupsAtOnce);
      const reads = await readGroups(cluster, batch, {
        nodeId,
        requireStable: true,
        topicsOf: null,
      });
      for (const group of batch) {
        const problem = take(group, { read: reads.get(group), topics }, commits);
        if (problem !== null) problems.push(problem);
      }
    }
  }
  const concerned = new Set(commits.map(({ group }) => group));
  const live = [...concerned].filter((group) => !emptyStates.has(groups.get(group)?.state ?? ''));
  return { commits: inPlaceOrder(commits), live, problems };
}

function take(
  group: string,
  found: { readonly read: GroupRead | undefined; readonly topics: ReadonlySet<string> },
  into: GroupCommit[],
): string | null {
  const { read, topics } = found;
  const code = read?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  const first = read?.partitionErrors[0]?.errorCode ?? code;
  if (read === undefined || first !== ErrorCode.NONE) {
    return `offsets of group '${group}' cannot be read: ${errorName(first)}`;
  }
  for (const { topic, partition, offset } of read.offsets.values()) {
    if (topics.has(topic)) into.push({ group, topic, partition, offset });
  }
  return null;
}

export interface OffsetMove {
  readonly group: string;
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
}

export interface UnmovedGroup {
  readonly group: string;
  /** `moved`: what is there is neither of the two values. */
  readonly reason: 'live' | 'moved' | 'error';
  readonly message: string;
}

export interface MoveOptions {
  readonly topic: string;
  /** Called before each request that changes something. @throws when it may not be sent */
  readonly check: () => void;
}

/**
 * Moves what is not moved yet. Empty: everything is where it should be, as read back from the
 * coordinators. A commit that has expired meanwhile has nothing to be moved.
 * @throws ClusterError
 */
export async function moveCommits(
  cluster: Cluster,
  moves: readonly OffsetMove[],
  options: MoveOptions,
): Promise<readonly UnmovedGroup[]> {
  const byGroup = new Map<string, OffsetMove[]>();
  for (const move of moves) {
    const own = byGroup.get(move.group);
    if (own) own.push(move);
    else byGroup.set(move.group, [move]);
  }
  const unmoved: UnmovedGroup[] = [];
  const byNode = await new CoordinatorMap(cluster).locate([...byGroup.keys()]);
  const located = new Set([...byNode.values()].flat());
  for (const group of byGroup.keys()) {
    if (located.has(group)) continue;
    const message = `the coordinator of group '${group}' cannot be found`;
    unmoved.push({ group, reason: 'error', message });
  }
  for (const [nodeId, groups] of byNode) {
    for (const group of groups) {
      const place = { group, nodeId, moves: byGroup.get(group) ?? [] };
      const left = await moveGroup(cluster, place, options);
      if (left !== null) unmoved.push(left);
    }
  }
  return unmoved;
}

interface Place {
  readonly group: string;
  readonly nodeId: number;
  readonly moves: readonly OffsetMove[];
}

async function moveGroup(
  cluster: Cluster,
  place: Place,
  options: MoveOptions,
): Promise<UnmovedGroup | null> {
  const { group, nodeId } = place;
  const error = (code: number): UnmovedGroup => {
    const message = `offsets of group '${group}' cannot be moved: ${errorName(code)}`;
    return { group, reason: 'error', message };
  };
  const before = await readMoves(cluster, place, options.topic);
  if (before.errorCode !== ErrorCode.NONE) return error(before.errorCode);
  const toCommit: OffsetToCommit[] = [];
  for (const { partition, from, to } of place.moves) {
    const found = before.offsets.get(partitionKey(options.topic, partition));
    if (found === undefined || found.offset === to) continue;
    if (found.offset !== from) return movedAway(group, partition, found.offset);
    const position = { offset: to, metadata: found.metadata };
    toCommit.push({ topic: options.topic, partition, position });
  }
  if (toCommit.length === 0) return null;
  options.check();
  const codes = await commitGroup(cluster, { group, nodeId }, toCommit);
  const failed = [...codes.values()].find((code) => code !== ErrorCode.NONE);
  if (failed !== undefined) return liveGroupErrors.has(failed) ? hasMembers(group) : error(failed);
  const after = await readMoves(cluster, place, options.topic);
  if (after.errorCode !== ErrorCode.NONE) return error(after.errorCode);
  for (const { partition, position } of toCommit) {
    const offset = after.offsets.get(partitionKey(options.topic, partition))?.offset ?? -1n;
    if (offset !== position.offset) return movedAway(group, partition, offset);
  }
  return null;
}

async function readMoves(
  cluster: Cluster,
  { group, nodeId, moves }: Place,
  topic: string,
): Promise<GroupRead> {
  const partitions = moves.map(({ partition }) => partition);
  const topicsOf = () => [{ topic, partitions }];
  const reads = await readGroups(cluster, [group], { nodeId, requireStable: true, topicsOf });
  const read = reads.get(group);
  const whole = read?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  const code = read?.partitionErrors[0]?.errorCode ?? whole;
  return { errorCode: code, offsets: read?.offsets ?? new Map(), partitionErrors: [] };
}

function hasMembers(group: string): UnmovedGroup {
  return { group, reason: 'live', message: `group '${group}' has members` };
}

function movedAway(group: string, partition: number, offset: bigint): UnmovedGroup {
  const message = `group '${group}' has committed ${offset} of partition ${partition} meanwhile`;
  return { group, reason: 'moved', message };
}
