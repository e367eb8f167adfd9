// Requests that pass because they begin like the one before (R3, R13): every byte that had a part
// in the decision counts, and so does whatever else may have changed since.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiKey } from '../../../protocol/index.ts';
import type { Passage } from '../../../src/gateway/handler.ts';
import {
  createProduceHandler,
  createProduceInspect,
} from '../../../src/gateway/handlers/produce.ts';
import { requestHeadBytes } from '../../../src/gateway/limits.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { PassingRequest } from '../../../src/gateway/passing-request.ts';
import { passRoute, type Route } from '../../../src/gateway/router.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { until } from '../../helpers/wait.ts';
import { FakeDirectory, FakeSession } from './read-fixtures.ts';
import { produceFrame } from './request-fixtures.ts';
import { sessionBetween } from './session-fixtures.ts';
import { int32, requestFrame } from './wire-fixtures.ts';

function produceRoute(): Route {
  const ownTopics = new OwnTopics('__causeway', '__causeway_');
  return {
    kind: 'handler',
    handler: createProduceHandler(ownTopics),
    inspect: createProduceInspect(ownTopics),
  };
}

/** One Produce to `orders` has passed. */
function afterOne() {
  const passing = new PassingRequest();
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const { directory } = session;
  const frame = produceFrame({ names: ['orders'] }).subarray(4);
  const head = frame.subarray(0, 1024);
  const passage = passing.inspect(session, { route: produceRoute }, head)?.push(frame);
  assert.ok(typeof passage === 'object');
  passing.begin(session, passage, frame);
  const beginLikeLast = (bytes: Buffer): boolean =>
    passing.beginLikeLast(session, bytes, { start: 0, end: bytes.length });
  return { passing, session, directory, frame, passage, beginLikeLast };
}

function decidedByBytesOf({ decidedByBytes }: Passage): number {
  assert.ok(decidedByBytes !== undefined);
  return decidedByBytes;
}

test('a Produce is decided by its bytes up to the name of its only topic', () => {
  const { frame, passage } = afterOne();
  assert.equal(decidedByBytesOf(passage), frame.indexOf('orders') + 'orders'.length);
});

test('R3: a Produce is taken for the one before only if all that decided is the same', () => {
  const { frame, passage, beginLikeLast } = afterOne();
  const decidedByBytes = decidedByBytesOf(passage);
  for (let at = 0; at < decidedByBytes + 20; at++) {
    const other = Buffer.from(frame);
    other[at] = (other[at] ?? 0) ^ 1;
    const isOfId = at >= 4 && at < 8;
    assert.equal(beginLikeLast(other), isOfId || at >= decidedByBytes, `byte ${at}`);
  }
});

test('of a Produce that is taken for the one before the correlation id is its own', () => {
  const { passing, passage, beginLikeLast } = afterOne();
  const next = produceFrame({ names: ['orders'], correlationId: -7, recordsBytes: 5 });
  assert.ok(beginLikeLast(next.subarray(4)));
  assert.equal(passing.correlationId, -7);
  assert.equal(passing.passage, passage);
});

test('a Produce of which less has come than decided is not taken for the one before', () => {
  const { passing, session, frame, passage } = afterOne();
  const decidedByBytes = decidedByBytesOf(passage);
  for (const end of [0, 7, 8, decidedByBytes - 1]) {
    assert.equal(passing.beginLikeLast(session, frame, { start: 0, end }), false, `${end} bytes`);
  }
  assert.ok(passing.beginLikeLast(session, frame, { start: 0, end: decidedByBytes }));
});

test('R3: a Produce that begins like the one before is judged anew when the topic changed', () => {
  for (const mode of ['mirror', 'switching', 'promoted', 'unavailable'] as const) {
    const { directory, frame, beginLikeLast } = afterOne();
    assert.ok(beginLikeLast(frame));
    directory.put({ name: 'orders', mode, topicId: null, log: null });
    assert.equal(beginLikeLast(frame), false, mode);
  }
});

test('a Produce that begins like the one before is judged anew while nothing is settled', () => {
  const { directory, frame, beginLikeLast } = afterOne();
  directory.isSettled = false;
  assert.equal(beginLikeLast(frame), false);
});

test('what passed under other versions of the broker is no precedent', () => {
  const { session, frame, beginLikeLast } = afterOne();
  Object.assign(session, { upstreamVersions: new Map(session.upstreamVersions) });
  assert.equal(beginLikeLast(frame), false);
});

