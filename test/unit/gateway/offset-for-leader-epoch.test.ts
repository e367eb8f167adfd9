// OffsetForLeaderEpoch for mirrors, and merged over copy and shell (rule 5).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderPartition,
  createOffsetForLeaderTopic,
  type OffsetForLeaderEpochRequest,
  offsetForLeaderEpochRequestCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  createEpochEndOffset,
  createOffsetForLeaderEpochResponse,
  createOffsetForLeaderTopicResult,
  offsetForLeaderEpochResponseCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import * as handlers from '../../../src/gateway/handlers/offset-for-leader-epoch.ts';
import { batch, MemoryMirrorLog, marker } from './memory-mirror-log.ts';
import { DESCRIBE, exchange, FakeSession, promotedAt100, READ } from './read-fixtures.ts';

const codecs = {
  request: offsetForLeaderEpochRequestCodec,
  response: offsetForLeaderEpochResponseCodec,
};

async function ask(
  session: FakeSession,
  leaderEpoch: number,
  { name = 'orders', current = -1, version = 4 } = {},
) {
  const request = createOffsetForLeaderEpochRequest({
    replicaId: version >= 3 ? -1 : -2,
    topics: [
      createOffsetForLeaderTopic({
        topic: name,
        partitions: [
          createOffsetForLeaderPartition({
            partition: 0,
            leaderEpoch,
            currentLeaderEpoch: current,
          }),
        ],
      }),
    ],
  });
  const { response } = await exchange(
    session,
    handlers.offsetForLeaderEpochHandler,
    codecs,
    version,
    request,
  );
  assert.equal(response.topics[0]?.topic, name);
  const answer = response.topics[0]?.partitions[0];
  assert.ok(answer !== undefined);
  return answer.errorCode === 0 ? [answer.leaderEpoch, answer.endOffset] : answer.errorCode;
}

/** Epochs 1, 3 and, from the ABORT batch of the splice on, V0 = 6. */
function copy(): MemoryMirrorLog {
  return new MemoryMirrorLog(
    10n,
    batch(10n, 30, { epoch: 1 }),
    batch(40n, 59, { epoch: 3, producerId: 9n, isTransactional: true }),
    marker(99n, 9n, 'ABORT', 6),
  );
}

function linkNode(log: MemoryMirrorLog | null): FakeSession {
  const session = new FakeSession({ kind: 'link' });
  session.directory.put({ name: 'orders', mode: 'mirror', log, advertisedEpoch: 6 });
  return session;
}

interface ShellAnswer {
  readonly epoch: number;
  readonly end: bigint;
  readonly errorCode?: number;
}

const shellAnswer: ShellAnswer = { epoch: 2, end: 30n };

function virtualBroker(log: MemoryMirrorLog | null, answer = shellAnswer) {
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  session.broker.serve(
    offsetForLeaderEpochRequestCodec,
    offsetForLeaderEpochResponseCodec,
    (request) =>
      createOffsetForLeaderEpochResponse({
        topics: request.topics.map(({ topic, partitions }) =>
          createOffsetForLeaderTopicResult({
            topic,
            partitions: partitions.map(({ partition }) =>
              createEpochEndOffset({
                partition,
                errorCode: answer.errorCode ?? ErrorCode.NONE,
                leaderEpoch: answer.epoch,
                endOffset: answer.end,
              }),
            ),
          }),
        ),
      }),
  );
  return session;
}

function asked(session: FakeSession) {
  const seen = session.broker.seen.filter(({ apiKey }) => apiKey === 23);
  return seen.flatMap(({ message }) =>
    (message as OffsetForLeaderEpochRequest).topics.flatMap(({ partitions }) => partitions),
  );
}

test('a mirror answers from the epochs of its batches, in every version', async () => {
  const session = linkNode(copy());
  for (const version of [2, 3, 4]) {
    assert.deepEqual(await ask(session, 1, { version }), [1, 40n]);
    assert.deepEqual(await ask(session, 2, { version }), [1, 40n]);
    assert.deepEqual(await ask(session, 3, { version }), [3, 99n]);
    assert.deepEqual(await ask(session, 6, { version }), [6, 100n]);
    assert.deepEqual(await ask(session, 0, { version }), [0, 10n], 'before the first epoch');
    assert.deepEqual(await ask(session, -1, { version }), [-1, -1n]);
  }
  assert.deepEqual(await ask(linkNode(new MemoryMirrorLog(0n)), 0), [-1, -1n], 'empty');
});

