/** Record batches against Kafka's own: opening theirs in every compression, and building ours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type BatchRecord,
  buildBatch,
  buildControlBatch,
  compression,
  forEachBatch,
  type OpenedRecord,
  openRecords,
  Reader,
  readBatchHeader,
  readControlType,
  verifyBatchCrc,
  Writer,
} from '../../protocol/index.ts';
import { openOracle, oracleMissing } from './java.ts';
import { randomBytes, seededRandom } from './random-messages.ts';

const seed = Number(process.env.ORACLE_SEED ?? Date.now() % 1_000_000);
const skip = oracleMissing();

/** The records of one batch as the oracle lists them. */
function readListing(reader: Reader): OpenedRecord[] {
  const records: OpenedRecord[] = [];
  for (let left = reader.readInt32(); left > 0; left--) {
    const offset = reader.readInt64();
    const timestamp = reader.readInt64();
    const key = reader.readNullableBytes();
    const value = reader.readNullableBytes();
    const headers: OpenedRecord['headers'] = [];
    for (let more = reader.readInt32(); more > 0; more--) {
      headers.push({ key: reader.readString(), value: reader.readNullableBytes() });
    }
    records.push({ offset, timestamp, key, value, headers });
  }
  return records;
}

test('batches of every compression open as Kafka opens them', { skip }, async () => {
  const oracle = await openOracle();
  const reader = new Reader(await oracle.run('BatchOracle', ['write', `${seed}`]));
  const seen = new Set<string>();
  while (reader.remaining > 0) {
    const label = reader.readString();
    const batch = reader.readBytes();
    const expected = readListing(reader);
    const where = `${label}, seed ${seed}`;
    const header = readBatchHeader(batch, 0);
    assert.equal(header.sizeInBytes, batch.length, where);
    assert.ok(verifyBatchCrc(batch, 0, batch.length), where);
    assert.equal(
      forEachBatch(batch, () => undefined),
      batch.length,
      where,
    );
    assert.deepEqual([...(await openRecords(batch))], expected, where);
    seen.add(compression(header));
    if (!label.startsWith('control')) continue;
    const type = label.endsWith('ABORT') ? 'ABORT' : 'COMMIT';
    assert.equal(readControlType(batch, 0, header), type);
    const ours = buildControlBatch({
      baseOffset: 42n,
      producerId: 99n,
      producerEpoch: 3,
      partitionLeaderEpoch: 5,
      timestamp: 1234567n,
      type,
      coordinatorEpoch: 7,
    });
    assert.equal(ours.toString('hex'), batch.toString('hex'), where);
  }
  assert.deepEqual([...seen].sort(), ['gzip', 'lz4', 'none', 'snappy', 'zstd']);
});

test('Kafka reads the batches that we build', { skip }, async () => {
  const random = seededRandom(seed);
  const input = new Writer();
  const cases: { baseOffset: bigint; records: BatchRecord[] }[] = [];
  for (let count = 1; count <= 40; count++) {
    const records = Array.from({ length: count }, (_, index) => ({
      key: random() < 0.3 ? null : randomBytes(random, Math.floor(random() * 200)),
      value: random() < 0.3 ? null : randomBytes(random, Math.floor(random() * 3000)),
      timestamp: BigInt(1_700_000_000_000 + Math.floor(random() * 1e6)),
      headers:
        index % 3 === 0 ? [{ key: `é${index}`, value: index % 2 ? null : Buffer.from('v') }] : [],
    }));
    const baseOffset = BigInt(count) * 1_000_000_000_000n;
    cases.push({ baseOffset, records });
    const producer = count % 2 === 0 ? {} : { producerId: 5n, producerEpoch: 0, baseSequence: 9 };
    input.writeBytes(
      buildBatch({ baseOffset, records, isTransactional: count % 4 === 1, ...producer }),
    );
  }
  const oracle = await openOracle();
  const answers = new Reader(await oracle.run('BatchOracle', ['open'], input.toBuffer()));
  for (const { baseOffset, records } of cases) {
    const expected = records.map((record, index) => ({
      ...record,
      offset: baseOffset + BigInt(index),
    }));
    assert.deepEqual(readListing(answers), expected, `seed ${seed}`);
  }
  assert.equal(answers.remaining, 0);
});
