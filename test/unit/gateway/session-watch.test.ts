// Peers that are gone without a FIN: their connections end and are counted, and no others do. The
// clock is the test's; the peers are real sockets that nobody reads.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiKey } from '../../../protocol/index.ts';
import type { ClientSession } from '../../../src/gateway/client-session.ts';
import { SessionWatch } from '../../../src/gateway/session-watch.ts';
import { until } from '../../helpers/wait.ts';
import { type SessionUnderTest, sessionBetween } from './session-fixtures.ts';
import { int32, requestFrame } from './wire-fixtures.ts';

const heartbeat = requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId: 1 });
const stalledMsMax = 60_000;

class WatchedFixture {
  readonly watch = new SessionWatch<ClientSession>({ stalledMsMax });
  readonly #fixture: SessionUnderTest;
  #nowMs = 0;

  constructor(fixture: SessionUnderTest) {
    this.#fixture = fixture;
  }

  /** Time goes on, and the watch looks. */
  pass(ms: number): void {
    const { session, summaries } = this.#fixture;
    this.#nowMs += ms;
    this.watch.look(summaries.length === 0 ? [session] : [], this.#nowMs);
  }

  /** Until everything that can move has moved, and long after. */
  async end(): Promise<void> {
    const { session, summaries } = this.#fixture;
    await until(
      'the end of the connection',
      () => {
        this.pass(stalledMsMax);
        return summaries.length === 1;
      },
      { describe: () => `${session.waitsFor}, ${session.movedBytes} bytes` },
    );
  }
}

test('R14: a client that vanished with an answer under way is ended, and counted', async () => {
  const fixture = await sessionBetween({ keepsFrames: false });
  const { broker, client, summaries } = fixture;
  const watched = new WatchedFixture(fixture);
  try {
    broker.script = ({ reply }) => reply(Buffer.alloc(64 * 1024 * 1024));
    client.socket.pause();
    client.socket.write(heartbeat);
    await until('bytes that the client does not take', () => fixture.session.waitsFor === 'client');
    await watched.end();
    assert.deepEqual(
      summaries.map(({ reason, isFault }) => [reason, isFault]),
      [[`the client has not moved for ${stalledMsMax} ms`, true]],
    );
    assert.equal(watched.watch.vanishedTotal, 1);
    await until('the end at the broker', () => broker.sockets.size === 0);
  } finally {
    fixture.close();
  }
});

test('a client that takes a little now and then is not ended', async () => {
  const fixture = await sessionBetween({ keepsFrames: false });
  const { broker, client, session, summaries } = fixture;
  const watched = new WatchedFixture(fixture);
  try {
    broker.script = ({ reply }) => reply(Buffer.alloc(64 * 1024 * 1024));
    client.socket.pause();
    client.socket.write(heartbeat);
    let left = 0;
    client.socket.on('data', ({ length }: Buffer) => {
      left -= length;
      if (left <= 0) client.socket.pause();
    });
    for (let turn = 0; turn < 4; turn++) {
      await until('bytes that wait', () => session.waitsFor === 'client');
      watched.pass(stalledMsMax);
      const before = session.movedBytes;
      left = 8 * 1024 * 1024;
      client.socket.resume();
      await until('some more bytes', () => left <= 0 && session.movedBytes > before);
    }
    assert.deepEqual(summaries, []);
    assert.equal(watched.watch.vanishedTotal, 0);
  } finally {
    fixture.close();
  }
});

test('a broker that vanished does not keep the connection of a client that has left', async () => {
  const fixture = await sessionBetween({});
  const { broker, client, session, summaries } = fixture;
  const watched = new WatchedFixture(fixture);
  try {
    // Not even the FIN is heard there.
    broker.script = ({ socket }) => socket.removeAllListeners('end');
    client.socket.write(heartbeat);
    await until('the request', () => broker.seen.length === 1);
    // A long poll, for all that we know: nobody is ended who waits for an answer.
    for (let turn = 0; turn < 5; turn++) watched.pass(stalledMsMax);
    assert.deepEqual([session.waitsFor, summaries], [null, []]);
    client.socket.end();
    await until('the FIN', () => session.waitsFor === 'destination');
    await watched.end();
    assert.equal(summaries[0]?.reason, `the destination has not moved for ${stalledMsMax} ms`);
    assert.equal(watched.watch.vanishedTotal, 1);
    await until('the end at the client', () => client.isClosed);
  } finally {
    fixture.close();
  }
});

test('a broker that vanished with a request under way is told from a slow one', async () => {
  const fixture = await sessionBetween({});
  const { broker, client, session, summaries } = fixture;
  const watched = new WatchedFixture(fixture);
  try {
    broker.script = ({ socket, reply }) => {
      reply(int32(0));
      socket.pause();
    };
    client.socket.write(heartbeat);
    await until('an answer', () => client.frames.length === 1);
    const body = Buffer.alloc(64 * 1024 * 1024);
    const header = { apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId: 2 };
    client.socket.write(requestFrame(header, body));
    await until('bytes that the broker does not take', () => session.waitsFor === 'destination');
    await watched.end();
    assert.deepEqual(
      summaries.map(({ isFault }) => isFault),
      [true],
    );
  } finally {
    fixture.close();
  }
});
