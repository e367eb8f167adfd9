// Appending before the call returns: the same log as by `append`, and never where somebody would
// have to wait: then nothing is done and `append` is the way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  logId,
  ManualClock,
  openTestStorage,
  readAll,
  rejectsWith,
  segmentPath,
} from './fixtures.ts';
import { SimulatedDisk, seededRandom } from './simulated-disk.ts';

async function warmLog(options: Parameters<typeof createTestLog>[0] = {}) {
  const opened = await createTestLog(options);
  await opened.log.append(dataBatch(0n));
  return opened;
}

const nothing = (): void => undefined;

/** A log on a disk whose writes that are waited for, and syncs, do what the test says besides. */
async function hookedLog() {
  const hooks: {
    onWriteNow: () => void;
    beforeSync: () => Promise<void>;
    beforeCheckpoint: () => void;
  } = { onWriteNow: nothing, beforeSync: async () => undefined, beforeCheckpoint: nothing };
  const disk = new SimulatedDisk(seededRandom(1));
  const openFile = disk.openFile.bind(disk);
  disk.openFile = async (path, options) => {
    const file = await openFile(path, options);
    return {
      ...file,
      writeNow: (bytes, position) => {
        hooks.onWriteNow();
        file.writeNow(bytes, position);
      },
      write: async (bytes, position) => {
        if (path.endsWith('checkpoint')) hooks.beforeCheckpoint();
        await file.write(bytes, position);
      },
      sync: async () => {
        await hooks.beforeSync();
        await file.sync();
      },
    };
  };
  const clock = new ManualClock();
  return { ...(await warmLog({ disk, clock })), clock, hooks };
}

test('what is appended at once is checked, read and made durable as by append', async () => {
  const { log } = await warmLog();
  const batches = [dataBatch(1n), dataBatch(5n, { records: 3 })];
  assert.deepEqual(log.appendNow(Buffer.concat(batches)), {
    batches: 2,
    bytes: batches.reduce((sum, { length }) => sum + length, 0),
    end: 8n,
  });
  assert.equal(log.durableEnd, 0n);
  await log.flush();
  assert.equal(log.visibleEnd, 8n);
  assert.ok((await readAll(log)).equals(Buffer.concat([dataBatch(0n), ...batches])));
  const damaged = dataBatch(8n);
  damaged[damaged.length - 1] = (damaged[damaged.length - 1] ?? 0) ^ 1;
  assert.throws(() => log.appendNow(damaged), rejectsWith('CORRUPT_BATCH'));
  assert.throws(() => log.appendNow(dataBatch(7n)), rejectsWith('OFFSET_OUT_OF_ORDER'));
  assert.equal(log.end, 8n);
});

test('nothing is appended at once between an append and its end', async () => {
  const { log } = await warmLog();
  const appending = log.append(dataBatch(1n));
  assert.equal(log.appendNow(dataBatch(1n)), null);
  await appending;
  assert.equal(log.appendNow(dataBatch(2n))?.end, 3n);
});

test('a file that is not open, or a segment that is full, is for append', async () => {
  const { log, storage } = await warmLog({ segmentBytesMax: 200, handlesMax: 1 });
  await log.flush();
  const other = await storage.create({ ...logId, partition: 9 }, 0n);
  await appendDurably(other, dataBatch(0n));
  assert.equal(log.appendNow(dataBatch(1n)), null, 'only one file is open, the other log has it');
  await log.read(0n, { bytesMax: 100, atLeastOneBatch: true });
  assert.equal(log.appendNow(dataBatch(1n))?.end, 2n);
  assert.equal(log.appendNow(dataBatch(2n)), null, 'a third does not fit');
  await log.append(dataBatch(2n));
  await log.flush();
  assert.ok((await readAll(log)).equals(Buffer.concat([0n, 1n, 2n].map((at) => dataBatch(at)))));
});

test('a hold is on disk before anything is appended behind it at once', async () => {
  const { log } = await warmLog();
  log.hold(1n);
  assert.equal(log.appendNow(dataBatch(1n)), null);
  await log.flush();
  assert.equal(log.appendNow(dataBatch(1n))?.end, 2n);
});

