// How the text of a link setting becomes a value: checks that all settings share. Pure. Refuses to
// know which settings there are. Invariant: what is refused is named, with what would be accepted.
import { LinkError } from '../link-error.ts';

const integerMax = 0x7fffffff;

export function refuse(name: string, why: string): never {
  throw new LinkError('INVALID_CONFIG', `Link setting '${name}' ${why}`);
}

type Configs = Readonly<Record<string, string>>;

export function integer(configs: Configs, name: string, min: number, max = integerMax): number {
  const text = configs[name] ?? '';
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || !Number.isSafeInteger(value) || value < min || value > max) {
    refuse(name, `must be a whole number from ${min} to ${max}`);
  }
  return value;
}

export function boolean(configs: Configs, name: string): boolean {
  const text = (configs[name] ?? '').toLowerCase();
  if (text !== 'true' && text !== 'false') refuse(name, "must be 'true' or 'false'");
  return text === 'true';
}

export function list(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** Filters in JSON: what their parser says of them, under the setting's name. */
export function filters<Filters>(
  configs: Configs,
  name: string,
  parse: (text: string) => Filters,
): Filters {
  try {
    return parse(configs[name] ?? '');
  } catch (error) {
    if (error instanceof TypeError) refuse(name, error.message);
    throw error;
  }
}
