// Bytes that change on the disk after they were written: found by reads, named, and repaired only
// by what was there.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { damageMax } from '../../../storage/disk/log-damage.ts';
import type { StorageReport } from '../../../storage/disk/reports.ts';
import type { LogDamage } from '../../../storage/mirror-log.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
  type TestLog,
} from './fixtures.ts';

const options = {
  segmentBytesMax: 2000,
  indexInterval: { activeBytes: 300, sealedBytes: 600 },
};
const count = 30;

function batchAt(offset: number, fill = {}): Buffer {
  return dataBatch(BigInt(offset * 2), { records: 2, valueBytes: 50, ...fill });
}

async function someBatches(): Promise<TestLog> {
  const before = await createTestLog(options);
  for (let index = 0; index < count; index++) await appendDurably(before.log, batchAt(index));
  return before;
}

const whole = Buffer.concat(Array.from({ length: count }, (_, index) => batchAt(index)));

function flip(log: TestLog, base: number, at: number, mask = 0x10): void {
  log.disk.tamper(segmentPath(base), (content) => {
    content[at] = (content[at] ?? 0) ^ mask;
    return content;
  });
}

async function readOne(log: TestLog['log'], offset: bigint): Promise<bigint> {
  return (await log.read(offset, { bytesMax: 1, atLeastOneBatch: true })).nextOffset;
}

/** What the source answers: its batches from `from` on, as many bytes as were there. */
function fromSource(damage: LogDamage): Buffer {
  const first = Math.floor(Number(damage.from) / 2);
  const start = first * batchAt(0).length;
  const lengths = Array.from({ length: count }, (_, index) => batchAt(index).length);
  const position = lengths.slice(0, first).reduce((sum, bytes) => sum + bytes, 0);
  assert.ok(start >= 0);
  return whole.subarray(position, position + damage.bytes);
}

function kinds(reports: readonly StorageReport[]): string[] {
  return reports.map(({ kind }) => kind).filter((kind) => kind.startsWith('damage'));
}

test('R19: a flipped bit anywhere in a sealed segment is never served, and is repaired', async () => {
  const probe = await someBatches();
  const { length } = probe.disk.content(segmentPath(0));
  // Every kind of byte of a batch, in the first batch, the last one and others.
  for (let at = 0; at < length; at += at < 61 || length - at < 70 ? 1 : 13) {
    const before = await someBatches();
    const { log } = before;
    const heard: number[] = [];
    log.onDamage(() => heard.push(at));
    flip(before, 0, at);
    await assert.rejects(readAll(log), rejectsWith('CORRUPT'), `byte ${at}`);
    assert.ok(log.damage.length > 0, `byte ${at} is known`);
    assert.equal(heard.length, log.damage.length);
    for (const damage of log.damage) await log.repair(damage, fromSource(damage));
    assert.deepEqual(log.damage, []);
    assert.deepEqual(await readAll(log), whole, `byte ${at} is as it was`);
    const after = await reopenLog(before, { ...options, powerCut: true });
    assert.deepEqual(await readAll(after.log), whole, `byte ${at} stays so`);
    assert.ok(kinds(before.reports).includes('damage-repaired'));
  }
});

test('R19: times were looked up in flipped bytes, and answered with another offset', async () => {
  const probe = await createTestLog(options);
  const batches = Array.from({ length: 8 }, (_, index) => {
    const first = BigInt(index * 10);
    return dataBatch(BigInt(index * 2), { timestamps: [first, first + 5n], valueBytes: 50 });
  });
  await appendDurably(probe.log, ...batches);
  const { length } = probe.disk.content(segmentPath(0));
  const times = [0n, 1n, 24n, 30n, 44n, 71n, 75n];
  const expected = await Promise.all(times.map((time) => probe.log.offsetForTimestamp(time)));
  const largest = await probe.log.offsetOfMaxTimestamp();
  for (let at = 0; at < length; at += at < 61 ? 1 : 11) {
    const before = await createTestLog(options);
    const { log } = before;
    await appendDurably(log, ...batches);
    flip(before, 0, at, 0x04);
    const isDamage = async (lookup: Promise<unknown>, answer: unknown): Promise<void> => {
      try {
        assert.deepEqual(await lookup, answer, `byte ${at}`);
      } catch (error) {
        rejectsWith('CORRUPT')(error);
        assert.ok(log.damage.length > 0, `byte ${at} is known`);
      }
    };
    for (const [index, time] of times.entries()) {
      await isDamage(log.offsetForTimestamp(time), expected[index]);
    }
    await isDamage(log.offsetOfMaxTimestamp(), largest);
  }
});

test('a damage is reported once, however often it is read', async () => {
  const before = await someBatches();
  flip(before, 0, 100);
  for (let index = 0; index < 5; index++) {
    await assert.rejects(readOne(before.log, 0n), rejectsWith('CORRUPT'));
  }
  assert.deepEqual(kinds(before.reports), ['damage-found']);
});

