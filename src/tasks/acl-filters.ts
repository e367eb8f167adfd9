// Which ACLs of the source a link synchronises: Cluster Linking's `acl.filters`, in Kafka's own
// numbers, so that the source's broker does the matching. Pure. Refuses to know how ACLs are read.
// Invariant: what is left out means any; what is misspelled is refused with its path.
import { choice, entryOf, parseList } from './json-filters.ts';

/** A filter of DescribeAcls; null means any. */
export interface AclFilter {
  readonly resourceType: number;
  readonly resourceName: string | null;
  readonly patternType: number;
  readonly principal: string | null;
  readonly host: string | null;
  readonly operation: number;
  readonly permissionType: number;
}

export const resourceTypes = {
  any: 1,
  topic: 2,
  group: 3,
  cluster: 4,
  transactionalId: 5,
  delegationToken: 6,
  user: 7,
} as const;

export const patternTypes = { any: 1, match: 2, literal: 3, prefixed: 4 } as const;

export const operations = {
  any: 1,
  all: 2,
  read: 3,
  write: 4,
  create: 5,
  delete: 6,
  alter: 7,
  describe: 8,
  clusterAction: 9,
  describeConfigs: 10,
  alterConfigs: 11,
  idempotentWrite: 12,
  createTokens: 13,
  describeTokens: 14,
  twoPhaseCommit: 15,
} as const;

export const permissionTypes = { any: 1, deny: 2, allow: 3 } as const;

/** Filters that match everything, for reading all ACLs of a cluster. */
export const anyAcl: AclFilter = {
  resourceType: 1,
  resourceName: null,
  patternType: 1,
  principal: null,
  host: null,
  operation: 1,
  permissionType: 1,
};

/** Kafka also writes these names as TRANSACTIONAL_ID; both are accepted. */
function code(
  table: Readonly<Record<string, number>>,
  value: unknown,
  options: { where: string; isRequired: boolean },
): number {
  if (value === undefined && !options.isRequired) return 1;
  const text = typeof value === 'string' ? value.replaceAll('_', '') : value;
  return table[choice(text, Object.keys(table), options.where)] ?? 1;
}

function text(value: unknown, where: string): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string' || value === '') throw new TypeError(`${where} must be a string`);
  return value;
}

function parseOne(value: unknown, where: string): AclFilter {
  const { resourceFilter, accessFilter } = entryOf(
    value,
    ['resourceFilter', 'accessFilter'],
    where,
  );
  const at = `${where}.resourceFilter`;
  const resource = entryOf(resourceFilter, ['resourceType', 'name', 'patternType'], at);
  const on = `${where}.accessFilter`;
  const accessKeys = ['principal', 'host', 'operation', 'permissionType'];
  const access = entryOf(accessFilter, accessKeys, on);
  const required = (name: string) => ({ where: `${on}.${name}`, isRequired: true });
  return {
    resourceType: code(resourceTypes, resource.resourceType, {
      where: `${at}.resourceType`,
      isRequired: true,
    }),
    resourceName: text(resource.name, `${at}.name`),
    patternType: code(patternTypes, resource.patternType, {
      where: `${at}.patternType`,
      isRequired: false,
    }),
    principal: text(access.principal, `${on}.principal`),
    host: text(access.host, `${on}.host`),
    operation: code(operations, access.operation, required('operation')),
    permissionType: code(permissionTypes, access.permissionType, required('permissionType')),
  };
}

/** @throws TypeError with the path of what is wrong. Null: nothing was given. */
export function parseAclFilters(filters: string): readonly AclFilter[] | null {
  return parseList(filters, 'aclFilters', parseOne);
}
