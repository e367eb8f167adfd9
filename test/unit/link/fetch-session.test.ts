// Fetch sessions against a naive broker that keeps what it is told: after every request the
// broker's view is what was wanted, whatever was added, moved, dropped, lost or refused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { FetchSession, type WantedPartition } from '../../../src/link/fetch/fetch-session.ts';

const options = { waitMs: 500, bytesMax: 1 << 20, partitionBytesMax: 1000 };

const topicIds = ['AAAAAAAAAAAAAAAAAAAAAQ', 'AAAAAAAAAAAAAAAAAAAAAg'] as const;

interface Wanted extends WantedPartition {
  fetchOffset: bigint;
  leaderEpoch: number;
}

function wanted(
  partition: number,
  fetchOffset: bigint,
  sourceTopicId: string = topicIds[0],
): Wanted {
  const position = { fetchOffset, leaderEpoch: 3, fetchEpoch: 2 };
  return { sourceTopic: 'orders', sourceTopicId, partition, ...position };
}

function partitionsIn(request: FetchRequest): number[] {
  return request.topics.flatMap(({ partitions }) => partitions.map(({ partition }) => partition));
}

/** What a broker keeps of one session, by KIP-227. */
class Broker {
  id = 0;
  epoch = 0;
  /** By topic and partition. */
  offsets = new Map<string, bigint>();
  #nextId = 100;
  readonly #knowsIds: boolean;

  /** Brokers before 3.1 know topics of a session by their names. */
  constructor(version: number) {
    this.#knowsIds = version >= 13;
  }

  key({ topic, topicId }: { topic: string; topicId: string }, partition: number): string {
    return `${this.#knowsIds ? topicId : topic}/${partition}`;
  }

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
    for (const topic of request.topics) {
      for (const { partition, fetchOffset } of topic.partitions) {
        this.offsets.set(this.key(topic, partition), fetchOffset);
      }
    }
    for (const topic of request.forgottenTopicsData) {
      for (const partition of topic.partitions) this.offsets.delete(this.key(topic, partition));
    }
    return { errorCode: 0, sessionId: this.id };
  }
}

