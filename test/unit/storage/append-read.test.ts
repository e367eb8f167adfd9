// Appending and reading: what is stored is what is served, and what is refused changes nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  marker,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
} from './fixtures.ts';

const everything = { bytesMax: 1 << 20, atLeastOneBatch: true };

test('R1: stored and served bytes are those of the source, gaps included', async () => {
  const { log, disk } = await createTestLog({ logStart: 5n });
  const batches = [
    dataBatch(5n, { records: 3 }),
    dataBatch(20n, { records: 1, epoch: 2 }),
    marker(21n, { producerId: 7n, type: 'COMMIT', epoch: 2 }),
    dataBatch(22n, { records: 10, epoch: 4, producerId: 9n }),
  ];
  await log.append(Buffer.concat(batches.slice(0, 2)));
  await log.append(Buffer.concat(batches.slice(2)));
  await log.flush();
  assert.deepEqual(await readAll(log), Buffer.concat(batches));
  assert.deepEqual(await readAll(log, 1), Buffer.concat(batches));
  assert.deepEqual(disk.content(segmentPath(5)), Buffer.concat(batches));
  assert.equal(log.end, 32n);
  assert.equal(log.lastEpoch, 4);
});

test('R1: the bytes are the same after a restart', async () => {
  const before = await createTestLog({ segmentBytesMax: 400 });
  const batches = Array.from({ length: 30 }, (_, index) =>
    dataBatch(BigInt(index * 2), { records: 2, epoch: Math.floor(index / 10) }),
  );
  await appendDurably(before.log, ...batches);
  const { log, reports } = await reopenLog(before, { segmentBytesMax: 400 });
  assert.deepEqual(await readAll(log), Buffer.concat(batches));
  assert.equal(log.end, 60n);
  assert.equal(log.lastEpoch, 2);
  assert.deepEqual(
    reports.filter(({ kind }) => kind !== 'lock-taken-over'),
    [],
  );
});

test('a read returns whole batches from the one that holds the offset', async () => {
  const { log } = await createTestLog();
  const first = dataBatch(0n, { records: 5 });
  const second = dataBatch(10n, { records: 5 });
  await appendDurably(log, first, second);
  const inside = await log.read(3n, { bytesMax: first.length, atLeastOneBatch: false });
  assert.deepEqual(Buffer.concat(inside.chunks), first);
  assert.equal(inside.baseOffset, 0n);
  assert.equal(inside.nextOffset, 5n);
  const inGap = await log.read(7n, everything);
  assert.deepEqual(Buffer.concat(inGap.chunks), second);
  assert.equal(inGap.baseOffset, 10n);
  assert.equal(inGap.nextOffset, 15n);
  const atEnd = await log.read(15n, everything);
  assert.deepEqual(atEnd, { chunks: [], bytes: 0, baseOffset: 15n, nextOffset: 15n });
});

test('a read fills memory that it is given, whatever lay there, and gives views of it', async () => {
  const { log } = await createTestLog();
  const batches = [dataBatch(0n, { records: 5 }), dataBatch(5n, { records: 50 })];
  await appendDurably(log, ...batches);
  const given: Buffer[] = [];
  const memory = (bytes: number): Buffer => {
    const one = Buffer.alloc(bytes, 0xee);
    given.push(one);
    return one;
  };
  for (const options of [everything, { bytesMax: 1, atLeastOneBatch: true }]) {
    const { chunks } = await log.read(5n, { ...options, memory });
    assert.deepEqual(Buffer.concat(chunks), batches[1]);
    assert.ok(chunks.every(({ buffer }) => given.some((one) => one.buffer === buffer)));
  }
});

test('bytesMax is kept but for a single batch that was asked for at least', async () => {
  const { log } = await createTestLog();
  const large = dataBatch(0n, { valueBytes: 20_000 });
  const small = dataBatch(1n);
  await appendDurably(log, large, small);
  const none = await log.read(0n, { bytesMax: 100, atLeastOneBatch: false });
  assert.equal(none.bytes, 0);
  assert.equal(none.nextOffset, 0n);
  const one = await log.read(0n, { bytesMax: 100, atLeastOneBatch: true });
  assert.deepEqual(Buffer.concat(one.chunks), large);
  const both = await log.read(0n, {
    bytesMax: large.length + small.length,
    atLeastOneBatch: true,
  });
  assert.equal(both.bytes, large.length + small.length);
  const almost = await log.read(0n, {
    bytesMax: large.length + small.length - 1,
    atLeastOneBatch: true,
  });
  assert.equal(almost.bytes, large.length);
});

test('endOffset cuts at whole batches, never beyond the visible end', async () => {
  const { log } = await createTestLog();
  const batches = [dataBatch(0n, { records: 4 }), dataBatch(4n, { records: 4 })];
  await appendDurably(log, ...batches);
  for (const [endOffset, count] of [
    [3n, 0],
    [4n, 1],
    [7n, 1],
    [8n, 2],
    [99n, 2],
  ] as const) {
    const result = await log.read(0n, { ...everything, endOffset });
    assert.deepEqual(Buffer.concat(result.chunks), Buffer.concat(batches.slice(0, count)));
  }
});

test('offsets outside of what is visible are OFFSET_OUT_OF_RANGE', async () => {
  const { log } = await createTestLog({ logStart: 10n });
  await appendDurably(log, dataBatch(10n));
  await assert.rejects(log.read(9n, everything), rejectsWith('OFFSET_OUT_OF_RANGE'));
  await assert.rejects(log.read(12n, everything), rejectsWith('OFFSET_OUT_OF_RANGE'));
});

