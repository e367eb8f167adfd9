// The 61-byte batch header: reading, checking, shifting in place, building.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32cTypeScript } from '../../../protocol/crc32c.ts';
import {
  buildBatch,
  buildControlBatch,
  compression,
  crc32c,
  forEachBatch,
  isControl,
  isTransactional,
  openRecords,
  ProtocolError,
  patchBatch,
  readBatchHeader,
  readControlType,
  verifyBatchCrc,
} from '../../../protocol/index.ts';

const records = [{ key: Buffer.from('k'), value: null, timestamp: 10n }];

function isCode(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ProtocolError && error.code === code;
}

/** The batch with some bytes overwritten, and its checksum made right again. */
function changed(batch: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(batch);
  change(copy);
  copy.writeUInt32BE(crc32c(copy.subarray(21)), 17);
  return copy;
}

test('CRC-32C: the check value, and both implementations agree', () => {
  assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283);
  for (let length = 0; length < 300; length += 7) {
    const bytes = Buffer.from(Array.from({ length }, (_, index) => (index * 131 + length) & 0xff));
    assert.equal(crc32cTypeScript(bytes), crc32c(bytes), `${length} bytes`);
    assert.equal(crc32cTypeScript(bytes.subarray(1)), crc32c(bytes.subarray(1)));
  }
});

test('an abort marker takes 78 bytes and says what it is', () => {
  const marker = buildControlBatch({
    baseOffset: 41n,
    producerId: 1000n,
    producerEpoch: 2,
    partitionLeaderEpoch: 6,
    timestamp: 1_700_000_000_000n,
    type: 'ABORT',
    coordinatorEpoch: 0,
  });
  const header = readBatchHeader(marker, 0);
  assert.equal(marker.length, 78);
  assert.equal(header.sizeInBytes, 78);
  assert.ok(isControl(header) && isTransactional(header));
  assert.ok(verifyBatchCrc(marker, 0, 78));
  assert.deepEqual(
    [header.producerId, header.producerEpoch, header.baseSequence, header.partitionLeaderEpoch],
    [1000n, 2, -1, 6],
  );
  assert.equal(readControlType(marker, 0, header), 'ABORT');
  const leaderChange = changed(marker, (copy) => copy.writeInt16BE(2, 68));
  assert.equal(readControlType(leaderChange, 0, header), 'OTHER');
  const emptied = changed(marker.subarray(0, 61), (copy) => {
    copy.writeInt32BE(49, 8);
    copy.writeInt32BE(0, 57);
  });
  assert.equal(readControlType(emptied, 0, readBatchHeader(emptied, 0)), 'OTHER');
});

test('sentinels are never shifted', () => {
  const batch = buildBatch({ baseOffset: 0n, records });
  patchBatch(batch, 0, { offsetShift: 5n, epochShift: 5 });
  const header = readBatchHeader(batch, 0);
  assert.equal(header.baseOffset, 5n);
  assert.equal(header.partitionLeaderEpoch, -1);
});

test('a batch inside a larger buffer is read and patched where it is', () => {
  const batch = buildBatch({ baseOffset: 7n, records, partitionLeaderEpoch: 1 });
  const buffer = Buffer.concat([Buffer.alloc(13, 0xee), batch, Buffer.alloc(5, 0xee)]);
  patchBatch(buffer, 13, { offsetShift: 100n, epochShift: 2 });
  const header = readBatchHeader(buffer, 13);
  assert.deepEqual([header.baseOffset, header.partitionLeaderEpoch], [107n, 3]);
  assert.ok(verifyBatchCrc(buffer, 13, header.sizeInBytes));
  assert.equal(buffer[12], 0xee);
  assert.equal(buffer.at(-1), 0xee);
});

test('old formats are refused by name, and so are headers that contradict themselves', () => {
  const batch = buildBatch({ baseOffset: 0n, records });
  for (const magic of [0, 1, 3, -1]) {
    const old = changed(batch, (copy) => copy.writeInt8(magic, 16));
    assert.throws(() => readBatchHeader(old, 0), isCode('UNSUPPORTED_MAGIC'));
    assert.throws(() => forEachBatch(old, () => undefined), isCode('UNSUPPORTED_MAGIC'));
  }
  const broken: ((copy: Buffer) => void)[] = [
    (copy) => copy.writeInt32BE(48, 8),
    (copy) => copy.writeInt32BE(-1, 8),
    (copy) => copy.writeInt32BE(-1, 23),
    (copy) => copy.writeInt32BE(-1, 57),
  ];
  for (const change of broken) {
    assert.throws(() => readBatchHeader(changed(batch, change), 0), isCode('INVALID_BATCH'));
  }
  assert.throws(() => readBatchHeader(batch.subarray(0, 60), 0), isCode('INVALID_BATCH'));
  assert.throws(() => readBatchHeader(batch, -1), isCode('INVALID_BATCH'));
  assert.throws(() => buildBatch({ baseOffset: 0n, records: [] }), isCode('INVALID_BATCH'));
  const unknown = changed(batch, (copy) => copy.writeInt16BE(5, 21));
  assert.throws(() => compression(readBatchHeader(unknown, 0)), isCode('INVALID_BATCH'));
});

test('log-append time is the time of every record', async () => {
  const two = buildBatch({
    baseOffset: 0n,
    records: [...records, { key: null, value: Buffer.from('v'), timestamp: 25n }],
  });
  const logAppend = changed(two, (copy) => {
    copy.writeInt16BE(0x08, 21);
    copy.writeBigInt64BE(99n, 35);
  });
  const times = (opened: Iterable<{ timestamp: bigint }>) =>
    [...opened].map((record) => record.timestamp);
  assert.deepEqual(times(await openRecords(two)), [10n, 25n]);
  assert.deepEqual(times(await openRecords(logAppend)), [99n, 99n]);
});

test('records must be as many as announced and fill their data', async () => {
  const batch = buildBatch({ baseOffset: 0n, records: [...records, ...records] });
  const fewer = changed(batch, (copy) => copy.writeInt32BE(1, 57));
  const more = changed(batch, (copy) => copy.writeInt32BE(3, 57));
  const longer = changed(batch, (copy) => copy.writeInt8(2, 61));
  const opened = async (bytes: Buffer) => [...(await openRecords(bytes))];
  await assert.rejects(opened(fewer), isCode('CORRUPT_RECORDS'));
  await assert.rejects(opened(more), isCode('TRUNCATED'));
  await assert.rejects(opened(longer), isCode('CORRUPT_RECORDS'));
  await assert.rejects(openRecords(batch.subarray(0, batch.length - 1)), isCode('INVALID_BATCH'));
});

test('records are parsed as they are asked for, and the first ones stand', async () => {
  const batch = buildBatch({ baseOffset: 0n, records: [...records, ...records] });
  const broken = changed(batch, (copy) => copy.writeInt8(-1, copy.length - 1));
  const iterator = (await openRecords(broken))[Symbol.iterator]();
  assert.equal(iterator.next().value?.offset, 0n);
  assert.throws(() => iterator.next(), ProtocolError);
});
