// Reads the fields of a parsed JSON object by name and type, strictly: a missing, mistyped or
// unknown field is an error that says where. The same for an object that is about to be written,
// whose 64-bit numbers are numbers yet. Knows nothing of records. Invariant: after `end()` every
// field of the object was read, so nothing is lost by writing the result back.
import { isUuid } from '../../protocol/index.ts';
import { StateError } from './state.ts';

const integerPattern = /^(?:0|-?[1-9]\d*)$/;

export class Fields {
  readonly #where: string;
  readonly #object: Readonly<Record<string, unknown>>;
  readonly #read = new Set<string>();

  constructor(where: string, value: unknown) {
    this.#where = where;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new StateError('CORRUPT', `${where}: not an object`);
    }
    this.#object = value as Readonly<Record<string, unknown>>;
  }

  fail(name: string, reason: string): StateError {
    return new StateError('CORRUPT', `${this.#where}: field "${name}" ${reason}`);
  }

  has(name: string): boolean {
    return this.#object[name] !== undefined;
  }

  value(name: string): unknown {
    this.#read.add(name);
    const value = this.#object[name];
    if (value === undefined) throw this.fail(name, 'is missing');
    return value;
  }

  string(name: string): string {
    const value = this.value(name);
    if (typeof value !== 'string') throw this.fail(name, 'is not a string');
    return value;
  }

  uuid(name: string): string {
    const value = this.string(name);
    if (!isUuid(value)) throw this.fail(name, 'is not a Kafka uuid');
    return value;
  }

  integer(name: string): number {
    const value = this.value(name);
    if (!Number.isSafeInteger(value)) throw this.fail(name, 'is not an integer');
    return value as number;
  }

  /** 64-bit numbers are decimal strings in JSON. */
  bigint(name: string): bigint {
    return this.#int64(name, this.value(name));
  }

  #int64(name: string, value: unknown): bigint {
    const number = typeof value === 'bigint' ? value : this.#decimal(name, value);
    if (BigInt.asIntN(64, number) !== number) throw this.fail(name, 'exceeds 64 bits');
    return number;
  }

  #decimal(name: string, value: unknown): bigint {
    if (typeof value !== 'string') throw this.fail(name, 'is not a string');
    if (!integerPattern.test(value)) throw this.fail(name, 'is not a decimal number');
    return BigInt(value);
  }

  boolean(name: string): boolean {
    const value = this.value(name);
    if (typeof value !== 'boolean') throw this.fail(name, 'is not true or false');
    return value;
  }

  oneOf<Value extends string>(name: string, allowed: readonly Value[]): Value {
    const value = this.string(name);
    const found = allowed.find((candidate) => candidate === value);
    if (found === undefined) throw this.fail(name, `has the unknown value "${value}"`);
    return found;
  }

  nullable<Value>(name: string, read: (name: string) => Value): Value | null {
    return this.value(name) === null ? null : read(name);
  }

  object<Value>(name: string, read: (fields: Fields) => Value): Value {
    const fields = new Fields(`${this.#where}: ${name}`, this.value(name));
    const value = read(fields);
    fields.end();
    return value;
  }

  list<Value>(name: string, read: (fields: Fields) => Value): Value[] {
    const value = this.value(name);
    if (!Array.isArray(value)) throw this.fail(name, 'is not a list');
    return value.map((element, index) => {
      const fields = new Fields(`${this.#where}: ${name}[${index}]`, element);
      const result = read(fields);
      fields.end();
      return result;
    });
  }

  strings(name: string): string[] {
    const value = this.value(name);
    if (!Array.isArray(value)) throw this.fail(name, 'is not a list');
    return value.map((element: unknown) => {
      if (typeof element !== 'string') throw this.fail(name, 'has an element that is no string');
      return element;
    });
  }

  integers(name: string): number[] {
    const value = this.value(name);
    if (!Array.isArray(value)) throw this.fail(name, 'is not a list');
    return value.map((element: unknown) => {
      if (!Number.isSafeInteger(element))
        throw this.fail(name, 'has an element that is no integer');
      return element as number;
    });
  }

  bigints(name: string): bigint[] {
    const value = this.value(name);
    if (!Array.isArray(value)) throw this.fail(name, 'is not a list');
    return value.map((element: unknown) => this.#int64(name, element));
  }

  map<Value>(name: string, read: (fields: Fields, key: string) => Value): Record<string, Value> {
    return this.object(name, (fields) => {
      const keys = Object.keys(fields.#object);
      return Object.fromEntries(keys.map((key) => [key, read(fields, key)]));
    });
  }

  end(): void {
    const unknown = Object.keys(this.#object).find(
      (name) => !this.#read.has(name) && this.has(name),
    );
    if (unknown !== undefined) throw this.fail(unknown, 'is not known to this version');
  }
}
