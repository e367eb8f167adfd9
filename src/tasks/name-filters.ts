// Cluster Linking's filters of names (groups, topics): literal or by prefix, to include or
// exclude. Pure. Refuses to know what the names are of. Invariant: a name that both an include and
// an exclude match is excluded, whatever their order; only the literal `*` is a wildcard.
import { choice, entryOf } from './json-filters.ts';

export interface NameFilter {
  readonly name: string;
  readonly patternType: 'LITERAL' | 'PREFIXED';
  readonly filterType: 'INCLUDE' | 'EXCLUDE';
}

export const nameFilterKeys: readonly string[] = ['name', 'patternType', 'filterType'];

/** @throws TypeError with the path of what is wrong */
export function parseNameFilter(
  value: unknown,
  where: string,
  keys: readonly string[] = nameFilterKeys,
): NameFilter {
  const entry = entryOf(value, keys, where);
  const { name } = entry;
  if (typeof name !== 'string' || name === '') {
    throw new TypeError(`${where}.name must be a string`);
  }
  const patternTypes = ['LITERAL', 'PREFIXED'] as const;
  return {
    name,
    patternType: choice(entry.patternType, patternTypes, `${where}.patternType`),
    filterType: choice(entry.filterType, ['INCLUDE', 'EXCLUDE'] as const, `${where}.filterType`),
  };
}

function matches(filter: NameFilter, name: string): boolean {
  if (filter.patternType === 'PREFIXED') return name.startsWith(filter.name);
  return filter.name === '*' || filter.name === name;
}

export function isIncluded(filters: readonly NameFilter[], name: string): boolean {
  let isMatched = false;
  for (const filter of filters) {
    if (!matches(filter, name)) continue;
    if (filter.filterType === 'EXCLUDE') return false;
    isMatched = true;
  }
  return isMatched;
}
