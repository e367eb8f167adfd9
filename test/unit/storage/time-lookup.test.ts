// Offsets by timestamp, exact also inside compressed batches.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { crc32c } from '../../../protocol/crc32c.ts';
import type { MirrorLog, TimestampOffset } from '../../../storage/mirror-log.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  marker,
  rejectsWith,
  segmentPath,
} from './fixtures.ts';

/** The same batch with its records gzipped, as a producer would have sent it. */
function gzipped(batch: Buffer): Buffer {
  const whole = Buffer.concat([batch.subarray(0, 61), gzipSync(batch.subarray(61))]);
  whole.writeInt32BE(whole.length - 12, 8);
  whole.writeInt16BE(whole.readInt16BE(21) | 1, 21);
  whole.writeUInt32BE(crc32c(whole.subarray(21)), 17);
  return whole;
}

function found(offset: bigint, timestamp: bigint, leaderEpoch = 0): TimestampOffset {
  return { offset, timestamp, leaderEpoch };
}

async function assertFinds(
  log: MirrorLog,
  expected: readonly (readonly [bigint, TimestampOffset | null])[],
): Promise<void> {
  for (const [timestamp, answer] of expected) {
    assert.deepEqual(await log.offsetForTimestamp(timestamp), answer, `at ${timestamp}`);
  }
}

test('the first record at or after a time, inside batches, also compressed ones', async () => {
  const { log } = await createTestLog();
  await appendDurably(
    log,
    dataBatch(0n, { timestamps: [100n, 105n, 103n] }),
    gzipped(dataBatch(3n, { timestamps: [110n, 120n, 115n], epoch: 2 })),
    dataBatch(10n, { timestamps: [118n, 130n], epoch: 2 }),
  );
  await assertFinds(log, [
    [0n, found(0n, 100n)],
    [101n, found(1n, 105n)],
    [106n, found(3n, 110n, 2)],
    [111n, found(4n, 120n, 2)],
    [120n, found(4n, 120n, 2)],
    [121n, found(11n, 130n, 2)],
    [131n, null],
  ]);
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(11n, 130n, 2));
});

test('only what is visible and not below the start is found', async () => {
  const { log } = await createTestLog();
  assert.equal(await log.offsetForTimestamp(0n), null);
  assert.equal(await log.offsetOfMaxTimestamp(), null);
  await appendDurably(
    log,
    dataBatch(0n, { timestamps: [500n, 10n, 20n] }),
    dataBatch(3n, { timestamps: [30n] }),
  );
  await log.append(dataBatch(4n, { timestamps: [900n] }));
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(0n, 500n));
  assert.equal(await log.offsetForTimestamp(501n), null);
  await log.deleteHead(1n);
  assert.deepEqual(await log.offsetForTimestamp(0n), found(1n, 10n));
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(4n, 900n));
  await log.truncate(4n);
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(3n, 30n));
});

test('the earliest among equal largest timestamps, over blocks and segments', async () => {
  const { log } = await createTestLog({ segmentBytesMax: 20_000 });
  const batches: Buffer[] = [];
  for (let offset = 0n; offset < 60n; offset++) {
    const timestamp = offset % 7n === 3n ? 999n : offset;
    batches.push(dataBatch(offset, { timestamp, valueBytes: 1500 }));
  }
  await appendDurably(log, ...batches);
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(3n, 999n));
  await log.deleteHead(4n);
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(10n, 999n));
  assert.deepEqual(await log.offsetForTimestamp(50n), found(10n, 999n));
});

test('control records count, as at a broker', async () => {
  const { log } = await createTestLog();
  await appendDurably(
    log,
    dataBatch(0n, { producerId: 7n, timestamp: 10n }),
    marker(1n, { producerId: 7n, type: 'COMMIT', timestamp: 50n }),
  );
  assert.deepEqual(await log.offsetForTimestamp(11n), found(1n, 50n));
});

test('the first block that may answer is read, and no other', async () => {
  const { log, disk } = await createTestLog({ segmentBytesMax: 1 << 20 });
  const batches: Buffer[] = [];
  for (let offset = 0n; offset < 100n; offset++) {
    batches.push(dataBatch(offset, { timestamp: offset, valueBytes: 2000 }));
  }
  await appendDurably(log, ...batches);
  // Everything before the block of offset 90 is unreadable: the answer does not need it.
  const size = batches[0]?.length ?? 0;
  disk.tamper(segmentPath(0), (content) => content.fill(0, 0, 80 * size));
  assert.deepEqual(await log.offsetForTimestamp(90n), found(90n, 90n));
  assert.deepEqual(await log.offsetOfMaxTimestamp(), found(99n, 99n));
  await assert.rejects(log.offsetForTimestamp(5n), rejectsWith('CORRUPT'));
});

test('R19: records that cannot be opened are CORRUPT', async () => {
  const { log } = await createTestLog();
  const broken = dataBatch(0n, { timestamp: 5n });
  broken.writeInt16BE(1, 21); // says gzip, is not
  broken.writeUInt32BE(crc32c(broken.subarray(21)), 17);
  await appendDurably(log, broken);
  await assert.rejects(log.offsetForTimestamp(1n), rejectsWith('CORRUPT'));
});
