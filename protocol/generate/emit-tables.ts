/**
 * The generated tables beside the messages: the API keys with their version ranges, the loaders,
 * and what the definitions say about each field's meaning (for the audits of a proxy).
 */
import { structOf } from '../schema/check.ts';
import type { Field, Message, Struct } from '../schema/types.ts';
import { formatVersions, intersect, isEmpty, type Versions } from '../schema/versions.ts';
import { codecNameOf, fileNameOf, generatedNotice } from './emit.ts';
import { camelCase, findStruct, isNullable } from './expressions.ts';

function notice(what: string): string[] {
  return ['/**', ` * ${what}`, ` * ${generatedNotice}`, ' * Do not edit.', ' */'];
}

function flexibleFrom(message: Message | undefined): string {
  if (message === undefined || isEmpty(message.flexible)) return 'never';
  return `${message.flexible.low}`;
}

export function emitApis(messages: readonly Message[]): string {
  const requests = messages
    .filter((message) => message.kind === 'request' && message.apiKey !== undefined)
    .sort((a, b) => (a.apiKey ?? 0) - (b.apiKey ?? 0));
  const nameOf = (request: Message) => request.name.replace(/Request$/, '');
  const rows = requests.map((request) => {
    const response = messages.find(
      (message) => message.kind === 'response' && message.apiKey === request.apiKey,
    );
    const { low, high } = request.versions;
    const stable = request.latestVersionUnstable ? high - 1 : high;
    const listeners = request.listeners.map((listener) => `'${listener}'`).join(', ');
    return [
      `  { key: ${request.apiKey}, name: '${nameOf(request)}'`,
      `versionMin: ${low}, versionMax: ${stable}, versionLatest: ${high}`,
      `requestFlexibleFrom: ${flexibleFrom(request)}`,
      `responseFlexibleFrom: ${flexibleFrom(response)}`,
      `listeners: [${listeners}] },`,
    ].join(', ');
  });
  return [
    ...notice('Every API key of this Kafka release, those without any version left included.'),
    'const never = Number.POSITIVE_INFINITY;',
    '',
    'export const ApiKey = {',
    ...requests.map((request) => `  ${nameOf(request)}: ${request.apiKey},`),
    '} as const;',
    '',
    'export interface Api {',
    '  readonly key: number;',
    '  readonly name: string;',
    '  readonly versionMin: number;',
    '  /** The highest stable version; below versionMin when none is left. */',
    '  readonly versionMax: number;',
    '  /** The highest version that has a schema, stable or not. */',
    '  readonly versionLatest: number;',
    '  readonly requestFlexibleFrom: number;',
    '  readonly responseFlexibleFrom: number;',
    '  readonly listeners: readonly string[];',
    '}',
    '',
    'export const apis: readonly Api[] = [',
    ...rows,
    '];',
    '',
  ].join('\n');
}

export function emitLoaders(messages: readonly Message[]): string {
  const present = messages.filter((message) => !isEmpty(message.versions));
  return [
    ...notice('All message codecs by name, each loaded on first use.'),
    "import type { MessageCodec } from '../codec.ts';",
    '',
    'export const loaders = {',
    ...present.map((message) => {
      const loaded = `(await import('./${fileNameOf(message)}')).${codecNameOf(message)}`;
      return `  ${message.name}: async (): Promise<MessageCodec> => ${loaded},`;
    }),
    '};',
    '',
    'export type MessageName = keyof typeof loaders;',
    '',
    'export const requestNames: Readonly<Record<number, MessageName>> = {',
    ...present
      .filter((message) => message.kind === 'request')
      .map((message) => `  ${message.apiKey}: '${message.name}',`),
    '};',
    '',
    'export const responseNames: Readonly<Record<number, MessageName>> = {',
    ...present
      .filter((message) => message.kind === 'response')
      .map((message) => `  ${message.apiKey}: '${message.name}',`),
    '};',
    '',
  ].join('\n');
}

interface Visit {
  message: Message;
  struct: Struct;
  field: Field;
  path: string;
  versions: Versions;
}

/** Every field of a message with its path; a struct that is used twice is walked twice. */
function walk(message: Message, visit: (visited: Visit) => void): void {
  const enter = (struct: Struct, prefix: string, versions: Versions): void => {
    for (const field of struct.fields) {
      const path = `${prefix}${camelCase(field.name)}${field.type.kind === 'array' ? '[]' : ''}`;
      const reachable = intersect(field.versions, versions);
      if (isEmpty(reachable)) continue;
      visit({ message, struct, field, path, versions: reachable });
      const inner = structOf(field.type);
      if (inner !== undefined) enter(findStruct(message, inner), `${path}.`, reachable);
    }
  };
  const top = message.structs[0];
  if (top !== undefined) enter(top, '', message.versions);
}

export function emitFieldFacts(messages: readonly Message[]): string {
  const rows: string[] = [];
  for (const message of messages) {
    walk(message, ({ field, path, versions, struct }) => {
      const facts = [
        `message: '${message.name}'`,
        `path: '${path}'`,
        `struct: '${struct.name}'`,
        `type: '${typeText(field)}'`,
        `versions: '${formatVersions(versions)}'`,
        ...(isNullable(field) ? [`nullable: '${nullableText(field, versions)}'`] : []),
        ...(field.entityType === undefined ? [] : [`entityType: '${field.entityType}'`]),
        ...(field.tag === undefined ? [] : [`tag: ${field.tag}`]),
      ];
      rows.push(`  { ${facts.join(', ')} },`);
    });
  }
  return [
    ...notice('Every field of every message with what it means, for the audits of a proxy.'),
    'export interface FieldFact {',
    '  readonly message: string;',
    '  /** From the message, `[]` after arrays: `topics[].partitions[].leaderId`. */',
    '  readonly path: string;',
    '  readonly struct: string;',
    "  /** Kafka's own notation. */",
    '  readonly type: string;',
    '  readonly versions: string;',
    "  /** Versions in which null may travel; 'none' when only the type allows it. */",
    '  readonly nullable?: string;',
    '  readonly entityType?: string;',
    '  readonly tag?: number;',
    '}',
    '',
    'export const fieldFacts: readonly FieldFact[] = [',
    ...rows,
    '];',
    '',
  ].join('\n');
}

function nullableText(field: Field, versions: Versions): string {
  return formatVersions(intersect(field.nullable, versions));
}

function typeText(field: Field): string {
  const { type } = field;
  if (type.kind !== 'array') return type.name;
  return `[]${type.element.kind === 'array' ? '' : type.element.name}`;
}
