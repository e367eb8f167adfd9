// Fetch on a promoted topic where its log begins, and where a client's history is another one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLeaderIdAndEpoch } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import { newMirror, splice } from '../../../src/timeline/timeline.ts';
import { type Ask, answered } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import {
  asked,
  fetch,
  fetchesSeen,
  questionsSeen,
  shell,
  virtualBroker,
} from './promoted-fixtures.ts';
import { DESCRIBE, type FakeSession } from './read-fixtures.ts';

test('a copy was read on when records after it were deleted, up to a hole', async () => {
  const session = virtualBroker();
  const startTold = async (logStartOffset: bigint) => {
    shell(session, { logStartOffset });
    return answered((await fetch(session, [{ fetchOffset: 115n }])).response).logStartOffset;
  };
  assert.equal(await startTold(11n), 103n);
  const below = answered((await fetch(session, [{ fetchOffset: 60n }])).response);
  assert.deepEqual([below.errorCode, below.logStartOffset], [ErrorCode.OFFSET_OUT_OF_RANGE, 103n]);
  assert.equal(await startTold(8n), 0n, 'as a leader says that has not heard of it');
  const again = answered((await fetch(session, [{ fetchOffset: 60n }])).response);
  assert.equal(again.errorCode, ErrorCode.NONE);
});

test('below S read_committed consumers were told no lag: the last stable offset was S', async () => {
  const session = virtualBroker();
  const told = async (fetchOffset: bigint) => {
    const fields = { isolationLevel: 1 };
    const data = answered((await fetch(session, [{ fetchOffset }], fields)).response);
    return [data.highWatermark, data.lastStableOffset];
  };
  assert.deepEqual(await told(60n), [122n, 120n], 'asked for once');
  shell(session, { highWatermark: 40n, lastStableOffset: 31n });
  await told(103n);
  assert.deepEqual(await told(60n), [132n, 123n]);
  shell(session, { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER });
  await told(103n);
  assert.deepEqual(await told(60n), [132n, 123n], 'R8: neither goes back');
});

test('the largest offset or epoch ended the connection where the shell was ahead', async () => {
  const timeline = splice(newMirror(virtualOffset(0n)), {
    virtualEnd: virtualOffset(0n),
    nativeEnd: nativeOffset(5n),
    nativeEpoch: nativeEpoch(9),
    lastVirtualEpoch: virtualEpoch(-1),
  });
  const session = virtualBroker();
  session.directory.put({ name: 'orders', mode: 'promoted', log: null, timeline });
  const largestOffset = 2n ** 63n - 1n;
  const largestEpoch = 2 ** 31 - 1;
  const partition = {
    fetchOffset: largestOffset,
    currentLeaderEpoch: largestEpoch,
    lastFetchedEpoch: largestEpoch,
  };
  await fetch(session, [partition]);
  const { fetchOffset, currentLeaderEpoch, lastFetchedEpoch } = asked(session);
  assert.deepEqual({ fetchOffset, currentLeaderEpoch, lastFetchedEpoch }, partition);
});

/** Where the answer says that the histories part, as [epoch, end]. */
async function partedAt(session: FakeSession, ask: Ask) {
  const data = answered((await fetch(session, [ask])).response);
  assert.equal(data.errorCode, ErrorCode.NONE);
  const { epoch, endOffset } = data.divergingEpoch;
  if (epoch < 0) return null;
  assert.equal(data.records?.length, 0);
  assert.deepEqual([data.highWatermark, data.logStartOffset], [122n, 0n]);
  return [epoch, endOffset];
}

