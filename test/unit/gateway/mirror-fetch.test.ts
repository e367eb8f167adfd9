// Fetch on the link node: mirrors out of the mirror log.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import type { FetchResponse } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { type Ask, answered, exchangeFetch } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog, marker } from './memory-mirror-log.ts';
import {
  batchesOf,
  DESCRIBE,
  FakeSession,
  linkNodeId,
  ordersId,
  otherId,
  promotedAt100,
  READ,
} from './read-fixtures.ts';

function onLinkNode(log: MemoryMirrorLog | null, advertisedEpoch = 5): FakeSession {
  const session = new FakeSession({ kind: 'link' });
  session.directory.put({ name: 'orders', mode: 'mirror', log, advertisedEpoch });
  return session;
}

async function fetch(
  session: FakeSession,
  ask: Ask | readonly Ask[],
  fields: Partial<FetchRequest> = {},
  version = 17,
): Promise<FetchResponse> {
  const asks = Array.isArray(ask) ? ask : [ask];
  const { response } = await exchangeFetch(session, asks, fields, version);
  return response;
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 5000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'the condition did not come true');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

for (const version of [4, 5, 7, 9, 11, 12, 13, 15, 16, 17, 18]) {
  test(`R1: version ${version} serves stored bytes without a session`, async () => {
    const stored = [batch(3n, 4), batch(10n, 2, { epoch: 5 })];
    const session = onLinkNode(new MemoryMirrorLog(3n, ...stored));
    const response = await fetch(session, { fetchOffset: 4n }, {}, version);
    const data = answered(response);
    assert.equal(data.errorCode, ErrorCode.NONE);
    assert.deepEqual(data.records, Buffer.concat(stored));
    assert.equal(data.highWatermark, 12n);
    assert.equal(data.lastStableOffset, 12n);
    assert.equal(data.logStartOffset, version >= 5 ? 3n : -1n);
    assert.equal(data.abortedTransactions, null);
    assert.equal(response.sessionId, 0);
    const topic = response.responses[0];
    assert.equal(
      version >= 13 ? topic?.topicId : topic?.topic,
      version >= 13 ? ordersId : 'orders',
    );
    const upstream = session.broker.seen.filter(({ apiKey }) => apiKey !== 3);
    assert.deepEqual(upstream, [], 'the shell never sees the fetch');
  });
}

test('R14: while too much is held an answer has no records, and later it has them', async () => {
  const stored = batch(0n, 4);
  const session = onLinkNode(new MemoryMirrorLog(0n, stored));
  const { held } = session.services;
  held.add(held.bytesMax);
  const full = answered(await fetch(session, { fetchOffset: 0n }));
  assert.equal(full.errorCode, ErrorCode.NONE);
  assert.equal(full.records?.length, 0);
  held.remove(held.bytesMax);
  assert.deepEqual(answered(await fetch(session, { fetchOffset: 0n })).records, stored);
  assert.equal(held.usedBytes, 0);
});

test('R7: read_committed stops at the last stable offset and lists what was aborted', async () => {
  const log = new MemoryMirrorLog(
    0n,
    batch(0n, 2, { producerId: 1n, isTransactional: true }),
    batch(2n, 2),
    marker(4n, 1n, 'ABORT'),
    batch(5n, 3, { producerId: 2n, isTransactional: true }),
    batch(8n, 1),
  );
  const session = onLinkNode(log);
  const committed = answered(await fetch(session, { fetchOffset: 0n }, { isolationLevel: 1 }));
  assert.deepEqual(
    batchesOf(committed.records).map(({ base }) => base),
    [0n, 2n, 4n],
  );
  assert.equal(committed.lastStableOffset, 5n);
  assert.equal(committed.highWatermark, 9n);
  assert.deepEqual(
    committed.abortedTransactions?.map(({ producerId, firstOffset }) => [producerId, firstOffset]),
    [[1n, 0n]],
  );
  const later = answered(await fetch(session, { fetchOffset: 5n }, { isolationLevel: 1 }));
  assert.equal(later.errorCode, ErrorCode.NONE);
  assert.deepEqual(later.records, Buffer.alloc(0), 'the transaction that is open is not shown');
  const dirty = answered(await fetch(session, { fetchOffset: 5n }, {}));
  assert.deepEqual(
    batchesOf(dirty.records).map(({ base }) => base),
    [5n, 8n],
  );
});