test('what is not durable is not visible', async () => {
  const { log } = await createTestLog();
  await log.append(dataBatch(0n));
  assert.equal(log.end, 1n);
  assert.equal(log.durableEnd, 0n);
  assert.equal(log.visibleEnd, 0n);
  assert.equal(log.visibleEpoch, -1);
  assert.equal((await log.read(0n, everything)).bytes, 0);
  await log.flush();
  assert.equal(log.visibleEnd, 1n);
  assert.equal(log.visibleEpoch, 0);
});

test('a refused append names its reason and changes nothing', async () => {
  const { log, disk } = await createTestLog();
  const good = dataBatch(10n, { records: 2, epoch: 3 });
  await appendDurably(log, good);
  const flipped = dataBatch(12n, { epoch: 3 });
  flipped.writeUInt8(flipped.readUInt8(flipped.length - 1) ^ 1, flipped.length - 1);
  const oldMagic = dataBatch(12n, { epoch: 3 });
  oldMagic.writeInt8(1, 16);
  const tail = dataBatch(12n, { epoch: 3 });
  const lengthNegative = dataBatch(12n, { epoch: 3 });
  lengthNegative.writeInt32BE(-5, 8);
  const cases = [
    ['CORRUPT_BATCH', flipped],
    ['CORRUPT_BATCH', tail.subarray(0, tail.length - 1)],
    ['CORRUPT_BATCH', tail.subarray(0, 30)],
    ['CORRUPT_BATCH', tail.subarray(0, 8)],
    ['CORRUPT_BATCH', lengthNegative],
    ['UNSUPPORTED_MAGIC', oldMagic],
    ['OFFSET_OUT_OF_ORDER', dataBatch(11n, { records: 4, epoch: 3 })],
    ['OFFSET_OUT_OF_ORDER', dataBatch(0n, { epoch: 3 })],
    ['EPOCH_WENT_BACK', dataBatch(12n, { epoch: 2 })],
  ] as const;
  for (const [code, bad] of cases) {
    await assert.rejects(log.append(bad), rejectsWith(code));
    // Also behind a good batch: the whole buffer is refused.
    const behindGood = dataBatch(12n, { epoch: 3 });
    const shifted = Buffer.from(bad);
    if (shifted.length >= 61 && code !== 'OFFSET_OUT_OF_ORDER') shifted.writeBigInt64BE(13n, 0);
    await assert.rejects(log.append(Buffer.concat([behindGood, shifted])), rejectsWith(code));
  }
  await log.flush();
  assert.equal(log.end, 12n);
  assert.deepEqual(disk.content(segmentPath(0)), good);
});

test('an append of nothing is allowed', async () => {
  const { log } = await createTestLog({ logStart: 3n });
  assert.deepEqual(await log.append(Buffer.alloc(0)), { batches: 0, bytes: 0, end: 3n });
});

test('segments roll at their size limit, and are named by the end before them', async () => {
  const { log, disk, storage } = await createTestLog({ segmentBytesMax: 300 });
  const batches = [0n, 1n, 50n, 51n].map((offset) => dataBatch(offset, { valueBytes: 60 }));
  await appendDurably(log, ...batches);
  assert.deepEqual(disk.content(segmentPath(0)), Buffer.concat(batches.slice(0, 2)));
  assert.deepEqual(disk.content(segmentPath(2)), Buffer.concat(batches.slice(2)));
  assert.deepEqual(await readAll(log), Buffer.concat(batches));
  // In the gap at the end of the first segment: the answer comes from the second.
  const inGap = await log.read(2n, everything);
  assert.equal(inGap.baseOffset, 50n);
  assert.equal(log.sizeBytes, Buffer.concat(batches).length);
  assert.ok((await storage.usage()).usedBytes >= log.sizeBytes);
});

test('a gap wider than an index can say begins a segment of its own', async () => {
  const far = 2n ** 40n;
  const before = await createTestLog();
  const batches = [dataBatch(far), dataBatch(far + 1n), dataBatch(far * 2n)];
  for (const batch of batches) await appendDurably(before.log, batch);
  assert.deepEqual(await readAll(before.log), Buffer.concat(batches));
  const { log } = await reopenLog(before);
  assert.deepEqual(await readAll(log), Buffer.concat(batches));
  assert.equal(log.end, far * 2n + 1n);
});

test('reads find their way through many batches of all sizes, also after sealing', async () => {
  const { log } = await createTestLog({ segmentBytesMax: 100_000 });
  const batches: Buffer[] = [];
  const sizes = [10, 9000, 100, 5000, 3, 70_000, 40];
  for (let offset = 0; offset < 200; offset++) {
    batches.push(dataBatch(BigInt(offset * 3), { valueBytes: sizes[offset % sizes.length] ?? 1 }));
  }
  await appendDurably(log, ...batches);
  for (let offset = 0; offset < 598; offset++) {
    const result = await log.read(BigInt(offset), { bytesMax: 1, atLeastOneBatch: true });
    const index = Math.ceil(offset / 3);
    assert.equal(result.baseOffset, BigInt(index * 3), `offset ${offset}`);
    assert.deepEqual(result.chunks, [batches[index]]);
  }
});

test('appends that are called together keep their order', async () => {
  const { log } = await createTestLog();
  const batches = Array.from({ length: 20 }, (_, index) => dataBatch(BigInt(index)));
  const results = await Promise.all(batches.map((batch) => log.append(batch)));
  assert.deepEqual(
    results.map(({ end }) => end),
    batches.map((_, index) => BigInt(index + 1)),
  );
  await log.flush();
  assert.deepEqual(await readAll(log), Buffer.concat(batches));
});