describe('a session', () => {
  test('is full first, then tells only what has changed', () => {
    const session = new FetchSession<Wanted>();
    const [one, two, three] = [wanted(0, 5n), wanted(1, 7n), wanted(2, 1n)];
    const full = session.build([one, two], 17, options);
    assert.deepEqual([full.sessionId, full.sessionEpoch], [0, 0]);
    assert.deepEqual(partitionsIn(full), [0, 1]);
    assert.equal(session.received({ errorCode: 0, sessionId: 9 }), true);
    one.fetchOffset = 6n;
    const next = session.build([one, three], 17, options);
    assert.deepEqual([next.sessionId, next.sessionEpoch], [9, 1]);
    assert.deepEqual(partitionsIn(next), [0, 2]);
    assert.deepEqual(
      next.forgottenTopicsData.map(({ partitions }) => partitions),
      [[1]],
    );
    session.received({ errorCode: 0, sessionId: 9 });
    const idle = session.build([one, three], 17, options);
    assert.deepEqual([idle.sessionEpoch, partitionsIn(idle)], [2, []]);
    const larger = session.build([one, three], 17, { ...options, partitionBytesMax: 2000 });
    assert.deepEqual(partitionsIn(larger), [0, 2]);
  });

  test('knows what was asked for although the partition has moved on meanwhile', () => {
    const session = new FetchSession<Wanted>();
    const one = wanted(0, 5n);
    const byId = { topic: '', topicId: topicIds[0] };
    const byName = { topic: 'orders', topicId: zeroUuid };
    const askedFor = () => [byId, byName].map((by) => session.find(by, 0)?.fetchOffset);
    session.build([one], 17, options);
    one.fetchOffset = 8n;
    assert.deepEqual(askedFor(), [5n, 5n]);
    assert.equal(session.received({ errorCode: 0, sessionId: 9 }), true);
    assert.deepEqual(askedFor(), [5n, 5n]);
    session.build([one], 17, options);
    assert.deepEqual(askedFor(), [8n, 8n]);
    assert.equal(session.received({ errorCode: 0, sessionId: 0 }), true);
    assert.deepEqual(askedFor(), [8n, 8n], 'an answer of a broker without a slot has records too');
    session.build([], 17, options);
    assert.deepEqual(askedFor(), [undefined, undefined]);
  });

  test('says a change again when it is asked for in another version', () => {
    const session = new FetchSession<Wanted>();
    const [one, two] = [wanted(0, 5n), wanted(1, 7n)];
    session.build([one, two], 17, options);
    session.received({ errorCode: 0, sessionId: 9 });
    one.fetchOffset = 6n;
    for (const version of [17, 12]) {
      const next = session.build([one], version, options);
      assert.deepEqual(partitionsIn(next), [0]);
      assert.deepEqual(next.forgottenTopicsData[0]?.partitions, [1]);
    }
  });

  test('tells a new leader epoch although the offset is the same', () => {
    const session = new FetchSession<Wanted>();
    const one = wanted(0, 5n);
    session.build([one], 17, options);
    session.received({ errorCode: 0, sessionId: 9 });
    one.leaderEpoch = 4;
    assert.deepEqual(partitionsIn(session.build([one], 17, options)), [0]);
  });

  for (const errorCode of [
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
  ]) {
    test(`begins anew after error ${errorCode}`, () => {
      const session = new FetchSession<Wanted>();
      const one = wanted(0, 5n);
      session.build([one], 17, options);
      session.received({ errorCode: 0, sessionId: 9 });
      session.build([one], 17, options);
      assert.equal(session.received({ errorCode, sessionId: 0 }), false);
      const full = session.build([one], 17, options);
      assert.deepEqual([full.sessionId, full.sessionEpoch, partitionsIn(full)], [0, 0, [0]]);
    });
  }

  test('stays full when the broker has no slot, and below version 7', () => {
    const session = new FetchSession<Wanted>();
    const one = wanted(0, 5n);
    session.build([one], 17, options);
    assert.equal(session.received({ errorCode: 0, sessionId: 0 }), true);
    assert.equal(session.isIncremental, false);
    assert.deepEqual(partitionsIn(session.build([one], 17, options)), [0]);
    session.received({ errorCode: 0, sessionId: 3 });
    assert.deepEqual(partitionsIn(session.build([one], 4, options)), [0]);
  });

  test('sends no last fetched epoch to brokers that do not know it', () => {
    const session = new FetchSession<Wanted>();
    const [topic] = session.build([wanted(0, 5n)], 11, options).topics;
    assert.equal(topic?.partitions[0]?.lastFetchedEpoch, -1);
    const [newer] = session.build([wanted(0, 5n)], 12, options).topics;
    assert.equal(newer?.partitions[0]?.lastFetchedEpoch, 2);
  });

  test('of a topic that was made again, brokers without topic ids forgot the new one', () => {
    const session = new FetchSession<Wanted>();
    const broker = new Broker(12);
    session.received(broker.answer(session.build([wanted(0, 5n)], 12, options)));
    const again = wanted(0, 1n, topicIds[1]);
    session.received(broker.answer(session.build([again], 12, options)));
    assert.deepEqual([...broker.offsets], [['orders/0', 1n]]);
    session.received(broker.answer(session.build([], 12, options)));
    assert.deepEqual([...broker.offsets], []);
  });

  test('keeps the broker in step through anything', () => {
    const step = fc.record({
      offsets: fc.dictionary(fc.constantFrom('0', '1', '2', '3', '4'), fc.bigInt(0n, 5n)),
      fate: fc.constantFrom('answered', 'answered', 'lost', 'forgotten'),
      /** Mirrors that were stopped and started again, of a topic that was made again or not. */
      anew: fc.subarray([0, 1, 2, 3, 4]),
      isOtherTopic: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.constantFrom(12, 17), (steps, version) => {
        const session = new FetchSession<Wanted>();
        const broker = new Broker(version);
        const all = new Map<number, Wanted>();
        for (const { offsets, fate, anew, isOtherTopic } of steps) {
          for (const partition of anew) all.delete(partition);
          const list = Object.entries(offsets).map(([name, offset]) => {
            const partition = Number(name);
            const one = all.get(partition) ?? wanted(partition, 0n, topicIds[isOtherTopic ? 1 : 0]);
            all.set(partition, one);
            one.fetchOffset = offset;
            return one;
          });
          if (fate === 'forgotten') broker.id = -1;
          const answer = broker.answer(session.build(list, version, options));
          if (fate === 'lost') {
            session.reset();
            continue;
          }
          const isUsable = session.received(answer);
          assert.equal(isUsable, answer.errorCode === 0);
          if (!isUsable) continue;
          const expected = list.map((one) => {
            const topic = { topic: one.sourceTopic, topicId: one.sourceTopicId };
            return [broker.key(topic, one.partition), one.fetchOffset];
          });
          assert.deepEqual([...broker.offsets].sort(), expected.sort());
          for (const one of list) {
            const by = { topic: one.sourceTopic, topicId: one.sourceTopicId };
            assert.equal(session.find(by, one.partition)?.of, one);
          }
        }
      }),
    );
  });
});
