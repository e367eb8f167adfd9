// Which consumer groups a link synchronises: Cluster Linking's JSON filters. Pure. Refuses to know
// groups. Invariant: a name that both an include and an exclude match is excluded, and an unknown
// key is refused by name. Without any filter every group is meant: switching the sync on is already
// the decision.

export interface GroupFilter {
  readonly name: string;
  readonly patternType: 'LITERAL' | 'PREFIXED';
  readonly filterType: 'INCLUDE' | 'EXCLUDE';
}

const knownKeys = new Set(['name', 'patternType', 'filterType', 'topicTypes']);

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function choice<Choice extends string>(
  value: unknown,
  choices: readonly Choice[],
  where: string,
): Choice {
  const wanted = typeof value === 'string' ? value.toUpperCase() : undefined;
  const found = choices.find((candidate) => candidate === wanted);
  if (found === undefined) throw new TypeError(`${where} must be one of ${choices.join(', ')}`);
  return found;
}

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

function parseOne(value: unknown, where: string): GroupFilter {
  if (!isObject(value)) throw new TypeError(`${where} must be an object`);
  for (const key of Object.keys(value)) {
    if (!knownKeys.has(key)) throw new TypeError(`${where} has an unknown key '${key}'`);
  }
  const { name } = value;
  if (typeof name !== 'string' || name === '')
    throw new TypeError(`${where}.name must be a string`);
  checkTopicTypes(value.topicTypes, `${where}.topicTypes`);
  return {
    name,
    patternType: choice(
      value.patternType,
      ['LITERAL', 'PREFIXED'] as const,
      `${where}.patternType`,
    ),
    filterType: choice(value.filterType, ['INCLUDE', 'EXCLUDE'] as const, `${where}.filterType`),
  };
}

/** @throws TypeError with the path of what is wrong. Null: nothing was given. */
export function parseGroupFilters(text: string): readonly GroupFilter[] | null {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TypeError(`is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(value)) throw new TypeError('must be an object with "groupFilters"');
  for (const key of Object.keys(value)) {
    if (key !== 'groupFilters') throw new TypeError(`has an unknown key '${key}'`);
  }
  const filters = value.groupFilters;
  if (!Array.isArray(filters)) throw new TypeError('"groupFilters" must be a list');
  return filters.map((filter, index) => parseOne(filter, `groupFilters[${index}]`));
}

function matches(filter: GroupFilter, group: string): boolean {
  if (filter.patternType === 'PREFIXED') return group.startsWith(filter.name);
  return filter.name === '*' || filter.name === group;
}

export function isGroupIncluded(filters: readonly GroupFilter[] | null, group: string): boolean {
  if (filters === null) return true;
  let isIncluded = false;
  for (const filter of filters) {
    if (!matches(filter, group)) continue;
    if (filter.filterType === 'EXCLUDE') return false;
    isIncluded = true;
  }
  return isIncluded;
}
