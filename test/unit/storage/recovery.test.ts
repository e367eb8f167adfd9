// Opening a log after a crash: torn tails are cut, damage is told and never hidden.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StorageReport } from '../../../storage/disk/reports.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  logDirectory,
  logId,
  openTestStorage,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
  type TestLog,
} from './fixtures.ts';
import { SimulatedDisk, seededRandom } from './simulated-disk.ts';

const small = { segmentBytesMax: 300 };

function batchAt(offset: number): Buffer {
  return dataBatch(BigInt(offset), { valueBytes: 60 });
}

function kinds(reports: readonly StorageReport[]): string[] {
  return reports.map(({ kind }) => kind).filter((kind) => kind !== 'lock-taken-over');
}

/** Six batches, two per segment; all durable unless `durable` says how many. */
async function sixBatches(durable = 6): Promise<TestLog> {
  const before = await createTestLog(small);
  for (let offset = 0; offset < 6; offset++) {
    if (offset === durable) await before.log.flush();
    await before.log.append(batchAt(offset));
  }
  if (durable === 6) await before.log.flush();
  return before;
}

test('a torn tail is cut and reported, and the log goes on', async () => {
  for (const bytes of [1, 40, 61, 100]) {
    const before = await sixBatches();
    before.disk.tamper(segmentPath(4), (content) =>
      Buffer.concat([content, batchAt(6).subarray(0, bytes)]),
    );
    const after = await reopenLog(before, small);
    assert.equal(after.log.end, 6n);
    assert.deepEqual(kinds(after.reports), ['tail-cut']);
    await appendDurably(after.log, batchAt(6));
    const last = await reopenLog(after, small);
    assert.equal(last.log.end, 7n);
    assert.deepEqual(kinds(last.reports), []);
  }
});

test('a tail of zeros, as file systems leave it, is cut', async () => {
  const before = await sixBatches();
  before.disk.tamper(segmentPath(4), (content) => Buffer.concat([content, Buffer.alloc(5000)]));
  const after = await reopenLog(before, small);
  assert.equal(after.log.end, 6n);
  assert.equal(after.disk.content(segmentPath(4)).length, 2 * batchAt(0).length);
});

test('above the durable end the CRC decides, and later segments go with it', async () => {
  const before = await sixBatches(3);
  before.disk.tamper(segmentPath(2), (content) => {
    content.writeUInt8(content.readUInt8(content.length - 1) ^ 1, content.length - 1);
    return content;
  });
  const after = await reopenLog(before, small);
  assert.equal(after.log.end, 3n);
  assert.deepEqual(kinds(after.reports), ['tail-cut']);
  const names = (await after.disk.list(logDirectory)).filter((name) => name.endsWith('.log'));
  assert.deepEqual(names.length, 2);
  const whole = Buffer.concat([0, 1, 2].map(batchAt));
  assert.deepEqual(await readAll(after.log), whole);
});

test('what a killed process had appended is adopted, and durable from then on', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const before = await createTestLog({ disk: new SimulatedDisk(seededRandom(seed)) });
    await appendDurably(before.log, batchAt(0));
    await before.log.append(batchAt(1));
    const after = await reopenLog(before);
    assert.equal(after.log.durableEnd, 2n);
    const last = await reopenLog(after, { powerCut: true });
    assert.equal(last.log.end, 2n, `seed ${seed}`);
  }
});

test('R11: a segment that a killed process had only named was missing after a power cut', async () => {
  const random = seededRandom(5);
  for (let run = 0; run < 10; run++) {
    const before = await createTestLog({ ...small, disk: new SimulatedDisk(random) });
    await appendDurably(before.log, batchAt(0), batchAt(1));
    before.disk.crashAfter(1);
    await assert.rejects(before.log.append(batchAt(2)), /crash/);
    const killed = await reopenLog(before, small);
    const { log } = await reopenLog(killed, { ...small, powerCut: true });
    assert.equal(log.end, 2n);
  }
});

test('R19: a log that ends below its durable end is CORRUPT, never shorter', async () => {
  const whole = 2 * batchAt(0).length;
  for (const [base, keptBytes] of [
    [4, whole - 1],
    [4, batchAt(0).length],
    [4, 0],
    [2, batchAt(0).length],
    [0, 0],
  ] as const) {
    const before = await sixBatches();
    before.disk.tamper(segmentPath(base), (content) => content.subarray(0, keptBytes));
    await assert.rejects(reopenLog(before, small), rejectsWith('CORRUPT'));
  }
});

test('R19: a missing segment is CORRUPT, wherever it was', async () => {
  for (const base of [0, 2, 4]) {
    const before = await sixBatches();
    before.disk.tamperRemove(segmentPath(base));
    await assert.rejects(reopenLog(before, small), rejectsWith('CORRUPT'), `segment ${base}`);
  }
  const before = await sixBatches();
  for (const base of [0, 2, 4]) before.disk.tamperRemove(segmentPath(base));
  await assert.rejects(reopenLog(before, small), rejectsWith('CORRUPT'));
});

