/** Decompression: every framing, the cap, and input that is broken. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { decompress } from '../../../protocol/compression.ts';
import {
  type Compression,
  compression,
  openRecords,
  ProtocolError,
  readBatchHeader,
} from '../../../protocol/index.ts';
import { rootDirectory } from '../../helpers/repository.ts';

const require = createRequire(import.meta.url);
const lz4 = require('lz4js') as { compress(bytes: Uint8Array): Uint8Array };
const snappy = require('snappyjs') as { compress(bytes: Uint8Array): Uint8Array };

const formats: readonly Compression[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const bytesMax = 1 << 22;

function golden(format: Compression): Buffer {
  const file = join(rootDirectory, 'test', 'golden', 'batches', `${format}.hex`);
  return Buffer.from(readFileSync(file, 'utf8').replace(/\s/g, ''), 'hex');
}

function packedRecords(format: Compression): Buffer {
  return golden(format).subarray(61);
}

function isCode(...codes: string[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProtocolError, String(error));
    return codes.includes(error.code);
  };
}

test('batches that Kafka wrote open in every compression', async () => {
  for (const format of formats) {
    const batch = golden(format);
    assert.equal(compression(readBatchHeader(batch, 0)), format);
    const records = [...(await openRecords(batch))];
    assert.equal(records.length, 50, format);
    records.forEach((record, index) => {
      assert.equal(record.offset, 500n + BigInt(index));
      assert.equal(record.timestamp, 1_700_000_000_000n + BigInt(index));
      assert.equal(record.key?.toString(), `key ${index}`);
      assert.equal(record.value?.toString(), `value ${index} `.repeat(20));
    });
  }
});

/** Bytes in which compressors find near, far, overlapping and no matches. */
function sample(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = 1;
  for (let index = 0; index < length; index++) {
    state = (state * 48271) % 2147483647;
    const kind = (index >> 9) % 4;
    bytes[index] = kind === 0 ? state & 0xff : kind === 1 ? 7 : kind === 2 ? index & 3 : index & 63;
  }
  return bytes;
}

test('other implementations of the formats are understood', async () => {
  for (const length of [0, 1, 12, 13, 64, 65, 4096, 100_000, 300_000]) {
    const plain = sample(length);
    if (length > 0) {
      const framed = Buffer.from(lz4.compress(plain));
      assert.ok((await decompress('lz4', framed, bytesMax)).equals(plain), `lz4 ${length}`);
    }
    const bare = Buffer.from(snappy.compress(plain));
    assert.ok((await decompress('snappy', bare, bytesMax)).equals(plain), `snappy ${length}`);
    assert.ok((await decompress('gzip', gzipSync(plain), bytesMax)).equals(plain));
  }
});

test('snappy in the framing of the Java library, in several chunks', async () => {
  const plain = sample(70_000);
  const header = Buffer.from('82534e41505059000000000100000001', 'hex');
  const chunks = [plain.subarray(0, 32_768), plain.subarray(32_768)].flatMap((part) => {
    const block = Buffer.from(snappy.compress(part));
    const length = Buffer.alloc(4);
    length.writeInt32BE(block.length);
    return [length, block];
  });
  const framed = Buffer.concat([header, ...chunks]);
  assert.ok((await decompress('snappy', framed, bytesMax)).equals(plain));
});

test('lz4: stored and linked blocks, checksums and content size', async () => {
  // FLG: version 1, linked blocks, block checksums, content size, content checksum.
  const head = '04224d185c400b0000000000000000';
  const stored = `05000080${Buffer.from('hello').toString('hex')}00000000`;
  // Token 0x02: no literals, six bytes from five back, in the block before; then no literals.
  const linked = `0400000002050000${'00000000'}`;
  const frame = Buffer.from(`${head}${stored}${linked}00000000deadbeef`, 'hex');
  assert.equal((await decompress('lz4', frame, 100)).toString(), 'hellohelloh');
});

test('what would grow above the cap is refused, and just below it is not', async () => {
  for (const format of formats.filter((name) => name !== 'none')) {
    const packed = packedRecords(format);
    const { length } = await decompress(format, packed, bytesMax);
    assert.equal((await decompress(format, packed, length)).length, length, format);
    await assert.rejects(decompress(format, packed, length - 1), isCode('TOO_LARGE'), format);
    await assert.rejects(
      openRecords(golden(format), { decompressedBytesMax: length - 1 }),
      isCode('TOO_LARGE'),
    );
  }
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  await assert.rejects(decompress('gzip', bomb, bytesMax), isCode('TOO_LARGE'));
});

test('broken input of every format ends in our error or in bytes, and the next opens', async () => {
  for (const format of formats.filter((name) => name !== 'none')) {
    const packed = packedRecords(format);
    const whole = await decompress(format, packed, bytesMax);
    for (let end = 0; end < packed.length; end += Math.ceil(packed.length / 60)) {
      await assert.rejects(
        decompress(format, packed.subarray(0, end), bytesMax),
        isCode('CORRUPT_RECORDS'),
        `${format} cut at ${end}`,
      );
    }
    for (let at = 0; at < packed.length; at += Math.ceil(packed.length / 200)) {
      const broken = Buffer.from(packed);
      broken[at] = (broken[at] ?? 0) ^ 0xff;
      await decompress(format, broken, bytesMax).then(
        (plain) => assert.ok(plain.length <= bytesMax),
        (error: unknown) => assert.ok(isCode('CORRUPT_RECORDS', 'TOO_LARGE')(error)),
      );
    }
    assert.ok((await decompress(format, packed, bytesMax)).equals(whole), format);
  }
});

test('a snappy length that cannot be true allocates nothing', async () => {
  const liar = Buffer.from([0xff, 0xff, 0xff, 0x7f, 0x00, 0x41]);
  await assert.rejects(decompress('snappy', liar, 1 << 30), isCode('CORRUPT_RECORDS'));
});