test('ranges beyond the 64th were never known: of very many the latest are', async () => {
  const { log, disk, reports } = await createTestLog({
    segmentBytesMax: 1 << 20,
    indexInterval: { activeBytes: 1, sealedBytes: 1 },
  });
  const sizes: number[] = [];
  const last = damageMax + 4;
  for (let index = 0; index <= last; index++) {
    sizes.push(batchAt(index).length);
    await log.append(batchAt(index));
  }
  await log.flush();
  disk.tamper(segmentPath(0), (content) => {
    let end = 0;
    for (const size of sizes) {
      end += size;
      content[end - 1] = (content[end - 1] ?? 0) ^ 1;
    }
    return content;
  });
  for (let index = 0; index <= last; index++) {
    await assert.rejects(readOne(log, BigInt(index * 2)), rejectsWith('CORRUPT'));
  }
  assert.equal(log.damage.length, damageMax);
  assert.equal(kinds(reports).length, last + 1);
  const newest = log.damage.at(-1);
  assert.equal(newest?.to, BigInt(last * 2 + 2));
  assert.ok(newest !== undefined);
  await log.repair(newest, batchAt(last));
  assert.equal(await readOne(log, BigInt(last * 2)), newest.to);
  // What was forgotten is found again.
  await assert.rejects(readOne(log, 0n), rejectsWith('CORRUPT'));
  assert.equal(log.damage.at(-1)?.from, 0n);
});

test('what is not damaged is served all the while', async () => {
  const before = await someBatches();
  flip(before, 0, 100);
  await assert.rejects(readOne(before.log, 0n), rejectsWith('CORRUPT'));
  assert.equal(await readOne(before.log, 58n), 60n);
  const [damage] = before.log.damage;
  assert.ok(damage !== undefined);
  assert.equal(await readOne(before.log, damage.to), damage.to + 1n);
});

test('only what was there is taken for a repair', async () => {
  const before = await someBatches();
  const { log } = before;
  flip(before, 0, 100);
  await assert.rejects(readOne(log, 0n), rejectsWith('CORRUPT'));
  const [damage] = log.damage;
  assert.ok(damage !== undefined);
  const right = fromSource(damage);
  const { length } = batchAt(0);
  const tampered = before.disk.content(segmentPath(0));

  const wrong: Record<string, Buffer> = {
    shorter: right.subarray(0, right.length - length),
    longer: whole.subarray(0, right.length + length),
    'cut inside a batch': right.subarray(0, right.length - 1),
    'other offsets': whole.subarray(length, length + right.length),
    'a flipped bit': Buffer.from(right).fill(7, 90, 91),
    nothing: Buffer.alloc(0),
  };
  const rewritten = Buffer.from(right);
  batchAt(1, { timestamp: 77n }).copy(rewritten, length);
  wrong['another batch where ours is sound'] = rewritten;
  const renumbered = Buffer.from(right);
  renumbered.writeBigInt64BE(renumbered.readBigInt64BE(0) + 1n, 0);
  wrong['a shifted base offset'] = renumbered;
  for (const [what, records] of Object.entries(wrong)) {
    await assert.rejects(log.repair(damage, records), Error, what);
    assert.deepEqual(before.disk.content(segmentPath(0)), tampered, `${what} changes nothing`);
  }
  await assert.rejects(log.repair({ ...damage, from: 50n }, right), rejectsWith('CORRUPT_BATCH'));
  await log.repair(damage, right);
  assert.deepEqual(await readAll(log), whole);
});

test('a repair of the segment that is written to leaves its end alone', async () => {
  const before = await createTestLog({ ...options, segmentBytesMax: 1 << 20 });
  for (let index = 0; index < count; index++) await appendDurably(before.log, batchAt(index));
  flip(before, 0, whole.length - 5);
  await assert.rejects(readOne(before.log, 59n), rejectsWith('CORRUPT'));
  const [damage] = before.log.damage;
  assert.ok(damage !== undefined);
  await appendDurably(before.log, batchAt(count));
  await before.log.repair(damage, fromSource(damage));
  assert.deepEqual(await readAll(before.log), Buffer.concat([whole, batchAt(count)]));
});

test('damage in what has been cut away is none', async () => {
  const before = await someBatches();
  flip(before, 0, 100);
  await assert.rejects(readOne(before.log, 0n), rejectsWith('CORRUPT'));
  assert.equal(before.log.damage.length, 1);
  await before.log.deleteHead(40n);
  assert.equal(before.log.damage.length, 0);
});

test('retention frees whole pieces, by age and by size, and never what is not visible', async () => {
  const { log } = await createTestLog(options);
  for (let index = 0; index < count; index++) {
    await appendDurably(log, batchAt(index, { timestamp: BigInt(1000 + index) }));
  }
  const none = { oldestTimestamp: null, bytesMax: null };
  assert.equal(log.retentionStart(none), 0n);
  assert.equal(log.retentionStart({ ...none, oldestTimestamp: 1000n }), 0n);
  const start = log.retentionStart({ ...none, oldestTimestamp: 1015n });
  assert.ok(start > 0n && start <= 30n, `${start}`);
  assert.equal(log.retentionStart({ ...none, oldestTimestamp: 5000n }), log.end);
  const sized = log.retentionStart({ ...none, bytesMax: 2500 });
  assert.ok(sized > 0n && sized < log.end);
  await log.deleteHead(sized);
  assert.ok(log.sizeBytes >= 2500 && log.sizeBytes < 5000, `${log.sizeBytes}`);
  log.hold(log.end);
  await log.append(batchAt(count, { timestamp: 1n }));
  await log.flush();
  assert.ok(log.retentionStart({ ...none, oldestTimestamp: 5000n }) <= log.visibleEnd);
});