test('R19: headers that were overwritten below the durable end are CORRUPT', async () => {
  const before = await sixBatches();
  before.disk.tamper(segmentPath(2), (content) => content.fill(0, 0, 61));
  // A sealed segment is not read at the start: whoever reads it hears of it.
  const after = await reopenLog(before, small);
  const options = { bytesMax: 1 << 20, atLeastOneBatch: true };
  await assert.rejects(after.log.read(2n, options), rejectsWith('CORRUPT'));
  await assert.rejects(after.log.read(3n, options), rejectsWith('CORRUPT'));
  const last = await sixBatches();
  last.disk.tamper(segmentPath(4), (content) => content.fill(0, 0, 61));
  await assert.rejects(reopenLog(last, small), rejectsWith('CORRUPT'));
});

/** Opens the log and reads all of it, whole segments and single batches. */
async function reopenAndReadAll(before: TestLog): Promise<void> {
  const after = await reopenLog(before, small);
  const batch = batchAt(0).length;
  for (const bytesMax of [1 << 20, batch]) {
    const records = await readAll(after.log, bytesMax);
    const expected = Buffer.concat([0, 1, 2, 3, 4, 5].map(batchAt));
    assert.deepEqual(records, expected, 'read as if nothing were wrong');
  }
}

test('R19: a base offset that was flipped below the durable end is CORRUPT', async () => {
  const { length } = batchAt(0);
  for (let batch = 0; batch < 6; batch++) {
    for (let bit = 0; bit < 64; bit++) {
      const before = await sixBatches();
      const path = segmentPath(batch - (batch % 2));
      const place = (batch % 2) * length + (bit >> 3);
      before.disk.tamper(path, (content) => {
        content[place] = (content[place] ?? 0) ^ (1 << (bit & 7));
        return content;
      });
      const where = `bit ${bit} of batch ${batch}`;
      await assert.rejects(reopenAndReadAll(before), rejectsWith('CORRUPT'), where);
    }
  }
});

test('R19: a checkpoint that is gone or unreadable is CORRUPT', async () => {
  const damages = [
    (log: TestLog) => log.disk.tamperRemove(`${logDirectory}/checkpoint`),
    (log: TestLog) => log.disk.tamper(`${logDirectory}/checkpoint`, () => Buffer.alloc(0)),
    (log: TestLog) => log.disk.tamper(`${logDirectory}/checkpoint`, (content) => content.fill(7)),
  ];
  for (const damage of damages) {
    const before = await sixBatches();
    damage(before);
    await assert.rejects(reopenLog(before, small), rejectsWith('CORRUPT'));
  }
});

test('R19: a log that is not there is MISSING', async () => {
  const { storage } = await openTestStorage();
  await assert.rejects(storage.open(logId), rejectsWith('MISSING'));
});

test('R19: bytes that go away while the log is open are CORRUPT, not an empty answer', async () => {
  const { log, disk } = await sixBatches();
  disk.tamper(segmentPath(2), (content) => content.subarray(0, 30));
  const options = { bytesMax: 1 << 20, atLeastOneBatch: true };
  await assert.rejects(log.read(2n, options), rejectsWith('CORRUPT'));
  assert.equal((await log.read(0n, options)).nextOffset, 2n);
});

test('R19: a flipped bit is found by the read, and not served', async () => {
  const { log, disk } = await sixBatches();
  disk.tamper(segmentPath(2), (content) => {
    content.writeUInt8(content.readUInt8(100) ^ 0x10, 100);
    return content;
  });
  const options = { bytesMax: 1 << 20, atLeastOneBatch: true };
  await assert.rejects(log.read(2n, options), rejectsWith('CORRUPT'));
  assert.equal((await log.read(4n, options)).nextOffset, 6n);
});

test('accepted loss: a batch that was flipped, or an offset, is not in the log any more', async () => {
  const accept = { ...small, acceptLoss: true };
  for (const place of [100, 0, 7, batchAt(2).length, batchAt(2).length + 7]) {
    const before = await sixBatches();
    before.disk.tamper(segmentPath(2), (content) => {
      content.writeUInt8(content.readUInt8(place) ^ 0x10, place);
      return content;
    });
    const { log, reports } = await reopenLog(before, accept);
    assert.ok(kinds(reports).includes('loss-accepted'), `byte ${place}`);
    assert.ok(log.end <= 3n, `byte ${place}: ends at ${log.end}`);
    const expected = [0, 1, 2].slice(0, Number(log.end)).map(batchAt);
    assert.deepEqual(await readAll(log), Buffer.concat(expected), `byte ${place}`);
  }
});

