// The end of a promoted copy of which a part was lost and given up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  buildGapBatch,
  forEachBatch,
  nextOffset,
  verifyBatchCrc,
} from '../../../protocol/index.ts';
import { closeAfterLoss } from '../../../src/link/mirror/accepted-loss.ts';
import { appendDurably, createTestLog, dataBatch, readAll } from '../storage/fixtures.ts';

test('a gap batch has no records, covers its range, and is sound', () => {
  const batch = buildGapBatch({ baseOffset: 7n, lastOffset: 90n, partitionLeaderEpoch: 3 });
  assert.equal(batch.length, 61);
  assert.ok(verifyBatchCrc(batch, 0, batch.length));
  forEachBatch(batch, (header) => {
    assert.equal(header.recordsCount, 0);
    assert.equal(header.partitionLeaderEpoch, 3);
    assert.equal(nextOffset(header), 91n);
  });
});

test('R19, R7: the copy ends at its extent, keeps what is left, and leaves no transaction open', async () => {
  const { log } = await createTestLog();
  const left = [dataBatch(0n, { records: 3 }), dataBatch(3n, { records: 2, producerId: 9n })];
  await appendDurably(log, ...left);
  await closeAfterLoss(log, 40n);
  assert.equal(log.end, 40n);
  assert.equal(log.durableEnd, 40n);
  assert.equal(log.lastStableOffset, 40n);
  assert.deepEqual(log.openTransactions(), []);
  const whole = await readAll(log);
  const kept = Buffer.concat(left);
  assert.deepEqual(whole.subarray(0, kept.length), kept);
  const found = await log.read(20n, { bytesMax: 1000, atLeastOneBatch: true });
  assert.equal(found.nextOffset, 40n);
});

test('a log of which nothing is left starts at the end of its extent', async () => {
  const { log } = await createTestLog();
  await closeAfterLoss(log, 40n);
  assert.equal(log.logStart, 40n);
  assert.equal(log.end, 40n);
});
