// Loads the configuration: YAML -> environment variables -> shape -> meaning -> CausewayConfig. All
// faults are collected, each with its path, and reported at once. Invariant: what comes out has
// been checked in whole; nothing else reads the file.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { TSchema } from 'typebox';
import { Default } from 'typebox/value';
import { parseDocument } from 'yaml';
import { parseAddressRange } from '../gateway/upstream-addresses.ts';
import { refusedClientSetting } from './client-settings.ts';
import type { CausewayConfig } from './config.ts';
import { topicsOfKafka } from './internal-topics.ts';
import { type ConfigFile, destinationSchema, fileSchema, notInThisVersion } from './schema.ts';
import { formatProblem, type Problem, schemaProblems } from './schema-problems.ts';
import { securityFaults } from './security-settings.ts';
import { type Environment, substituteEnvironment } from './substitute.ts';
import { listenerTls } from './tls-listener.ts';
import { parseFreeBytes, parseHostPort, parsePortRange, parseServers } from './values.ts';

/** Largest file that is read; a configuration is a page, not a book. */
const fileBytesMax = 1024 * 1024;

export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Takes known but unsupported parts out of the tree, each with its own line. */
function takeOutUnsupported(tree: Record<string, unknown>, problems: Problem[]): void {
  for (const [dotted, what] of notInThisVersion) {
    const [section = '', key] = dotted.split('.');
    const holder = key === undefined ? tree : tree[section];
    const name = key ?? section;
    if (!isObject(holder) || !(name in holder)) continue;
    delete holder[name];
    problems.push({ path: dotted, message: `${what} is not in this version` });
  }
  const destination = tree.destination;
  if (!isObject(destination)) return;
  for (const key of Object.keys(destination)) {
    if (key === 'addressMap') continue;
    const refusal = refusedClientSetting(key, ['addressMap']);
    if (refusal === undefined) continue;
    delete destination[key];
    problems.push({ path: `destination.${key}`, message: refusal });
  }
}

interface SchemaNode {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
}

/**
 * `"9092"` where a number belongs (the usual result of `${PORT}`) becomes the number, `"true"`
 * where a switch belongs the switch.
 */
function convertTexts(schema: SchemaNode, value: unknown): unknown {
  if (schema.type === 'integer' && typeof value === 'string' && /^\d{1,15}$/.test(value)) {
    return Number(value);
  }
  if (schema.type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  if (!isObject(value) || schema.properties === undefined) return value;
  const { properties } = schema;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const node = properties[key];
      return [key, node === undefined ? inner : convertTexts(node, inner)];
    }),
  );
}

function parseYaml(text: string): unknown {
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0) {
    const lines = document.errors.map((error) => error.message.split('\n')[0] ?? 'not YAML');
    throw new ConfigError(lines.map((line) => `not valid YAML: ${line.replace(/:$/, '')}`));
  }
  try {
    const tree: unknown = document.toJS({ maxAliasCount: 50 });
    if (!isEndless(tree)) return tree;
  } catch (error) {
    // An alias without an anchor, or more of them than a configuration needs.
    if (!(error instanceof ReferenceError)) throw error;
    throw new ConfigError([`not valid YAML: ${error.message}`]);
  }
  throw new ConfigError(['not valid YAML: an alias stands inside of what it stands for']);
}

/** Whether a part holds itself. */
function isEndless(value: unknown, around: readonly unknown[] = []): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (around.includes(value)) return true;
  return Object.values(value).some((inner) => isEndless(inner, [...around, value]));
}

/** Runs a value parser; its complaint becomes a problem with the path. */
function attempt<T>(problems: Problem[], path: string, parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    problems.push({ path, message: error instanceof Error ? error.message : String(error) });
    return undefined;
  }
}

function checkAddressMap(map: Readonly<Record<string, string>>, problems: Problem[]): void {
  for (const [advertised, reachable] of Object.entries(map)) {
    const path = `destination.addressMap."${advertised}"`;
    attempt(problems, path, () => parseHostPort(advertised));
    attempt(problems, path, () => parseHostPort(reachable));
  }
}

function checkPorts(
  file: ConfigFile,
  range: { first: number; last: number },
  problems: Problem[],
): void {
  const { bootstrapPort } = file.gateway;
  const isInRange = (port: number): boolean => port >= range.first && port <= range.last;
  if (isInRange(bootstrapPort)) {
    problems.push({
      path: 'gateway.bootstrapPort',
      message: `${bootstrapPort} lies inside gateway.brokerPorts`,
    });
  }
  if (isInRange(file.admin.port)) {
    problems.push({
      path: 'admin.port',
      message: `${file.admin.port} lies inside gateway.brokerPorts`,
    });
  }
  if (file.admin.port === bootstrapPort) {
    problems.push({ path: 'admin.port', message: 'is also gateway.bootstrapPort' });
  }
}

