/** The decode function of one struct. */
import type { Field, Message, Struct } from '../schema/types.ts';
import {
  baseType,
  camelCase,
  choose,
  compact,
  condition,
  defaultOf,
  elementBytesMin,
  isNullable,
  localName,
  readArrayLength,
  readValue,
  typeOf,
} from './expressions.ts';

export function labelOf(struct: Struct, field: Field): string {
  return `'${struct.name}.${camelCase(field.name)}'`;
}

export function emitDecode(message: Message, struct: Struct): string {
  const flexible = condition(message.flexible, struct.versions);
  const known = struct.fields.filter((field) => field.tag !== undefined);
  const lines = struct.fields.flatMap((field) =>
    field.tag === undefined ? decodeField(message, struct, field) : [declareTagged(field)],
  );
  if (flexible === false) lines.push('const unknownTags: RawTag[] | undefined = undefined;');
  else if (known.length === 0) {
    const read = `reader.readUnknownTags('${struct.name}')`;
    const value = choose(flexible === true ? true : 'flexible', read, 'undefined');
    lines.push(`const unknownTags: RawTag[] | undefined = ${value};`);
  } else lines.push(...decodeTags(message, struct, known, flexible === true));
  if (typeof flexible === 'string' && lines.some((line) => /\bflexible\b/.test(line))) {
    lines.unshift(`const flexible = ${flexible};`);
  }
  if (struct.name === message.name) {
    const { low, high } = message.versions;
    lines.unshift(`reader.beginMessage('${message.name}', version, ${low}, ${high});`);
  }
  const properties = struct.fields.map((field) => {
    const name = camelCase(field.name);
    return name === localName(field) ? name : `${name}: ${localName(field)}`;
  });
  const version = lines.some((line) => /\bversion\b/.test(line)) ? 'version' : '_version';
  const parameters = `reader: Reader, ${version}: number`;
  return [
    `export function decode${struct.name}(${parameters}): ${struct.name} {`,
    ...lines.map((line) => `  ${line}`),
    `  return { ${[...properties, 'unknownTags'].join(', ')} };`,
    '}',
    '',
  ].join('\n');
}

function decodeField(message: Message, struct: Struct, field: Field): string[] {
  const label = labelOf(struct, field);
  const when = condition(field.versions, struct.versions);
  const { type } = field;
  const local = localName(field);
  if (type.kind !== 'array') {
    const nullable = condition(field.nullable, field.versions);
    const read = readValue(type, label, compact(field), nullable);
    return [`const ${local}: ${typeOf(field)} = ${choose(when, read, defaultOf(field))};`];
  }
  const length = readArrayLength(
    field,
    label,
    elementBytesMin(message, type.element, field.versions),
  );
  const element = readValue(type.element, label, compact(field), false);
  const absent = field.default === 'null' ? '-1' : '0';
  const countName = `${local}Count`;
  const orNull = isNullable(field);
  return [
    `const ${countName} = ${choose(when, length, absent)};`,
    `const ${local}: ${typeOf(field)} = ${orNull ? `${countName} < 0 ? null : []` : '[]'};`,
    `for (let left = ${countName}; left > 0; left--) {`,
    `  ${local}${orNull ? '?' : ''}.push(${element});`,
    '}',
  ];
}

function declareTagged(field: Field): string {
  return `let ${localName(field)}: ${typeOf(field)} = ${defaultOf(field)};`;
}

function decodeTags(message: Message, struct: Struct, known: Field[], always: boolean): string[] {
  const lines: string[] = [];
  const inOrder = [...known].sort((a, b) => (a.tag ?? 0) - (b.tag ?? 0));
  for (const field of inOrder) {
    const when = condition(field.versions, struct.versions);
    const test =
      typeof when === 'string' ? `tag === ${field.tag} && ${when}` : `tag === ${field.tag}`;
    const opening = lines.length === 0 ? `if (${test}) {` : `} else if (${test}) {`;
    lines.push(opening, ...decodeTagged(message, struct, field).map((line) => `  ${line}`));
  }
  lines.push('} else {', '  unknownTags = reader.keepTag(unknownTags, tag, tagEnd);', '}');
  const name = `'${struct.name}'`;
  const start = choose(always ? true : 'flexible', `reader.readTagCount(${name})`, '0');
  return [
    'let unknownTags: RawTag[] | undefined;',
    'let tag = -1;',
    `for (let count = ${start}; count > 0; count--) {`,
    `  tag = reader.readTag(tag, ${name});`,
    `  const tagEnd = reader.readTagEnd(${name});`,
    ...lines.map((line) => `  ${line}`),
    `  reader.expectTagEnd(tagEnd, ${name});`,
    '}',
  ];
}

function decodeTagged(message: Message, struct: Struct, field: Field): string[] {
  const label = labelOf(struct, field);
  const { type } = field;
  const local = localName(field);
  if (type.kind !== 'array') {
    const nullable = condition(field.nullable, field.versions);
    return [`${local} = ${readValue(type, label, true, nullable)};`];
  }
  const length = readArrayLength(
    field,
    label,
    elementBytesMin(message, type.element, field.versions),
  );
  const element = readValue(type.element, label, true, false);
  const items = isNullable(field) ? 'length < 0 ? null : items' : 'items';
  return [
    `const length = ${length};`,
    `const items: ${baseType(type)} = [];`,
    `for (let index = 0; index < length; index++) items.push(${element});`,
    `${local} = ${items};`,
  ];
}
