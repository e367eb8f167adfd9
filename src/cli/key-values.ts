// `key=value` arguments and files of them (Java properties, as Kafka's own tools read them).
// Secrets come by file or standard input, never as arguments, where every user of the machine could
// read them.
import { readFile } from 'node:fs/promises';
import { isSensitiveSetting } from '../config/client-settings.ts';
import { PropertiesFault, type Property, readProperties } from '../config/properties.ts';
import { isKeptSecret } from '../config/security-settings.ts';
import { CliError, type CliIo, ExitCode } from './io.ts';

function parsePair(argument: string): [string, string] {
  const at = argument.indexOf('=');
  if (at <= 0) throw new CliError(ExitCode.usage, `"${argument}" is not of the form key=value`);
  return [argument.slice(0, at).trim(), argument.slice(at + 1)];
}

export function parseArguments(pairs: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const pair of pairs) {
    const [key, value] = parsePair(pair);
    if (isSensitiveSetting(key) && !isKeptSecret(key, value)) {
      const how = `give ${key} in a file with --config-file (- for standard input)`;
      throw new CliError(ExitCode.usage, `secrets are not taken as arguments; ${how}`);
    }
    values.set(key, value);
  }
  return values;
}

/** @throws CliError naming the line */
export function parseProperties(text: string, name: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const { key, value, line, hasSeparator } of propertiesOf(text, name)) {
    // Java would take it for a key with an empty value; here it is a line gone wrong.
    if (key === '' || !hasSeparator) {
      throw new CliError(ExitCode.usage, `${name}, line ${line}: is not key=value`);
    }
    // Kafka's tools drop the blanks at the end of a value, which Java keeps.
    values.set(key, value.trim());
  }
  return values;
}

function propertiesOf(text: string, name: string): readonly Property[] {
  try {
    return readProperties(text);
  } catch (error) {
    if (!(error instanceof PropertiesFault)) throw error;
    throw new CliError(ExitCode.usage, `${name}, ${error.message}`);
  }
}

export async function readTextFile(file: string, io: CliIo): Promise<string> {
  if (file === '-') return io.readInput();
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(ExitCode.failed, `cannot read ${file}: ${reason}`);
  }
}

/** Settings from a file, overridden by those from arguments. */
export async function collectSettings(
  given: { readonly config: readonly string[]; readonly configFile: string | undefined },
  io: CliIo,
): Promise<Map<string, string>> {
  const fromArguments = parseArguments(given.config);
  if (given.configFile === undefined) return fromArguments;
  const name = given.configFile === '-' ? 'standard input' : given.configFile;
  const fromFile = parseProperties(await readTextFile(given.configFile, io), name);
  return new Map([...fromFile, ...fromArguments]);
}

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `90`, `30s`, `5m`, `1h`; a bare number is seconds. */
export function parseDurationMs(option: string, value: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(value);
  if (match === null) {
    throw new CliError(ExitCode.usage, `${option}: "${value}" is not a time such as 30s or 5m`);
  }
  return Math.round(Number(match[1]) * (unitMs[match[2] ?? 's'] ?? 1000));
}
