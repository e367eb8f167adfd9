/** The encode function of one struct. */
import type { Field, Message, Struct } from '../schema/types.ts';
import { labelOf } from './emit-decode.ts';
import {
  type Condition,
  camelCase,
  compact,
  condition,
  differsFromDefault,
  isNullable,
  negate,
  writeArrayLength,
  writePrimitive,
} from './expressions.ts';

export function emitEncode(message: Message, struct: Struct): string {
  const flexible = condition(message.flexible, struct.versions);
  const known = struct.fields
    .filter((field) => field.tag !== undefined)
    .sort((a, b) => (a.tag ?? 0) - (b.tag ?? 0));
  const lines = struct.fields.flatMap((field) => encodeField(struct, field));
  lines.push(...encodeTags(struct, known, flexible));
  if (typeof flexible === 'string') lines.unshift(`const flexible = ${flexible};`);
  if (struct.name === message.name) {
    const { low, high } = message.versions;
    lines.unshift(`writer.beginMessage('${message.name}', version, ${low}, ${high});`);
  }
  const usesVersion = lines.some((line) => /\bversion\b/.test(line));
  return [
    `export function encode${struct.name}(`,
    '  writer: Writer,',
    `  message: ${struct.name},`,
    `  ${usesVersion ? '' : '_'}version: number,`,
    '): void {',
    ...lines.map((line) => `  ${line}`),
    '}',
    '',
  ].join('\n');
}

/** The field in its place, or the refusal to drop it. */
function encodeField(struct: Struct, field: Field): string[] {
  const when = condition(field.versions, struct.versions);
  const value = `message.${camelCase(field.name)}`;
  const refusal = `throw writer.unsupportedField(${labelOf(struct, field)});`;
  const differs = differsFromDefault(field, value);
  const refuse = when === true || field.ignorable ? undefined : `if (${differs}) ${refusal}`;
  if (field.tag !== undefined) {
    if (refuse === undefined || typeof when !== 'string') return [];
    return [`if (${negate(when)} && ${differs}) {`, `  ${refusal}`, '}'];
  }
  const write = writeField(struct, field, value);
  if (when === true) return write;
  return [
    `if (${when}) {`,
    ...write.map((line) => `  ${line}`),
    ...(refuse === undefined
      ? []
      : [`} else ${refuse.replace(/ throw (.*)$/, ' {')}`, `  ${refusal}`]),
    '}',
  ];
}

function writeField(struct: Struct, field: Field, value: string): string[] {
  const label = labelOf(struct, field);
  const { type } = field;
  const nullable = condition(field.nullable, field.versions);
  if (type.kind === 'primitive') {
    return [`${writePrimitive(type, value, label, compact(field), nullable)};`];
  }
  if (type.kind === 'struct') return writeStruct(type.name, value, label, nullable, field);
  const items = isNullable(field) ? `${value} ?? []` : value;
  const element =
    type.element.kind === 'struct'
      ? `encode${type.element.name}(writer, item, version)`
      : type.element.kind === 'primitive'
        ? writePrimitive(type.element, 'item', label, compact(field), false)
        : '';
  return [`${writeArrayLength(field, value, label)};`, `for (const item of ${items}) ${element};`];
}

function writeStruct(
  name: string,
  value: string,
  label: string,
  nullable: Condition,
  field: Field,
): string[] {
  const encode = `encode${name}(writer, ${value}, version);`;
  if (!isNullable(field)) return [encode];
  const lead = `writer.writePresence(${value});`;
  const refuse = `if (${value} === null) throw writer.nullError(${label});`;
  if (nullable === true) return [lead, `if (${value} !== null) ${encode}`];
  return [`if (${nullable}) ${lead}`, `else ${refuse}`, `if (${value} !== null) ${encode}`];
}

function encodeTags(struct: Struct, known: Field[], flexible: Condition): string[] {
  const unknown = 'message.unknownTags';
  const name = `'${struct.name}.unknownTags'`;
  if (flexible === false) return [`writer.refuseTags(${unknown}, ${name});`];
  const lines =
    known.length === 0
      ? [`writer.writeTags(${unknown}, ${name});`]
      : encodeKnownTags(struct, known, unknown, name);
  if (flexible === true) return lines;
  return [
    'if (flexible) {',
    ...lines.map((line) => `  ${line}`),
    '} else {',
    `  writer.refuseTags(${unknown}, ${name});`,
    '}',
  ];
}

function encodeKnownTags(struct: Struct, known: Field[], unknown: string, name: string): string[] {
  const isSet = known.map((field) => {
    const when = condition(field.versions, struct.versions);
    const differs = differsFromDefault(field, `message.${camelCase(field.name)}`);
    return typeof when === 'string' ? `${when} && ${differs}` : differs;
  });
  const names = known.map((field) => `has${field.name}`);
  const lines = names.map((hasName, index) => `const ${hasName} = ${isSet[index]};`);
  const count = names.map((hasName) => `(${hasName} ? 1 : 0)`).join(' + ');
  lines.push(`writer.writeTagCount(${count}, ${unknown}, ${name});`, 'let previous = -1;');
  known.forEach((field, index) => {
    const value = `message.${camelCase(field.name)}`;
    lines.push(
      `if (${names[index]}) {`,
      `  writer.writeUnknownTags(${unknown}, previous, ${field.tag});`,
      `  const mark = writer.beginTag(${field.tag});`,
      ...writeField(struct, field, value).map((line) => `  ${line}`),
      '  writer.endTag(mark);',
      `  previous = ${field.tag};`,
      '}',
    );
  });
  lines.push(`writer.writeUnknownTags(${unknown}, previous, Number.POSITIVE_INFINITY);`);
  return lines;
}
