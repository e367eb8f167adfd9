// What of a Fetch answer counts for read_committed: aborted transactions and control batches do
// not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  batchHeaderBytes,
  buildBatch,
  buildControlBatch,
  readBatchHeader,
} from '../../../protocol/index.ts';
import { StateError } from '../../../src/state/state.ts';
import { committedBatches, TopicReader } from '../../../src/state/topic-reader.ts';
import { FakeStateCluster } from './fake-state-cluster.ts';

function data(baseOffset: bigint, producerId: bigint, count = 1, isTransactional = true): Buffer {
  const record = { key: Buffer.from('k'), value: Buffer.from('v'), timestamp: 0n };
  return buildBatch({
    baseOffset,
    producerId,
    producerEpoch: 0,
    baseSequence: 0,
    isTransactional,
    records: Array.from({ length: count }, () => record),
  });
}

function marker(baseOffset: bigint, producerId: bigint, type: 'ABORT' | 'COMMIT'): Buffer {
  return buildControlBatch({
    baseOffset,
    producerId,
    producerEpoch: 0,
    partitionLeaderEpoch: 0,
    timestamp: 0n,
    type,
    coordinatorEpoch: 0,
  });
}

function taken(
  batches: Buffer[],
  abortedTransactions: { producerId: bigint; firstOffset: bigint }[] | null,
): { offsets: bigint[]; next: bigint } {
  const result = committedBatches('t', Buffer.concat(batches), { abortedTransactions }, 0n);
  const offsets = result.batches.map((batch) => readBatchHeader(batch, 0).baseOffset);
  return { offsets, next: result.next };
}

test('records of an aborted transaction are left out, and no others', () => {
  const log = [
    data(0n, 7n),
    marker(1n, 7n, 'COMMIT'),
    data(2n, 7n, 3),
    data(5n, 8n),
    marker(6n, 7n, 'ABORT'),
    data(7n, 7n),
    marker(8n, 8n, 'COMMIT'),
    marker(9n, 7n, 'COMMIT'),
  ];
  const result = taken(log, [{ producerId: 7n, firstOffset: 2n }]);
  assert.deepEqual(result, { offsets: [0n, 5n, 7n], next: 10n });
});

test('two aborted transactions of one producer, listed in any order', () => {
  const log = [
    data(0n, 7n),
    marker(1n, 7n, 'ABORT'),
    data(2n, 7n),
    marker(3n, 7n, 'ABORT'),
    data(4n, -1n, 1, false),
  ];
  const aborted = [
    { producerId: 7n, firstOffset: 2n },
    { producerId: 7n, firstOffset: 0n },
  ];
  assert.deepEqual(taken(log, aborted), { offsets: [4n], next: 5n });
});

test('a cut last batch is left for the next read', () => {
  const second = data(1n, -1n, 2, false);
  const log = [data(0n, -1n, 1, false), second.subarray(0, second.length - 1)];
  assert.deepEqual(taken(log, null), { offsets: [0n], next: 1n });
});

test('a damaged batch is an error, not a missing record', () => {
  const batch = data(0n, -1n, 1, false);
  batch.writeUInt8(batch.readUInt8(batchHeaderBytes + 3) ^ 1, batchHeaderBytes + 3);
  assert.throws(
    () => taken([batch], null),
    (error: unknown) => error instanceof StateError && /fails its CRC/.test(error.message),
  );
});

test('an answer that a quota of the destination had emptied ended the reading of the state', async () => {
  const cluster = new FakeStateCluster();
  const { signal } = new AbortController();
  let nowMs = 0;
  const reader = new TopicReader({ cluster, topic: 'state', signal, now: () => nowMs });
  cluster.heldBack = 2;
  assert.equal((await reader.read({ until: 'end', timeoutMs: 1_000 })).size, 0);
  assert.deepEqual(cluster.seen, ['Fetch', 'Fetch', 'Fetch']);

  cluster.heldBack = 2;
  nowMs = 1_000;
  await assert.rejects(reader.read({ until: 'end', timeoutMs: 0 }), {
    code: 'UNAVAILABLE',
    message: 'state topic state: a quota of the broker holds it back',
  });
});