test('R8: epochs are fenced: 74 below the advertised one, 75 above it', async () => {
  const session = onLinkNode(new MemoryMirrorLog(0n, batch(0n, 1)), 5);
  const error = async (currentLeaderEpoch: number) =>
    answered(await fetch(session, { currentLeaderEpoch })).errorCode;
  assert.equal(await error(4), ErrorCode.FENCED_LEADER_EPOCH);
  assert.equal(await error(6), ErrorCode.UNKNOWN_LEADER_EPOCH);
  assert.equal(await error(5), ErrorCode.NONE);
  assert.equal(await error(-1), ErrorCode.NONE);
  const fenced = await fetch(session, { currentLeaderEpoch: 4 });
  assert.equal(answered(fenced).currentLeader.leaderId, linkNodeId);
  assert.equal(answered(fenced).currentLeader.leaderEpoch, 5);
  assert.deepEqual(
    fenced.nodeEndpoints.map(({ nodeId, host }) => [nodeId, host]),
    [[linkNodeId, 'proxy']],
  );
});

test('a last fetched epoch that ended earlier is a divergence, not records', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 4, { epoch: 1 }), batch(4n, 4, { epoch: 3 }));
  const session = onLinkNode(log, 3);
  const diverging = answered(await fetch(session, { fetchOffset: 6n, lastFetchedEpoch: 2 }));
  assert.equal(diverging.errorCode, ErrorCode.NONE);
  assert.deepEqual([diverging.divergingEpoch.epoch, diverging.divergingEpoch.endOffset], [1, 4n]);
  assert.equal(diverging.records?.length, 0);
  const same = answered(await fetch(session, { fetchOffset: 4n, lastFetchedEpoch: 1 }));
  assert.equal(same.divergingEpoch.epoch, -1);
  assert.ok((same.records?.length ?? 0) > 0);
});

test('what is stored but not durable yet is no divergence: the client only waits', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 4, { epoch: 1 }), batch(4n, 4, { epoch: 1 }));
  log.durableLimit = 4n;
  const data = answered(await fetch(onLinkNode(log, 1), { fetchOffset: 8n, lastFetchedEpoch: 1 }));
  assert.equal(data.errorCode, ErrorCode.NONE);
  assert.equal(data.divergingEpoch.epoch, -1);
});

test('R19: a log that cannot be read is 56, never out of range or empty', async () => {
  const missing = answered(await fetch(onLinkNode(null), { fetchOffset: 0n }));
  assert.equal(missing.errorCode, ErrorCode.KAFKA_STORAGE_ERROR);
  for (const failure of ['CORRUPT', 'IO', 'MISSING'] as const) {
    const log = new MemoryMirrorLog(0n, batch(0n, 5));
    log.failure = failure;
    const session = onLinkNode(log);
    const data = answered(await fetch(session, { fetchOffset: 0n }));
    assert.equal(data.errorCode, ErrorCode.KAFKA_STORAGE_ERROR, failure);
    assert.equal(data.highWatermark, -1n);
    await fetch(session, { fetchOffset: 0n });
    const events = session.services.events.since(0);
    assert.equal(events.length, 1, 'one event for each log');
    assert.equal(events[0]?.event, 'mirror_log_unreadable');
  }
});

test('an offset is out of range only when the log vouches for it', async () => {
  const log = new MemoryMirrorLog(10n, batch(10n, 5), batch(15n, 5));
  log.durableLimit = 15n;
  const session = onLinkNode(log);
  const at = async (fetchOffset: bigint) => answered(await fetch(session, { fetchOffset }));
  assert.equal((await at(9n)).errorCode, ErrorCode.OFFSET_OUT_OF_RANGE);
  assert.equal((await at(9n)).logStartOffset, 10n);
  assert.equal((await at(15n)).errorCode, ErrorCode.NONE, 'at the visible end');
  assert.equal((await at(17n)).errorCode, ErrorCode.NONE, 'stored, not durable yet: wait');
  assert.equal((await at(17n)).records?.length, 0);
  assert.equal((await at(20n)).errorCode, ErrorCode.NONE);
  assert.equal((await at(21n)).errorCode, ErrorCode.OFFSET_OUT_OF_RANGE);
});

