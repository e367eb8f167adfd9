// Fetch at a virtual broker: ordinary partitions pass, promoted ones pass shifted, copies are
// merged in.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fetchRequestCodec } from '../../../protocol/generated/fetch-request.ts';
import {
  createAbortedTransaction,
  createEpochEndOffset,
  createFetchableTopicResponse,
  createFetchResponse,
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionData,
  fetchResponseCodec,
  type PartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { type Ask, answered } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import {
  asked,
  copy,
  fetch,
  fetchesSeen,
  questionsSeen,
  shell,
  virtualBroker,
} from './promoted-fixtures.ts';
import {
  batchesOf,
  DESCRIBE,
  FakeSession,
  linkNodeId,
  ordersId,
  otherId,
  promotedAt100,
} from './read-fixtures.ts';

const ordinary: Ask = { name: 'ordinary', id: otherId };

/** From now on the broker answers any fetch, of whatever session, with these partitions. */
function continueSession(
  session: FakeSession,
  ...told: readonly (Partial<PartitionData> & { readonly id: string })[]
): void {
  session.broker.serve(fetchRequestCodec, fetchResponseCodec, () =>
    createFetchResponse({
      sessionId: 77,
      responses: told.map(({ id, ...fields }) =>
        createFetchableTopicResponse({
          topicId: id,
          partitions: [createPartitionData(fields)],
        }),
      ),
    }),
  );
}

for (const version of [4, 7, 11, 12, 13, 15, 16, 18]) {
  test(`R2: version ${version}: ordinary topics stream through`, async () => {
    const session = virtualBroker();
    const { disposition, response } = await fetch(
      session,
      [{ ...ordinary, fetchOffset: 5n }],
      { sessionEpoch: 0 },
      version,
    );
    assert.equal(disposition, 'forward');
    assert.equal(answered(response).highWatermark, 30n);
    assert.equal(response.sessionId, version >= 7 ? 77 : 0);
    assert.equal(asked(session).fetchOffset, 5n);
    assert.equal(fetchesSeen(session)[0]?.version, Math.min(version, 15));
  });

  test(`version ${version}: from S on offsets and epochs are shifted`, async () => {
    const session = virtualBroker();
    const { response } = await fetch(
      session,
      [{ fetchOffset: 103n, currentLeaderEpoch: 7, lastFetchedEpoch: version >= 12 ? 6 : -1 }],
      { sessionEpoch: 0 },
      version,
    );
    const native = asked(session);
    assert.equal(native.fetchOffset, 11n);
    assert.equal(native.currentLeaderEpoch, version >= 9 ? 3 : -1);
    assert.equal(native.lastFetchedEpoch, version >= 12 ? 2 : -1);
    const data = answered(response);
    assert.equal(data.highWatermark, 122n);
    assert.equal(data.lastStableOffset, 120n);
    assert.equal(data.logStartOffset, version >= 5 ? 0n : -1n, 'the copy starts at 0');
    assert.deepEqual(batchesOf(data.records), [
      { base: 103n, epoch: 6 },
      { base: 112n, epoch: 4 },
    ]);
    assert.equal(response.sessionId, version >= 7 ? 77 : 0, "the broker's session is kept");
  });
}

test('the response is patched in place, hidden and cut parts included', async () => {
  const session = virtualBroker();
  const cut = Buffer.concat([batch(11n, 2, { epoch: 2 }), batch(13n, 5, { epoch: 3 })]);
  shell(session, {
    highWatermark: 3n,
    lastStableOffset: -1n,
    records: cut.subarray(0, cut.length - 30),
    abortedTransactions: [createAbortedTransaction({ producerId: 4n, firstOffset: 12n })],
    currentLeader: createLeaderIdAndEpoch({ leaderId: 2, leaderEpoch: 5 }),
    divergingEpoch: createEpochEndOffset({ epoch: 2, endOffset: 15n }),
    errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
  });
  const { response } = await fetch(session, [{ fetchOffset: 103n }], { sessionEpoch: 0 }, 12);
  const data = answered(response);
  assert.equal(data.highWatermark, 100n, 'R8: never below S');
  assert.equal(data.lastStableOffset, -1n, 'a sentinel');
  assert.equal(data.abortedTransactions?.[0]?.firstOffset, 104n);
  assert.equal(data.abortedTransactions?.[0]?.producerId, 4n);
  assert.deepEqual([data.currentLeader.leaderId, data.currentLeader.leaderEpoch], [2, 9]);
  assert.deepEqual([data.divergingEpoch.epoch, data.divergingEpoch.endOffset], [6, 107n]);
  assert.deepEqual(batchesOf(data.records), [
    { base: 103n, epoch: 6 },
    { base: 105n, epoch: 7 },
  ]);
  assert.equal(data.records?.length, cut.length - 30);
});

test('after the copy is gone the log starts where the shell does, never below S', async () => {
  const log = copy();
  const session = virtualBroker(log);
  await log.deleteHead(100n);
  const start = async (logStartOffset: bigint) => {
    shell(session, { logStartOffset });
    return answered((await fetch(session, [{ fetchOffset: 103n }])).response).logStartOffset;
  };
  assert.equal(await start(0n), 100n);
  assert.equal(await start(20n), 112n);
});

test('below S the copy answers, up to S, and the rest is merged in order', async () => {
  const session = virtualBroker();
  const { disposition, response } = await fetch(
    session,
    [{ fetchOffset: 60n }, { ...ordinary, fetchOffset: 5n }],
    { sessionEpoch: 0, isolationLevel: 1 },
  );
  assert.equal(disposition, 'answer');
  assert.equal(response.sessionId, 0, 'sessionless');
  assert.deepEqual(
    response.responses.map(({ topicId }) => topicId),
    [ordersId, otherId],
  );
  const data = answered(response);
  assert.deepEqual(
    batchesOf(data.records).map(({ base }) => base),
    [50n, 90n, 99n],
  );
  assert.deepEqual(
    data.abortedTransactions?.map(({ firstOffset }) => firstOffset),
    [50n],
  );
  assert.ok(data.lastStableOffset >= 100n, 'R7: nothing before S is undecided');
  assert.ok(data.highWatermark >= 100n);
  assert.equal(answered(response, 1).highWatermark, 30n);
  const upstream = fetchesSeen(session).at(-1)?.message;
  assert.equal(upstream?.maxWaitMs, 0, 'what is there goes out at once');
  assert.equal(upstream?.minBytes, 0);
  assert.equal(upstream?.sessionEpoch, -1);
  assert.equal(upstream?.topics.length, 1);
  assert.equal(asked(session).fetchOffset, 5n);
});

test('below S a client that allows no bytes at all is given one batch', async () => {
  const session = virtualBroker();
  const asks = [{ fetchOffset: 60n, partitionMaxBytes: 0 }];
  const { response } = await fetch(session, asks, { maxBytes: 0 });
  assert.equal(batchesOf(answered(response).records).length, 1);
});

test("below S the high watermark is the shell's last known one", async () => {
  const session = virtualBroker();
  shell(session, { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER, highWatermark: -1n });
  const before = answered((await fetch(session, [{ fetchOffset: 0n }])).response);
  assert.equal(before.highWatermark, 100n);
  shell(session);
  await fetch(session, [{ fetchOffset: 103n }]);
  const after = answered((await fetch(session, [{ fetchOffset: 0n }])).response);
  assert.equal(after.highWatermark, 122n);
});

test('R8: nor does it go back after a restart: what is not known is asked for once', async () => {
  const session = virtualBroker();
  for (const fetchOffset of [0n, 90n]) {
    const told = answered((await fetch(session, [{ fetchOffset }])).response);
    assert.equal(told.highWatermark, 122n);
  }
  const [question, ...others] = questionsSeen(session);
  assert.equal(question?.fetchOffset, 8n, 'a fetch at n, which a follower answers too');
  assert.deepEqual(others, []);
});

test('a gap at the end of the copy leads on to the shell at n', async () => {
  const log = new MemoryMirrorLog(0n, batch(0n, 90, { epoch: 5 }));
  log.durableLimit = 100n;
  const session = virtualBroker(log);
  const { response } = await fetch(session, [{ fetchOffset: 95n }], {}, 11);
  assert.equal(asked(session).fetchOffset, 8n);
  assert.equal(batchesOf(answered(response).records)[0]?.base, 100n);
  assert.equal(fetchesSeen(session).at(-1)?.message.maxWaitMs, 500);
});

test('R19: a copy that is too short is 56, never the shell in its place', async () => {
  for (const log of [null, new MemoryMirrorLog(0n, batch(0n, 90))]) {
    const session = virtualBroker(log);
    const { response } = await fetch(session, [{ fetchOffset: 95n }]);
    assert.equal(answered(response).errorCode, ErrorCode.KAFKA_STORAGE_ERROR);
    assert.deepEqual(fetchesSeen(session), []);
  }
});

test('while ABORT batches are held the client is told to come again', async () => {
  const log = copy();
  const session = virtualBroker(log);
  log.hold(99n);
  const held = answered((await fetch(session, [{ fetchOffset: 99n }])).response);
  assert.equal(held.errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  const before = answered((await fetch(session, [{ fetchOffset: 90n }])).response);
  assert.deepEqual(
    batchesOf(before.records).map(({ base }) => base),
    [90n],
  );
  log.hold(null);
  const lifted = answered((await fetch(session, [{ fetchOffset: 99n }])).response);
  assert.deepEqual(
    batchesOf(lifted.records).map(({ base }) => base),
    [99n],
  );
});

test('below the start of the copy is out of range, with the start told', async () => {
  const log = copy();
  await log.deleteHead(50n);
  const session = virtualBroker(log);
  const data = answered((await fetch(session, [{ fetchOffset: 10n }])).response);
  assert.equal(data.errorCode, ErrorCode.OFFSET_OUT_OF_RANGE);
  assert.equal(data.logStartOffset, 50n);
});

test('an incremental fetch into the copy is 70: the client begins anew', async () => {
  const session = virtualBroker();
  const incremental = { sessionId: 77, sessionEpoch: 4 };
  const { response } = await fetch(session, [{ fetchOffset: 60n }], incremental);
  assert.equal(response.errorCode, ErrorCode.FETCH_SESSION_ID_NOT_FOUND);
  assert.deepEqual(response.responses, []);
  assert.deepEqual(fetchesSeen(session), []);
});

test('an incremental fetch that names nothing is still shifted', async () => {
  const session = virtualBroker();
  await fetch(session, [{ fetchOffset: 103n }], { sessionEpoch: 0 });
  continueSession(session, { id: ordersId, highWatermark: 40n, records: batch(13n, 1) });
  const next = { sessionId: 77, sessionEpoch: 1 };
  const data = answered((await fetch(session, [], next)).response);
  assert.equal(data.highWatermark, 132n);
  assert.equal(batchesOf(data.records)[0]?.base, 105n);
  // A session that another connection began: we cannot know what it holds.
  const unknown = virtualBroker();
  continueSession(unknown, { id: ordersId, highWatermark: 40n, records: batch(13n, 1) });
  assert.equal(answered((await fetch(unknown, [], next)).response).highWatermark, 132n);
});

test('a session of another connection is shifted, whatever this one has begun itself', async () => {
  const session = virtualBroker();
  await fetch(session, [ordinary], { sessionEpoch: 0 });
  continueSession(session, { id: ordersId, highWatermark: 40n, records: batch(13n, 1) });
  const own = await fetch(session, [], { sessionId: 77, sessionEpoch: 1 });
  assert.equal(answered(own.response).highWatermark, 40n, 'one of ordinary topics: not looked at');
  const other = await fetch(session, [], { sessionId: 78, sessionEpoch: 5 });
  assert.equal(answered(other.response).highWatermark, 132n);
  await fetch(session, [{ fetchOffset: 103n }], { sessionId: 77, sessionEpoch: 2 });
  const grown = await fetch(session, [], { sessionId: 77, sessionEpoch: 3 });
  assert.equal(answered(grown.response).highWatermark, 132n, 'the own one has grown');
});

test('a topic in doubt that a session still holds is answered retriably', async () => {
  const session = virtualBroker();
  await fetch(session, [{ fetchOffset: 103n }], { sessionEpoch: 0 });
  session.directory.put({ name: 'orders', mode: 'unavailable', log: null });
  continueSession(
    session,
    { id: ordersId, highWatermark: 40n, records: batch(13n, 1) },
    { id: otherId, highWatermark: 50n, records: batch(1n, 1) },
  );
  const { response } = await fetch(session, [], { sessionId: 77, sessionEpoch: 1 });
  assert.equal(answered(response, 0).errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(answered(response, 0).highWatermark, -1n);
  assert.equal(answered(response, 0).records?.length, 0);
  assert.equal(answered(response, 1).highWatermark, 50n);
  assert.equal(batchesOf(answered(response, 1).records)[0]?.base, 1n);
});

test('R3: a mirror asked for at a virtual broker is redirected', async () => {
  for (const version of [4, 11, 12, 15, 16, 18]) {
    const session = new FakeSession({ kind: 'broker', nodeId: 1 });
    session.directory.put({ name: 'orders', mode: 'mirror', log: copy(), advertisedEpoch: 5 });
    shell(session);
    const asks = [{ fetchOffset: 0n }, { ...ordinary, fetchOffset: 5n }];
    const { response } = await fetch(session, asks, {}, version);
    const data = answered(response);
    assert.equal(data.errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
    const hasLeader = version >= 12;
    assert.equal(data.currentLeader.leaderId, hasLeader ? linkNodeId : -1);
    assert.equal(data.currentLeader.leaderEpoch, hasLeader ? 5 : -1);
    assert.deepEqual(
      response.nodeEndpoints.map(({ host }) => host),
      version >= 16 ? ['proxy'] : [],
    );
    assert.equal(answered(response, 1).highWatermark, 30n);
    const seen = fetchesSeen(session).flatMap(({ message: { topics } }) => topics);
    assert.deepEqual(
      seen.map(({ topic, topicId }) => [topic, topicId].includes('orders') || topicId === ordersId),
      [false],
    );
  }
});

test('R3: a partition that we do not know yet is a mirror too while its topic is one', async () => {
  for (const mode of ['mirror', 'switching'] as const) {
    const session = virtualBroker();
    session.directory.put({ name: 'orders', mode, log: copy() });
    const { response } = await fetch(session, [{ partition: 7, fetchOffset: 0n }]);
    assert.equal(answered(response).errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
    assert.deepEqual(fetchesSeen(session), []);
  }
});

test('R8: a leader epoch before V0 is fenced by us, with the new leader', async () => {
  const session = virtualBroker();
  for (const fetchOffset of [60n, 103n]) {
    const { response } = await fetch(session, [{ fetchOffset, currentLeaderEpoch: 5 }]);
    const data = answered(response);
    assert.equal(data.errorCode, ErrorCode.FENCED_LEADER_EPOCH);
    assert.deepEqual([data.currentLeader.leaderId, data.currentLeader.leaderEpoch], [2, 7]);
    assert.deepEqual(
      response.nodeEndpoints.map(({ nodeId }) => nodeId),
      [2],
    );
  }
  assert.deepEqual(fetchesSeen(session), []);
});

test('R8: a last fetched epoch before V0 goes to the broker as -1', async () => {
  const session = virtualBroker(new MemoryMirrorLog(0n, batch(0n, 100, { epoch: 5 })));
  await fetch(session, [{ fetchOffset: 100n, currentLeaderEpoch: 6, lastFetchedEpoch: 5 }]);
  assert.equal(asked(session).lastFetchedEpoch, -1);
  assert.equal(asked(session).currentLeaderEpoch, 2);
  assert.equal(asked(session).fetchOffset, 8n);
});

test('who may not read the topic gets nothing of its copy', async () => {
  const session = virtualBroker();
  session.broker.operations.set('orders', DESCRIBE);
  const data = answered((await fetch(session, [{ fetchOffset: 0n }])).response);
  assert.equal(data.errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  assert.equal(data.records?.length, 0);
});

test('who may not read a topic hears that first, and not who leads it or where it begins', async () => {
  const log = new MemoryMirrorLog(50n, batch(50n, 50));
  for (const mode of ['mirror', 'switching', 'promoted'] as const) {
    const session = virtualBroker();
    const timeline = mode === 'promoted' ? { timeline: promotedAt100(50n) } : {};
    session.directory.put({ name: 'orders', mode, log, ...timeline });
    session.broker.operations.set('orders', DESCRIBE);
    for (const ask of [{ fetchOffset: 10n }, { fetchOffset: 60n, currentLeaderEpoch: 5 }]) {
      const { response } = await fetch(session, [ask]);
      const data = answered(response);
      assert.equal(data.errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED, mode);
      assert.deepEqual([data.logStartOffset, data.currentLeader.leaderId], [-1n, -1]);
      assert.deepEqual(response.nodeEndpoints, []);
    }
  }
});

test('not knowing never means ordinary: unsettled, nothing goes upstream', async () => {
  const session = virtualBroker();
  session.directory.isSettled = false;
  const { response } = await fetch(session, [ordinary]);
  assert.equal(answered(response).errorCode, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.deepEqual(fetchesSeen(session), []);
});

test('a partition that was added after the promotion is the shell’s own', async () => {
  const session = virtualBroker();
  const { response } = await fetch(session, [{ partition: 3, fetchOffset: 4n }]);
  assert.equal(asked(session).fetchOffset, 4n);
  assert.equal(answered(response).highWatermark, 30n);
});

/** A broker that cannot be asked so that it names no addresses: of a leader that has moved. */
function naming(session: FakeSession): void {
  session.upstreamVersions.set(1, { min: 16, max: 18 });
  session.broker.serve(fetchRequestCodec, fetchResponseCodec, () =>
    createFetchResponse({
      nodeEndpoints: [createNodeEndpoint({ nodeId: 2, host: 'real-2', port: 9092 })],
      responses: [
        createFetchableTopicResponse({
          topicId: otherId,
          partitions: [
            createPartitionData({
              errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
              currentLeader: createLeaderIdAndEpoch({ leaderId: 2, leaderEpoch: 4 }),
            }),
          ],
        }),
      ],
    }),
  );
}

test('R2: where a broker would name addresses, they are replaced', async () => {
  const session = virtualBroker();
  naming(session);
  const { response, frame } = await fetch(session, [ordinary]);
  assert.deepEqual(
    response.nodeEndpoints.map(({ nodeId, host }) => [nodeId, host]),
    [[2, 'proxy']],
  );
  assert.equal(frame.includes('real-2'), false);
});

test('a leader that only the broker knew of was named without its address beside a copy', async () => {
  const session = virtualBroker();
  naming(session);
  session.unserved.add(2);
  const ensured: number[] = [];
  session.services.ensureEndpoints = async (nodes) => {
    for (const { nodeId } of nodes) {
      ensured.push(nodeId);
      session.unserved.delete(nodeId);
    }
  };
  const { response, frame } = await fetch(session, [{ fetchOffset: 60n }, ordinary]);
  assert.ok(ensured.includes(2));
  assert.equal(answered(response, 1).currentLeader.leaderId, 2);
  assert.deepEqual(
    response.nodeEndpoints.map(({ nodeId, host }) => [nodeId, host]),
    [[2, 'proxy']],
  );
  assert.equal(frame.includes('real-2'), false);
});

test("the broker's refusal of a whole fetch is passed on", async () => {
  const session = virtualBroker();
  session.broker.serve(fetchRequestCodec, fetchResponseCodec, () =>
    createFetchResponse({ errorCode: ErrorCode.UNKNOWN_SERVER_ERROR }),
  );
  const { response } = await fetch(session, [{ fetchOffset: 0n }, ordinary]);
  assert.equal(response.errorCode, ErrorCode.UNKNOWN_SERVER_ERROR);
  assert.deepEqual(response.responses, []);
});