test('R19: an offset that no segment could hold is CORRUPT, and is cut when the loss is accepted', async () => {
  const large = (offset: bigint): Buffer => dataBatch(offset, { valueBytes: 6_000 });
  const before = await createTestLog();
  await appendDurably(before.log, large(0n), large(1n), large(2n));
  before.disk.tamper(segmentPath(0), (content) => {
    content.writeBigInt64BE(1n << 60n, large(0n).length);
    return content;
  });
  await assert.rejects(reopenLog(before), rejectsWith('CORRUPT'));
  const { log } = await reopenLog(before, { acceptLoss: true });
  assert.equal(log.end, 1n);
  assert.deepEqual(await readAll(log), large(0n));
});

test('R19: a read that the disk refuses is IO', async () => {
  const { log, disk } = await sixBatches();
  disk.faults.push({ operation: 'read', pathIncludes: segmentPath(2), code: 'IO', times: 1 });
  const options = { bytesMax: 1 << 20, atLeastOneBatch: true };
  await assert.rejects(log.read(2n, options), rejectsWith('IO'));
  assert.equal((await log.read(2n, options)).nextOffset, 4n);
});

test('accepted loss: what can be vouched for stays, the rest is reported as lost', async () => {
  const accept = { ...small, acceptLoss: true };
  const shorter = await sixBatches();
  shorter.disk.tamperRemove(segmentPath(2));
  const cut = await reopenLog(shorter, accept);
  assert.equal(cut.log.end, 2n);
  assert.equal(cut.log.visibleEnd, 2n);
  assert.ok(kinds(cut.reports).includes('loss-accepted'));
  await appendDurably(cut.log, batchAt(2));

  // Once accepted, the log is sound without the word of an operator.
  const later = await reopenLog(cut, small);
  assert.equal(later.log.end, 3n);
  assert.deepEqual(kinds(later.reports), []);

  const headless = await sixBatches();
  headless.disk.tamperRemove(segmentPath(0));
  const moved = await reopenLog(headless, accept);
  assert.equal(moved.log.logStart, 2n);
  assert.equal(moved.log.end, 6n);

  const unpromised = await sixBatches();
  unpromised.disk.tamperRemove(`${logDirectory}/checkpoint`);
  const kept = await reopenLog(unpromised, accept);
  assert.equal(kept.log.logStart, 0n);
  assert.equal(kept.log.end, 6n);

  // The last durable batch claims other offsets: no offset of the log can be trusted.
  const renumbered = await sixBatches();
  renumbered.disk.tamper(segmentPath(4), (content) => {
    content.writeBigInt64BE(9n, batchAt(4).length);
    return content;
  });
  const emptied = await reopenLog(renumbered, accept);
  assert.equal(emptied.log.end, 0n);
  assert.equal(emptied.log.sizeBytes, 0);

  const nothing = await openTestStorage({ acceptLoss: true });
  const fresh = await nothing.storage.open(logId);
  assert.equal(fresh.end, 0n);
  assert.ok(kinds(nothing.reports).includes('loss-accepted'));
});

test('a failed write is taken back, and the next append is sound', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, batchAt(0));
  const { faults } = before.disk;
  faults.push({
    operation: 'write',
    pathIncludes: '.log',
    code: 'FULL',
    times: 1,
    writtenBytes: 40,
  });
  await assert.rejects(before.log.append(batchAt(1)), rejectsWith('DISK_FULL'));
  assert.equal(before.log.end, 1n);
  await appendDurably(before.log, batchAt(1));
  const { log, reports } = await reopenLog(before, { powerCut: true });
  assert.deepEqual(await readAll(log), Buffer.concat([batchAt(0), batchAt(1)]));
  assert.deepEqual(kinds(reports), []);
});

test('a write that fails in the second of two new segments takes both back', async () => {
  const before = await createTestLog(small);
  await appendDurably(before.log, batchAt(0));
  const { faults } = before.disk;
  faults.push({ operation: 'write', pathIncludes: segmentPath(4), code: 'FULL', times: 1 });
  const five = Buffer.concat([1, 2, 3, 4, 5].map(batchAt));
  await assert.rejects(before.log.append(five), rejectsWith('DISK_FULL'));
  assert.equal(before.log.end, 1n);
  assert.deepEqual(before.disk.content(segmentPath(0)), batchAt(0));
  await appendDurably(before.log, five);
  assert.deepEqual(await readAll(before.log), Buffer.concat([batchAt(0), five]));
});

test('a failed sync ends the writing, and what was durable is still read', async () => {
  const { log, disk, reports } = await createTestLog();
  await appendDurably(log, batchAt(0));
  await log.append(batchAt(1));
  disk.faults.push({ operation: 'sync', pathIncludes: '.log', code: 'IO', times: 1 });
  await assert.rejects(log.flush(), rejectsWith('IO'));
  await assert.rejects(log.append(batchAt(2)), rejectsWith('IO'));
  await assert.rejects(log.flush(), rejectsWith('IO'));
  assert.equal(log.visibleEnd, 1n);
  assert.deepEqual(await readAll(log), batchAt(0));
  assert.deepEqual(kinds(reports), ['directory-created', 'log-failed']);
});
