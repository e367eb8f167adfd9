// ListOffsets for mirrors (link node) and for copy and shell as one log (virtual brokers).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  type ListOffsetsRequest,
  listOffsetsRequestCodec,
} from '../../../protocol/generated/list-offsets-request.ts';
import {
  createListOffsetsPartitionResponse,
  createListOffsetsResponse,
  createListOffsetsTopicResponse,
  type ListOffsetsPartitionResponse,
  type ListOffsetsResponse,
  listOffsetsResponseCodec,
} from '../../../protocol/generated/list-offsets-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { listOffsetsHandler } from '../../../src/gateway/handlers/list-offsets.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import { newMirror, splice } from '../../../src/timeline/timeline.ts';
import { batch, MemoryMirrorLog, marker } from './memory-mirror-log.ts';
import { DESCRIBE, exchange, FakeSession, promotedAt100, READ } from './read-fixtures.ts';

const codecs = { request: listOffsetsRequestCodec, response: listOffsetsResponseCodec };

interface Ask {
  readonly name?: string;
  readonly partition?: number;
  readonly epoch?: number;
  readonly committed?: boolean;
}

async function whole(
  session: FakeSession,
  timestamp: bigint,
  { name = 'orders', partition = 0, epoch = -1, committed = false }: Ask = {},
  version = 11,
): Promise<ListOffsetsResponse> {
  const request = createListOffsetsRequest({
    replicaId: -1,
    isolationLevel: committed ? 1 : 0,
    topics: [
      createListOffsetsTopic({
        name,
        partitions: [
          createListOffsetsPartition({
            partitionIndex: partition,
            timestamp,
            currentLeaderEpoch: epoch,
          }),
        ],
      }),
    ],
  });
  return (await exchange(session, listOffsetsHandler, codecs, version, request)).response;
}

async function ask(
  session: FakeSession,
  timestamp: bigint,
  asked: Ask = {},
  version = 11,
): Promise<ListOffsetsPartitionResponse> {
  const answer = (await whole(session, timestamp, asked, version)).topics[0]?.partitions[0];
  assert.ok(answer !== undefined);
  assert.equal(answer.partitionIndex, asked.partition ?? 0);
  return answer;
}

function summary({ errorCode, offset, timestamp, leaderEpoch }: ListOffsetsPartitionResponse) {
  return errorCode === 0 ? [offset, timestamp, leaderEpoch] : errorCode;
}

/** Timestamps 1000, 3000, 2000; an open transaction from 20 on. */
function mirror(): MemoryMirrorLog {
  return new MemoryMirrorLog(
    5n,
    batch(5n, 5, { timestamp: 1000n, epoch: 1 }),
    batch(10n, 10, { timestamp: 3000n, epoch: 2 }),
    batch(20n, 4, { timestamp: 4000n, epoch: 2, producerId: 3n, isTransactional: true }),
    batch(24n, 1, { timestamp: 2000n, epoch: 2 }),
  );
}

function linkNode(log: MemoryMirrorLog | null = mirror()): FakeSession {
  const session = new FakeSession({ kind: 'link' });
  session.directory.put({ name: 'orders', mode: 'mirror', log, advertisedEpoch: 2 });
  return session;
}

test('a mirror answers latest, earliest, by time, and the largest timestamp', async () => {
  const session = linkNode();
  assert.deepEqual(summary(await ask(session, -1n)), [25n, -1n, 2]);
  assert.deepEqual(summary(await ask(session, -2n)), [5n, -1n, 1]);
  assert.deepEqual(summary(await ask(session, -3n)), [20n, 4000n, 2]);
  assert.deepEqual(summary(await ask(session, -4n)), [5n, -1n, 1]);
  assert.deepEqual(summary(await ask(session, -5n)), [-1n, -1n, -1], 'nothing is tiered');
  assert.deepEqual(summary(await ask(session, -6n)), [-1n, -1n, -1]);
  assert.deepEqual(summary(await ask(session, 1001n)), [10n, 3000n, 2]);
  assert.deepEqual(summary(await ask(session, 5000n)), [-1n, -1n, -1]);
  assert.deepEqual(summary(await ask(session, -7n)), ErrorCode.UNSUPPORTED_VERSION);
  assert.equal(session.broker.seen.filter(({ apiKey }) => apiKey === 2).length, 0);
});