test('limits are soft: one batch always passes, later partitions get what is left', async () => {
  const session = onLinkNode(
    new MemoryMirrorLog(0n, batch(0n, 1, { valueBytes: 5000 }), batch(1n, 1)),
  );
  session.directory.put({
    name: 'other',
    topicId: otherId,
    mode: 'mirror',
    log: new MemoryMirrorLog(0n, batch(0n, 1)),
  });
  session.broker.operations.set('other', READ);
  const small = answered(await fetch(session, { fetchOffset: 0n, partitionMaxBytes: 10 }));
  assert.deepEqual(
    batchesOf(small.records).map(({ base }) => base),
    [0n],
  );
  const both = [{ fetchOffset: 0n }, { name: 'other', id: otherId, fetchOffset: 0n }];
  const wide = await fetch(session, both);
  assert.equal(batchesOf(answered(wide, 1).records).length, 1);
  const narrow = await fetch(session, both, { maxBytes: 1000 });
  assert.equal(batchesOf(answered(narrow, 0).records).length, 1);
  assert.equal(answered(narrow, 1).errorCode, ErrorCode.NONE);
  assert.equal(answered(narrow, 1).records?.length, 0);
  assert.equal(answered(narrow, 1).highWatermark, 1n);
});

test('a client that allows no bytes at all is given one batch, as by a broker', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 1), batch(1n, 1));
  const session = onLinkNode(log);
  const asks = [{ fetchOffset: 0n, partitionMaxBytes: 0 }];
  const data = answered(await fetch(session, asks, { maxBytes: 0 }));
  assert.deepEqual(
    batchesOf(data.records).map(({ base }) => base),
    [0n],
  );
});

test('a long poll does not wait for more than its answer may hold, or for nothing', async () => {
  const session = onLinkNode(new MemoryMirrorLog(0n, batch(0n, 1, { valueBytes: 5000 })));
  const fields = { maxWaitMs: 60_000, minBytes: 1_000_000, maxBytes: 1000 };
  const data = answered(await fetch(session, { fetchOffset: 0n }, fields));
  assert.equal(batchesOf(data.records).length, 1);
  const nothing = await fetch(session, [], { maxWaitMs: 60_000 });
  assert.deepEqual(nothing.responses, []);
});

test('a long poll is woken by records, and leaves nothing subscribed', async () => {
  const log = new MemoryMirrorLog(0n);
  const session = onLinkNode(log);
  const answer = fetch(session, { fetchOffset: 0n }, { maxWaitMs: 60_000 });
  await until(() => log.listeners > 0);
  log.put(batch(0n, 3));
  assert.equal(batchesOf(answered(await answer).records).length, 1);
  assert.equal(log.listeners, 0);
  assert.equal(session.directory.listeners.size, 0);
});

test('a long poll waits for min bytes, and ends empty-handed at its deadline', async () => {
  const log = new MemoryMirrorLog(0n);
  const session = onLinkNode(log);
  const before = performance.now();
  const empty = answered(await fetch(session, { fetchOffset: 0n }, { maxWaitMs: 30 }));
  assert.equal(empty.errorCode, ErrorCode.NONE);
  assert.ok(performance.now() - before >= 29, 'not before its time');
  let isAnswered = false;
  const first = batch(0n, 1);
  const answer = fetch(
    session,
    { fetchOffset: 0n },
    { maxWaitMs: 60_000, minBytes: first.length + 1 },
  ).finally(() => {
    isAnswered = true;
  });
  await until(() => log.listeners > 0);
  log.put(first);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isAnswered, false, 'one byte is missing');
  log.put(batch(1n, 1));
  assert.equal(batchesOf(answered(await answer).records).length, 2);
});

test('a parked fetch ends at once on promotion, with the new leader (rule 6)', async () => {
  const log = new MemoryMirrorLog(0n);
  const session = onLinkNode(log);
  const answer = fetch(session, { fetchOffset: 0n }, { maxWaitMs: 60_000 });
  await until(() => session.directory.listeners.size > 0);
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  const response = await answer;
  const data = answered(response);
  assert.equal(data.errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(data.currentLeader.leaderId, 2);
  assert.equal(data.currentLeader.leaderEpoch, 7, 'native 3 is virtual 7');
  assert.deepEqual(
    response.nodeEndpoints.map(({ nodeId, host }) => [nodeId, host]),
    [[2, 'proxy']],
  );
});

test('the redirect after promotion carries no field that an old version lacks', async () => {
  for (const version of [4, 11, 12, 15]) {
    const session = new FakeSession({ kind: 'link' });
    const log = new MemoryMirrorLog(0n);
    session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
    const response = await fetch(session, { fetchOffset: 0n }, {}, version);
    assert.equal(answered(response).errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
    assert.equal(answered(response).currentLeader.leaderId, version >= 12 ? 2 : -1);
    assert.deepEqual(response.nodeEndpoints, []);
  }
});

test('a parked fetch is dropped when its client is gone', async () => {
  const log = new MemoryMirrorLog(0n);
  const session = onLinkNode(log);
  const parked = fetch(session, { fetchOffset: 0n }, { maxWaitMs: 60_000 });
  await until(() => log.listeners > 0);
  session.controller.abort();
  await assert.rejects(parked, /an answer was expected/);
  assert.equal(log.listeners, 0);
});

test('reads go on while the topic is switching', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 2));
  const session = onLinkNode(log);
  session.directory.put({ name: 'orders', mode: 'switching', log });
  const data = answered(await fetch(session, { fetchOffset: 0n }));
  assert.equal(batchesOf(data.records).length, 1);
});

