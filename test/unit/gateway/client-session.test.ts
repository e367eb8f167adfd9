// Sessions on loopback: order (R13), bounded memory (R14), ends of connections, bytes that are not
// Kafka's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiKey } from '../../../protocol/index.ts';
import type { Disposition, Handler } from '../../../src/gateway/handler.ts';
import { IntakeBudget } from '../../../src/gateway/request-intake.ts';
import { stalls, until } from '../../helpers/wait.ts';
import { heartbeat, heartbeatApi } from './request-fixtures.ts';
import { answersLateReader, sessionBetween } from './session-fixtures.ts';
import { frameOf, int32, requestFrame } from './wire-fixtures.ts';

/** Seeded, so that a failure can be run again. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 0x100000000;
  };
}

const framed = (frame: Buffer): Buffer[] => [frameOf(frame)];

/** Every way in which a request can be dealt with, chosen at random. */
function anyDisposition(random: () => number): Handler {
  return ({ header, session }): Disposition => {
    const choice = Math.floor(random() * 7);
    const later = async (frame: Buffer): Promise<Buffer[]> => {
      await delay(random() * 3);
      return framed(frame);
    };
    const own = Buffer.concat([int32(header.correlationId), Buffer.from('local')]);
    if (choice === 0) return { kind: 'forward' };
    if (choice === 1) return { kind: 'forward', rewrite: (frame) => framed(frame) };
    if (choice === 2) return { kind: 'forward', rewrite: later };
    if (choice === 3) return { kind: 'answer', response: Promise.resolve(framed(own)) };
    if (choice === 4) return { kind: 'answer', response: later(own) };
    if (choice === 5) {
      const asked = async (frame: Buffer): Promise<Buffer[]> => {
        await session.callUpstream(heartbeatApi, {});
        return framed(frame);
      };
      return { kind: 'forward', asksUpstream: true, rewrite: asked };
    }
    const call = session.callUpstream(heartbeatApi, {});
    return { kind: 'answer', response: call.then(() => framed(own)) };
  };
}

test('R13: answers keep the order of requests under any mix of local and forwarded ones', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  const random = randomFrom(seed);
  const count = 600;
  const fixture = await sessionBetween({ handler: anyDisposition(random) });
  const { broker, client } = fixture;
  try {
    broker.script = ({ reply, header }) => reply(int32((header.correlationId % 10_000) * 7));
    const stream = Buffer.concat(
      Array.from({ length: count }, (_, index) => heartbeat(index, Buffer.alloc(random() * 40))),
    );
    for (let position = 0; position < stream.length; ) {
      const end = position + 1 + Math.floor(random() * 3000);
      client.socket.write(stream.subarray(position, end));
      position = end;
      if (random() < 0.3) await delay(0);
    }
    await until(`all answers, seed ${seed}`, () => client.frames.length === count, {
      describe: () => `${client.frames.length} answers, ended: ${fixture.summaries[0]?.reason}`,
    });
    assert.deepEqual(
      client.correlationIds,
      Array.from({ length: count }, (_, index) => index),
      `seed ${seed}`,
    );
    for (const [index, frame] of client.frames.entries()) {
      const isLocal = frame.subarray(4).toString() === 'local';
      assert.ok(isLocal || frame.readInt32BE(4) === index * 7, `answer ${index}, seed ${seed}`);
    }
  } finally {
    fixture.close();
  }
});

test('R13: a pending local answer holds up what comes after it', async () => {
  let release: (value: readonly Buffer[]) => void = () => undefined;
  const pending = new Promise<readonly Buffer[]>((resolve) => {
    release = resolve;
  });
  const fixture = await sessionBetween({
    handler: ({ header }) =>
      header.correlationId === 1 ? { kind: 'answer', response: pending } : { kind: 'forward' },
  });
  const { broker, client } = fixture;
  try {
    broker.script = ({ reply }) => reply(Buffer.from('far'));
    client.socket.write(Buffer.concat([heartbeat(0), heartbeat(1), heartbeat(2)]));
    await until('the first answer', () => client.frames.length === 1);
    // Turns enough for a request that was wrongly sent on to arrive.
    for (let turn = 0; turn < 50; turn++) await delay(0);
    assert.deepEqual(
      broker.seen.map(({ header }) => header.correlationId),
      [0],
      'the third request was not sent on',
    );
    release(framed(int32(1)));
    await until('all answers', () => client.frames.length === 3);
    assert.deepEqual(client.correlationIds, [0, 1, 2]);
  } finally {
    fixture.close();
  }
});

