// Sealed segments: what a restart reads, what their index files hold, and that none of these files
// is believed when it is not what it was.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32c } from '../../../protocol/crc32c.ts';
import type { StorageReport } from '../../../storage/disk/reports.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  logDirectory,
  marker,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
  type TestLog,
} from './fixtures.ts';

const options = {
  segmentBytesMax: 2000,
  indexInterval: { activeBytes: 200, sealedBytes: 400 },
};

/** Forty batches of about 170 bytes in four segments, two producers among them. */
async function fourSegments(): Promise<TestLog & { records: Buffer }> {
  const before = await createTestLog(options);
  const batches: Buffer[] = [];
  for (let offset = 0n; offset < 40n; offset++) {
    const timestamp = 1000n + ((offset * 7n) % 40n);
    const epoch = Number(offset / 15n);
    const isEnd = offset % 10n === 9n;
    batches.push(
      isEnd
        ? marker(offset, { producerId: 5n, type: offset === 19n ? 'COMMIT' : 'ABORT', epoch })
        : dataBatch(offset, {
            epoch,
            timestamp,
            valueBytes: 80,
            ...(offset % 10n >= 6n ? { producerId: 5n } : {}),
          }),
    );
  }
  for (const batch of batches) await appendDurably(before.log, batch);
  return { ...before, records: Buffer.concat(batches) };
}

async function names(log: TestLog, suffix: string): Promise<string[]> {
  return (await log.disk.list(logDirectory)).filter((name) => name.endsWith(suffix)).sort();
}

function kinds(reports: readonly StorageReport[]): string[] {
  return reports.map(({ kind }) => kind).filter((kind) => kind !== 'lock-taken-over');
}

/** Every answer that rests on an index. */
async function answers({ log }: TestLog): Promise<unknown> {
  const times: unknown[] = [];
  for (let time = 990n; time < 1045n; time++) times.push(await log.offsetForTimestamp(time));
  const singles: bigint[] = [];
  for (let offset = log.logStart; offset < log.visibleEnd; offset++) {
    const read = await log.read(offset, { bytesMax: 1, atLeastOneBatch: true });
    singles.push(read.baseOffset);
  }
  return {
    times,
    singles,
    max: await log.offsetOfMaxTimestamp(),
    aborted: await log.abortedTransactions(0n, 40n),
    late: await log.abortedTransactions(25n, 40n),
    epochs: [0, 1, 2, 3].map((epoch) => log.epochEnd(epoch)),
    open: log.openTransactions(),
    stable: log.lastStableOffset,
    lastEpoch: log.lastEpoch,
  };
}

test('a restart reads nothing of sealed segments', async () => {
  const before = await fourSegments();
  const bases = (await names(before, '.index')).map((name) => Number.parseInt(name, 10));
  assert.ok(bases.length >= 3, 'sealed segments');
  const expected = await answers(before);
  for (const base of bases) {
    before.disk.faults.push({ operation: 'open', pathIncludes: segmentPath(base), code: 'IO' });
  }
  const { faults } = before.disk;
  const after = await reopenLog(before, options);
  assert.equal(faults.length, bases.length);
  assert.deepEqual(kinds(after.reports), []);
  assert.deepEqual(await answers(after), expected);
  assert.deepEqual(await readAll(after.log), before.records);
});

test('the open of a sealed segment is refused by the disk only when it is read', async () => {
  const before = await fourSegments();
  const disk = before.disk.processKill();
  disk.faults.push({ operation: 'open', pathIncludes: segmentPath(0), code: 'IO' });
  const after = await reopenLog({ ...before, disk }, options);
  assert.equal(after.log.end, 40n);
});

test('index files that are lost, cut, flipped or too long are made again', async () => {
  const damages: Record<string, (content: Buffer) => Buffer> = {
    lost: (content) => content,
    emptied: () => Buffer.alloc(0),
    cut: (content) => content.subarray(0, Math.max(0, content.length - 3)),
    flipped: (content) => content.fill(content[5] === 1 ? 2 : 1, 5, 6),
    longer: (content) => Buffer.concat([content, Buffer.alloc(34)]),
  };
  for (const suffix of ['.index', '.timeindex', '.txnindex']) {
    for (const [how, damage] of Object.entries(damages)) {
      const before = await fourSegments();
      const expected = await answers(before);
      const found = await names(before, suffix);
      const paths = found.map((name) => `${logDirectory}/${name}`);
      const filled = paths.filter((path) => before.disk.content(path).length > 0);
      assert.ok(filled.length > 0, `${suffix} files hold something`);
      const whole = filled.map((path) => Buffer.from(before.disk.content(path)));
      for (const path of filled) {
        if (how === 'lost') before.disk.tamperRemove(path);
        else before.disk.tamper(path, damage);
      }
      const after = await reopenLog(before, options);
      assert.deepEqual(await answers(after), expected, `${suffix} ${how}`);
      const rebuilt = kinds(after.reports).filter((kind) => kind === 'index-rebuilt');
      assert.ok(rebuilt.length > 0, `${suffix} ${how}`);
      // A file that no question needed is not looked at.
      const present = new Set(await names(after, suffix));
      const same = filled.filter((path, index) => {
        if (!present.has(path.slice(logDirectory.length + 1))) return false;
        return after.disk.content(path).equals(whole[index] ?? Buffer.alloc(0));
      });
      assert.equal(same.length, rebuilt.length, `${suffix} ${how}: the same files again`);
    }
  }
});