test('a hold that was lifted while a flush wrote it down is not taken for saved', async () => {
  const { log, clock, hooks } = await hookedLog();
  await log.flush();
  // The next flush is one that syncs the checkpoint as well.
  clock.advance(1000);
  await log.append(dataBatch(1n));
  hooks.beforeSync = async () => log.hold(2n);
  let written = 0;
  hooks.beforeCheckpoint = () => {
    written++;
    hooks.beforeSync = async () => undefined;
    log.hold(null);
  };
  await log.flush();
  assert.ok(written > 0);
  assert.equal(log.appendNow(dataBatch(2n)), null, 'a restart would find the hold');
  await log.append(dataBatch(2n));
  assert.equal(log.appendNow(dataBatch(3n))?.end, 4n);
});

test('without room on the disk, or without a fresh look at it, nothing is appended at once', async () => {
  const { log, disk, clock } = await warmLog({ minFree: { kind: 'percent', value: 10 } });
  assert.equal(log.appendNow(dataBatch(1n))?.end, 2n);
  clock.advance(2000);
  assert.equal(log.appendNow(dataBatch(2n)), null, 'the last look is two seconds old');
  await log.append(dataBatch(2n));
  disk.space_ = { freeBytes: 9e9, totalBytes: 100e9 };
  clock.advance(1000);
  assert.equal(log.appendNow(dataBatch(3n))?.end, 4n, 'this one asks for the next look');
  await assert.rejects(log.append(dataBatch(4n)), rejectsWith('DISK_FULL'));
  assert.equal(log.appendNow(dataBatch(4n)), null);
});

test('after a write that took long nobody waits for the next for a hundred times as long', async () => {
  const { log, clock, hooks } = await hookedLog();
  hooks.onWriteNow = () => clock.advance(30);
  assert.equal(log.appendNow(dataBatch(1n))?.end, 2n);
  hooks.onWriteNow = nothing;
  assert.equal(log.appendNow(dataBatch(2n)), null);
  clock.advance(2900);
  await log.append(dataBatch(2n));
  assert.equal(log.appendNow(dataBatch(3n)), null);
  clock.advance(100);
  assert.equal(log.appendNow(dataBatch(3n))?.end, 4n);
});

test('while the disk does not end a flush nobody waits for a write', async () => {
  const { log, clock, hooks } = await hookedLog();
  let letGo = nothing;
  hooks.beforeSync = () =>
    new Promise<void>((resolve) => {
      letGo = resolve;
    });
  const flushing = log.flush();
  await new Promise(setImmediate);
  assert.equal(log.appendNow(dataBatch(1n))?.end, 2n);
  assert.equal(log.durableEnd, 0n, 'nothing is durable before its sync has ended');
  clock.advance(201);
  await log.append(dataBatch(2n));
  assert.equal(log.appendNow(dataBatch(3n)), null);
  hooks.beforeSync = async () => undefined;
  letGo();
  await flushing;
  assert.equal(log.durableEnd, 1n, 'what came during the sync is not covered by it');
  assert.equal(log.appendNow(dataBatch(3n))?.end, 4n);
});

test('a write at once that fails leaves the file as it was', async () => {
  const { log, disk, storage } = await warmLog();
  const path = segmentPath(0);
  const before = await disk.fileSize(path);
  const once = { pathIncludes: path, times: 1 };
  disk.faults.push({ ...once, operation: 'write', code: 'FULL', writtenBytes: 20 });
  assert.throws(() => log.appendNow(dataBatch(1n)), rejectsWith('DISK_FULL'));
  assert.equal(await disk.fileSize(path), before);
  assert.equal(log.end, 1n);
  assert.equal(log.appendNow(dataBatch(1n)), null, 'not before it is gone for good');
  await log.flush();
  disk.faults.push({ ...once, operation: 'write', code: 'IO', writtenBytes: 20 });
  disk.faults.push({ ...once, operation: 'truncate', code: 'IO' });
  assert.throws(() => log.appendNow(dataBatch(1n)), rejectsWith('IO'));
  assert.throws(() => log.appendNow(dataBatch(1n)), /failed earlier/);
  await assert.rejects(log.append(dataBatch(1n)), /failed earlier/);
  await storage.close();
  const { storage: again } = await openTestStorage({ disk: disk.processKill() });
  assert.equal((await again.open(logId)).end, 1n, 'what was written in part is no record');
  await again.close();
});