test('R13: requests without an answer take no slot', async () => {
  const fixture = await sessionBetween({
    handler: ({ header }) => ({ kind: 'forward', hasResponse: header.correlationId % 2 === 0 }),
  });
  const { broker, client } = fixture;
  try {
    broker.script = ({ reply, header }) => {
      if (header.correlationId % 2 === 0) reply(Buffer.alloc(0));
    };
    const count = 10_000;
    client.socket.write(Buffer.concat(Array.from({ length: count }, (_, id) => heartbeat(id))));
    await until('all answers', () => client.frames.length === count / 2);
    assert.equal(broker.seen.length, count);
    assert.deepEqual(
      client.correlationIds,
      Array.from({ length: count / 2 }, (_, index) => index * 2),
    );
  } finally {
    fixture.close();
  }
});

test('a frame split at any byte is the same frame, both ways', async () => {
  const fixture = await sessionBetween({});
  const { broker, client } = fixture;
  try {
    const body = Buffer.from('0123456789abcdef');
    const request = heartbeat(1, body);
    const answerBytes = frameOf(int32(1), body);
    broker.script = ({ socket, frame }) => {
      const cut = (broker.seen.length - 1) % answerBytes.length;
      assert.deepEqual(frame, request.subarray(4));
      socket.write(answerBytes.subarray(0, cut));
      setTimeout(() => socket.write(answerBytes.subarray(cut)), 1);
    };
    for (let cut = 0; cut < request.length; cut++) {
      client.socket.write(request.subarray(0, cut));
      await delay(0);
      client.socket.write(request.subarray(cut));
      await until(`answer ${cut}`, () => client.frames.length === cut + 1, { intervalMs: 1 });
      assert.deepEqual(client.frames[cut], answerBytes.subarray(4));
    }
  } finally {
    fixture.close();
  }
});

test('R14: a reader that does not read stops the broker, and gets all of it later', async () => {
  const fixture = await sessionBetween({ keepsFrames: false });
  try {
    const bodyBytes = 256 * 1024 * 1024;
    const piece = Buffer.alloc(1024 * 1024, 7);
    await answersLateReader(fixture, {
      request: heartbeat(1),
      answerBytes: bodyBytes + 8,
      piece: (sentBytes, { header }) =>
        sentBytes === 0
          ? Buffer.concat([int32(bodyBytes + 4), int32(header.correlationId)])
          : piece,
    });
  } finally {
    fixture.close();
  }
});

test('R14: answers do not pile up behind a rewrite that asks the broker something', async () => {
  const asks: Handler = ({ header, session }): Disposition => {
    if (header.correlationId > 0) return { kind: 'forward' };
    const rewrite = async (frame: Buffer): Promise<Buffer[]> => {
      await session.callUpstream(heartbeatApi, {});
      return framed(frame);
    };
    return { kind: 'forward', asksUpstream: true, rewrite };
  };
  const fixture = await sessionBetween({ handler: asks, keepsFrames: false });
  const { broker, client } = fixture;
  try {
    const seenFirst: number[] = [];
    broker.script = ({ reply, header }) => {
      if (client.receivedBytes === 0) seenFirst.push(header.correlationId);
      reply(Buffer.alloc(header.correlationId > 0 && header.correlationId <= 50 ? 1 << 20 : 4));
    };
    const count = 50;
    client.socket.write(Buffer.concat(Array.from({ length: count + 1 }, (_, id) => heartbeat(id))));
    const total = 12 + count * (8 + (1 << 20));
    await until('all answers', () => client.receivedBytes === total, {
      describe: () => `${client.receivedBytes} of ${total} bytes`,
    });
    assert.deepEqual(
      seenFirst.filter((id) => id <= count),
      [0],
      'a request went on before the one in front of it was answered',
    );
  } finally {
    fixture.close();
  }
});

test('a broker that ends before the answer to such a request ends the connection', async () => {
  const rewrite = (frame: Buffer): Buffer[] => framed(frame);
  const fixture = await sessionBetween({
    handler: () => ({ kind: 'forward', asksUpstream: true, rewrite }),
  });
  const { broker, client } = fixture;
  try {
    broker.script = ({ socket }) => socket.end();
    client.socket.write(heartbeat(1));
    await until('the end', () => fixture.summaries.length === 1);
  } finally {
    fixture.close();
  }
});