test('a list of sealed segments that is damaged costs reading, nothing else', async () => {
  const damages: ((content: Buffer) => Buffer)[] = [
    () => Buffer.alloc(0),
    (content) => content.fill(0),
    (content) => content.fill(9, 15, 16),
    (content) => content.subarray(0, content.length - 1),
    (content) => content.fill(0xff, 60, 61),
    (content) => Buffer.concat([content, Buffer.alloc(300, 3)]),
  ];
  for (const [index, damage] of damages.entries()) {
    const before = await fourSegments();
    const expected = await answers(before);
    before.disk.tamper(`${logDirectory}/sealed`, damage);
    const after = await reopenLog(before, options);
    assert.deepEqual(await answers(after), expected, `damage ${index}`);
    assert.deepEqual(kinds(after.reports), [], `damage ${index}`);
    const last = await reopenLog(after, options);
    assert.deepEqual(await answers(last), expected, `damage ${index}, once more`);
  }
});

test('an entry of a sealed segment does not outlive a truncation', async () => {
  const before = await fourSegments();
  const stale = Buffer.from(before.disk.content(`${logDirectory}/sealed`));
  await before.log.truncate(5n);
  const other = Buffer.concat(
    Array.from({ length: 35 }, (_, index) =>
      dataBatch(BigInt(5 + index), { epoch: 9, timestamp: 5n, valueBytes: 80 }),
    ),
  );
  await appendDurably(before.log, other);
  const expected = await answers(before);
  before.disk.tamper(`${logDirectory}/sealed`, () => stale);
  const after = await reopenLog(before, options);
  assert.deepEqual(await answers(after), expected);
  assert.equal(after.log.epochEnd(0).endOffset, 5n);
});

test('entries of deleted segments do not pile up for ever', async () => {
  const few = { segmentBytesMax: 300 };
  let current = await createTestLog(few);
  for (let round = 0; round < 3; round++) {
    for (let index = 0; index < 160; index++) {
      await appendDurably(current.log, dataBatch(current.log.end, { valueBytes: 100 }));
    }
    await current.log.deleteHead(current.log.end - 2n);
    current = await reopenLog(current, few);
    assert.ok(current.disk.content(`${logDirectory}/sealed`).length < 110 * 100);
  }
});

test('a sealed segment that is shorter or gone is CORRUPT', async () => {
  const shorter = await fourSegments();
  shorter.disk.tamper(segmentPath(0), (content) => content.subarray(0, content.length - 1));
  await assert.rejects(reopenLog(shorter, options), rejectsWith('CORRUPT'));
  const gone = await fourSegments();
  gone.disk.tamperRemove(segmentPath(Number.parseInt((await names(gone, '.index'))[1] ?? '', 10)));
  await assert.rejects(reopenLog(gone, options), rejectsWith('CORRUPT'));
});

test('a disk that takes no index files leaves the log working, and is reported', async () => {
  const before = await createTestLog(options);
  before.disk.faults.push({ operation: 'open', pathIncludes: 'index', code: 'FULL' });
  const batches = Array.from({ length: 30 }, (_, index) =>
    dataBatch(BigInt(index), { valueBytes: 100 }),
  );
  for (const batch of batches) await appendDurably(before.log, batch);
  assert.deepEqual(await readAll(before.log), Buffer.concat(batches));
  assert.ok(kinds(before.reports).includes('index-unwritten'));
  const after = await reopenLog(before, options);
  assert.deepEqual(await readAll(after.log), Buffer.concat(batches));
  assert.ok((await names(after, '.index')).length > 0, 'sealed by the restart');
});

/**
 * Slots as earlier formats had them: 1 without a generation, the CRC at 60; 2 without epochs that
 * were shown, the CRC at 68.
 */
function asFormat(format: 1 | 2, content: Buffer): Buffer {
  const crcAt = { 1: 60, 2: 68 }[format];
  for (const at of [0, 4096]) {
    const slot = content.subarray(at, at + 80);
    if (slot.length < 80 || slot.readUInt32BE(0) === 0) continue;
    slot.writeInt32BE(format, 4);
    slot.writeUInt32BE(crc32c(slot.subarray(0, crcAt)), crcAt);
    slot.fill(0, crcAt + 4);
  }
  // Its second slot ended here.
  return content.subarray(0, 4096 + crcAt + 4);
}

test('a log of the first format is read, and gets its indexes', async () => {
  const before = await fourSegments();
  const expected = await answers(before);
  for (const suffix of ['index', 'sealed']) {
    for (const name of await names(before, suffix)) {
      before.disk.tamperRemove(`${logDirectory}/${name}`);
    }
  }
  before.disk.tamper(`${logDirectory}/checkpoint`, (content) => asFormat(1, content));
  const after = await reopenLog(before, options);
  assert.deepEqual(await answers(after), expected);
  assert.deepEqual(kinds(after.reports), []);
  assert.ok((await names(after, '.index')).length >= 3);
  const last = await reopenLog(after, options);
  assert.deepEqual(await answers(last), expected);
});

test('a log of the second format is read, and what readers saw is known by its batches', async () => {
  const before = await fourSegments();
  const expected = await answers(before);
  before.disk.tamper(`${logDirectory}/checkpoint`, (content) => asFormat(2, content));
  const after = await reopenLog(before, options);
  assert.deepEqual(await answers(after), expected);
  assert.deepEqual(kinds(after.reports), []);
  for (const { log } of [after, await reopenLog(after, options)]) {
    assert.deepEqual([log.shownEpoch, log.isCut], [2, false]);
  }
});

test('a checkpoint of a later format is refused by name', async () => {
  const before = await fourSegments();
  before.disk.tamper(`${logDirectory}/checkpoint`, (content) => {
    content.writeInt32BE(7, 4);
    return content;
  });
  await assert.rejects(reopenLog(before, options), /has format 7, this version .* reads 1 to 3/);
});
