// Grouped flushes: when the durable end moves, and what a failed flush means.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MirrorLog } from '../../../storage/mirror-log.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  logId,
  marker,
  openTestStorage,
  rejectsWith,
} from './fixtures.ts';

function advanced(log: MirrorLog, end: bigint): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      if (log.durableEnd >= end) resolve();
    };
    log.onAdvance(check);
    check();
  });
}

test('appends are made durable together, once per interval', async () => {
  const { log, clock, disk } = await createTestLog({ flushIntervalMs: 50 });
  const syncs = (): number =>
    disk.steps.filter(({ operation, path }) => operation === 'sync' && path.endsWith('.log'))
      .length;
  const before = syncs();
  for (let offset = 0n; offset < 10n; offset++) await log.append(dataBatch(offset));
  assert.equal(clock.pendingTimers, 1);
  clock.advance(49);
  assert.equal(log.durableEnd, 0n);
  clock.advance(1);
  await advanced(log, 10n);
  assert.equal(syncs(), before + 1);
  assert.equal(clock.pendingTimers, 0, 'no timer while nobody writes');
});

test('what is written after a rest does not wait for an interval', async () => {
  const { log, clock } = await createTestLog({ flushIntervalMs: 50 });
  clock.advance(1000);
  await log.append(dataBatch(0n));
  clock.advance(2);
  await advanced(log, 1n);
  await log.append(dataBatch(1n));
  clock.advance(47);
  assert.equal(log.durableEnd, 1n, 'no rest since the last flush');
  clock.advance(3);
  await advanced(log, 2n);
});

test('one timer serves all logs, and idle logs cost nothing', async () => {
  const { storage, clock, disk } = await openTestStorage();
  const logs: MirrorLog[] = [];
  for (let partition = 0; partition < 40; partition++) {
    logs.push(await storage.create({ ...logId, partition }, 0n));
  }
  assert.equal(clock.pendingTimers, 0);
  for (const log of logs.slice(0, 20)) await log.append(dataBatch(0n));
  assert.equal(clock.pendingTimers, 1);
  const steps = disk.steps.length;
  clock.advance(50);
  await Promise.all(logs.slice(0, 20).map((log) => advanced(log, 1n)));
  const touched = new Set(disk.steps.slice(steps).map(({ path }) => path.split('/')[3]));
  assert.equal(touched.size, 20);
});

test('flush waits for the appends before it and not for the timer', async () => {
  const { log, clock } = await createTestLog();
  const appending = log.append(dataBatch(0n));
  const flushing = log.flush();
  await Promise.all([appending, flushing]);
  assert.equal(log.durableEnd, 1n);
  assert.equal(clock.nowMs(), 0);
});

test('an append during a flush is not counted as durable by it', async () => {
  const { log, disk } = await createTestLog();
  await log.append(dataBatch(0n));
  const flushing = log.flush();
  const appending = log.append(dataBatch(1n));
  await flushing;
  const { end } = await appending;
  assert.equal(end, 2n);
  await log.flush();
  assert.equal(log.durableEnd, 2n);
  assert.equal(disk.openFiles <= 3, true);
});

test('the number of open files is bounded, whatever the number of logs', async () => {
  const { storage, disk } = await openTestStorage({ handlesMax: 8 });
  const ids = Array.from({ length: 60 }, (_, partition) => ({ ...logId, partition }));
  for (const id of ids) await storage.create(id, 0n);
  for (let round = 0n; round < 3n; round++) {
    for (const id of ids) {
      const log = await storage.open(id);
      await log.append(dataBatch(round));
      await log.flush();
      await log.read(0n, { bytesMax: 1000, atLeastOneBatch: true });
    }
  }
  assert.ok(disk.openFilesMax <= 24, `${disk.openFilesMax} files open at once`);
});

test('below the minimum of free space appends are refused, ABORT batches are not', async () => {
  const { log, storage, disk, clock, reports } = await createTestLog({
    minFree: { kind: 'percent', value: 10 },
  });
  await appendDurably(log, dataBatch(0n, { producerId: 7n }));
  assert.equal(storage.isFull, false);
  disk.space_ = { freeBytes: 9e9, totalBytes: 100e9 };
  await log.append(dataBatch(1n));
  clock.advance(1000);
  await assert.rejects(log.append(dataBatch(2n)), rejectsWith('DISK_FULL'));
  assert.equal(storage.isFull, true);
  assert.equal(log.end, 2n);
  await appendDurably(log, marker(2n, { producerId: 7n, type: 'ABORT' }));
  assert.equal(log.lastStableOffset, 3n);
  assert.equal((await log.read(0n, { bytesMax: 1 << 20, atLeastOneBatch: true })).nextOffset, 3n);

  disk.space_ = { freeBytes: 11e9, totalBytes: 100e9 };
  clock.advance(1000);
  await log.append(dataBatch(3n));
  assert.equal(storage.isFull, false);
  const full = reports.flatMap((report) => (report.kind === 'disk-full' ? [report.full] : []));
  assert.deepEqual(full, [true, false]);
});

test('isFull is renewed by asking, so that whoever waits for it goes on', async () => {
  const { storage, disk, clock } = await openTestStorage({
    minFree: { kind: 'bytes', value: 100 },
  });
  disk.space_ = { freeBytes: 99, totalBytes: 1000 };
  clock.advance(1000);
  const deadline = Date.now() + 5000;
  while (!storage.isFull && Date.now() < deadline) await new Promise(setImmediate);
  assert.equal(storage.isFull, true);
  disk.space_ = { freeBytes: 100, totalBytes: 1000 };
  clock.advance(1000);
  while (storage.isFull && Date.now() < deadline) await new Promise(setImmediate);
  assert.equal(storage.isFull, false);
});

test('a listener that throws is reported and does not stop the others', async () => {
  const { log, reports } = await createTestLog();
  let told = 0;
  log.onAdvance(() => {
    throw new Error('a fault of the listener');
  });
  log.onAdvance(() => {
    told += 1;
  });
  await appendDurably(log, dataBatch(0n));
  assert.equal(told, 1);
  assert.ok(reports.some(({ kind }) => kind === 'listener-failed'));
});
