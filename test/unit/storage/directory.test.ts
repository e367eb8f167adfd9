// The identity of a storage directory, its lock, and the acceptance of its loss.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  directory,
  logDirectory,
  logId,
  ManualClock,
  openTestStorage,
  readAll,
  rejectsWith,
  reopenLog,
} from './fixtures.ts';
import { SimulatedDisk, seededRandom } from './simulated-disk.ts';

const properties = `${directory}/causeway.properties`;

test('a new directory gets an id, and keeps it', async () => {
  const first = await openTestStorage();
  assert.equal(first.storage.isNew, true);
  assert.match(first.storage.directoryId, /^[A-Za-z0-9_-]{22}$/);
  await first.storage.close();
  const expectedDirectoryId = first.storage.directoryId;
  const disk = first.disk.powerCut();
  const second = await openTestStorage({ disk, expectedDirectoryId });
  assert.equal(second.storage.directoryId, expectedDirectoryId);
  assert.equal(second.storage.isNew, false);
  assert.equal(second.storage.refusal, null);
  const text = disk.content(properties).toString();
  for (const line of ['version=1', 'cluster.id=cluster-a', 'instance.name=causeway']) {
    assert.ok(text.split('\n').includes(line), line);
  }
});

test('R19: an empty directory where the state expects one is MISSING in every use', async () => {
  const { storage, disk, reports } = await openTestStorage({ expectedDirectoryId: 'x'.repeat(22) });
  await assert.rejects(storage.open(logId), rejectsWith('MISSING'));
  await assert.rejects(storage.create(logId, 0n), rejectsWith('MISSING'));
  await assert.rejects(storage.delete(logId), rejectsWith('MISSING'));
  await assert.rejects(storage.list(), rejectsWith('MISSING'));
  assert.equal(storage.isFull, true);
  assert.equal(storage.directoryId, 'x'.repeat(22));
  assert.equal(storage.refusal?.code, 'MISSING');
  assert.deepEqual(
    reports.map(({ kind }) => kind),
    ['directory-refused'],
  );
  assert.deepEqual(disk.steps, [], 'nothing may be written');
  await storage.close();
});

test('R19: a directory of somebody else is FOREIGN_DIRECTORY, and is not written to', async () => {
  const before = await createTestLog();
  await before.storage.close();
  const { directoryId } = before.storage;
  for (const other of [
    { expectedDirectoryId: 'y'.repeat(22) },
    { expectedDirectoryId: directoryId, clusterId: 'cluster-b' },
    { expectedDirectoryId: directoryId, instanceName: 'other' },
    { expectedDirectoryId: null, clusterId: 'cluster-b' },
  ]) {
    const steps = before.disk.steps.length;
    const { storage } = await openTestStorage({ disk: before.disk, ...other });
    await assert.rejects(storage.open(logId), rejectsWith('FOREIGN_DIRECTORY'));
    assert.equal(before.disk.steps.length, steps);
  }
});

test('R19: logs without an identity, and identities of a later format, are FOREIGN', async () => {
  const before = await createTestLog();
  await before.storage.close();
  before.disk.tamper(properties, (content) =>
    Buffer.from(content.toString().replace('version=1', 'version=9')),
  );
  const later = await openTestStorage({ disk: before.disk });
  assert.equal(later.storage.refusal?.code, 'FOREIGN_DIRECTORY');
  before.disk.tamperRemove(properties);
  const lost = await openTestStorage({ disk: before.disk });
  assert.equal(lost.storage.refusal?.code, 'FOREIGN_DIRECTORY');
});

test('accepted loss adopts a foreign directory with a new id, and what is in it', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n));
  await before.storage.close();
  const expectedDirectoryId = 'y'.repeat(22);
  const { storage, reports } = await openTestStorage({
    disk: before.disk,
    expectedDirectoryId,
    acceptLoss: true,
  });
  assert.equal(storage.isNew, true);
  assert.notEqual(storage.directoryId, expectedDirectoryId);
  assert.equal((await storage.open(logId)).end, 1n);
  assert.ok(reports.some(({ kind }) => kind === 'directory-adopted'));
});

test('a directory that cannot be written is refused as READ_ONLY', async () => {
  const before = await createTestLog();
  await before.storage.close();
  before.disk.faults.push({ operation: 'link', pathIncludes: '.lock', code: 'READ_ONLY' });
  const { storage } = await openTestStorage({ disk: before.disk });
  await assert.rejects(storage.open(logId), rejectsWith('READ_ONLY'));
});

test('a second live process on the same directory is refused', async () => {
  const { disk, storage } = await openTestStorage();
  await assert.rejects(openTestStorage({ disk }), rejectsWith('LOCKED'));
  await storage.close();
  const { storage: next } = await openTestStorage({ disk });
  assert.equal(next.refusal, null);
});

test('the lock of a dead process is taken over, also when its pid lives again', async () => {
  const first = await openTestStorage();
  first.disk.processes.set(1, 'a later start');
  const second = await openTestStorage({ disk: first.disk });
  assert.equal(second.storage.refusal, null);
  assert.ok(second.reports.some(({ kind }) => kind === 'lock-taken-over'));
  // The one that lost its lock must not remove that of its successor.
  await first.storage.close();
  await assert.rejects(openTestStorage({ disk: first.disk }), rejectsWith('LOCKED'));
});

