// The adapter to real files: the same contract that the simulated disk keeps.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { DiskError, type DiskErrorCode } from '../../../storage/disk/device.ts';
import { nodeClock, nodeDisk } from '../../../storage/disk/device-node.ts';
import { type OpenedStorage, openDiskStorage } from '../../../storage/disk/open-storage.ts';
import { appendDurably, dataBatch, logId, readAll, rejectsWith } from './fixtures.ts';

async function inTemporaryDirectory(use: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), 'causeway-storage-'));
  try {
    await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function openReal(directory: string): Promise<OpenedStorage> {
  return openDiskStorage({
    directory,
    disk: nodeDisk,
    clock: nodeClock,
    clusterId: 'cluster-a',
    instanceName: 'causeway',
    expectedDirectoryId: null,
    segmentBytesMax: 10_000,
    minFree: { kind: 'bytes', value: 0 },
  });
}

function isDiskError(code: DiskErrorCode): (error: unknown) => boolean {
  return (error) => error instanceof DiskError && error.code === code;
}

test('files are read, written, cut and named as the contract says', async () => {
  await inTemporaryDirectory(async (directory) => {
    const deep = `${directory}/a/b/c`;
    await nodeDisk.makeDirectory(deep);
    await nodeDisk.makeDirectory(deep);
    await assert.rejects(
      nodeDisk.openFile(`${deep}/f`, { create: false }),
      isDiskError('NOT_FOUND'),
    );
    const file = await nodeDisk.openFile(`${deep}/f`, { create: true });
    await file.write(Buffer.from('one two'), 0);
    await file.write(Buffer.alloc(0), 0);
    await file.write(Buffer.from('TWO'), 4);
    await file.sync();
    assert.equal(await file.size(), 7);
    const target = Buffer.alloc(10);
    assert.equal(await file.read(target, 2), 5);
    assert.equal(target.toString('utf8', 0, 5), 'e TWO');
    await file.truncate(3);
    assert.equal(await nodeDisk.fileSize(`${deep}/f`), 3);
    await file.close();
    await nodeDisk.link(`${deep}/f`, `${deep}/g`);
    await assert.rejects(nodeDisk.link(`${deep}/f`, `${deep}/g`), isDiskError('EXISTS'));
    await nodeDisk.rename(`${deep}/g`, `${deep}/h`);
    await nodeDisk.syncDirectory(deep);
    assert.deepEqual((await nodeDisk.list(deep)).sort(), ['f', 'h']);
    await nodeDisk.remove(`${deep}/f`);
    await nodeDisk.remove(`${deep}/f`);
    assert.equal(await nodeDisk.fileSize(`${deep}/f`), null);
    await nodeDisk.removeTree(`${directory}/a`);
    await nodeDisk.removeTree(`${directory}/a`);
    await assert.rejects(nodeDisk.list(deep), isDiskError('NOT_FOUND'));
    const { freeBytes, totalBytes } = await nodeDisk.space(directory);
    assert.ok(freeBytes > 0 && totalBytes >= freeBytes);
    assert.match(nodeDisk.process.randomId(), /^[A-Za-z0-9_-]{22}$/);
  });
});

test('a write of several megabytes, in more than one call, arrives whole and in its place', async () => {
  await inTemporaryDirectory(async (directory) => {
    const bytes = Buffer.alloc(5 * 1024 * 1024 + 3);
    for (let at = 0; at + 4 <= bytes.length; at += 4) bytes.writeInt32BE(at, at);
    const file = await nodeDisk.openFile(`${directory}/f`, { create: true });
    await file.write(bytes, 7);
    await file.close();
    const found = await readFile(`${directory}/f`);
    assert.ok(found.equals(Buffer.concat([Buffer.alloc(7), bytes])));
  });
});

test('a storage on real files survives a restart, and a move of its directory', async () => {
  await inTemporaryDirectory(async (parent) => {
    const directory = path.join(parent, 'data');
    const storage = await openReal(directory);
    const log = await storage.create(logId, 0n);
    const batches = Array.from({ length: 40 }, (_, index) =>
      dataBatch(BigInt(index), { valueBytes: 1000 }),
    );
    await appendDurably(log, ...batches);
    const { directoryId } = storage;
    await storage.close();
    const moved = path.join(parent, 'moved');
    await rename(directory, moved);
    const again = await openReal(moved);
    assert.equal(again.directoryId, directoryId);
    assert.deepEqual(await again.list(), [logId]);
    assert.deepEqual(await readAll(await again.open(logId)), Buffer.concat(batches));
    await again.close();
  });
});

test('the timer flushes without being asked', async () => {
  await inTemporaryDirectory(async (directory) => {
    const storage = await openReal(directory);
    const log = await storage.create(logId, 0n);
    const seen = new Promise<void>((resolve) => {
      log.onAdvance(resolve);
    });
    await log.append(dataBatch(0n));
    await seen;
    assert.equal(log.visibleEnd, 1n);
    await storage.close();
  });
});

test('a living process keeps the lock, a dead one loses it, a copy has none', async () => {
  await inTemporaryDirectory(async (parent) => {
    const directory = path.join(parent, 'data');
    const storage = await openReal(directory);
    await storage.create(logId, 0n);
    const lockFile = path.join(directory, '.lock');
    const own = JSON.parse(await readFile(lockFile, 'utf8'));
    assert.equal(own.pid, process.pid);
    await storage.close();
    await assert.rejects(readFile(lockFile));

    const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    try {
      const pid = other.pid ?? 0;
      const startTime = await nodeDisk.process.startTime(pid);
      await writeFile(lockFile, JSON.stringify({ ...own, pid, startTime }));
      await assert.rejects(openReal(directory), rejectsWith('LOCKED'));
      const copy = path.join(parent, 'copy');
      await cp(directory, copy, { recursive: true });
      const copied = await openReal(copy);
      assert.equal(copied.refusal, null);
      await copied.close();
    } finally {
      const exited = once(other, 'exit');
      other.kill('SIGKILL');
      await exited;
    }
    const taken = await openReal(directory);
    assert.deepEqual(await taken.list(), [logId]);
    await taken.close();
  });
});

test('a directory that cannot be made is refused and does not stop the service', async () => {
  await inTemporaryDirectory(async (parent) => {
    const file = path.join(parent, 'file');
    await writeFile(file, '');
    const storage = await openReal(path.join(file, 'data'));
    assert.notEqual(storage.refusal, null);
    await assert.rejects(storage.open(logId));
    await storage.close();
  });
});
