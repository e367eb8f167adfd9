/**
 * The small pieces of generated code: conditions on the version, types, defaults, and the calls
 * that read or write one value. A condition is folded where every possible version agrees.
 */
import type { Field, FieldType, Message, PrimitiveName, Struct } from '../schema/types.ts';
import { covers, includes, intersect, isEmpty, type Versions } from '../schema/versions.ts';

/** true, false, or an expression over `version`. */
export type Condition = boolean | string;

/** When `versions` applies, given that the version is known to be in `context`. */
export function condition(versions: Versions, context: Versions): Condition {
  const common = intersect(versions, context);
  if (isEmpty(common)) return false;
  if (covers(common, context)) return true;
  const low = common.low > context.low ? `version >= ${common.low}` : '';
  const high = common.high < context.high ? `version <= ${common.high}` : '';
  if (low === '' || high === '') return low + high;
  return common.low === common.high ? `version === ${common.low}` : `${low} && ${high}`;
}

export function negate(when: string): string {
  if (when.includes('&&')) return `!(${when})`;
  return when.replace('>=', '<').replace('<=', '>').replace('===', '!==');
}

export function choose(when: Condition, yes: string, no: string): string {
  if (when === true || yes === no) return yes;
  if (when === false) return no;
  return `${when} ? ${yes} : ${no}`;
}

/** Wraps what would bind too loosely inside another expression. */
export function nested(expression: string): string {
  return expression.includes(' ? ') ? `(${expression})` : expression;
}

/** Whether lengths are compact; `flexible` is a local of the generated function. */
export function compact(field: Field): Condition {
  const when = condition(field.flexible, field.versions);
  return typeof when === 'string' ? 'flexible' : when;
}

const reserved = new Set([
  ...['reader', 'writer', 'message', 'version', 'flexible', 'unknownTags', 'tag', 'tagEnd'],
  ...[
    'count',
    'left',
    'length',
    'items',
    'index',
    'fields',
    'known',
    'default',
    'package',
    'static',
    'private',
    'public',
  ],
  ...['protected', 'interface', 'enum', 'delete', 'new', 'in', 'function', 'class', 'switch'],
]);

export function camelCase(name: string): string {
  return name.charAt(0).toLowerCase() + name.slice(1);
}

/** The local variable that holds a field while its struct is decoded. */
export function localName(field: Field): string {
  const name = camelCase(field.name);
  return reserved.has(name) ? `${name}Value` : name;
}

export function kebabCase(name: string): string {
  return name
    .replace('KRaft', 'Kraft')
    .replace(/([a-z0-9])([A-Z])/g, '$1-$2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1-$2')
    .toLowerCase();
}

const primitiveTypes: Record<PrimitiveName, string> = {
  bool: 'boolean',
  int8: 'number',
  int16: 'number',
  uint16: 'number',
  int32: 'number',
  uint32: 'number',
  int64: 'bigint',
  float64: 'number',
  string: 'string',
  uuid: 'string',
  bytes: 'Buffer',
  records: 'Buffer',
};

export function baseType(type: FieldType): string {
  if (type.kind === 'array') return `${baseType(type.element)}[]`;
  return type.kind === 'struct' ? type.name : primitiveTypes[type.name];
}

export function isNullable(field: Field): boolean {
  const isRecords = field.type.kind === 'primitive' && field.type.name === 'records';
  return isRecords || !isEmpty(field.nullable);
}

export function typeOf(field: Field): string {
  return isNullable(field) ? `${baseType(field.type)} | null` : baseType(field.type);
}

export function defaultOf(field: Field): string {
  const { type } = field;
  if (field.default === 'null') return 'null';
  if (type.kind === 'array') return '[]';
  if (type.kind === 'struct') return `create${type.name}()`;
  const text = field.default ?? '';
  switch (type.name) {
    case 'bool':
      return text.toLowerCase() === 'true' ? 'true' : 'false';
    case 'string':
      return `'${text}'`;
    case 'uuid':
      return 'zeroUuid';
    case 'bytes':
      return 'emptyBytes';
    case 'int64':
      return `${BigInt(text === '' ? '0' : text)}n`;
    default:
      return `${Number(text === '' ? '0' : text)}`;
  }
}

/** An expression that is true when `value` is not the field's default. */
export function differsFromDefault(field: Field, value: string): string {
  const { type } = field;
  if (field.default === 'null') return `${value} !== null`;
  const isSized = type.kind === 'array' || (type.kind === 'primitive' && type.name === 'bytes');
  const ask = isNullable(field) ? `${value}?` : value;
  if (isSized) return `${ask}.length !== 0`;
  if (type.kind === 'struct') {
    const differs = `!isDefault${type.name}(${value})`;
    return isNullable(field) ? `(${value} === null || ${differs})` : differs;
  }
  if (type.name === 'bool') return defaultOf(field) === 'true' ? `!${value}` : value;
  return `${value} !== ${defaultOf(field)}`;
}

