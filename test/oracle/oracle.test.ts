/**
 * Our codecs against Kafka's own classes, for every message and version, both ways. The seed is
 * printed with every failure; ORACLE_SEED repeats it.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  apis,
  ErrorCode,
  errorName,
  isRetriable,
  loadMessageByName,
  type MessageCodec,
  type MessageName,
  messageNames,
  Reader,
  requestHeaderVersion,
  responseHeaderVersion,
  Writer,
} from '../../protocol/index.ts';
import { openOracle, oracleMissing } from './java.ts';
import {
  factsOf,
  loadModules,
  moduleOf,
  randomMessage,
  randomScalar,
  seededRandom,
} from './random-messages.ts';

const seed = Number(process.env.ORACLE_SEED ?? Math.floor(Date.now() % 1_000_000));
const skip = oracleMissing();
const randomPerVersion = 12;

const codecs = new Map<string, MessageCodec>();

before(async () => {
  await loadModules();
  for (const name of messageNames()) codecs.set(name, await loadMessageByName(name));
});

function codecOf(name: string): MessageCodec {
  const codec = codecs.get(name);
  if (codec === undefined) throw new Error(`Kafka has a message ${name} and we do not`);
  return codec;
}

function encode(codec: MessageCodec, message: object, version: number): Buffer {
  const writer = new Writer(64);
  codec.encode(writer, message, version);
  return writer.toBuffer();
}

/** writeUTF of Java: two bytes of length, then (for our names) ASCII. */
function readText(reader: Reader): string {
  return reader.readString();
}

test('what Kafka writes we decode and encode to the identical bytes', { skip }, async () => {
  const reader = new Reader(
    await (await openOracle()).run('Oracle', ['write', `${seed}`, `${randomPerVersion}`]),
  );
  const seen = new Set<string>();
  while (reader.remaining > 0) {
    const kind = readText(reader);
    const name = readText(reader);
    const version = reader.readInt16();
    const theirs = reader.readBytes();
    const where = `${name} v${version}, ${kind}, seed ${seed}`;
    const codec = codecOf(name);
    const body = new Reader(theirs);
    const message = codec.decode(body, version);
    assert.equal(body.remaining, 0, where);
    assert.equal(encode(codec, message, version).toString('hex'), theirs.toString('hex'), where);
    if (kind === 'default') assert.deepEqual(message, codec.create(), where);
    seen.add(`${name} ${version}`);
  }
  const expected = [...codecs.values()].flatMap((codec) =>
    Array.from(
      { length: codec.versionMax - codec.versionMin + 1 },
      (_, index) => `${codec.name} ${codec.versionMin + index}`,
    ),
  );
  assert.deepEqual([...seen].sort(), expected.sort(), 'every message and version, and no other');
});

test('what we write Kafka decodes and encodes to the identical bytes', { skip }, async () => {
  const random = seededRandom(seed);
  const cases: { where: string; bytes: Buffer }[] = [];
  const input = new Writer(1 << 20);
  for (const [name, codec] of codecs) {
    for (let version = codec.versionMin; version <= codec.versionMax; version++) {
      for (let count = 0; count < randomPerVersion; count++) {
        const bytes = encode(codec, randomMessage(random, codec, version), version);
        cases.push({ where: `${name} v${version}, seed ${seed}`, bytes });
        input.writeString(name);
        input.writeInt16(version);
        input.writeBytes(bytes);
      }
    }
  }
  const answers = new Reader(await (await openOracle()).run('Oracle', ['echo'], input.toBuffer()));
  for (const { where, bytes } of cases) {
    if (!answers.readBoolean()) assert.fail(`${where}: Kafka refused it: ${readText(answers)}`);
    assert.equal(answers.readBytes().toString('hex'), bytes.toString('hex'), where);
  }
  assert.equal(answers.remaining, 0);
});

/** Some value that is not the default of any field of the type. */
function otherThanDefault(message: string, type: string): unknown {
  if (type.startsWith('[]')) return [otherThanDefault(message, type.slice(2))];
  if (type === 'string' || type === 'bytes' || type === 'records') {
    return type === 'string' ? 'set' : Buffer.from('set');
  }
  if (type === 'bool') return true;
  if (type === 'int64') return 77n;
  if (type === 'uuid') return randomScalar(seededRandom(1), 'uuid');
  if (!/^[A-Z]/.test(type)) return 77;
  return moduleOf(message)[`create${type}`]?.(structValues(message, type));
}

/** All scalar fields of a struct set to something. */
function structValues(message: string, struct: string): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const fact of factsOf(message)) {
    const name = fact.path.split('.').at(-1) ?? '';
    if (fact.struct === struct && /^[a-z]/.test(fact.type)) {
      values[name] = otherThanDefault(message, fact.type);
    }
  }
  return values;
}

test('fields that a version lacks are dropped or refused just as Kafka does', {
  skip,
}, async () => {
  const lines = (await (await openOracle()).run('Oracle', ['refusals']))
    .toString('utf8')
    .trim()
    .split('\n');
  let compared = 0;
  for (const line of lines) {
    const [message = '', struct = '', versionText = '', field = '', outcome = ''] = line.split(' ');
    const version = Number(versionText);
    const codec = codecOf(message as MessageName);
    if (version < codec.versionMin || version > codec.versionMax) continue;
    const fact = factsOf(message).find(
      (candidate) =>
        candidate.struct === struct &&
        candidate.path.split('.').at(-1)?.replace('[]', '').toLowerCase() === field,
    );
    assert.ok(fact, `${line}: no such field`);
    const name = fact.path.split('.').at(-1)?.replace('[]', '') ?? '';
    const module = moduleOf(message) as unknown as Record<string, (...args: unknown[]) => object>;
    const instance = module[`create${struct}`]?.({ [name]: otherThanDefault(message, fact.type) });
    const write = (): unknown => module[`encode${struct}`]?.(new Writer(), instance, version);
    if (outcome === 'dropped') assert.doesNotThrow(write, line);
    else assert.throws(write, { name: 'ProtocolError', code: 'UNSUPPORTED_VERSION' }, line);
    compared++;
  }
  assert.ok(compared > 700, `only ${compared} compared`);
});

test('error numbers, API keys and header versions are those of Kafka', { skip }, async () => {
  const output = (await (await openOracle()).run('Oracle', ['tables'])).toString('utf8');
  const ours = [
    ...Object.values(ErrorCode)
      .sort((a, b) => a - b)
      .map((code) => `error ${code} ${errorName(code)} ${isRetriable(code)}`),
    ...apis.map((api) => {
      const headers: string[] = [];
      for (let version = api.versionMin; version <= api.versionLatest; version++) {
        const request = requestHeaderVersion(api.key, version);
        headers.push(`${request}/${responseHeaderVersion(api.key, version)}`);
      }
      const range = [api.versionMin, api.versionMax, api.versionLatest];
      return ['api', api.key, api.name, ...range, ...headers].join(' ');
    }),
  ];
  assert.deepEqual(ours, output.trim().split('\n'));
});
