// Requests and answers that pass while they come in: the same bytes on the other side whatever the
// sizes and whoever is slow (memory is used again under way), nothing in between, and no Produce to
// a topic that became a mirror meanwhile (R3).
import assert from 'node:assert/strict';
import { createHash, type Hash } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiKey, encodeRequestFrame, type RequestHeader } from '../../../protocol/index.ts';
import type { Handler } from '../../../src/gateway/handler.ts';
import {
  createProduceHandler,
  createProduceInspect,
} from '../../../src/gateway/handlers/produce.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { PassingRequest } from '../../../src/gateway/passing-request.ts';
import { passRoute, type Route } from '../../../src/gateway/router.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { until } from '../../helpers/wait.ts';
import { FakeDirectory, FakeSession } from './read-fixtures.ts';
import { heartbeat, heartbeatApi, produceFrame } from './request-fixtures.ts';
import { sessionBetween } from './session-fixtures.ts';
import { frameOf, int32, requestFrame } from './wire-fixtures.ts';

function randomBytes(random: SeededRandom): Buffer {
  const size = random.pick([0, 1, 100, 5_000, 70_000, 300_000, 1_500_000]);
  const bytes = Buffer.alloc(random.below(size + 1));
  for (let at = 0; at + 4 <= bytes.length; at += 4) bytes.writeUInt32LE(random.below(2 ** 32), at);
  return bytes;
}

const held: Handler = () => ({ kind: 'forward', rewrite: async (frame) => [frameOf(frame)] });

test('R14: memory that is used again never changes what passes, both ways', async () => {
  const random = new SeededRandom();
  const count = 60;
  const answers = Array.from({ length: count }, () => randomBytes(random));
  const route = (apiKey: number): Route =>
    apiKey === ApiKey.Heartbeat ? passRoute : { kind: 'handler', handler: held };
  const fixture = await sessionBetween({ route });
  const { broker, client } = fixture;
  try {
    const sent: Hash = createHash('sha256');
    const arrived = createHash('sha256');
    broker.script = ({ frame, reply, header }) => {
      arrived.update(frame);
      reply(answers[header.correlationId] ?? Buffer.alloc(0));
      const { socket } = broker.seen.at(-1) ?? assert.fail();
      if (random.next() < 0.2) socket.pause();
      setTimeout(() => socket.resume(), random.below(20));
    };
    for (let id = 0; id < count; id++) {
      const request =
        random.next() < 0.7
          ? heartbeat(id, randomBytes(random))
          : requestFrame({ apiKey: ApiKey.LeaveGroup, apiVersion: 0, correlationId: id });
      sent.update(request.subarray(4));
      for (let at = 0; at < request.length; ) {
        const end = at + 1 + random.below(400_000);
        client.socket.write(request.subarray(at, end));
        at = end;
        if (random.next() < 0.5) await delay(0);
      }
      if (random.next() < 0.2) client.socket.pause();
      setTimeout(() => client.socket.resume(), random.below(20));
    }
    await until('all answers', () => client.frames.length === count, {
      describe: () => `${client.frames.length} answers, ${random.describe()}`,
    });
    assert.equal(arrived.digest('hex'), sent.digest('hex'), random.describe());
    for (const [id, frame] of client.frames.entries()) {
      assert.equal(frame.readInt32BE(0), id, random.describe());
      assert.ok(frame.subarray(4).equals(answers[id] ?? Buffer.alloc(1)), random.describe());
    }
  } finally {
    fixture.close();
  }
});

test('a header that is nearly the one before is not taken for it', () => {
  const passing = new PassingRequest();
  const route = { route: () => passRoute };
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const headerOf = (header: Partial<RequestHeader>): RequestHeader => {
    const whole = { apiKey: ApiKey.Produce, apiVersion: 9, correlationId: 1, clientId: 'a' };
    const frame = Buffer.concat(encodeRequestFrame({ ...whole, ...header }, () => undefined));
    assert.ok(passing.inspect(session, route, frame.subarray(4)));
    return passing.begin(session, {}, frame.subarray(4));
  };
  for (const header of [
    { correlationId: 1 },
    { correlationId: 0x7fffffff },
    { clientId: 'b' },
    { clientId: 'bc' },
    { clientId: 'b' },
    { clientId: '' },
    { clientId: null },
    { apiVersion: 10 },
    { apiKey: ApiKey.Heartbeat, apiVersion: 0 },
    { correlationId: -1 },
  ]) {
    const { apiKey, apiVersion, correlationId, clientId } = headerOf(header);
    assert.deepEqual(
      { apiKey, apiVersion, correlationId, clientId },
      { apiKey: ApiKey.Produce, apiVersion: 9, correlationId: 1, clientId: 'a', ...header },
    );
  }
});

