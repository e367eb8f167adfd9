// Open and aborted transactions, the last stable offset, and holds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32c } from '../../../protocol/crc32c.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  marker,
  readAll,
  rejectsWith,
  reopenLog,
  segmentPath,
} from './fixtures.ts';

test('R7: the last stable offset stays below a transaction until its end is visible', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n), dataBatch(1n, { producerId: 7n, records: 2 }));
  assert.equal(log.lastStableOffset, 1n);
  assert.deepEqual(log.openTransactions(), [
    { producerId: 7n, producerEpoch: 0, firstOffset: 1n, lastOffset: 2n },
  ]);
  await appendDurably(log, dataBatch(3n), dataBatch(4n, { producerId: 8n, producerEpoch: 5 }));
  assert.equal(log.lastStableOffset, 1n);
  // Appended but not durable: readers must not learn of the end yet.
  await log.append(marker(5n, { producerId: 7n, type: 'COMMIT' }));
  assert.equal(log.lastStableOffset, 1n);
  assert.deepEqual(
    log.openTransactions().map(({ producerId }) => producerId),
    [8n],
  );
  await log.flush();
  assert.equal(log.lastStableOffset, 4n);
  await appendDurably(log, marker(6n, { producerId: 8n, type: 'ABORT' }));
  assert.equal(log.lastStableOffset, 7n);
});

test('R7: aborted transactions of a range are those that overlap it', async () => {
  const before = await createTestLog({ segmentBytesMax: 250 });
  await appendDurably(
    before.log,
    dataBatch(0n, { producerId: 1n }),
    dataBatch(1n, { producerId: 2n }),
    marker(2n, { producerId: 1n, type: 'ABORT' }),
    dataBatch(3n, { producerId: 1n }),
    marker(4n, { producerId: 2n, type: 'COMMIT' }),
    marker(5n, { producerId: 1n, type: 'ABORT' }),
    dataBatch(6n, { producerId: 2n }),
    marker(7n, { producerId: 2n, type: 'ABORT' }),
    marker(8n, { producerId: 3n, type: 'ABORT' }),
  );
  const { log } = await reopenLog(before, { segmentBytesMax: 250 });
  for (const each of [before.log, log]) {
    if (each === before.log) continue;
    const starts = async (from: bigint, to: bigint): Promise<string[]> =>
      (await each.abortedTransactions(from, to)).map(
        ({ producerId, firstOffset, lastOffset }) => `${producerId}:${firstOffset}-${lastOffset}`,
      );
    assert.deepEqual(await starts(0n, 9n), ['1:0-2', '1:3-5', '2:6-7']);
    assert.deepEqual(await starts(2n, 3n), ['1:0-2']);
    assert.deepEqual(await starts(3n, 4n), ['1:3-5']);
    assert.deepEqual(await starts(6n, 6n), []);
    assert.deepEqual(await starts(8n, 9n), []);
    assert.equal(each.lastStableOffset, 9n);
  }
});

test('R7: an end marker that the cleaner had emptied was refused as corrupt', async () => {
  const before = await createTestLog();
  const emptied = marker(3n, { producerId: 7n, type: 'COMMIT' }).subarray(0, 61);
  emptied.writeInt32BE(49, 8);
  emptied.writeInt32BE(0, 57);
  emptied.writeUInt32BE(crc32c(emptied.subarray(21)), 17);
  await appendDurably(before.log, dataBatch(0n), emptied, dataBatch(4n, { producerId: 8n }));
  const { log } = await reopenLog(before);
  assert.equal(log.lastStableOffset, 4n);
  assert.deepEqual(await readAll(log), before.disk.content(segmentPath(0)));
  assert.deepEqual(await log.offsetForTimestamp(1001n), null);
});

test('the search for aborted transactions ends early only where nothing can follow', async () => {
  const { log } = await createTestLog();
  // Producer 1 stays open over the aborts of producer 2: its own abort begins below theirs.
  await appendDurably(
    log,
    dataBatch(0n, { producerId: 1n }),
    dataBatch(1n, { producerId: 2n }),
    marker(2n, { producerId: 2n, type: 'ABORT' }),
    dataBatch(3n, { producerId: 2n }),
    marker(4n, { producerId: 2n, type: 'ABORT' }),
    marker(5n, { producerId: 1n, type: 'ABORT' }),
  );
  const found = await log.abortedTransactions(0n, 1n);
  assert.deepEqual(found, [{ producerId: 1n, firstOffset: 0n, lastOffset: 5n }]);
});

