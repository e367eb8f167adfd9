// Steps that the disk refuses: what is in memory afterwards, what the next start finds, and what
// goes on as if nothing had been.
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
  type TestLog,
} from './fixtures.ts';
import { type Operation, SimulatedDisk, seededRandom } from './simulated-disk.ts';

const small = { segmentBytesMax: 300, handlesMax: 8 };

function batchAt(offset: number): Buffer {
  return dataBatch(BigInt(offset), { valueBytes: 60 });
}

async function appendTo({ log }: TestLog, end: number): Promise<void> {
  for (let offset = Number(log.end); offset < end; offset++) {
    await appendDurably(log, batchAt(offset));
  }
}

function kinds({ reports }: TestLog): string[] {
  return reports.map(({ kind }) => kind).filter((kind) => kind !== 'directory-created');
}

/** Opens other files, so that those of the log have to be opened again. */
async function closeHandles({ storage, log }: TestLog): Promise<void> {
  for (const partition of [100, 101, 102, 103]) {
    const id = { topicId: log.id.topicId, partition };
    const listed = await storage.list();
    const isThere = listed.some((other) => other.partition === partition);
    const other = await (isThere ? storage.open(id) : storage.create(id, 0n));
    await appendDurably(other, batchAt(Number(other.end)));
  }
}

test('R11: a jump that failed left a segment behind, and what came later was cut off by it', async () => {
  for (const [operation, path] of [
    ['truncate', '.log'],
    ['sync', '00000000000000000001.log'],
    ['syncDirectory', logDirectory],
  ] as const) {
    const before = await createTestLog(small);
    await appendTo(before, 1);
    before.disk.faults.push({ operation, pathIncludes: path, code: 'IO', times: 1 });
    await assert.rejects(before.log.deleteHead(1n), rejectsWith('IO'));
    assert.equal(before.log.logStart, 0n);
    await appendTo(before, 8);
    const { log } = await reopenLog(before, { ...small, powerCut: true });
    assert.equal(log.end, 8n, operation);
  }
});

test('a jump that failed when its segment was made is made at the next attempt', async () => {
  const before = await createTestLog(small);
  await appendTo(before, 5);
  await closeHandles(before);
  before.disk.faults.push({
    operation: 'open',
    pathIncludes: `${logDirectory}/checkpoint`,
    code: 'NO_HANDLE',
    times: 1,
  });
  await assert.rejects(before.log.deleteHead(7n), rejectsWith('IO'));
  assert.deepEqual(
    (await before.disk.list(logDirectory)).filter((name) => name.includes('7.log')),
    [],
  );
  await before.log.deleteHead(7n);
  await appendTo(before, 9);
  const { log } = await reopenLog(before, { ...small, powerCut: true });
  assert.deepEqual(await readAll(log), Buffer.concat([batchAt(7), batchAt(8)]));
});

test('a process without a free handle for a moment failed its logs until a restart', async () => {
  const steps: readonly (readonly [Operation, string])[] = [
    ['open', `${logDirectory}/checkpoint`],
    ['open', '.log'],
    ['syncDirectory', logDirectory],
  ];
  for (const [operation, pathIncludes] of steps) {
    const before = await createTestLog(small);
    const { log, disk } = before;
    await appendTo(before, 3);
    for (let offset = 3; offset < 9; offset++) {
      await closeHandles(before);
      disk.faults.push({ operation, pathIncludes, code: 'NO_HANDLE', times: 1 });
      await log.append(batchAt(offset)).catch(rejectsWith('IO'));
      if (log.end === BigInt(offset)) await log.append(batchAt(offset));
      await log.flush().catch(rejectsWith('IO'));
      disk.faults.length = 0;
      await log.flush();
      assert.equal(log.visibleEnd, BigInt(offset + 1), `${operation} ${pathIncludes}`);
    }
    assert.ok(!kinds(before).includes('log-failed'));
    const whole = Buffer.concat([0, 1, 2, 3, 4, 5, 6, 7, 8].map(batchAt));
    assert.deepEqual(await readAll(log), whole);
    const after = await reopenLog(before, { ...small, powerCut: true });
    assert.deepEqual(await readAll(after.log), whole);
  }
});

test('a flush for which nothing can be opened is told once, and made up for by itself', async () => {
  const before = await createTestLog(small);
  const { log, disk, clock } = before;
  await appendTo(before, 1);
  await closeHandles(before);
  await log.append(batchAt(1));
  disk.faults.push({ operation: 'open', pathIncludes: 'checkpoint', code: 'NO_HANDLE', times: 2 });
  await assert.rejects(log.flush(), rejectsWith('IO'));
  await assert.rejects(log.flush(), rejectsWith('IO'));
  assert.deepEqual(kinds(before), ['flush-postponed']);
  assert.equal(log.visibleEnd, 1n);
  const advanced = new Promise<void>((resolve) => log.onAdvance(resolve));
  clock.advance(50);
  await advanced;
  assert.equal(log.visibleEnd, 2n);
});

test('R11: what a refused append left came back with a power cut, and cut off what followed', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const disk = new SimulatedDisk(seededRandom(seed));
    const before = await createTestLog({ ...small, disk });
    await appendTo(before, 1);
    const once = { pathIncludes: '.log', code: 'FULL', times: 1, writtenBytes: 40 } as const;
    disk.faults.push({ operation: 'write', ...once });
    const isNow = seed % 2 === 0;
    if (isNow) assert.throws(() => before.log.appendNow(batchAt(1)), rejectsWith('DISK_FULL'));
    else await assert.rejects(before.log.append(batchAt(1)), rejectsWith('DISK_FULL'));
    // It begins a segment: the file of the refused one is not written to again.
    const large = dataBatch(1n, { valueBytes: 400 });
    await appendDurably(before.log, large);
    const { log } = await reopenLog(before, { ...small, powerCut: true });
    assert.equal(log.end, 2n, `seed ${seed}`);
    assert.deepEqual(await readAll(log), Buffer.concat([batchAt(0), large]));
  }
});
