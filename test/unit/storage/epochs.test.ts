// Leader epochs of stored batches, and answers to OffsetForLeaderEpoch.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appendDurably, createTestLog, dataBatch, reopenLog } from './fixtures.ts';

test('epochEnd answers from the epochs of stored batches', async () => {
  const before = await createTestLog({ logStart: 10n });
  assert.deepEqual(before.log.epochEnd(0), { epoch: -1, endOffset: -1n });
  await appendDurably(
    before.log,
    dataBatch(10n, { epoch: 2 }),
    dataBatch(11n, { epoch: 2 }),
    dataBatch(15n, { epoch: 5 }),
    dataBatch(16n, { epoch: 6 }),
  );
  for (const { log } of [before, await reopenLog(before)]) {
    assert.deepEqual(log.epochEnd(1), { epoch: -1, endOffset: 10n });
    assert.deepEqual(log.epochEnd(2), { epoch: 2, endOffset: 15n });
    assert.deepEqual(log.epochEnd(4), { epoch: 2, endOffset: 15n });
    assert.deepEqual(log.epochEnd(5), { epoch: 5, endOffset: 16n });
    assert.deepEqual(log.epochEnd(6), { epoch: 6, endOffset: 17n });
    assert.deepEqual(log.epochEnd(9), { epoch: 6, endOffset: 17n });
  }
});

test('R8: the visible epoch is that of durable batches only', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n, { epoch: 1 }));
  await log.append(dataBatch(1n, { epoch: 2 }));
  assert.equal(log.lastEpoch, 2);
  assert.equal(log.visibleEpoch, 1);
  assert.deepEqual(log.epochEnd(2), { epoch: 1, endOffset: 1n });
  await log.flush();
  assert.equal(log.visibleEpoch, 2);
});

test('the epoch of a deleted head is kept, also over a restart', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n, { epoch: 1 }), dataBatch(1n, { epoch: 4 }));
  await before.log.deleteHead(2n);
  const after = await reopenLog(before, { powerCut: true });
  for (const { log } of [before, after]) {
    assert.equal(log.lastEpoch, 4);
    assert.equal(log.visibleEpoch, 4);
    assert.deepEqual(log.epochEnd(4), { epoch: 4, endOffset: 2n });
  }
  await appendDurably(after.log, dataBatch(2n, { epoch: 6 }));
  assert.deepEqual(after.log.epochEnd(3), { epoch: -1, endOffset: 2n });
  assert.deepEqual(after.log.epochEnd(4), { epoch: 4, endOffset: 2n });
});

test('R8: the epoch of a head whose last batch was cut off went back with a restart', async () => {
  const before = await createTestLog();
  await appendDurably(
    before.log,
    dataBatch(0n, { epoch: 1 }),
    dataBatch(1n, { epoch: 4, records: 2 }),
  );
  // The log starts within the second batch, which then goes; the first is still in the file.
  await before.log.deleteHead(2n);
  await before.log.truncate(2n);
  for (const { log } of [before, await reopenLog(before, { powerCut: true })]) {
    assert.deepEqual([log.logStart, log.end, log.lastEpoch], [2n, 2n, 4]);
    assert.deepEqual(log.epochEnd(4), { epoch: 4, endOffset: 2n });
  }
});

test('offsets that were jumped over leave no epoch to be compared with', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n, { epoch: 4 }));
  await before.log.deleteHead(100n);
  for (const { log } of [before, await reopenLog(before)]) {
    assert.equal(log.lastEpoch, -1);
    assert.equal(log.end, 100n);
  }
});

test('a truncation takes epochs back', async () => {
  const { log } = await createTestLog();
  await appendDurably(log, dataBatch(0n, { epoch: 1 }), dataBatch(1n, { epoch: 2 }));
  await log.truncate(1n);
  assert.equal(log.lastEpoch, 1);
  assert.equal(log.visibleEpoch, 1);
  await appendDurably(log, dataBatch(1n, { epoch: 1 }));
  assert.deepEqual(log.epochEnd(2), { epoch: 1, endOffset: 2n });
});

test('R8: epochs that readers were shown were forgotten over a restart', async () => {
  const cut = await createTestLog();
  const first = dataBatch(0n, { epoch: 1 });
  await appendDurably(cut.log, first, dataBatch(1n, { epoch: 4 }));
  assert.equal(cut.log.isCut, false);
  await cut.log.truncate(1n);
  const cutAgain = await reopenLog(cut, { powerCut: true });
  for (const { log } of [cut, cutAgain]) {
    assert.deepEqual([log.visibleEpoch, log.shownEpoch, log.isCut], [1, 4, true]);
  }
  await appendDurably(cutAgain.log, dataBatch(1n, { epoch: 3 }));
  assert.equal(cutAgain.log.isCut, true, 'of an epoch that readers know already');
  await appendDurably(cutAgain.log, dataBatch(2n, { epoch: 5 }));
  for (const { log } of [cutAgain, await reopenLog(cutAgain, { powerCut: true })]) {
    assert.deepEqual([log.shownEpoch, log.isCut], [5, false]);
  }
  const jumped = await createTestLog();
  await appendDurably(jumped.log, dataBatch(0n, { epoch: 4 }));
  await jumped.log.deleteHead(100n);
  for (const { log } of [jumped, await reopenLog(jumped, { powerCut: true })]) {
    assert.deepEqual([log.visibleEpoch, log.shownEpoch, log.isCut], [-1, 4, false]);
  }
});

test('R8: what nobody was shown is cut off without a word', async () => {
  const before = await createTestLog();
  await appendDurably(before.log, dataBatch(0n, { epoch: 1 }));
  before.log.hold(1n);
  await before.log.append(dataBatch(1n, { epoch: 4 }));
  await before.log.flush();
  await before.log.truncate(1n);
  before.log.hold(null);
  for (const { log } of [before, await reopenLog(before)]) {
    assert.deepEqual([log.shownEpoch, log.isCut], [1, false]);
  }
});

test('R8: a new generation knows what readers of the one before were shown', async () => {
  const before = await createTestLog();
  const first = dataBatch(0n, { epoch: 1 });
  await appendDurably(before.log, first, dataBatch(1n, { epoch: 4 }));
  await before.log.truncate(1n);
  const rebuild = await before.log.rebuild(0n);
  await rebuild.append(first);
  await rebuild.swap();
  for (const { log } of [before, await reopenLog(before, { powerCut: true })]) {
    assert.deepEqual([log.shownEpoch, log.isCut], [4, true]);
  }
});
