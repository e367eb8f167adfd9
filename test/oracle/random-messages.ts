/**
 * Random instances of any message and version, for tests. Built from the generated field facts and
 * the generated `create` functions; never uses the codecs that it is meant to test.
 */

import { kebabCase } from '../../protocol/generate/expressions.ts';
import { type FieldFact, fieldFacts } from '../../protocol/generated/field-facts.ts';
import { messageNames, type RawTag, uuidFromBytes } from '../../protocol/index.ts';
import { includes, parseVersions } from '../../protocol/schema/versions.ts';

/** A number in [0, 1), from a seed; so that a failure can be repeated. */
export type Random = () => number;

/** mulberry32 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export type Values = Record<string, unknown>;
type Create = (fields: Values) => object;
type Module = Record<string, Create>;

const modules = new Map<string, Module>();

export async function loadModules(): Promise<void> {
  for (const name of messageNames()) {
    const file = `../../protocol/generated/${kebabCase(name)}.ts`;
    modules.set(name, (await import(file)) as Module);
  }
}

export function moduleOf(message: string): Module {
  const module = modules.get(message);
  if (module === undefined) throw new Error(`${message} is not loaded`);
  return module;
}

const factsByMessage = new Map<string, FieldFact[]>();
for (const fact of fieldFacts) {
  const facts = factsByMessage.get(fact.message) ?? [];
  facts.push(fact);
  factsByMessage.set(fact.message, facts);
}

export function factsOf(message: string): readonly FieldFact[] {
  return factsByMessage.get(message) ?? [];
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

function randomInt(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

export function randomBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => randomInt(random, 0, 255)));
}

const texts = ['', 'a', 'topic-1', 'héllo', '世界', '😀 smile', 'x'.repeat(200), '\u0000'];

function randomInt64(random: Random): bigint {
  const small = [0n, 1n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
  return random() < 0.5 ? pick(random, small) : randomBytes(random, 8).readBigInt64BE(0);
}

export function randomScalar(random: Random, type: string): unknown {
  switch (type) {
    case 'bool':
      return random() < 0.5;
    case 'int8':
      return pick(random, [0, 1, -1, 127, -128, randomInt(random, -128, 127)]);
    case 'int16':
      return pick(random, [0, 1, -1, 32767, -32768, randomInt(random, -32768, 32767)]);
    case 'uint16':
      return pick(random, [0, 1, 65535, 32768, randomInt(random, 0, 65535)]);
    case 'int32':
      return pick(random, [0, 1, -1, 2147483647, -2147483648, randomInt(random, -9999, 99999)]);
    case 'uint32':
      return pick(random, [0, 1, 4294967295, 2147483648, randomInt(random, 0, 99999)]);
    case 'int64':
      return randomInt64(random);
    case 'float64':
      return pick(random, [0, 1.5, -2.25, Number.MAX_VALUE, random()]);
    case 'string':
      return pick(random, texts);
    case 'uuid':
      return uuidFromBytes(randomBytes(random, 16));
    case 'bytes':
    case 'records':
      return randomBytes(random, random() < 0.1 ? 2000 : randomInt(random, 0, 30));
    default:
      throw new Error(`no scalar type ${type}`);
  }
}

function isStruct(type: string): boolean {
  return /^[A-Z]/.test(type);
}

export function randomTags(random: Random, above: number): RawTag[] {
  let tag = above;
  return Array.from({ length: randomInt(random, 1, 3) }, () => {
    tag += randomInt(random, 1, 300);
    return { tag, data: randomBytes(random, randomInt(random, 0, 200)) };
  });
}

/** One instance that the version can carry: only its fields are set, null only where allowed. */
export function randomMessage(
  random: Random,
  message: { name: string; flexibleFrom: number },
  version: number,
): object {
  return randomStruct(random, message, message.name, '', version);
}

function randomStruct(
  random: Random,
  message: { name: string; flexibleFrom: number },
  struct: string,
  prefix: string,
  version: number,
): object {
  const values: Values = {};
  let highestTag = -1;
  for (const fact of factsOf(message.name)) {
    const name = fact.path.slice(prefix.length);
    if (!fact.path.startsWith(prefix) || name.includes('.')) continue;
    if (fact.tag !== undefined) highestTag = Math.max(highestTag, fact.tag);
    if (!includes(parseVersions(fact.versions), version)) continue;
    if (fact.tag !== undefined && random() < 0.4) continue;
    values[name.replace('[]', '')] = randomValue(random, message, fact, version);
  }
  if (version >= message.flexibleFrom && random() < 0.3) {
    values.unknownTags = randomTags(random, highestTag);
  }
  const create = moduleOf(message.name)[`create${struct}`];
  if (create === undefined) throw new Error(`${message.name} has no struct ${struct}`);
  return create(values);
}

function randomValue(
  random: Random,
  message: { name: string; flexibleFrom: number },
  fact: FieldFact,
  version: number,
): unknown {
  const canBeNull = fact.nullable !== undefined && includes(parseVersions(fact.nullable), version);
  if (canBeNull && random() < 0.25) return null;
  const isArray = fact.type.startsWith('[]');
  const type = isArray ? fact.type.slice(2) : fact.type;
  const one = (): unknown =>
    isStruct(type)
      ? randomStruct(random, message, type, `${fact.path}.`, version)
      : randomScalar(random, type);
  return isArray ? Array.from({ length: randomInt(random, 0, 3) }, one) : one();
}
