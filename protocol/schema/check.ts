/**
 * Turns one message definition into the form that the generator wants and refuses what breaks the
 * rules of the schema language. Only rules on which generated code relies are checked; whatever a
 * later Kafka adds and we do not understand stops the generator, loudly.
 */
import type {
  Field,
  FieldType,
  Message,
  MessageKind,
  PrimitiveName,
  RawField,
  RawMessage,
  Struct,
} from './types.ts';
import { covers, intersect, isEmpty, parseVersions, type Versions } from './versions.ts';

const primitives: ReadonlySet<string> = new Set<PrimitiveName>([
  'bool',
  'int8',
  'int16',
  'uint16',
  'int32',
  'uint32',
  'int64',
  'float64',
  'string',
  'uuid',
  'bytes',
  'records',
]);

const messageKeys = new Set([
  ...['name', 'type', 'apiKey', 'listeners', 'validVersions', 'flexibleVersions', 'fields'],
  ...['latestVersionUnstable', 'commonStructs', 'about'],
]);

const fieldKeys = new Set([
  ...['name', 'type', 'versions', 'nullableVersions', 'flexibleVersions', 'tag', 'fields'],
  ...['taggedVersions', 'default', 'ignorable', 'mapKey', 'entityType', 'zeroCopy', 'about'],
]);

const kinds: ReadonlySet<string> = new Set<MessageKind>(['request', 'response', 'header', 'data']);

export function parseType(text: string): FieldType {
  if (text.startsWith('[]')) return { kind: 'array', element: parseType(text.slice(2)) };
  if (primitives.has(text)) return { kind: 'primitive', name: text as PrimitiveName };
  if (/^[A-Z]\w*$/.test(text)) return { kind: 'struct', name: text };
  throw new Error(`unknown type "${text}"`);
}

/** The struct that a type names, directly or as its elements. */
export function structOf(type: FieldType): string | undefined {
  if (type.kind === 'array') return structOf(type.element);
  return type.kind === 'struct' ? type.name : undefined;
}

export function checkMessage(raw: RawMessage): Message {
  refuseUnknownKeys(raw, messageKeys, raw.name);
  if (!kinds.has(raw.type)) throw new Error(`${raw.name}: unknown message type "${raw.type}"`);
  const versions = parseVersions(raw.validVersions);
  const flexible = parseVersions(raw.flexibleVersions ?? 'none');
  const structs = new StructCollector(raw, flexible);
  if (!isEmpty(versions)) structs.add(raw.name, versions, raw.fields ?? []);
  return {
    name: raw.name,
    kind: raw.type as MessageKind,
    apiKey: raw.apiKey,
    listeners: raw.listeners ?? [],
    versions,
    flexible,
    latestVersionUnstable: raw.latestVersionUnstable ?? false,
    structs: structs.collected,
  };
}

class StructCollector {
  readonly collected: Struct[] = [];
  private readonly messageName: string;
  private readonly flexible: Versions;
  private readonly common: Map<string, { versions: Versions; fields: RawField[] }>;
  private readonly valid: Versions;

  constructor(raw: RawMessage, flexible: Versions) {
    this.messageName = raw.name;
    this.flexible = flexible;
    this.valid = parseVersions(raw.validVersions);
    this.common = new Map();
    for (const { name, versions, fields } of raw.commonStructs ?? []) {
      this.common.set(name, { versions: parseVersions(versions), fields });
    }
  }

  /** Adds a struct and, after it, those that its fields define or use first. */
  add(name: string, versions: Versions, rawFields: RawField[]): void {
    if (this.collected.some((struct) => struct.name === name)) {
      throw new Error(`${this.messageName}: two structs named ${name}`);
    }
    const place = this.collected.length;
    const fields = rawFields
      .map((raw) => this.field(name, versions, raw))
      .filter((field) => !isEmpty(field.versions));
    this.collected.push({ name, versions, fields });
    for (const raw of rawFields) this.addStructsOf(raw, versions);
    checkTags(`${this.messageName}.${name}`, this.collected[place]?.fields ?? []);
  }

  private addStructsOf(raw: RawField, parentVersions: Versions): void {
    const structName = structOf(parseType(raw.type));
    if (structName === undefined) return;
    const versions = intersect(parseVersions(raw.versions), parentVersions);
    if (raw.fields !== undefined) {
      if (!isEmpty(versions)) this.add(structName, versions, raw.fields);
      return;
    }
    const common = this.common.get(structName);
    if (common === undefined) throw new Error(`${this.messageName}: no struct ${structName}`);
    if (this.collected.some((struct) => struct.name === structName)) return;
    this.add(structName, intersect(common.versions, this.valid), common.fields);
  }

  private field(structName: string, structVersions: Versions, raw: RawField): Field {
    const where = `${this.messageName}.${structName}.${raw.name}`;
    refuseUnknownKeys(raw, fieldKeys, where);
    const type = parseType(raw.type);
    const versions = intersect(parseVersions(raw.versions), structVersions);
    const nullable = intersect(parseVersions(raw.nullableVersions ?? 'none'), versions);
    const tagged = intersect(parseVersions(raw.taggedVersions ?? 'none'), versions);
    const flexible = parseVersions(raw.flexibleVersions ?? 'none');
    const isRecords = type.kind === 'primitive' && type.name === 'records';
    const given = raw.default === undefined ? undefined : String(raw.default);
    const field: Field = {
      name: raw.name,
      type,
      versions,
      nullable,
      tagged,
      flexible: raw.flexibleVersions === undefined ? this.flexible : flexible,
      tag: raw.tag,
      default: isRecords ? 'null' : given,
      ignorable: raw.ignorable ?? false,
      mapKey: raw.mapKey ?? false,
      entityType: raw.entityType,
    };
    checkField(where, field, this.flexible);
    return field;
  }
}

function checkField(where: string, field: Field, messageFlexible: Versions): void {
  const { type } = field;
  if (type.kind === 'array' && type.element.kind === 'array') {
    throw new Error(`${where}: arrays of arrays are not supported`);
  }
  if ((field.tag === undefined) !== isEmpty(field.tagged) && !isEmpty(field.versions)) {
    throw new Error(`${where}: tag and taggedVersions go together`);
  }
  if (!isEmpty(field.tagged)) {
    if (field.tagged.low !== field.versions.low || field.tagged.high !== field.versions.high) {
      throw new Error(`${where}: fields that become tagged are not supported`);
    }
    if (!covers(messageFlexible, field.tagged)) {
      throw new Error(`${where}: tagged in versions that are not flexible`);
    }
    if (type.kind === 'struct' && !isEmpty(field.nullable)) {
      throw new Error(`${where}: nullable tagged structs are not supported`);
    }
  }
  const canBeNull = type.kind !== 'primitive' || /^(string|bytes|records)$/.test(type.name);
  if (!canBeNull && !isEmpty(field.nullable)) throw new Error(`${where}: cannot be nullable`);
}

function checkTags(where: string, fields: readonly Field[]): void {
  const tags = fields.flatMap((field) => (field.tag === undefined ? [] : [field.tag]));
  if (new Set(tags).size !== tags.length) throw new Error(`${where}: two fields share a tag`);
}

function refuseUnknownKeys(value: object, known: ReadonlySet<string>, where: string): void {
  for (const key of Object.keys(value)) {
    if (!known.has(key)) throw new Error(`${where}: unknown attribute "${key}"`);
  }
}