test('sentinels that a version does not have are refused, as by a broker', async () => {
  const since = { '-1': 1, '-2': 1, '-3': 7, '-4': 8, '-5': 9, '-6': 11 };
  for (const [sentinel, first] of Object.entries(since)) {
    for (let version = 1; version <= 11; version++) {
      const { errorCode } = await ask(linkNode(), BigInt(sentinel), {}, version);
      const expected = version < first ? ErrorCode.UNSUPPORTED_VERSION : ErrorCode.NONE;
      assert.equal(errorCode, expected, `${sentinel} in version ${version}`);
    }
  }
});

test('a sentinel that nobody has was an affair of leaders and epochs first', async () => {
  const asks: readonly Ask[] = [{ epoch: 1 }, { epoch: 3 }, { partition: 9 }, { name: 'plain' }];
  for (const one of asks) {
    const session = linkNode();
    session.broker.operations.set('plain', DESCRIBE);
    assert.equal(summary(await ask(session, -7n, one)), ErrorCode.UNSUPPORTED_VERSION);
  }
  const denied = linkNode();
  denied.broker.operations.set('orders', READ);
  assert.equal(summary(await ask(denied, -7n)), ErrorCode.TOPIC_AUTHORIZATION_FAILED);
});

test('the earliest offset comes with the epoch that the log begins in', async () => {
  const log = new MemoryMirrorLog(
    5n,
    batch(5n, 5, { epoch: 3 }),
    batch(10n, 5, { epoch: 6 }),
    batch(15n, 5, { epoch: 7 }),
  );
  assert.deepEqual(summary(await ask(linkNode(log), -2n)), [5n, -1n, 3]);
  const empty = new MemoryMirrorLog(5n);
  assert.deepEqual(summary(await ask(linkNode(empty), -2n)), [5n, -1n, -1]);
});

test('R7: read_committed never sees beyond the last stable offset', async () => {
  const session = linkNode();
  const committed = { committed: true };
  assert.deepEqual(summary(await ask(session, -1n, committed)), [20n, -1n, 2]);
  assert.deepEqual(summary(await ask(session, 3500n, committed)), [-1n, -1n, -1]);
  assert.deepEqual(summary(await ask(session, 2500n, committed)), [10n, 3000n, 2]);
});

test('old versions get no leader epoch', async () => {
  for (const version of [1, 2, 3]) {
    assert.deepEqual(summary(await ask(linkNode(), 1000n, {}, version)), [5n, 1000n, -1]);
  }
  assert.deepEqual(summary(await ask(linkNode(), 1000n, {}, 4)), [5n, 1000n, 1]);
});

test('R8: the link node fences epochs', async () => {
  const session = linkNode();
  assert.equal(summary(await ask(session, -1n, { epoch: 1 })), ErrorCode.FENCED_LEADER_EPOCH);
  assert.equal(summary(await ask(session, -1n, { epoch: 3 })), ErrorCode.UNKNOWN_LEADER_EPOCH);
  assert.deepEqual(summary(await ask(session, -1n, { epoch: 2 })), [25n, -1n, 2]);
});

test('R19: an unreadable mirror is 56', async () => {
  const missing = linkNode(null);
  assert.equal(summary(await ask(missing, -2n)), ErrorCode.KAFKA_STORAGE_ERROR);
  const log = mirror();
  log.failure = 'CORRUPT';
  const session = linkNode(log);
  assert.equal(summary(await ask(session, 1000n)), ErrorCode.KAFKA_STORAGE_ERROR);
  assert.equal(session.services.events.since(0).length, 1);
});

