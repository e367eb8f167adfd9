// Fetch sessions against a naive broker that keeps what it is told: after every request the
// broker's view is what was wanted, whatever was added, moved, dropped, lost or refused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { FetchSession, type WantedPartition } from '../../../src/link/fetch/fetch-session.ts';

const options = { waitMs: 500, bytesMax: 1 << 20 };

function wanted(partition: number, fetchOffset: bigint, epoch = 3): WantedPartition {
  return {
    topic: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    partition,
    fetchOffset,
    currentLeaderEpoch: epoch,
    lastFetchedEpoch: 2,
    bytesMax: 1000,
  };
}

function partitionsIn(request: FetchRequest): number[] {
  return request.topics.flatMap(({ partitions }) => partitions.map(({ partition }) => partition));
}

/** What a broker keeps of one session, by KIP-227. */
class Broker {
  id = 0;
  epoch = 0;
  offsets = new Map<number, bigint>();
  #nextId = 100;

  answer(request: FetchRequest): { errorCode: number; sessionId: number } {
    if (request.sessionEpoch === 0) {
      this.id = this.#nextId++;
      this.epoch = 1;
      this.offsets = new Map();
    } else if (request.sessionId !== this.id) {
      return { errorCode: ErrorCode.FETCH_SESSION_ID_NOT_FOUND, sessionId: 0 };
    } else if (request.sessionEpoch !== this.epoch) {
      return { errorCode: ErrorCode.INVALID_FETCH_SESSION_EPOCH, sessionId: 0 };
    } else this.epoch++;
    for (const { partitions } of request.topics) {
      for (const { partition, fetchOffset } of partitions) this.offsets.set(partition, fetchOffset);
    }
    for (const { partitions } of request.forgottenTopicsData) {
      for (const partition of partitions) this.offsets.delete(partition);
    }
    return { errorCode: 0, sessionId: this.id };
  }
}

describe('a session', () => {
  test('is full first, then tells only what has changed', () => {
    const session = new FetchSession();
    const full = session.build([wanted(0, 5n), wanted(1, 7n)], 17, options);
    assert.deepEqual([full.sessionId, full.sessionEpoch], [0, 0]);
    assert.deepEqual(partitionsIn(full), [0, 1]);
    assert.equal(session.received({ errorCode: 0, sessionId: 9 }), true);
    const next = session.build([wanted(0, 6n), wanted(2, 1n)], 17, options);
    assert.deepEqual([next.sessionId, next.sessionEpoch], [9, 1]);
    assert.deepEqual(partitionsIn(next), [0, 2]);
    assert.deepEqual(
      next.forgottenTopicsData.map(({ partitions }) => partitions),
      [[1]],
    );
    session.received({ errorCode: 0, sessionId: 9 });
    const idle = session.build([wanted(0, 6n), wanted(2, 1n)], 17, options);
    assert.deepEqual([idle.sessionEpoch, partitionsIn(idle)], [2, []]);
  });

  test('tells a new leader epoch although the offset is the same', () => {
    const session = new FetchSession();
    session.build([wanted(0, 5n)], 17, options);
    session.received({ errorCode: 0, sessionId: 9 });
    assert.deepEqual(partitionsIn(session.build([wanted(0, 5n, 4)], 17, options)), [0]);
  });

  for (const errorCode of [
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
  ]) {
    test(`begins anew after error ${errorCode}`, () => {
      const session = new FetchSession();
      session.build([wanted(0, 5n)], 17, options);
      session.received({ errorCode: 0, sessionId: 9 });
      session.build([wanted(0, 5n)], 17, options);
      assert.equal(session.received({ errorCode, sessionId: 0 }), false);
      const full = session.build([wanted(0, 5n)], 17, options);
      assert.deepEqual([full.sessionId, full.sessionEpoch, partitionsIn(full)], [0, 0, [0]]);
    });
  }

  test('stays full when the broker has no slot, and below version 7', () => {
    const session = new FetchSession();
    session.build([wanted(0, 5n)], 17, options);
    assert.equal(session.received({ errorCode: 0, sessionId: 0 }), true);
    assert.equal(session.isIncremental, false);
    assert.deepEqual(partitionsIn(session.build([wanted(0, 5n)], 17, options)), [0]);
    session.received({ errorCode: 0, sessionId: 3 });
    assert.deepEqual(partitionsIn(session.build([wanted(0, 5n)], 4, options)), [0]);
  });

  test('sends no last fetched epoch to brokers that do not know it', () => {
    const session = new FetchSession();
    const [topic] = session.build([wanted(0, 5n)], 11, options).topics;
    assert.equal(topic?.partitions[0]?.lastFetchedEpoch, -1);
    const [newer] = session.build([wanted(0, 5n)], 12, options).topics;
    assert.equal(newer?.partitions[0]?.lastFetchedEpoch, 2);
  });

  test('keeps the broker in step through anything', () => {
    const step = fc.record({
      offsets: fc.dictionary(fc.constantFrom('0', '1', '2', '3', '4'), fc.bigInt(0n, 5n)),
      fate: fc.constantFrom('answered', 'answered', 'lost', 'forgotten'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const session = new FetchSession();
        const broker = new Broker();
        for (const { offsets, fate } of steps) {
          const list = Object.entries(offsets).map(([partition, offset]) =>
            wanted(Number(partition), offset),
          );
          if (fate === 'forgotten') broker.id = -1;
          const answer = broker.answer(session.build(list, 17, options));
          if (fate === 'lost') {
            session.reset();
            continue;
          }
          const isUsable = session.received(answer);
          assert.equal(isUsable, answer.errorCode === 0);
          if (!isUsable) continue;
          const expected = list.map(({ partition, fetchOffset }) => [partition, fetchOffset]);
          assert.deepEqual([...broker.offsets].sort(), expected.sort());
        }
      }),
    );
  });
});
