// Reading, creating and deleting ACLs of one cluster. Owns the requests and their error codes;
// refuses to know what is compared. Invariants: ACLs that could not be read are an error, never an
// empty set; a deletion names one ACL exactly, never by a pattern that could match another.

import {
  createAclCreation,
  createCreateAclsRequest,
} from '../../protocol/generated/create-acls-request.ts';
import {
  createDeleteAclsFilter,
  createDeleteAclsRequest,
} from '../../protocol/generated/delete-acls-request.ts';
import { createDescribeAclsRequest } from '../../protocol/generated/describe-acls-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { createAclsApi, deleteAclsApi, describeAclsApi } from '../cluster/apis.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import type { Acl } from '../state/records.ts';
import type { AclFilter } from './acl-filters.ts';
import type { TaskProblem } from './back-offs.ts';
import { TaskError } from './sync-task.ts';

export type Side = 'source' | 'destination';

/** What a refusal means and what to do about it. */
export function aclProblem(code: number, detail: string | null, side: Side): TaskProblem {
  if (code === ErrorCode.SECURITY_DISABLED) {
    const remedy = 'set authorizer.class.name on its brokers, or acl.sync.enable=false on the link';
    const message = `the ${side} has no authorizer, so there are no ACLs: ${remedy}`;
    return { code: 'SECURITY_DISABLED_ERROR', message };
  }
  if (code === ErrorCode.CLUSTER_AUTHORIZATION_FAILED) {
    const operations = side === 'source' ? ['Describe'] : ['Describe', 'Alter'];
    return {
      code: side === 'source' ? 'AUTHORIZATION_ERROR' : 'BROKER_AUTHORIZATION_ERROR',
      message:
        `our principal may not see or change ACLs of the ${side}: ` +
        `grant it with ${grantCommand({ cluster: true }, ...operations)}`,
    };
  }
  const cause = `${errorName(code)}${detail ? `: ${detail}` : ''}`;
  const isPolicy = code === ErrorCode.POLICY_VIOLATION;
  return {
    code: isPolicy ? 'POLICY_VIOLATION_ERROR' : 'INVALID_REQUEST_ERROR',
    message: `the ${side} refuses: ${cause}`,
  };
}

/** @throws TaskError naming the side; ClusterError */
export async function readAcls(cluster: Cluster, filter: AclFilter, side: Side): Promise<Acl[]> {
  const response = await cluster.send(
    { kind: 'any' },
    describeAclsApi,
    createDescribeAclsRequest({
      resourceTypeFilter: filter.resourceType,
      resourceNameFilter: filter.resourceName,
      patternTypeFilter: filter.patternType,
      principalFilter: filter.principal,
      hostFilter: filter.host,
      operation: filter.operation,
      permissionType: filter.permissionType,
    }),
  );
  if (response.errorCode !== ErrorCode.NONE) {
    const { code, message } = aclProblem(response.errorCode, response.errorMessage, side);
    throw new TaskError(code, `ACLs cannot be read: ${message}`);
  }
  return response.resources.flatMap(({ resourceType, resourceName, patternType, acls }) =>
    acls.map(({ principal, host, operation, permissionType }) => ({
      resourceType,
      resourceName,
      patternType,
      principal,
      host,
      operation,
      permissionType,
    })),
  );
}

/** What became of each, in the order given: null is success. @throws ClusterError */
export async function createAcls(
  cluster: Cluster,
  acls: readonly Acl[],
  side: Side = 'destination',
): Promise<readonly (TaskProblem | null)[]> {
  const response = await cluster.send(
    { kind: 'controller' },
    createAclsApi,
    createCreateAclsRequest({
      creations: acls.map((acl) =>
        createAclCreation({
          resourceType: acl.resourceType,
          resourceName: acl.resourceName,
          resourcePatternType: acl.patternType,
          principal: acl.principal,
          host: acl.host,
          operation: acl.operation,
          permissionType: acl.permissionType,
        }),
      ),
    }),
  );
  return acls.map((_, index) => outcome(response.results[index], side));
}

/** Like `createAcls`; deleting what is not there is a success. @throws ClusterError */
export async function deleteAcls(
  cluster: Cluster,
  acls: readonly Acl[],
  side: Side = 'destination',
): Promise<readonly (TaskProblem | null)[]> {
  const response = await cluster.send(
    { kind: 'controller' },
    deleteAclsApi,
    createDeleteAclsRequest({
      filters: acls.map((acl) =>
        createDeleteAclsFilter({
          resourceTypeFilter: acl.resourceType,
          resourceNameFilter: acl.resourceName,
          patternTypeFilter: acl.patternType,
          principalFilter: acl.principal,
          hostFilter: acl.host,
          operation: acl.operation,
          permissionType: acl.permissionType,
        }),
      ),
    }),
  );
  return acls.map((_, index) => outcome(response.filterResults[index], side));
}

function outcome(
  result: { readonly errorCode: number; readonly errorMessage: string | null } | undefined,
  side: Side,
): TaskProblem | null {
  const code = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (code === ErrorCode.NONE) return null;
  return aclProblem(code, result?.errorMessage ?? null, side);
}
