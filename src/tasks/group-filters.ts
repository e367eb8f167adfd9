// Which consumer groups a link synchronises: Cluster Linking's JSON filters. Pure. Refuses to know
// groups. Invariant: a name that both an include and an exclude match is excluded, and an unknown
// key is refused by name. Without any filter every group is meant: switching the sync on is
// already the decision.
import { choice, entryOf, parseList } from './json-filters.ts';
import { isIncluded, type NameFilter, nameFilterKeys, parseNameFilter } from './name-filters.ts';

export type GroupFilter = NameFilter;

const keys = [...nameFilterKeys, 'topicTypes'];

function checkTopicTypes(value: unknown, where: string): void {
  if (value === undefined) return;
  const types = Array.isArray(value) ? value : [value];
  for (const type of types) {
    if (choice(type, ['LOCAL_MIRROR', 'REMOTE_MIRROR'] as const, where) === 'REMOTE_MIRROR') {
      throw new TypeError(
        `${where}: REMOTE_MIRROR needs a bidirectional link, which is not there yet`,
      );
    }
  }
}

/** @throws TypeError with the path of what is wrong. Null: nothing was given. */
export function parseGroupFilters(text: string): readonly GroupFilter[] | null {
  return parseList(text, 'groupFilters', (value, where) => {
    checkTopicTypes(entryOf(value, keys, where).topicTypes, `${where}.topicTypes`);
    return parseNameFilter(value, where, keys);
  });
}

export function isGroupIncluded(filters: readonly GroupFilter[] | null, group: string): boolean {
  return filters === null || isIncluded(filters, group);
}