const readNames: Record<PrimitiveName, string> = {
  bool: 'Boolean',
  int8: 'Int8',
  int16: 'Int16',
  uint16: 'Uint16',
  int32: 'Int32',
  uint32: 'Uint32',
  int64: 'Int64',
  float64: 'Float64',
  string: 'String',
  uuid: 'Uuid',
  bytes: 'Bytes',
  records: 'Bytes',
};

function hasLength(name: PrimitiveName): boolean {
  return name === 'string' || name === 'bytes' || name === 'records';
}

/** `make` is given the infix of the method's name: '', 'Compact', 'Nullable', 'CompactNullable'. */
function byLayout(isCompact: Condition, nullable: Condition, make: (infix: string) => string) {
  const plain = choose(isCompact, make('Compact'), make(''));
  const orNull = choose(isCompact, make('CompactNullable'), make('Nullable'));
  return choose(nullable, nested(orNull), nested(plain));
}

export function readValue(
  type: FieldType,
  label: string,
  isCompact: Condition,
  nullable: Condition,
) {
  if (type.kind === 'array') throw new Error('arrays are read by statements');
  if (type.kind === 'struct') {
    const decode = `decode${type.name}(reader, version)`;
    const present = `reader.readPresence(${label}) ? ${decode} : null`;
    return choose(nullable, nested(present), decode);
  }
  const name = readNames[type.name];
  if (!hasLength(type.name)) return `reader.read${name}(${label})`;
  return byLayout(isCompact, nullable, (infix) => `reader.read${infix}${name}(${label})`);
}

export function readArrayLength(field: Field, label: string, elementBytes: number): string {
  const nullable = condition(field.nullable, field.versions);
  return byLayout(
    compact(field),
    nullable,
    (infix) => `reader.read${infix}ArrayLength(${elementBytes}, ${label})`,
  );
}

export function writePrimitive(
  type: FieldType & { kind: 'primitive' },
  value: string,
  label: string,
  isCompact: Condition,
  nullable: Condition,
): string {
  const name = readNames[type.name];
  if (!hasLength(type.name)) return `writer.write${name}(${value}, ${label})`;
  return byLayout(
    isCompact,
    nullable,
    (infix) => `writer.write${infix}${name}(${value}, ${label})`,
  );
}

export function writeArrayLength(field: Field, value: string, label: string): string {
  return byLayout(
    compact(field),
    condition(field.nullable, field.versions),
    (infix) => `writer.write${infix}ArrayLength(${value}, ${label})`,
  );
}

const fixedBytes: Partial<Record<PrimitiveName, number>> = {
  ...{ bool: 1, int8: 1, int16: 2, uint16: 2, int32: 4, uint32: 4, int64: 8, float64: 8, uuid: 16 },
};

/** The least that one value of a type takes on the wire, over all versions in which it occurs. */
export function elementBytesMin(message: Message, type: FieldType, versions: Versions): number {
  let least = Number.POSITIVE_INFINITY;
  for (let version = versions.low; version <= versions.high; version++) {
    const flexible = includes(message.flexible, version);
    least = Math.min(least, valueBytes(message, type, version, flexible, false));
  }
  if (!Number.isFinite(least) || least < 1) throw new Error(`${message.name}: empty element`);
  return least;
}

function valueBytes(
  message: Message,
  type: FieldType,
  version: number,
  flexible: boolean,
  nullable: boolean,
): number {
  if (type.kind === 'array') return flexible ? 1 : 4;
  if (type.kind === 'primitive') {
    return fixedBytes[type.name] ?? (flexible ? 1 : type.name === 'string' ? 2 : 4);
  }
  if (nullable) return 1;
  const struct = findStruct(message, type.name);
  let total = flexible ? 1 : 0;
  for (const field of struct.fields) {
    if (!includes(field.versions, version) || field.tag !== undefined) continue;
    const canBeNull = includes(field.nullable, version);
    const isFlexible = includes(field.flexible, version);
    total += valueBytes(message, field.type, version, isFlexible, canBeNull);
  }
  return total;
}

export function findStruct(message: Message, name: string): Struct {
  const struct = message.structs.find((candidate) => candidate.name === name);
  if (struct === undefined) throw new Error(`${message.name}: no struct ${name}`);
  return struct;
}