test('R14: a writer without acks is stopped while the broker does not read', async () => {
  const fixture = await sessionBetween({
    handler: () => ({ kind: 'forward', hasResponse: false }),
  });
  const { broker, client } = fixture;
  try {
    broker.onSocket = (socket) => {
      socket.pause();
      // Only after ApiVersions, or nothing would begin.
      setTimeout(() => socket.resume(), 0);
    };
    broker.script = ({ socket, header }) => {
      if (header.correlationId === 0) socket.pause();
    };
    client.socket.write(heartbeat(0));
    await until('the broker to stop', () => broker.seen.length === 1);
    const total = 2000;
    const body = Buffer.alloc(100_000);
    for (let id = 1; id <= total; id++) client.socket.write(heartbeat(id, body));
    const taken = (): number => fixture.session.bytesFromClient;
    await stalls(taken);
    assert.ok(taken() < 32 * 1024 * 1024, `${taken()} bytes were taken for a broker that is stuck`);
    for (const socket of broker.sockets) socket.resume();
    await until('all requests', () => broker.seen.length === total + 1);
  } finally {
    fixture.close();
  }
});

test('a client that leaves at once loses nothing that it sent', async () => {
  const fixture = await sessionBetween({
    handler: () => ({ kind: 'forward', hasResponse: false }),
  });
  const { broker, client } = fixture;
  try {
    const count = 500;
    const body = Buffer.alloc(10_000);
    client.socket.end(Buffer.concat(Array.from({ length: count }, (_, id) => heartbeat(id, body))));
    await until('the FIN at the broker', () => broker.endsSeen === 1);
    assert.equal(broker.seen.length, count);
    await until('the end at the client', () => client.hasEnded);
    await until('the summary', () => fixture.summaries.length === 1);
    assert.equal(fixture.summaries[0]?.reason, 'client closed');
    assert.equal(fixture.summaries[0]?.isFault, false);
  } finally {
    fixture.close();
  }
});

test('a FIN of the client drops a parked answer, and what follows it is still sent', async () => {
  const fixture = await sessionBetween({
    handler: ({ header, session }) =>
      header.correlationId > 0
        ? { kind: 'forward', hasResponse: false }
        : {
            kind: 'answer',
            response: new Promise((resolve) => {
              if (session.closed.aborted) resolve(null);
              session.closed.addEventListener('abort', () => resolve(null), { once: true });
            }),
          },
  });
  const { broker, client } = fixture;
  try {
    client.socket.end(Buffer.concat([heartbeat(0), heartbeat(1)]));
    await until('the FIN at the broker', () => broker.endsSeen === 1);
    assert.deepEqual(
      broker.seen.map(({ header }) => header.correlationId),
      [1],
    );
  } finally {
    fixture.close();
  }
});

test('a broker that closes has its last answers passed on before the FIN', async () => {
  const fixture = await sessionBetween({ keepsFrames: false });
  const { broker, client } = fixture;
  try {
    const body = Buffer.alloc(8 * 1024 * 1024, 1);
    broker.script = ({ reply, socket }) => {
      reply(body);
      socket.end();
    };
    client.socket.write(heartbeat(1));
    await until('the end', () => client.hasEnded);
    assert.equal(client.receivedBytes, body.length + 8);
    assert.equal(client.error, undefined);
  } finally {
    fixture.close();
  }
});

test('half an answer ends with a reset, not with a FIN', async () => {
  const fixture = await sessionBetween({});
  const { broker, client } = fixture;
  try {
    broker.script = ({ socket, header }) => {
      socket.end(Buffer.concat([int32(100), int32(header.correlationId), Buffer.alloc(10)]));
    };
    client.socket.write(heartbeat(1));
    await until('the close', () => client.isClosed);
    assert.match(String(client.error), /ECONNRESET/);
  } finally {
    fixture.close();
  }
});

test('an answer that does not belong ends the connection with one clear line', async () => {
  const fixture = await sessionBetween({});
  const { broker, client } = fixture;
  try {
    broker.script = ({ socket }) => socket.write(frameOf(int32(99)));
    client.socket.write(heartbeat(1));
    await until('the summary', () => fixture.summaries.length === 1);
    assert.equal(fixture.summaries[0]?.isFault, true);
    assert.match(fixture.summaries[0]?.reason ?? '', /correlation id 99 while correlation id 1/);
    await until('the close', () => client.hasEnded || client.isClosed);
  } finally {
    fixture.close();
  }
});

const foreign: readonly [string, Buffer, RegExp][] = [
  ['a TLS hello', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]), /TLS/],
  ['an HTTP request', Buffer.from('GET /metrics HTTP/1.1\r\n\r\n'), /HTTP/],
  ['a PROXY header', Buffer.from('PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n'), /PROXY/],
  ['a negative size', Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0]), /frame size -1/],
  ['an empty frame', Buffer.alloc(4), /RequestHeader/],
  ['too large a request', Buffer.from([0x00, 0x20, 0x00, 0x01]), /at most 1000000/],
  ['an unknown API', requestFrame({ apiKey: 12000, apiVersion: 0, correlationId: 1 }), /12000/],
];

