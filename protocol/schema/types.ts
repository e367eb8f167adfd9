/**
 * Kafka's message definitions as types: first as the JSON files have them, then as the generator
 * wants them, with every name resolved and every range narrowed to the versions that can occur.
 */
import type { Versions } from './versions.ts';

export interface RawField {
  name: string;
  type: string;
  versions: string;
  nullableVersions?: string;
  flexibleVersions?: string;
  tag?: number;
  taggedVersions?: string;
  default?: string | number | boolean;
  ignorable?: boolean;
  mapKey?: boolean;
  entityType?: string;
  zeroCopy?: boolean;
  about?: string;
  fields?: RawField[];
}

export interface RawMessage {
  name: string;
  type: string;
  apiKey?: number;
  listeners?: string[];
  validVersions: string;
  flexibleVersions?: string;
  latestVersionUnstable?: boolean;
  fields?: RawField[];
  commonStructs?: { name: string; versions: string; fields: RawField[] }[];
}

export type PrimitiveName =
  | 'bool'
  | 'int8'
  | 'int16'
  | 'uint16'
  | 'int32'
  | 'uint32'
  | 'int64'
  | 'float64'
  | 'string'
  | 'uuid'
  | 'bytes'
  | 'records';

export type FieldType =
  | { readonly kind: 'primitive'; readonly name: PrimitiveName }
  | { readonly kind: 'struct'; readonly name: string }
  | { readonly kind: 'array'; readonly element: FieldType };

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  /** Within the versions of the struct; so are the next three. */
  readonly versions: Versions;
  readonly nullable: Versions;
  readonly tagged: Versions;
  /** Where lengths are compact. Differs from the message only for one header field. */
  readonly flexible: Versions;
  readonly tag: number | undefined;
  readonly default: string | undefined;
  readonly ignorable: boolean;
  readonly mapKey: boolean;
  readonly entityType: string | undefined;
}

export interface Struct {
  readonly name: string;
  /** The versions in which it can occur. */
  readonly versions: Versions;
  readonly fields: readonly Field[];
}

export type MessageKind = 'request' | 'response' | 'header' | 'data';

export interface Message {
  readonly name: string;
  readonly kind: MessageKind;
  readonly apiKey: number | undefined;
  readonly listeners: readonly string[];
  readonly versions: Versions;
  readonly flexible: Versions;
  readonly latestVersionUnstable: boolean;
  /** The message itself first, then its structs in the order of their appearance. */
  readonly structs: readonly Struct[];
}
