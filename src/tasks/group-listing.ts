// Which groups a cluster has, of which kind and in which state, asked of every broker. Owns what
// old and new brokers say of a group's kind; refuses to know offsets. Invariant: a broker that did
// not answer is a failure by name, never a broker without groups.
import { createListGroupsRequest } from '../../protocol/generated/list-groups-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { listGroupsApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';

/**
 * `classic`: members of the classic protocol, static ones too, or had some (Streams and sink
 * connectors among them); `consumer` and `streams`: of the newer protocols (KIP-848, KIP-1071);
 * `simple`: offsets without members; `connect`: the workers of Connect, which have no offsets.
 */
export type GroupKind = 'classic' | 'consumer' | 'streams' | 'share' | 'simple' | 'connect';

export interface ListedGroup {
  /** The broker that listed it, which is its coordinator. */
  readonly nodeId: number;
  readonly kind: GroupKind;
  /** As the broker calls it; empty where it does not say (before Kafka 2.6). */
  readonly state: string;
}

/** States of a group without members. */
const emptyStates: ReadonlySet<string> = new Set(['Empty', 'Dead', 'NotReady']);

/** Members are taken to be there where an old broker does not say. */
export function hasMembers({ state }: ListedGroup): boolean {
  return !emptyStates.has(state);
}

export interface ListedGroups {
  readonly groups: ReadonlyMap<string, ListedGroup>;
  readonly failures: readonly { readonly nodeId: number; readonly cause: string }[];
}

export function groupKind(groupType: string, protocolType: string): GroupKind {
  const type = groupType.toLowerCase();
  if (type === 'consumer' || type === 'streams' || type === 'share') return type;
  if (protocolType === '') return 'simple';
  return protocolType === 'connect' ? 'connect' : 'classic';
}

/** @throws ClusterError when not even the brokers are known */
export async function listGroups(cluster: Cluster): Promise<ListedGroups> {
  const { brokers } = await cluster.metadata([]);
  const groups = new Map<string, ListedGroup>();
  const failures: { nodeId: number; cause: string }[] = [];
  await Promise.all(
    brokers.map(async ({ nodeId }) => {
      const target = { kind: 'node', nodeId } as const;
      try {
        const answer = await cluster.send(target, listGroupsApi, createListGroupsRequest());
        if (answer.errorCode !== ErrorCode.NONE) {
          failures.push({ nodeId, cause: errorName(answer.errorCode) });
          return;
        }
        for (const { groupId, groupType, protocolType, groupState } of answer.groups) {
          const kind = groupKind(groupType, protocolType);
          groups.set(groupId, { nodeId, kind, state: groupState });
        }
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        failures.push({ nodeId, cause: error.message });
      }
    }),
  );
  return { groups, failures };
}