test('R8: the link node fences, and refuses what it does not lead', async () => {
  const session = linkNode(copy());
  assert.equal(await ask(session, 1, { current: 5 }), ErrorCode.FENCED_LEADER_EPOCH);
  assert.equal(await ask(session, 1, { current: 7 }), ErrorCode.UNKNOWN_LEADER_EPOCH);
  session.broker.operations.set('ordinary', DESCRIBE);
  assert.equal(await ask(session, 1, { name: 'ordinary' }), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  const denied = linkNode(copy());
  denied.broker.operations.set('orders', READ);
  assert.equal(await ask(denied, 1), ErrorCode.TOPIC_AUTHORIZATION_FAILED);
});

test('R19: without a readable copy the answer is 56', async () => {
  assert.equal(await ask(linkNode(null), 1), ErrorCode.KAFKA_STORAGE_ERROR);
  assert.equal(await ask(virtualBroker(null), 1), ErrorCode.KAFKA_STORAGE_ERROR);
  const log = copy();
  log.failure = 'MISSING';
  assert.equal(await ask(linkNode(log), 1), ErrorCode.KAFKA_STORAGE_ERROR);
});

test('rule 5: epochs before V0 come from the copy, later ones shifted from the shell', async () => {
  const session = virtualBroker(copy());
  assert.deepEqual(await ask(session, 1), [1, 40n]);
  assert.deepEqual(await ask(session, 5), [3, 99n], 'V0 begins at the ABORT batch, not at S');
  assert.deepEqual(await ask(session, 6, { current: 7 }), [6, 122n]);
  assert.deepEqual(
    asked(session).map(({ leaderEpoch, currentLeaderEpoch }) => [leaderEpoch, currentLeaderEpoch]),
    [
      [2, -1],
      [2, -1],
      [2, 3],
    ],
    'none from before V0, of which the broker knows nothing',
  );
  assert.deepEqual(await ask(virtualBroker(copy(), { epoch: -1, end: -1n }), 7), [-1, -1n]);
  assert.deepEqual(await ask(virtualBroker(copy(), { epoch: 1, end: 4n }), 6), [5, 100n]);
});

test('epochs before V0 were told by who does not lead, and to who names a wrong epoch', async () => {
  for (const errorCode of [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
  ]) {
    const session = virtualBroker(copy(), { epoch: -1, end: -1n, errorCode });
    assert.equal(await ask(session, 1, { current: 7 }), errorCode);
    assert.equal(asked(session)[0]?.currentLeaderEpoch, 3);
  }
});

test('R19: where a copy in part ends was taken for the end of its epoch', async () => {
  const part = new MemoryMirrorLog(10n, batch(10n, 30, { epoch: 1 }));
  assert.equal(await ask(virtualBroker(part), 3), ErrorCode.KAFKA_STORAGE_ERROR);
  const log = copy();
  log.hold(99n);
  assert.equal(await ask(virtualBroker(log), 3), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  log.hold(null);
  assert.deepEqual(await ask(virtualBroker(log), 3), [3, 99n]);
});

test('an empty copy has nothing before S', async () => {
  assert.deepEqual(await ask(virtualBroker(new MemoryMirrorLog(100n)), 2), [2, 100n]);
});

test('R8: a current leader epoch before V0 is fenced without asking the broker', async () => {
  const session = virtualBroker(copy());
  assert.equal(await ask(session, 6, { current: 5 }), ErrorCode.FENCED_LEADER_EPOCH);
  assert.deepEqual(asked(session), []);
});

test('ordinary topics are forwarded as they are, a mirror is not', async () => {
  const session = virtualBroker(copy());
  assert.deepEqual(await ask(session, 9, { name: 'ordinary' }), [2, 30n]);
  assert.equal(asked(session)[0]?.leaderEpoch, 9);
  session.directory.put({ name: 'orders', mode: 'switching', log: copy() });
  assert.equal(await ask(session, 1), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(asked(session).length, 1);
});