test('failover: ABORT batches above the hold stay unseen until it is lifted', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n, { producerId: 7n, records: 2, epoch: 3 }));
  let advances = 0;
  log.onAdvance(() => {
    advances += 1;
  });
  log.hold(2n);
  await appendDurably(log, marker(2n, { producerId: 7n, type: 'ABORT', epoch: 4 }));
  assert.equal(log.end, 3n);
  assert.equal(log.durableEnd, 3n);
  assert.equal(log.visibleEnd, 2n);
  assert.equal(log.lastStableOffset, 0n);
  assert.equal(log.visibleEpoch, 3);
  assert.deepEqual(log.epochEnd(4), { epoch: 3, endOffset: 2n });
  assert.deepEqual(await log.abortedTransactions(0n, 3n), []);
  await assert.rejects(
    log.read(3n, { bytesMax: 1, atLeastOneBatch: true }),
    rejectsWith('OFFSET_OUT_OF_RANGE'),
  );
  assert.equal((await log.read(2n, { bytesMax: 99, atLeastOneBatch: true })).bytes, 0);
  assert.equal(advances, 0);
  log.hold(null);
  assert.equal(advances, 1);
  assert.equal(log.visibleEnd, 3n);
  assert.equal(log.lastStableOffset, 3n);
  assert.equal(log.visibleEpoch, 4);
  assert.deepEqual(log.epochEnd(3), { epoch: 3, endOffset: 2n });
  assert.equal((await log.abortedTransactions(0n, 3n)).length, 1);
});

test('a failed promotion cuts ABORT batches off, and the transaction is open again', async () => {
  const { log } = await createTestLog();
  const data = dataBatch(0n, { producerId: 7n, records: 2, epoch: 3 });
  await appendDurably(log, data);
  log.hold(log.end);
  await appendDurably(log, marker(2n, { producerId: 7n, type: 'ABORT', epoch: 4 }));
  await log.truncate(2n);
  log.hold(null);
  assert.equal(log.end, 2n);
  assert.equal(log.visibleEnd, 2n);
  assert.equal(log.lastStableOffset, 0n);
  assert.equal(log.lastEpoch, 3);
  assert.equal(log.openTransactions().length, 1);
  assert.deepEqual(await readAll(log), data);
  await appendDurably(log, marker(2n, { producerId: 7n, type: 'COMMIT', epoch: 3 }));
  assert.equal(log.lastStableOffset, 3n);
  assert.deepEqual(await log.abortedTransactions(0n, 3n), []);
});

test('R8: a hold survives a crash, so a restart brings no ABORT batches to light', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n, { producerId: 7n, epoch: 3 }));
  before.log.hold(1n);
  await before.log.append(marker(1n, { producerId: 7n, type: 'ABORT', epoch: 4 }));
  await before.log.flush();
  const after = await reopenLog(before, { powerCut: true });
  assert.equal(after.log.heldFrom, 1n);
  assert.equal(after.log.end, 2n);
  assert.equal(after.log.visibleEnd, 1n);
  assert.equal(after.log.lastStableOffset, 0n);
  after.log.hold(null);
  assert.equal(after.log.visibleEnd, 2n);
  await after.log.flush();
  const last = await reopenLog(after, { powerCut: true });
  assert.equal(last.log.heldFrom, null);
  assert.equal(last.log.visibleEnd, 2n);
});

test('R8: a hold below what was seen does not take it back', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n), dataBatch(1n));
  log.hold(1n);
  assert.equal(log.visibleEnd, 2n);
  await appendDurably(log, dataBatch(2n));
  assert.equal(log.visibleEnd, 2n);
  log.hold(null);
  assert.equal(log.visibleEnd, 3n);
});

test('transactions that began in a deleted head no longer hold readers back', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n, { producerId: 7n }), dataBatch(1n), dataBatch(2n));
  assert.equal(log.lastStableOffset, 0n);
  await log.deleteHead(1n);
  assert.equal(log.lastStableOffset, 3n);
  assert.deepEqual(log.openTransactions(), []);
});