test('a request that passed for what its first bytes do not tell is no precedent', () => {
  const { passing, session, frame, beginLikeLast } = afterOne();
  const heartbeat = requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId: 2 });
  const head = heartbeat.subarray(4);
  const passage = passing.inspect(session, { route: () => passRoute }, head)?.push(head);
  assert.ok(typeof passage === 'object');
  passing.begin(session, passage, head);
  assert.equal(beginLikeLast(head), false);
  assert.equal(beginLikeLast(frame), false);
});

test('R14: of a Produce that names more than its head holds nothing is kept', () => {
  const passing = new PassingRequest();
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const names = Array.from({ length: 200 }, (_, index) => `orders-${index}`);
  const frame = produceFrame({ names }).subarray(4);
  const head = frame.subarray(0, requestHeadBytes);
  const passage = passing.inspect(session, { route: produceRoute }, head)?.push(frame);
  assert.ok(typeof passage === 'object');
  assert.ok(decidedByBytesOf(passage) > requestHeadBytes);
  passing.begin(session, passage, frame);
  assert.equal(passing.passage, passage);
  passing.end();
  assert.notEqual(passing.passage, passage);
  const place = { start: 0, end: frame.length };
  assert.equal(passing.beginLikeLast(session, frame, place), false);
});

test('R14: a Produce that others may be like stays for them when it has passed', () => {
  const { passing, frame, passage, beginLikeLast } = afterOne();
  passing.end();
  assert.equal(passing.passage, passage);
  assert.ok(beginLikeLast(frame));
});

test('R3: a Produce like the one before stays here once its topic is being switched', async () => {
  const directory = new FakeDirectory();
  const route = produceRoute();
  const { broker, client, close } = await sessionBetween({ directory, route: () => route });
  try {
    broker.script = ({ reply }) => reply(int32(1));
    client.socket.write(produceFrame({ names: ['orders'], correlationId: 1 }));
    client.socket.write(produceFrame({ names: ['orders'], correlationId: 2 }));
    await until('both answers', () => client.frames.length === 2);
    directory.put({ name: 'orders', mode: 'switching', log: null });
    client.socket.write(produceFrame({ names: ['orders'], correlationId: 3 }));
    client.socket.write(produceFrame({ names: ['plain'], correlationId: 4 }));
    await until('all answers', () => client.frames.length === 4);
    assert.deepEqual(client.correlationIds, [1, 2, 3, 4]);
    const arrived = broker.seen.filter(({ header }) => header.apiKey === ApiKey.Produce);
    assert.deepEqual(
      arrived.map(({ header }) => header.correlationId),
      [1, 2, 4],
    );
  } finally {
    close();
  }
});

test('R13: requests that begin alike and ones that do not arrive as they were sent', async () => {
  const random = new SeededRandom();
  const directory = new FakeDirectory();
  const route = produceRoute();
  const { broker, client, close } = await sessionBetween({
    directory,
    route: (apiKey) => (apiKey === ApiKey.Produce ? route : passRoute),
  });
  try {
    broker.script = ({ header, frame, reply }) => {
      const isProduce = header.apiKey === ApiKey.Produce;
      // Acks, behind a header of 15 bytes and a transactional id that is null.
      if (!isProduce || frame.readInt16BE(16) !== 0) reply(int32(header.correlationId));
    };
    const sent: Buffer[] = [];
    const answered: number[] = [];
    for (let correlationId = 0; correlationId < 300; correlationId++) {
      const acks = random.pick([1, 1, 1, 0]);
      const names = random.pick([['plain'], ['plain'], ['plain', 'other'], ['plainer']]);
      const recordsBytes = random.pick([0, 1, 900, 5_000, 150_000]);
      sent.push(produceFrame({ names, recordsBytes, acks, correlationId }));
      if (acks !== 0) answered.push(correlationId);
    }
    const bytes = Buffer.concat(sent);
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + random.below(random.pick([10, 2_000, 400_000]));
      client.socket.write(bytes.subarray(at, end));
      at = end;
      if (random.next() < 0.3) await delay(0);
    }
    await until('all requests and answers', () => {
      const arrived = broker.seen.filter(({ header }) => header.apiKey === ApiKey.Produce);
      return arrived.length === sent.length && client.frames.length === answered.length;
    });
    assert.deepEqual(client.correlationIds, answered, random.describe());
    const arrived = broker.seen.filter(({ header }) => header.apiKey === ApiKey.Produce);
    for (const [index, { frame }] of arrived.entries()) {
      const expected = sent[index]?.subarray(4) ?? Buffer.alloc(0);
      assert.ok(frame.equals(expected), `request ${index}, ${random.describe()}`);
    }
  } finally {
    close();
  }
});
