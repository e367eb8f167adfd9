// Deleting a group that has no members, as an administrator does.
//
// Owns: one DeleteGroups request. Knows nothing of offsets. Invariant: a group that is not there is
// as good as deleted; any other refusal is a rejection.

import {
  createDeleteGroupsRequest,
  deleteGroupsRequestCodec,
} from '../../protocol/generated/delete-groups-request.ts';
import { deleteGroupsResponseCodec } from '../../protocol/generated/delete-groups-response.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';

const api = {
  key: 42,
  name: 'DeleteGroups',
  versionMin: 0,
  versionMax: 2,
  encode: deleteGroupsRequestCodec.encode,
  decode: deleteGroupsResponseCodec.decode,
};
const groupIdNotFound = 69;

export async function deleteGroup(cluster: Cluster, groupId: string): Promise<void> {
  const request = createDeleteGroupsRequest({ groupsNames: [groupId] });
  const answer = await cluster.send({ kind: 'group', groupId }, api, request);
  const code = answer.results[0]?.errorCode;
  if (code !== 0 && code !== groupIdNotFound) throw new Error(`DeleteGroups: error ${code}`);
}
