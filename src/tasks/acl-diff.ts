// What is to become of a link's ACLs at the destination: from those that the source has, those
// that are there, and those that the link made. Pure. Refuses to know how ACLs are read and
// written. Invariants: only an ACL that the link itself made is ever deleted, and only in mode
// `owned`; an ACL that is there already is never claimed as the link's own.
import type { Acl } from '../state/records.ts';
import { operations, patternTypes, permissionTypes, resourceTypes } from './acl-filters.ts';

export type AclMap = ReadonlyMap<string, Acl>;

export function aclKey(acl: Acl): string {
  return JSON.stringify([
    acl.resourceType,
    acl.resourceName,
    acl.patternType,
    acl.principal,
    acl.host,
    acl.operation,
    acl.permissionType,
  ]);
}

export function aclMap(acls: Iterable<Acl>): Map<string, Acl> {
  return new Map([...acls].map((acl) => [aclKey(acl), acl]));
}

export interface AclNames {
  readonly prefix: string;
  /** Empty when groups keep their names. */
  readonly groupPrefix: string;
  readonly ownTopicPrefix: string;
  /** What a principal of the source is called at the destination. */
  readonly principal: (principal: string) => string;
}

/**
 * The ACL as it is meant at the destination, where the source's topics have a prefix. All topics of
 * the source are then those with the prefix. Null: it is about topics that are never mirrored.
 */
export function mappedAcl(acl: Acl, names: AclNames): Acl | null {
  const { resourceType, resourceName } = acl;
  const mapped = { ...acl, principal: names.principal(acl.principal) };
  if (resourceType === resourceTypes.topic) {
    if (resourceName.startsWith(names.ownTopicPrefix)) return null;
    return prefixed(mapped, names.prefix);
  }
  return resourceType === resourceTypes.group ? prefixed(mapped, names.groupPrefix) : mapped;
}

function prefixed(acl: Acl, prefix: string): Acl {
  if (prefix === '') return acl;
  if (acl.resourceName === '*' && acl.patternType === patternTypes.literal) {
    return { ...acl, resourceName: prefix, patternType: patternTypes.prefixed };
  }
  return { ...acl, resourceName: `${prefix}${acl.resourceName}` };
}

/** What Kafka's authorizers know of topics; `all` is every one of them. */
const topicOperations = [
  operations.read,
  operations.write,
  operations.create,
  operations.delete,
  operations.alter,
  operations.describe,
  operations.describeConfigs,
  operations.alterConfigs,
];

function isTopicGrant({ resourceType, permissionType }: Acl): boolean {
  return resourceType === resourceTypes.topic && permissionType === permissionTypes.allow;
}

/**
 * What of the desired ACLs may not be made before a topic is promoted: grants of WRITE. A grant of
 * everything is taken apart for that. What is there already is not held back: it is never taken
 * away for a setting.
 */
export function heldBack(
  desired: AclMap,
  actual: AclMap,
): { readonly desired: AclMap; readonly held: AclMap } {
  const free = new Map<string, Acl>();
  const held = new Map<string, Acl>();
  for (const [key, acl] of desired) {
    const isWhole = isTopicGrant(acl) && acl.operation === operations.all;
    const parts = isWhole && !actual.has(key) ? topicOperations : [acl.operation];
    for (const operation of parts) {
      const part = { ...acl, operation };
      const partKey = aclKey(part);
      const isWrite = isTopicGrant(part) && operation === operations.write;
      (isWrite && !actual.has(partKey) ? held : free).set(partKey, part);
    }
  }
  return { desired: free, held };
}

/** Of grants that are held back, those that a topic is due: for itself alone. */
export function grantsOfTopic(held: readonly Acl[], topic: string): readonly Acl[] {
  const isMeant = ({ patternType, resourceName }: Acl): boolean => {
    if (patternType === patternTypes.prefixed) return topic.startsWith(resourceName);
    return resourceName === topic || resourceName === '*';
  };
  const literal = { resourceName: topic, patternType: patternTypes.literal };
  return [...aclMap(held.filter(isMeant).map((acl) => ({ ...acl, ...literal }))).values()];
}

export interface AclComparison {
  readonly desired: AclMap;
  readonly actual: AclMap;
  /** What the link made, as the state knows it. */
  readonly owned: AclMap;
  readonly mode: 'additive' | 'owned';
  /** ACLs that are the destination's own by now, such as those of promoted topics. */
  readonly isReleased: (acl: Acl) => boolean;
}

export interface AclDiff {
  readonly create: readonly Acl[];
  readonly remove: readonly Acl[];
  /** There, made by the link, gone at the source, and left because of mode or promotion. */
  readonly left: readonly Acl[];
  /** What the link owns before `create` and `remove` are carried out. */
  readonly kept: readonly Acl[];
}

export function diffAcls(comparison: AclComparison): AclDiff {
  const { desired, actual, owned, mode, isReleased } = comparison;
  const create = [...desired].filter(([key, acl]) => !actual.has(key) && !isReleased(acl));
  const gone = [...owned].filter(([key]) => actual.has(key) && !desired.has(key));
  const isRemoved = (acl: Acl): boolean => mode === 'owned' && !isReleased(acl);
  return {
    create: create.map(([, acl]) => acl),
    remove: gone.filter(([, acl]) => isRemoved(acl)).map(([, acl]) => acl),
    left: gone.filter(([, acl]) => !isRemoved(acl)).map(([, acl]) => acl),
    // Neither there nor wanted any more: somebody else has deleted it.
    kept: [...owned].filter(([key]) => actual.has(key) || desired.has(key)).map(([, acl]) => acl),
  };
}