test('a lock that came along with a copy of the directory does not count', async () => {
  const { disk } = await createTestLog();
  disk.copyDirectory(directory, '/copy');
  const { storage } = await openTestStorage({ disk, directory: '/copy' });
  assert.equal(storage.refusal, null);
  assert.equal((await storage.open(logId)).end, 0n);
});

test('a lock file with nothing sensible in it does not block for ever', async () => {
  const { disk, storage } = await openTestStorage();
  await storage.close();
  const file = await disk.openFile(`${directory}/.lock`, { create: true });
  await file.write(Buffer.from('{"pid": 1'), 0);
  await file.close();
  assert.equal((await openTestStorage({ disk })).storage.refusal, null);
});

test('create is idempotent while the log is empty, and refuses to replace records', async () => {
  const { storage } = await openTestStorage();
  const log = await storage.create(logId, 5n);
  assert.equal(await storage.create(logId, 5n), log);
  assert.equal(await storage.open(logId), log);
  const moved = await storage.create(logId, 9n);
  assert.equal(moved.logStart, 9n);
  await assert.rejects(log.append(dataBatch(5n)), rejectsWith('CLOSED'));
  await moved.append(dataBatch(9n));
  await assert.rejects(storage.create(logId, 9n), rejectsWith('EXISTS'));
  await assert.rejects(storage.create({ topicId: '../x', partition: 0 }, 0n), TypeError);
});

test('a created log survives a power cut, an unfinished creation leaves nothing', async () => {
  const random = seededRandom(77);
  for (let steps = 0; ; steps++) {
    const { storage, disk } = await openTestStorage({ disk: new SimulatedDisk(random) });
    disk.crashAfter(steps);
    const created = await storage.create(logId, 5n).then(
      () => true,
      () => false,
    );
    const after = await openTestStorage({ disk: disk.powerCut(), clock: new ManualClock() });
    const listed = await after.storage.list();
    if (created) assert.deepEqual(listed, [logId]);
    if (listed.length > 0) assert.equal((await after.storage.open(logId)).logStart, 5n);
    else assert.equal((await after.storage.create(logId, 6n)).logStart, 6n);
    const names = await after.disk.list(`${directory}/logs`);
    assert.ok(!names.some((name) => name.startsWith('.')), names.join());
    if (created) break;
  }
});

test('R11: a log whose creator was killed half way was gone after a power cut', async () => {
  const random = seededRandom(78);
  for (let run = 0; run < 10; run++) {
    for (let steps = 0; ; steps++) {
      const before = await openTestStorage({ disk: new SimulatedDisk(random) });
      before.disk.crashAfter(steps);
      await before.storage.create(logId, 5n).catch((error) => assert.match(String(error), /crash/));
      const { hasCrashed } = before.disk;
      const killed = await openTestStorage({ disk: before.disk.processKill() });
      await appendDurably(await killed.storage.create(logId, 5n), dataBatch(5n));
      const { log } = await reopenLog(killed, { powerCut: true });
      assert.equal(log.end, 6n);
      if (!hasCrashed) break;
    }
  }
});

test('a process with the pid of one that was killed while it locked was refused', async () => {
  for (let steps = 0; ; steps++) {
    const disk = new SimulatedDisk(seededRandom(1));
    disk.crashAfter(steps);
    await openTestStorage({ disk }).catch((error) => assert.match(String(error), /crash/));
    const { hasCrashed } = disk;
    const { storage } = await openTestStorage({ disk: disk.processKill() });
    assert.equal(storage.refusal, null);
    if (!hasCrashed) break;
  }
});

test('delete removes a log, is idempotent, and ends its use', async () => {
  const { storage, log, disk } = await createTestLog();
  await appendDurably(log, dataBatch(0n));
  let told = 0;
  log.onAdvance(() => {
    told += 1;
  });
  await storage.delete(logId);
  await storage.delete(logId);
  assert.equal(told, 1);
  assert.deepEqual(await storage.list(), []);
  await assert.rejects(log.append(dataBatch(1n)), rejectsWith('CLOSED'));
  const options = { bytesMax: 1, atLeastOneBatch: true };
  await assert.rejects(log.read(0n, options), rejectsWith('CLOSED'));
  await assert.rejects(storage.open(logId), rejectsWith('MISSING'));
  assert.deepEqual(await disk.list(`${directory}/logs`), []);
  const again = await storage.create(logId, 0n);
  await appendDurably(again, dataBatch(0n));
});

test('a corrupt log can be deleted', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n));
  await before.storage.close();
  before.disk.tamperRemove(`${logDirectory}/checkpoint`);
  const { storage } = await openTestStorage({ disk: before.disk });
  await assert.rejects(storage.open(logId), rejectsWith('CORRUPT'));
  await storage.delete(logId);
  assert.equal((await storage.create(logId, 3n)).end, 3n);
});

test('close makes everything durable and gives the lock back', async () => {
  const before = await createTestLog();
  await before.log.append(dataBatch(0n));
  await before.storage.close();
  await assert.rejects(before.log.append(dataBatch(1n)), rejectsWith('CLOSED'));
  await assert.rejects(before.storage.open(logId), rejectsWith('CLOSED'));
  assert.equal(before.clock.pendingTimers, 0);
  assert.equal(before.disk.openFiles, 0);
  assert.ok(!(await before.disk.list(directory)).includes('.lock'));
  const { log } = await reopenLog(before, { powerCut: true });
  assert.deepEqual(await readAll(log), dataBatch(0n));
});
