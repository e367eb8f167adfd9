/**
 * Record batches: what is built is read, patched in place, walked when cut, refused when broken.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type BatchRecord,
  buildBatch,
  forEachBatch,
  lastOffset,
  nextOffset,
  openRecords,
  ProtocolError,
  patchBatch,
  readBatchHeader,
  verifyBatchCrc,
} from '../../protocol/index.ts';

const bytes = fc.option(fc.uint8Array({ maxLength: 50 }).map((array) => Buffer.from(array)));
// deepEqual looks at prototypes, and the arbitraries make some objects without one.
const plain = { noNullPrototype: true };
const header = fc.record({ key: fc.string({ unit: 'grapheme' }), value: bytes }, plain);
const timestamp = fc.bigInt({ min: -1n, max: 2n ** 45n });
const headers = fc.array(header, { maxLength: 3 });
const record: fc.Arbitrary<BatchRecord> = fc.record(
  { key: bytes, value: bytes, timestamp, headers },
  plain,
);
const records = fc.array(record, { minLength: 1, maxLength: 20 });
const offset = fc.bigInt({ min: 0n, max: 2n ** 60n });

test('records that were built are opened again', async () => {
  await fc.assert(
    fc.asyncProperty(records, offset, async (given, baseOffset) => {
      const batch = buildBatch({ baseOffset, records: given });
      const header = readBatchHeader(batch, 0);
      assert.equal(lastOffset(header), baseOffset + BigInt(given.length - 1));
      assert.equal(nextOffset(header), baseOffset + BigInt(given.length));
      assert.ok(verifyBatchCrc(batch, 0, header.sizeInBytes));
      const opened = [...(await openRecords(batch))];
      const expected = given.map((one, index) => ({ ...one, offset: baseOffset + BigInt(index) }));
      assert.deepEqual(opened, expected);
    }),
  );
});

test('a shift changes base offset and epoch, nothing else, and no checksum', () => {
  const shift = fc.bigInt({ min: -(2n ** 50n), max: 2n ** 50n });
  fc.assert(
    fc.property(
      records,
      offset,
      shift,
      fc.nat(1000),
      (given, baseOffset, offsetShift, epochShift) => {
        const batch = buildBatch({ baseOffset, records: given, partitionLeaderEpoch: 3 });
        const before = readBatchHeader(batch, 0);
        patchBatch(batch, 0, { offsetShift, epochShift });
        const after = readBatchHeader(batch, 0);
        assert.ok(verifyBatchCrc(batch, 0, after.sizeInBytes));
        const expected = {
          ...before,
          baseOffset: before.baseOffset + offsetShift,
          partitionLeaderEpoch: 3 + epochShift,
        };
        assert.deepEqual(after, expected);
        patchBatch(batch, 0, { offsetShift: -offsetShift, epochShift: -epochShift });
        const wentNegative = before.baseOffset + offsetShift < 0n;
        if (!wentNegative) assert.deepEqual(readBatchHeader(batch, 0), before);
      },
    ),
  );
});

const three = Buffer.concat(
  [0n, 7n, 9n].map((baseOffset, index) =>
    buildBatch({
      baseOffset,
      partitionLeaderEpoch: 1,
      records: Array.from({ length: index + 1 }, () => ({
        key: null,
        value: Buffer.from('value'),
        timestamp: 5n,
      })),
    }),
  ),
);

test('a run of batches that is cut anywhere gives its whole batches', () => {
  const ends: number[] = [];
  forEachBatch(three, (header, position) => ends.push(position + header.sizeInBytes));
  assert.equal(ends.length, 3);
  for (let cut = 0; cut <= three.length; cut++) {
    const covered = forEachBatch(Buffer.from(three.subarray(0, cut)), () => undefined);
    assert.equal(covered, ends.filter((end) => end <= cut).at(-1) ?? 0, `cut at ${cut}`);
  }
  assert.equal(
    forEachBatch(three, () => false),
    ends[0],
    'false stops after that batch',
  );
});

test('a cut batch is patched as far as it is there', () => {
  for (let cut = 0; cut <= three.length; cut++) {
    const partial = Buffer.from(three.subarray(0, cut));
    patchBatch(partial, 0, { offsetShift: 1n, epochShift: 1 });
    const whole = Buffer.from(three);
    patchBatch(whole, 0, { offsetShift: 1n, epochShift: 1 });
    const epochEnd = 16;
    if (cut >= epochEnd) assert.ok(partial.equals(whole.subarray(0, cut)));
    else if (cut < 8) assert.ok(partial.equals(three.subarray(0, cut)));
    else assert.ok(partial.subarray(0, 8).equals(whole.subarray(0, 8)));
  }
});

test('the checksum finds any changed byte of what it covers', () => {
  const batch = three.subarray(0, readBatchHeader(three, 0).sizeInBytes);
  for (let position = 17; position < batch.length; position++) {
    const broken = Buffer.from(batch);
    broken[position] = (broken[position] ?? 0) ^ 0x10;
    assert.ok(!verifyBatchCrc(broken, 0, broken.length), `byte ${position}`);
  }
  assert.ok(!verifyBatchCrc(batch, 0, batch.length + 1), 'beyond the buffer');
});

test('broken batches are refused or opened, and nothing else', async () => {
  const noise = fc.array(fc.tuple(fc.nat(three.length - 1), fc.nat(255)), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(noise, async (changes) => {
      const broken = Buffer.from(three);
      for (const [position, byte] of changes) broken[position] = byte;
      try {
        forEachBatch(broken, () => undefined);
        for (const one of await openRecords(broken, { decompressedBytesMax: 1 << 20 })) {
          assert.equal(typeof one.offset, 'bigint');
        }
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});
