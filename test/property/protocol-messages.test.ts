/**
 * All messages in all versions: random instances survive, and broken bytes end in a ProtocolError
 * that names message, version and offset. PROTOCOL_SEED repeats a run.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  loadMessageByName,
  type MessageCodec,
  messageNames,
  ProtocolError,
  Reader,
  Writer,
} from '../../protocol/index.ts';
import {
  loadModules,
  type Random,
  randomMessage,
  seededRandom,
} from '../oracle/random-messages.ts';

const seed = Number(process.env.PROTOCOL_SEED ?? Date.now() % 1_000_000);
const codecs: MessageCodec[] = [];

before(async () => {
  await loadModules();
  for (const name of messageNames()) codecs.push(await loadMessageByName(name));
});

function forEachVersion(
  salt: number,
  visit: (codec: MessageCodec, version: number, random: Random, where: string) => void,
): void {
  const random = seededRandom(seed + salt);
  for (const codec of codecs) {
    for (let version = codec.versionMin; version <= codec.versionMax; version++) {
      visit(codec, version, random, `${codec.name} v${version}, seed ${seed}`);
    }
  }
}

function encode(codec: MessageCodec, message: object, version: number, initialBytes = 32): Buffer {
  const writer = new Writer(initialBytes);
  codec.encode(writer, message, version);
  return writer.toBuffer();
}

test('random messages survive encode and decode, unknown tags included', () => {
  forEachVersion(1, (codec, version, random, where) => {
    for (let count = 0; count < 10; count++) {
      const message = randomMessage(random, codec, version);
      const bytes = encode(codec, message, version);
      const reader = new Reader(bytes);
      assert.deepEqual(codec.decode(reader, version), message, where);
      assert.equal(reader.remaining, 0, where);
    }
  });
});

test('the bytes do not depend on how the writer grows', () => {
  forEachVersion(2, (codec, version, random, where) => {
    const message = randomMessage(random, codec, version);
    const bytes = encode(codec, message, version, 1 << 16);
    for (const initialBytes of [0, 1, 7, 64]) {
      assert.ok(encode(codec, message, version, initialBytes).equals(bytes), where);
    }
  });
});

/** Decoding either succeeds or throws our error; returns the error. */
function decodeBroken(codec: MessageCodec, bytes: Buffer, version: number, where: string): unknown {
  const reader = new Reader(bytes);
  try {
    codec.decode(reader, version);
  } catch (error) {
    assert.ok(error instanceof ProtocolError, `${where}: ${String(error)}`);
    assert.equal(error.messageName, codec.name, where);
    assert.equal(error.version, version, where);
    assert.ok(error.offset !== undefined && error.offset <= bytes.length, where);
    assert.ok(error.message.includes(`${codec.name} v${version}`), where);
    return error;
  }
  assert.ok(reader.offset <= bytes.length, where);
  return undefined;
}

test('a message that is cut anywhere is refused, with the field', () => {
  forEachVersion(3, (codec, version, random, where) => {
    const bytes = encode(codec, randomMessage(random, codec, version), version);
    const step = Math.max(1, Math.floor(bytes.length / 40));
    for (let end = 0; end < bytes.length; end += step) {
      // A copy, so that a read beyond the end cannot find the rest.
      const error = decodeBroken(codec, Buffer.from(bytes.subarray(0, end)), version, where);
      assert.ok(
        error instanceof ProtocolError && error.field !== undefined,
        `${where}, cut at ${end}`,
      );
    }
  });
});

test('changed bytes and noise end in a value or in our error', () => {
  forEachVersion(4, (codec, version, random, where) => {
    const bytes = encode(codec, randomMessage(random, codec, version), version);
    const extremes = [0, 1, 0x7f, 0x80, 0xff];
    for (let count = 0; count < 30; count++) {
      const broken = Buffer.from(bytes);
      for (let change = 0; change < 3 && broken.length > 0; change++) {
        const at = Math.floor(random() * broken.length);
        broken[at] = extremes[Math.floor(random() * extremes.length)] ?? 0;
      }
      decodeBroken(codec, broken, version, where);
      const noise = Buffer.from(Array.from({ length: 60 }, () => Math.floor(random() * 256)));
      decodeBroken(codec, noise, version, where);
    }
  });
});

test('a hostile count makes us hold no more than the message itself would', () => {
  const huge = Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]), Buffer.alloc(200)]);
  forEachVersion(5, (codec, version, _random, where) => {
    const heldBefore = process.memoryUsage().arrayBuffers;
    decodeBroken(codec, Buffer.alloc(300, 0x7f), version, where);
    decodeBroken(codec, huge, version, where);
    assert.ok(process.memoryUsage().arrayBuffers - heldBefore < 16 * 1024 * 1024, where);
  });
});

test('versions that do not exist are refused both ways', () => {
  for (const codec of codecs) {
    for (const version of [codec.versionMin - 1, codec.versionMax + 1, Number.NaN]) {
      const refused = { name: 'ProtocolError', code: 'UNSUPPORTED_VERSION' };
      assert.throws(() => codec.decode(new Reader(Buffer.alloc(100)), version), refused);
      assert.throws(() => codec.encode(new Writer(), codec.create(), version), refused);
    }
  }
});