test('the link node answers only for mirrors, and only those who may describe', async () => {
  const session = linkNode();
  session.broker.operations.set('ordinary', DESCRIBE);
  const error = async (asked: Ask) => summary(await ask(session, -1n, asked));
  assert.equal(await error({ name: 'ordinary' }), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(await error({ name: 'nowhere' }), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  assert.equal(await error({ partition: 9 }), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  const denied = linkNode();
  denied.broker.operations.set('orders', READ);
  assert.equal(summary(await ask(denied, -1n)), ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  const promoted = linkNode();
  promoted.directory.put({
    name: 'orders',
    mode: 'promoted',
    log: mirror(),
    timeline: promotedAt100(),
  });
  assert.equal(summary(await ask(promoted, -1n)), ErrorCode.NOT_LEADER_OR_FOLLOWER);
});

interface Shell {
  readonly latest: bigint;
  readonly earliest: bigint;
  readonly byTime: readonly [offset: bigint, timestamp: bigint];
  readonly throttleTimeMs: number;
}

/** S = 100, n = 8, native epoch 2 is V0 = 6. */
function virtualBroker(log: MemoryMirrorLog | null, shell: Partial<Shell> = {}): FakeSession {
  const { latest = 30n, earliest = 0n, byTime = [11n, 9000n], throttleTimeMs = 0 } = shell;
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  session.broker.serve(listOffsetsRequestCodec, listOffsetsResponseCodec, (request) =>
    createListOffsetsResponse({
      throttleTimeMs,
      topics: request.topics.map(({ name, partitions }) =>
        createListOffsetsTopicResponse({
          name,
          partitions: partitions.map(({ partitionIndex, timestamp }) =>
            createListOffsetsPartitionResponse({
              partitionIndex,
              leaderEpoch: 3,
              ...(timestamp === -1n
                ? { offset: request.isolationLevel === 1 ? latest - 2n : latest }
                : timestamp === -2n || timestamp === -4n
                  ? { offset: earliest, leaderEpoch: 0 }
                  : { offset: byTime[0], timestamp: byTime[1] }),
            }),
          ),
        }),
      ),
    }),
  );
  return session;
}

function copy(): MemoryMirrorLog {
  return new MemoryMirrorLog(
    40n,
    batch(40n, 30, { timestamp: 1000n, epoch: 4 }),
    batch(70n, 29, { timestamp: 3000n, epoch: 5 }),
    marker(99n, 9n, 'ABORT', 6),
  );
}

function asked(session: FakeSession) {
  const seen = session.broker.seen.filter(({ apiKey }) => apiKey === 2);
  return seen.flatMap(({ message }) =>
    (message as ListOffsetsRequest).topics.flatMap(({ partitions }) => partitions),
  );
}

test('rule 5: a promoted partition starts with the copy and ends with the shell', async () => {
  const session = virtualBroker(copy());
  assert.deepEqual(summary(await ask(session, -2n)), [40n, -1n, 4]);
  assert.deepEqual(summary(await ask(session, -4n)), [40n, -1n, 4]);
  assert.deepEqual(
    asked(session).map(({ timestamp }) => timestamp),
    [-2n, -2n],
    'the copy settles it, if no record behind it is deleted',
  );
  assert.deepEqual(summary(await ask(session, -1n, { epoch: 7 })), [122n, -1n, 7]);
  assert.equal(asked(session).at(-1)?.currentLeaderEpoch, 3);
  assert.deepEqual(summary(await ask(session, -1n, { committed: true })), [120n, -1n, 7]);
});

test('the end of a shell that only has hidden markers is S (R8: never below)', async () => {
  const session = virtualBroker(copy(), { latest: 5n });
  assert.deepEqual(summary(await ask(session, -1n)), [100n, -1n, 7]);
});

test('times are looked up in the copy first, then in the shell', async () => {
  const session = virtualBroker(copy());
  assert.deepEqual(summary(await ask(session, 2000n)), [70n, 3000n, 5]);
  assert.deepEqual(
    asked(session).map(({ timestamp }) => timestamp),
    [-2n],
  );
  assert.deepEqual(summary(await ask(session, 5000n)), [103n, 9000n, 7]);
  const none = virtualBroker(copy(), { byTime: [-1n, -1n] });
  assert.deepEqual(summary(await ask(none, 99_000n)).toString(), '-1,-1,7');
});

test('the largest timestamp is the larger of both, the earlier offset among equals', async () => {
  const largest = async (offset: bigint, timestamp: bigint) =>
    summary(await ask(virtualBroker(copy(), { byTime: [offset, timestamp] }), -3n));
  assert.deepEqual(await largest(11n, 9000n), [103n, 9000n, 7]);
  assert.deepEqual(await largest(11n, 3000n), [70n, 3000n, 5]);
  assert.deepEqual(await largest(-1n, -1n), [70n, 3000n, 5]);
});

test('after the copy has aged out the start is the shell’s, never below S', async () => {
  const log = copy();
  await log.deleteHead(100n);
  assert.deepEqual(summary(await ask(virtualBroker(log), -2n)), [100n, -1n, 6]);
  const later = virtualBroker(log, { earliest: 20n });
  assert.equal((await ask(later, -2n)).offset, 112n);
});

test('a consumer at S went back to the copy and round again: what is below a deleted record is gone', async () => {
  for (const log of [copy(), null]) {
    const cut = virtualBroker(log, { earliest: 11n });
    assert.deepEqual(summary(await ask(cut, -2n)), [103n, -1n, 6]);
    assert.deepEqual(summary(await ask(cut, -4n)), [103n, -1n, 6]);
    assert.deepEqual(summary(await ask(cut, 2000n)), [103n, 9000n, 7]);
    assert.deepEqual(summary(await ask(cut, -3n)), [103n, 9000n, 7]);
  }
  const largest = virtualBroker(copy(), { earliest: 11n, byTime: [11n, 2000n] });
  assert.deepEqual(summary(await ask(largest, -3n)), [103n, 2000n, 7]);
  const markersOnly = virtualBroker(copy(), { earliest: 8n });
  assert.deepEqual(summary(await ask(markersOnly, -2n)), [40n, -1n, 4], 'only what is hidden');
});

test('hidden markers answered time look-ups, with their own times', async () => {
  const markers = { byTime: [5n, 9000n] } as const;
  const empty = virtualBroker(copy(), { ...markers, latest: 8n });
  assert.deepEqual(summary(await ask(empty, -3n)), [70n, 3000n, 5], 'the last of the copy');
  assert.deepEqual(summary(await ask(empty, 5000n)), [-1n, -1n, -1]);
  const undecided = virtualBroker(copy(), { ...markers, latest: 10n });
  assert.deepEqual(summary(await ask(undecided, 5000n, { committed: true })), [-1n, -1n, -1]);
  const written = virtualBroker(copy(), { ...markers, latest: 9n });
  assert.deepEqual(summary(await ask(written, 5000n)), [100n, 9000n, 7], 'no record is left out');
  assert.equal(asked(written).at(-1)?.timestamp, -1n);
  const noCopy = new MemoryMirrorLog(100n);
  const bare = virtualBroker(noCopy, { ...markers, latest: 8n });
  assert.deepEqual(summary(await ask(bare, -3n)), [-1n, -1n, -1]);
});

test('R8: hidden markers from before many elections of the shell were told with a negative epoch', async () => {
  const timeline = splice(newMirror(virtualOffset(0n)), {
    virtualEnd: virtualOffset(100n),
    nativeEnd: nativeOffset(8n),
    nativeEpoch: nativeEpoch(9),
    lastVirtualEpoch: virtualEpoch(5),
  });
  const session = virtualBroker(null, { byTime: [5n, 9000n] });
  const log = new MemoryMirrorLog(100n);
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline });
  assert.deepEqual(summary(await ask(session, -2n)), [100n, -1n, 6], 'of native epoch 0');
  assert.deepEqual(summary(await ask(session, 5000n)), [100n, 9000n, 6], 'of native epoch 3');
});

test('the time for which the broker throttles a client was lost on promoted topics', async () => {
  const session = virtualBroker(copy(), { throttleTimeMs: 70 });
  for (const timestamp of [-1n, -2n, 9000n]) {
    assert.equal((await whole(session, timestamp)).throttleTimeMs, 70);
  }
});

test('a leader epoch above the broker’s was let pass where the copy answers', async () => {
  const session = virtualBroker(copy());
  session.broker.serve(listOffsetsRequestCodec, listOffsetsResponseCodec, ({ topics }) =>
    createListOffsetsResponse({
      topics: topics.map(({ name, partitions }) =>
        createListOffsetsTopicResponse({
          name,
          partitions: partitions.map(({ partitionIndex, currentLeaderEpoch }) =>
            createListOffsetsPartitionResponse({
              partitionIndex,
              errorCode: currentLeaderEpoch > 3 ? ErrorCode.UNKNOWN_LEADER_EPOCH : ErrorCode.NONE,
              offset: 0n,
            }),
          ),
        }),
      ),
    }),
  );
  assert.equal(summary(await ask(session, -2n, { epoch: 8 })), ErrorCode.UNKNOWN_LEADER_EPOCH);
  assert.deepEqual(summary(await ask(session, -2n, { epoch: 7 })), [40n, -1n, 4]);
});

test('R19: what a copy should hold and cannot read is 56, the end is still told', async () => {
  const session = virtualBroker(null);
  assert.equal(summary(await ask(session, -2n)), ErrorCode.KAFKA_STORAGE_ERROR);
  assert.equal(summary(await ask(session, 1000n)), ErrorCode.KAFKA_STORAGE_ERROR);
  assert.deepEqual(summary(await ask(session, -1n)), [122n, -1n, 7]);
  const log = copy();
  log.failure = 'IO';
  const broken = virtualBroker(log);
  assert.equal(summary(await ask(broken, 1000n)), ErrorCode.KAFKA_STORAGE_ERROR);
});

test('R8: an epoch before V0 is fenced without asking the broker', async () => {
  const session = virtualBroker(copy());
  assert.equal(summary(await ask(session, -1n, { epoch: 5 })), ErrorCode.FENCED_LEADER_EPOCH);
  assert.deepEqual(asked(session), []);
});

test('ordinary topics are forwarded, mirrors and doubtful topics are not', async () => {
  const session = virtualBroker(copy());
  assert.deepEqual(summary(await ask(session, -1n, { name: 'ordinary' })), [30n, -1n, 3]);
  assert.deepEqual(summary(await ask(session, -1n, { partition: 4 })), [30n, -1n, 3]);
  const before = asked(session).length;
  session.directory.put({ name: 'orders', mode: 'mirror', log: copy() });
  assert.equal(summary(await ask(session, -1n)), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(
    summary(await ask(session, -1n, { partition: 4 })),
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
  );
  session.directory.isSettled = false;
  const doubtful = await ask(session, -1n, { name: 'ordinary' });
  assert.equal(summary(doubtful), ErrorCode.NOT_LEADER_OR_FOLLOWER);
  assert.equal(asked(session).length, before);
});

test('mixed topics come back in the order of the request', async () => {
  const session = virtualBroker(copy());
  const names = ['ordinary', 'orders', 'second'];
  const request = createListOffsetsRequest({
    replicaId: -1,
    topics: names.map((name) =>
      createListOffsetsTopic({
        name,
        partitions: [2, 0].map((partitionIndex) =>
          createListOffsetsPartition({ partitionIndex, timestamp: -2n }),
        ),
      }),
    ),
  });
  const { response } = await exchange(session, listOffsetsHandler, codecs, 7, request);
  assert.deepEqual(
    response.topics.map(({ name, partitions }) => [
      name,
      partitions.map(({ partitionIndex, offset }) => [partitionIndex, offset]),
    ]),
    [
      [
        'ordinary',
        [
          [2, 0n],
          [0, 0n],
        ],
      ],
      [
        'orders',
        [
          [2, 0n],
          [0, 40n],
        ],
      ],
      [
        'second',
        [
          [2, 0n],
          [0, 0n],
        ],
      ],
    ],
  );
});