test('R13: a request of our own waits for the end of one that passes', async () => {
  const fixture = await sessionBetween({ route: () => passRoute });
  const { broker, client, session } = fixture;
  try {
    broker.script = ({ reply }) => reply(int32(1));
    client.socket.write(heartbeat(0));
    await until('the first answer', () => client.frames.length === 1);
    const request = heartbeat(1, Buffer.alloc(100_000, 5));
    const before = broker.receivedBytes;
    client.socket.write(request.subarray(0, 50_000));
    await until('half the request', () => broker.receivedBytes - before === 50_000);
    const call = session.callUpstream(heartbeatApi, {});
    client.socket.write(request.subarray(50_000));
    await call;
    assert.deepEqual(broker.seen[1]?.frame, request.subarray(4));
    assert.equal(broker.seen.length, 3);
  } finally {
    fixture.close();
  }
});

async function producing() {
  const directory = new FakeDirectory();
  const ownTopics = new OwnTopics('__causeway', '__causeway_');
  const route: Route = {
    kind: 'handler',
    handler: createProduceHandler(ownTopics),
    inspect: createProduceInspect(ownTopics),
  };
  const passing = passRoute;
  const fixture = await sessionBetween({
    directory,
    route: (apiKey) => (apiKey === ApiKey.Produce ? route : passing),
  });
  const { broker, client } = fixture;
  broker.script = ({ reply }) => reply(int32(1));
  client.socket.write(heartbeat(0));
  await until('the first answer', () => client.frames.length === 1);
  return { ...fixture, directory, receivedBefore: broker.receivedBytes };
}

test('a Produce to an ordinary topic is on its way before all of it is here', async () => {
  const { broker, client, receivedBefore, close } = await producing();
  try {
    const request = produceFrame({ names: ['plain'], recordsBytes: 2_000_000 });
    client.socket.write(request.subarray(0, 1_000_000));
    await until('half of it', () => broker.receivedBytes - receivedBefore === 1_000_000);
    client.socket.write(request.subarray(1_000_000));
    await until('all of it', () => broker.seen.length === 2);
    assert.deepEqual(broker.seen[1]?.frame, request.subarray(4));
  } finally {
    close();
  }
});

test('R3: of a Produce nothing goes on before its last topic is known', async () => {
  const { broker, client, directory, receivedBefore, close } = await producing();
  try {
    directory.put({ name: 'orders', mode: 'switching', log: null });
    const request = produceFrame({ names: ['plain', 'orders'], recordsBytes: 400_000 });
    const end = request.indexOf('orders');
    client.socket.write(request.subarray(0, end));
    // The next request is answered behind it, so whatever was to be sent on has been sent.
    client.socket.write(request.subarray(end));
    await until('its plain part', () => broker.seen.length === 2);
    assert.ok(broker.receivedBytes - receivedBefore < 450_000);
    assert.ok(broker.seen[1]?.frame.indexOf('plain') !== -1);
    assert.equal(broker.seen[1]?.frame.indexOf('orders'), -1);
  } finally {
    close();
  }
});

test('R3: a topic that became a mirror while its Produce was coming in gets none of it', async () => {
  const { broker, client, directory, summaries, receivedBefore, close } = await producing();
  try {
    const request = produceFrame({ names: ['orders'], recordsBytes: 1_000_000 });
    client.socket.write(request.subarray(0, 600_000));
    await until('part of it', () => broker.receivedBytes - receivedBefore === 600_000);
    directory.put({ name: 'orders', mode: 'mirror', topicId: null, log: null });
    client.socket.write(request.subarray(600_000));
    await until('the end', () => client.hasEnded || client.isClosed);
    await until('the end at the broker', () => broker.endsSeen === 1);
    assert.equal(broker.seen.length, 1, 'the broker has a whole request');
    assert.match(summaries[0]?.reason ?? '', /standing of a topic changed/);
  } finally {
    close();
  }
});

test('R13: a Produce with acks=0 that passes takes no slot', async () => {
  const { broker, client, close } = await producing();
  try {
    const silent = produceFrame({ names: ['plain'], recordsBytes: 300_000, acks: 0 });
    client.socket.write(Buffer.concat([silent, heartbeat(7)]));
    broker.script = ({ header, reply }) => {
      if (header.apiKey !== ApiKey.Produce) reply(int32(2));
    };
    await until('the answer behind it', () => client.frames.length === 2);
    assert.deepEqual(client.correlationIds, [0, 7]);
    assert.equal(broker.seen.length, 3);
  } finally {
    close();
  }
});

test('a request after which the connection ends is sent on whole first', async () => {
  const { broker, client, summaries, close } = await sessionBetween({
    handler: () => ({ kind: 'forward', hasResponse: false, thenEnds: 'a part was refused' }),
  });
  try {
    client.socket.write(Buffer.concat([heartbeat(1, Buffer.alloc(3_000_000)), heartbeat(2)]));
    await until('the FIN at the broker', () => broker.endsSeen === 1);
    await until('the end at the client', () => client.hasEnded);
    assert.deepEqual(
      broker.seen.map(({ header: { correlationId } }) => correlationId),
      [1],
    );
    assert.equal(summaries[0]?.reason, 'a part was refused');
  } finally {
    close();
  }
});