/** Topics of Kafka's own must be none of ours: ours begin with `__NAME_`. */
function checkName(name: string, problems: Problem[]): void {
  const taken = topicsOfKafka.find((topic) => topic.startsWith(`__${name}_`));
  if (taken === undefined) return;
  problems.push({ path: 'name', message: `"${name}" would make Kafka's own topic ${taken} ours` });
}

/** Kafka client settings as given, without those that have a field of their own. */
function clientSettings(file: ConfigFile): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const key of Object.keys(destinationSchema.properties)) {
    const value: unknown = Reflect.get(file.destination, key);
    if (key === 'addressMap' || value === undefined) continue;
    settings[key] = String(value);
  }
  return settings;
}

function build(file: ConfigFile, problems: Problem[]): CausewayConfig | undefined {
  const { destination, gateway, storage } = file;
  checkName(file.name, problems);
  const servers = attempt(problems, 'destination.bootstrap.servers', () =>
    parseServers(destination['bootstrap.servers']),
  );
  const client = clientSettings(file);
  for (const { setting, reason } of securityFaults(client)) {
    problems.push({ path: `destination.${setting}`, message: reason });
  }
  const tls = listenerTls(gateway.tls, client, problems);
  for (const [index, text] of (gateway.upstreamAddresses ?? []).entries()) {
    const path = `gateway.upstreamAddresses[${index}]`;
    attempt(problems, path, () => parseAddressRange(text));
  }
  checkAddressMap(destination.addressMap, problems);
  if (!/^[^\s:/,]+$|^[0-9a-fA-F:]+$/.test(gateway.advertise)) {
    problems.push({
      path: 'gateway.advertise',
      message: 'must be a host name or an address, without a port',
    });
  }
  const range = attempt(problems, 'gateway.brokerPorts', () => parsePortRange(gateway.brokerPorts));
  if (range !== undefined) checkPorts(file, range, problems);
  if (storage.type !== 'disk') {
    const message =
      storage.type === 'kafka'
        ? 'kafka is not in this version; only disk is'
        : `"${storage.type}" is no storage type; only disk is in this version`;
    problems.push({ path: 'storage.type', message });
  }
  if (!path.isAbsolute(storage.directory)) {
    problems.push({ path: 'storage.directory', message: 'must be an absolute path' });
  }
  const minFreeBytes = attempt(problems, 'storage.minFreeBytes', () =>
    parseFreeBytes(storage.minFreeBytes),
  );
  if (servers === undefined || range === undefined || minFreeBytes === undefined) return undefined;
  const { addressMap } = destination;
  const { tls: _, upstreamAddresses, ...rest } = gateway;
  return {
    name: file.name,
    destination: { bootstrapServers: servers, addressMap, client },
    gateway: {
      ...rest,
      brokerPorts: range,
      ...(tls === undefined ? {} : { tls }),
      ...(upstreamAddresses === undefined ? {} : { upstreamAddresses }),
    },
    storage: { type: 'disk', directory: path.normalize(storage.directory), minFreeBytes },
    admin: file.admin,
    log: { level: file.log.level },
  };
}

function fail(problems: readonly Problem[]): never {
  throw new ConfigError(problems.map(formatProblem));
}

/** Checks the text of a configuration file. @throws ConfigError with every fault */
export function parseConfig(text: string, environment: Environment): CausewayConfig {
  const parsed = parseYaml(text);
  if (!isObject(parsed)) fail([{ path: '', message: 'the file must hold a mapping of names' }]);
  const problems: Problem[] = [];
  const tree = substituteEnvironment(parsed, environment, problems);
  if (isObject(tree)) takeOutUnsupported(tree, problems);
  const schema: TSchema = fileSchema;
  const value = Default(schema, convertTexts(fileSchema as SchemaNode, tree));
  const shape = schemaProblems(schema, value);
  if (shape.length > 0) fail([...problems, ...shape]);
  const config = build(value as ConfigFile, problems);
  if (config === undefined || problems.length > 0) fail(problems);
  return config;
}

/** Reads and checks a configuration file. @throws ConfigError */
export async function loadConfig(file: string, environment: Environment): Promise<CausewayConfig> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError([`cannot read ${file}: ${reason}`]);
  }
  if (bytes.length > fileBytesMax) throw new ConfigError([`${file} is larger than 1 MiB`]);
  return parseConfig(bytes.toString('utf8'), environment);
}
