// Cutting the tail and deleting the head of a log.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  logDirectory,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
} from './fixtures.ts';

const small = { segmentBytesMax: 300 };

function someBatches(count: number): Buffer[] {
  return Array.from({ length: count }, (_, index) => dataBatch(BigInt(index * 3), { records: 2 }));
}

test('truncate takes whole batches away, over segments, durably', async () => {
  for (let offset = 0; offset <= 30; offset++) {
    const before = await createTestLog(small);
    const batches = someBatches(10);
    await appendDurably(before.log, ...batches);
    await before.log.truncate(BigInt(offset));
    const kept = batches.filter((_, index) => index * 3 + 1 < offset);
    const end = kept.length === 0 ? 0n : BigInt(kept.length * 3 - 1);
    const after = await reopenLog(before, { ...small, powerCut: true });
    for (const { log } of [before, after]) {
      assert.equal(log.end, end, `truncated to ${offset}`);
      assert.equal(log.durableEnd, end);
      assert.equal(log.visibleEnd, end);
    }
    assert.deepEqual(await readAll(after.log), Buffer.concat(kept));
    const next = dataBatch(end + 5n);
    await appendDurably(after.log, next);
    assert.deepEqual(await readAll(after.log), Buffer.concat([...kept, next]));
  }
});

test('a truncation below the log start is refused', async () => {
  const { log } = await createTestLog({ logStart: 10n });
  await assert.rejects(log.truncate(9n), rejectsWith('OFFSET_OUT_OF_RANGE'));
});

test('listeners hear of a truncation, and of nothing when nothing changes', async () => {
  const { log } = await createTestLog();
  const seen: bigint[] = [];
  const unsubscribe = log.onAdvance(() => seen.push(log.visibleEnd));
  await log.append(dataBatch(0n));
  assert.deepEqual(seen, []);
  await log.flush();
  await appendDurably(log, dataBatch(1n));
  await log.truncate(1n);
  await log.truncate(1n);
  await log.flush();
  assert.deepEqual(seen, [1n, 2n, 1n]);
  unsubscribe();
  await appendDurably(log, dataBatch(1n));
  assert.equal(seen.length, 3);
});

test('a read that a truncation overtakes starts over', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n), dataBatch(1n, { valueBytes: 5000 }));
  const reading = log.read(0n, { bytesMax: 1 << 20, atLeastOneBatch: true });
  const beyond = log.read(2n, { bytesMax: 1 << 20, atLeastOneBatch: true });
  await log.truncate(1n);
  const { nextOffset } = await reading;
  assert.ok(nextOffset === 1n || nextOffset === 2n);
  await beyond.then(({ bytes }) => assert.equal(bytes, 0), rejectsWith('OFFSET_OUT_OF_RANGE'));
  assert.equal((await log.read(0n, { bytesMax: 1, atLeastOneBatch: true })).nextOffset, 1n);
});

test('deleteHead moves the start and deletes whole segments below it', async () => {
  for (let logStart = 0; logStart < 29; logStart++) {
    const before = await createTestLog(small);
    const batches = someBatches(10);
    await appendDurably(before.log, ...batches);
    await before.log.deleteHead(BigInt(logStart));
    const after = await reopenLog(before, { ...small, powerCut: true });
    const kept = batches.filter((_, index) => index * 3 + 1 >= logStart);
    for (const { log } of [before, after]) {
      assert.equal(log.logStart, BigInt(logStart));
      assert.equal(log.end, 29n);
    }
    assert.deepEqual(await readAll(after.log), Buffer.concat(kept), `start ${logStart}`);
    const names = await after.disk.list(logDirectory);
    const segments = names.filter((name) => name.endsWith('.log')).sort();
    const second = segments[1];
    assert.ok(second === undefined || BigInt(second.slice(0, 20)) > BigInt(logStart));
  }
});

test('deleteHead at or above the end empties the log, and never moves it down', async () => {
  for (const logStart of [29n, 30n, 1000n, 2n ** 50n]) {
    const before = await createTestLog(small);
    await appendDurably(before.log, ...someBatches(10));
    await before.log.deleteHead(logStart);
    await before.log.deleteHead(5n);
    const after = await reopenLog(before, { ...small, powerCut: true });
    for (const { log } of [before, after]) {
      assert.equal(log.logStart, logStart);
      assert.equal(log.end, logStart);
      assert.equal(log.visibleEnd, logStart);
      assert.equal(log.sizeBytes, 0);
    }
    await appendDurably(after.log, dataBatch(logStart + 2n));
    assert.deepEqual(await readAll(after.log), dataBatch(logStart + 2n));
  }
});

test('deleteHead flushes first: what stays is durable', async () => {
  const before = await createTestLog();
  await before.log.append(Buffer.concat(someBatches(4)));
  await before.log.deleteHead(2n);
  assert.equal(before.log.visibleEnd, 11n);
  const { log } = await reopenLog(before, { powerCut: true });
  assert.equal(log.end, 11n);
});

test('a log may be truncated to its moved start, and goes on from there', async () => {
  const before = await createTestLog(small);
  await appendDurably(before.log, ...someBatches(10));
  await before.log.deleteHead(15n);
  await before.log.truncate(15n);
  const after = await reopenLog(before, { ...small, powerCut: true });
  for (const { log } of [before, after]) {
    assert.equal(log.logStart, 15n);
    assert.equal(log.end, 15n);
  }
  const next = [dataBatch(20n, { valueBytes: 400 }), dataBatch(21n, { valueBytes: 400 })];
  await appendDurably(after.log, ...next);
  const last = await reopenLog(after, { ...small, powerCut: true });
  assert.deepEqual(await readAll(last.log), Buffer.concat(next));
});

test('files of a deleted head are gone from the disk', async () => {
  const { log, disk } = await createTestLog(small);
  await appendDurably(log, ...someBatches(10));
  await log.deleteHead(1000n);
  const names = (await disk.list(logDirectory)).sort();
  const fresh = segmentPath(1000).slice(logDirectory.length + 1);
  assert.deepEqual(names, [fresh, 'checkpoint', 'sealed']);
});

test('a log of few bytes kept what its source had let go until a segment was full', async () => {
  const options = {
    segmentBytesMax: 100_000,
    indexInterval: { activeBytes: 200, sealedBytes: 400 },
  };
  let current = await createTestLog(options);
  const { length } = dataBatch(1_000n);
  const live = 20;
  const largest = { bytes: 0 };
  for (let base = 1_000; base < 1_500; base++) {
    await appendDurably(current.log, dataBatch(BigInt(base)));
    if (base >= 1_000 + live) await current.log.deleteHead(BigInt(base - live + 1));
    // What is known of a start is known after a restart too.
    if (base % 50 === 0) current = await reopenLog(current, { ...options, powerCut: true });
    largest.bytes = Math.max(largest.bytes, current.log.sizeBytes);
  }
  assert.ok(largest.bytes < 3 * live * length + 1_000, `${largest.bytes} of ${live * length}`);
  const kept = Array.from({ length: live }, (_, index) => dataBatch(BigInt(1_480 + index)));
  assert.deepEqual(await readAll(current.log), Buffer.concat(kept));
  // As when the disk is full: nothing is appended, and the source lets go.
  const { log } = current;
  const before = log.sizeBytes;
  for (let start = 1_481n; log.sizeBytes === before; start++) {
    assert.ok(start < log.end, 'before all of it is gone');
    await log.deleteHead(start);
  }
});
