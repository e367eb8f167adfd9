// Deleting a group that has no members, as an administrator does.
//
// Owns: one DeleteGroups request. Knows nothing of offsets. Invariant: a group that is not there is
// as good as deleted, a coordinator that is not there yet is asked again; any other refusal is a
// rejection.

import {
  createDeleteGroupsRequest,
  deleteGroupsRequestCodec,
} from '../../protocol/generated/delete-groups-request.ts';
import {
  type DeleteGroupsResponse,
  deleteGroupsResponseCodec,
} from '../../protocol/generated/delete-groups-response.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { GiveUp, until } from './wait.ts';

const api = {
  key: 42,
  name: 'DeleteGroups',
  versionMin: 0,
  versionMax: 2,
  encode: deleteGroupsRequestCodec.encode,
  decode: deleteGroupsResponseCodec.decode,
  // So that a coordinator that has moved is looked for anew.
  routingErrors: ({ results }: DeleteGroupsResponse) => results.map(({ errorCode }) => errorCode),
};
const groupIdNotFound = 69;
/** COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: the first to ask. */
const notYet: ReadonlySet<number> = new Set([14, 15, 16]);

export async function deleteGroup(cluster: Cluster, groupId: string): Promise<void> {
  const request = createDeleteGroupsRequest({ groupsNames: [groupId] });
  await until(`the deletion of ${groupId}`, async () => {
    const answer = await cluster.send({ kind: 'group', groupId }, api, request);
    const code = answer.results[0]?.errorCode ?? -1;
    if (notYet.has(code)) return false;
    if (code !== 0 && code !== groupIdNotFound) throw new GiveUp(`DeleteGroups: error ${code}`);
    return true;
  });
}