test('who may not read gets 29, who may only describe too, nobody-knows gets 6', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 2));
  for (const [operations, expected] of [
    [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    [DESCRIBE, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    [READ, ErrorCode.NONE],
  ] as const) {
    const session = onLinkNode(log);
    session.broker.operations.set('orders', operations);
    assert.equal(answered(await fetch(session, { fetchOffset: 0n })).errorCode, expected);
  }
  const session = onLinkNode(log);
  session.broker.isGone = true;
  const data = answered(await fetch(session, { fetchOffset: 0n }));
  assert.equal(data.errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(data.records?.length, 0, 'no answer means no');
});

test('a right that is lost ends a parked fetch with 29', async () => {
  const log = new MemoryMirrorLog(0n);
  const session = onLinkNode(log);
  const answer = fetch(session, { fetchOffset: 0n }, { maxWaitMs: 3_600_000 });
  await until(() => log.listeners > 0);
  session.broker.operations.set('orders', DESCRIBE);
  session.nowMs += 30_000;
  log.advance();
  assert.equal(answered(await answer).errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
});

test('what is not mirrored is led elsewhere or unknown, once we are settled', async () => {
  const session = onLinkNode(new MemoryMirrorLog(0n));
  session.broker.operations.set('ordinary', READ);
  const byName = async (name: string) => answered(await fetch(session, { name }, {}, 12)).errorCode;
  assert.equal(await byName('ordinary'), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(await byName('nowhere'), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  const byId = async (id: string) => answered(await fetch(session, { id })).errorCode;
  assert.equal(await byId(otherId), ErrorCode.UNKNOWN_TOPIC_ID);
  session.directory.isSettled = false;
  assert.equal(await byId(otherId), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(await byName('nowhere'), ErrorCode.NOT_LEADER_OR_FOLLOWER);
});

test('a topic whose state is in doubt is answered retriably', async () => {
  const session = onLinkNode(new MemoryMirrorLog(0n, batch(0n, 1)));
  session.directory.put({ name: 'orders', mode: 'unavailable', log: null });
  const data = answered(await fetch(session, { fetchOffset: 0n }));
  assert.equal(data.errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
});

test("an incremental fetch continues nobody's session here: 70", async () => {
  const session = onLinkNode(new MemoryMirrorLog(0n, batch(0n, 1)));
  const response = await fetch(session, { fetchOffset: 0n }, { sessionId: 9, sessionEpoch: 1 });
  assert.equal(response.errorCode, ErrorCode.FETCH_SESSION_ID_NOT_FOUND);
  assert.deepEqual(response.responses, []);
  const fresh = await fetch(session, { fetchOffset: 0n }, { sessionId: 0, sessionEpoch: 0 });
  assert.equal(fresh.sessionId, 0);
  assert.equal(answered(fresh).errorCode, ErrorCode.NONE);
});

test('an advanced start and an unknown partition', async () => {
  const session = new FakeSession({ kind: 'link' });
  const timeline = newMirror(virtualOffset(500n));
  const log = new MemoryMirrorLog(500n, batch(500n, 2));
  session.directory.put({ name: 'orders', mode: 'mirror', log, timeline });
  assert.equal(answered(await fetch(session, { fetchOffset: 0n })).errorCode, 1);
  assert.equal(batchesOf(answered(await fetch(session, { fetchOffset: 500n })).records).length, 1);
  assert.equal(
    answered(await fetch(session, { partition: 7 })).errorCode,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  );
});
