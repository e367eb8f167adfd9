// A Fetch that names one partition many times, as Kafka answers it: once, with what was said last,
// where it was named first. Answered for each time it was a cheap way to keep the disk busy.
//
// Owns: a mirror at the link node, and a promoted topic at a virtual broker. Refuses to know what
// brokers do with what passes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../../../protocol/generated/fetch-request.ts';
import { withoutRepeated } from '../../../src/gateway/repeated-partitions.ts';
import { type Ask, answered, exchangeFetch } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import { copy, fetch, fetchesSeen, virtualBroker } from './promoted-fixtures.ts';
import { batchesOf, FakeSession, ordersId, otherId } from './read-fixtures.ts';

function countReads(log: MemoryMirrorLog): { count: number } {
  const reads = { count: 0 };
  const { read } = MemoryMirrorLog.prototype;
  log.read = (...how) => {
    reads.count++;
    return read.apply(log, how);
  };
  return reads;
}

function repeated(times: number, ask: Ask): Ask[] {
  return Array.from({ length: times }, () => ask);
}

for (const version of [12, 17]) {
  test(`version ${version}: a mirror was read once for each time that a fetch named it`, async () => {
    const log = new MemoryMirrorLog(0n, batch(0n, 4), batch(4n, 2));
    const reads = countReads(log);
    const session = new FakeSession({ kind: 'link' });
    session.directory.put({ name: 'orders', mode: 'mirror', log });
    const asks = [...repeated(50, { fetchOffset: 0n }), { fetchOffset: 4n }];
    const { response } = await exchangeFetch(session, asks, {}, version);
    assert.equal(reads.count, 1);
    assert.equal(response.responses.length, 1);
    assert.equal(response.responses[0]?.partitions.length, 1);
    assert.deepEqual(
      batchesOf(answered(response).records).map(({ base }) => base),
      [4n],
    );
  });
}

test('a copy was read once for each time that a fetch named it', async () => {
  const log = copy();
  const reads = countReads(log);
  const session = virtualBroker(log);
  const asks = [...repeated(50, { fetchOffset: 0n }), { fetchOffset: 50n }];
  const { response } = await fetch(session, asks);
  assert.equal(reads.count, 1);
  assert.equal(response.responses.length, 1);
  assert.equal(batchesOf(answered(response).records)[0]?.base, 50n);
});

test('of one partition in copy and shell, what was named last is answered', async () => {
  const inShell = await fetch(virtualBroker(), [{ fetchOffset: 60n }, { fetchOffset: 103n }]);
  assert.equal(inShell.response.responses.length, 1);
  assert.equal(batchesOf(answered(inShell.response).records)[0]?.base, 103n);
  const session = virtualBroker();
  const inCopy = await fetch(session, [{ fetchOffset: 103n }, { fetchOffset: 90n }]);
  assert.equal(inCopy.response.responses.length, 1);
  assert.equal(batchesOf(answered(inCopy.response).records)[0]?.base, 90n);
  assert.deepEqual(fetchesSeen(session), [], 'the shell was asked for what is not told');
});

test('a partition stays where it was named first', () => {
  const topic = (topicId: string, ...offsets: readonly (readonly [number, bigint])[]) =>
    createFetchTopic({
      topicId,
      partitions: offsets.map(([partition, fetchOffset]) =>
        createFetchPartition({ partition, fetchOffset }),
      ),
    });
  const named = createFetchRequest({
    maxWaitMs: 7,
    topics: [
      topic(ordersId, [0, 1n], [1, 2n]),
      topic(otherId, [0, 3n], [0, 4n]),
      topic(ordersId, [2, 5n], [0, 6n]),
    ],
  });
  assert.deepEqual(withoutRepeated(named), {
    ...named,
    topics: [topic(ordersId, [0, 6n], [1, 2n]), topic(otherId, [0, 4n]), topic(ordersId, [2, 5n])],
  });
  const once = createFetchRequest({ topics: [topic(ordersId, [0, 1n], [1, 2n])] });
  assert.equal(withoutRepeated(once), once);
});