test('a client that left our history before the promotion was never told', async () => {
  // Epoch 4 ends at 50, epoch 5 at 99, V0 = 6 begins with the ABORT batch there.
  const session = virtualBroker();
  assert.deepEqual(await partedAt(session, { fetchOffset: 103n, lastFetchedEpoch: 4 }), [4, 50n]);
  assert.deepEqual(await partedAt(session, { fetchOffset: 103n, lastFetchedEpoch: 5 }), [5, 99n]);
  assert.deepEqual(await partedAt(session, { fetchOffset: 100n, lastFetchedEpoch: 5 }), [5, 99n]);
  assert.deepEqual(await partedAt(session, { fetchOffset: 70n, lastFetchedEpoch: 4 }), [4, 50n]);
  assert.deepEqual(await partedAt(session, { fetchOffset: 70n, lastFetchedEpoch: 2 }), [2, 0n]);
  assert.deepEqual(fetchesSeen(session), [], 'the broker knows nothing of these epochs');
  for (const [fetchOffset, lastFetchedEpoch] of [
    [50n, 4],
    [99n, 5],
    [60n, 5],
    [0n, 2],
    [60n, 6],
    [60n, -1],
  ] as const) {
    assert.equal(await partedAt(session, { fetchOffset, lastFetchedEpoch }), null);
  }
});

test('where histories part is told to nobody who may not read, and by no copy in part', async () => {
  const ask = { fetchOffset: 103n, lastFetchedEpoch: 4 };
  const secret = virtualBroker();
  secret.broker.operations.set('orders', DESCRIBE);
  const refused = answered((await fetch(secret, [ask])).response);
  assert.equal(refused.errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  assert.equal(refused.divergingEpoch.epoch, -1);
  for (const log of [null, new MemoryMirrorLog(0n, batch(0n, 50, { epoch: 4 }))]) {
    const session = virtualBroker(log);
    assert.equal(answered((await fetch(session, [ask])).response).divergingEpoch.epoch, -1);
    assert.deepEqual([asked(session).fetchOffset, asked(session).lastFetchedEpoch], [11n, -1]);
  }
});

test('a leader epoch that the broker does not know, or has left, was no matter below S', async () => {
  const session = virtualBroker();
  const told = async (currentLeaderEpoch: number) =>
    answered((await fetch(session, [{ fetchOffset: 60n, currentLeaderEpoch }])).response);
  shell(session, { errorCode: ErrorCode.UNKNOWN_LEADER_EPOCH, highWatermark: -1n });
  assert.equal((await told(8)).errorCode, ErrorCode.UNKNOWN_LEADER_EPOCH);
  const leader = createLeaderIdAndEpoch({ leaderId: 2, leaderEpoch: 3 });
  shell(session, {
    errorCode: ErrorCode.FENCED_LEADER_EPOCH,
    highWatermark: -1n,
    currentLeader: leader,
  });
  const old = await told(6);
  assert.equal(old.errorCode, ErrorCode.FENCED_LEADER_EPOCH);
  assert.deepEqual([old.currentLeader.leaderId, old.currentLeader.leaderEpoch], [2, 7]);
  shell(session);
  for (const epoch of [7, 7, -1]) {
    const read = await told(epoch);
    assert.deepEqual([read.errorCode, read.highWatermark], [ErrorCode.NONE, 122n]);
  }
  assert.deepEqual(
    questionsSeen(session).map(({ currentLeaderEpoch }) => currentLeaderEpoch),
    [4, 2, 3],
    'each epoch once, in native ones',
  );
  const fenced = await told(6);
  assert.equal(fenced.errorCode, ErrorCode.FENCED_LEADER_EPOCH);
  assert.deepEqual([fenced.currentLeader.leaderId, fenced.currentLeader.leaderEpoch], [2, 7]);
  assert.equal(questionsSeen(session).length, 3);
});

test('a broker that is gone, or no replica, keeps nobody from a copy', async () => {
  const session = virtualBroker();
  shell(session, { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER, highWatermark: -1n });
  const ask = { fetchOffset: 60n, currentLeaderEpoch: 6 };
  const read = answered((await fetch(session, [ask])).response);
  assert.deepEqual([read.errorCode, read.highWatermark], [ErrorCode.NONE, 100n]);
  assert.ok((read.records?.length ?? 0) > 0);
});