for (const [what, bytes, expected] of foreign) {
  test(`${what} ends the connection with one clear line (R18)`, async () => {
    const fixture = await sessionBetween({ requestBytesMax: 1_000_000 });
    const { client, summaries } = fixture;
    try {
      client.socket.write(bytes);
      await until('the end', () => client.hasEnded || client.isClosed);
      assert.equal(summaries.length, 1);
      assert.match(summaries[0]?.reason ?? '', expected);
      assert.equal(summaries[0]?.isFault, true);
      assert.equal(fixture.broker.seen.length, 0);
    } finally {
      fixture.close();
    }
  });
}

test('a refused request ends the connection after the answers that are due', async () => {
  const fixture = await sessionBetween({
    route: (apiKey) =>
      apiKey === ApiKey.Heartbeat
        ? { kind: 'handler', handler: () => ({ kind: 'forward' }) }
        : { kind: 'refused', reason: 'not served here' },
  });
  const { broker, client, summaries } = fixture;
  try {
    broker.script = ({ reply }) => setTimeout(() => reply(Buffer.alloc(3)), 30);
    const refused = requestFrame({ apiKey: ApiKey.LeaveGroup, apiVersion: 0, correlationId: 2 });
    client.socket.write(Buffer.concat([heartbeat(1), refused, heartbeat(3)]));
    await until('the end', () => client.hasEnded);
    assert.deepEqual(client.correlationIds, [1]);
    assert.equal(summaries[0]?.reason, 'not served here');
    assert.equal(broker.seen.length, 1);
  } finally {
    fixture.close();
  }
});

test('what was sent without acks before a refused request still arrives', async () => {
  const fixture = await sessionBetween({
    route: (apiKey) =>
      apiKey === ApiKey.Heartbeat
        ? { kind: 'handler', handler: () => ({ kind: 'forward', hasResponse: false }) }
        : { kind: 'refused', reason: 'not served here' },
  });
  const { broker, client } = fixture;
  try {
    const refused = requestFrame({ apiKey: ApiKey.LeaveGroup, apiVersion: 0, correlationId: 2 });
    const body = Buffer.alloc(3_000_000);
    client.socket.write(Buffer.concat([heartbeat(0, body), heartbeat(1, body), refused]));
    await until('both requests', () => broker.seen.length === 2);
    await until('the FIN at the broker', () => broker.endsSeen === 1);
    await until('the end at the client', () => client.hasEnded);
  } finally {
    fixture.close();
  }
});

test('a rewrite that fails ends the connection, and nothing behind it goes out', async () => {
  const fixture = await sessionBetween({
    handler: ({ header }) =>
      header.correlationId === 1
        ? { kind: 'forward', rewrite: () => Promise.reject(new Error('no port left')) }
        : { kind: 'forward' },
  });
  const { broker, client, summaries } = fixture;
  try {
    broker.script = ({ reply }) => reply(Buffer.alloc(0));
    client.socket.write(Buffer.concat([heartbeat(1), heartbeat(2)]));
    await until('the end', () => client.hasEnded || client.isClosed);
    assert.deepEqual(client.frames, []);
    assert.match(summaries[0]?.reason ?? '', /no port left/);
  } finally {
    fixture.close();
  }
});

test('R14: requests in part share one budget, and a closed connection gives its part back', async () => {
  const intakeBudget = new IntakeBudget(16_000_000);
  const first = await sessionBetween({ intakeBudget });
  const second = await sessionBetween({ intakeBudget });
  const third = await sessionBetween({ intakeBudget });
  const request = heartbeat(1, Buffer.alloc(4_000_000));
  const part = request.subarray(0, 1_000_000);
  try {
    first.client.socket.write(part);
    await until('the first part', () => first.session.bytesFromClient === part.length);
    const usedByFirst = intakeBudget.usedBytes;
    second.client.socket.write(request.subarray(0, 3_900_000));
    await until('the end of one too many', () => second.client.hasEnded || second.client.isClosed);
    assert.match(second.summaries[0]?.reason ?? '', /requests in part take \d+ bytes/);
    assert.equal(intakeBudget.usedBytes, usedByFirst);
    third.client.socket.write(part.subarray(0, 500_000));
    await until('less of one', () => third.session.bytesFromClient === 500_000);
    assert.equal(third.client.isClosed, false, 'a part of what is left is for everybody');
    third.client.socket.destroy();
    await until('its part given back', () => intakeBudget.usedBytes === usedByFirst);
    first.client.socket.destroy();
    await until('the part given back', () => intakeBudget.usedBytes === 0);
  } finally {
    first.close();
    second.close();
    third.close();
  }
});
