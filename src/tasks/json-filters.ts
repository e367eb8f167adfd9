// The common ground of Cluster Linking's JSON filters: one object with one list, entries whose
// keys and values are checked by name. Pure. Refuses to know what is filtered. Invariants: an
// unknown key or value is refused with its path; enumerations are accepted in any case.

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** One of `choices`, whatever its case. @throws TypeError */
export function choice<Choice extends string>(
  value: unknown,
  choices: readonly Choice[],
  where: string,
): Choice {
  const wanted = typeof value === 'string' ? value.toUpperCase() : undefined;
  const found = choices.find((candidate) => candidate.toUpperCase() === wanted);
  if (found === undefined) throw new TypeError(`${where} must be one of ${choices.join(', ')}`);
  return found;
}

/** An object with no other keys than these. @throws TypeError */
export function entryOf(
  value: unknown,
  keys: readonly string[],
  where: string,
): Record<string, unknown> {
  if (!isObject(value)) throw new TypeError(`${where} must be an object`);
  for (const key of Object.keys(value)) {
    if (!keys.includes(key)) throw new TypeError(`${where} has an unknown key '${key}'`);
  }
  return value;
}

/** The entries of `{"LIST": [...]}`. Null: nothing was given. @throws TypeError */
export function parseList<Entry>(
  text: string,
  listName: string,
  parse: (value: unknown, where: string) => Entry,
): readonly Entry[] | null {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TypeError(`is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(value)) throw new TypeError(`must be an object with "${listName}"`);
  for (const key of Object.keys(value)) {
    if (key !== listName) throw new TypeError(`has an unknown key '${key}'`);
  }
  const entries = value[listName];
  if (!Array.isArray(entries)) throw new TypeError(`"${listName}" must be a list`);
  return entries.map((entry, index) => parse(entry, `${listName}[${index}]`));
}
