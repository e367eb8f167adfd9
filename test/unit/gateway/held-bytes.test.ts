// What all connections hold together (R14): whatever clients and brokers do, it stays below the sum
// of what is shared and each connection's little; and it is given back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiKey } from '../../../protocol/index.ts';
import { clientConnectionBytesMax } from '../../../src/config/limits.ts';
import type { Handler } from '../../../src/gateway/handler.ts';
import { HeldBytes, type HeldCount } from '../../../src/gateway/held-bytes.ts';
import { heldBytesAlways } from '../../../src/gateway/limits.ts';
import { ReceiveBlocks } from '../../../src/gateway/receive-blocks.ts';
import { IntakeBudget } from '../../../src/gateway/request-intake.ts';
import { stalls, until } from '../../helpers/wait.ts';
import { type SessionUnderTest, sessionBetween } from './session-fixtures.ts';
import { frameOf, int32, requestFrame } from './wire-fixtures.ts';

const sharedBytes = 1024 * 1024;
const clientsCount = 24;

const request = (body?: Buffer): Buffer =>
  requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId: 1 }, body);

function memoryOf() {
  const held = new HeldBytes(sharedBytes);
  const blocks = new ReceiveBlocks(sharedBytes);
  return { held, blocks };
}

type Memory = ReturnType<typeof memoryOf>;

async function crowd(memory: Memory, handler: Handler): Promise<SessionUnderTest[]> {
  const open = Array.from({ length: clientsCount }, () =>
    sessionBetween({ handler, memory, keepsFrames: false }),
  );
  return Promise.all(open);
}

function closeAll(sessions: readonly SessionUnderTest[]): void {
  for (const session of sessions) session.close();
}

async function isGivenBack({ held, blocks }: Memory): Promise<void> {
  await until('all of it to be given back', () => held.usedBytes + blocks.usedBytes === 0, {
    describe: () => `${held.usedBytes} held, ${blocks.usedBytes} of blocks`,
  });
}

test('R14: a crowd that does not read holds its little, and gets everything later', async () => {
  const memory = memoryOf();
  const { held, blocks } = memory;
  const sessions = await crowd(memory, () => ({ kind: 'forward' }));
  const answerBytes = 12 * 1024 * 1024;
  let most = 0;
  const sampling = setInterval(() => {
    most = Math.max(most, held.usedBytes + blocks.usedBytes);
  }, 2);
  try {
    for (const { broker, client } of sessions) {
      broker.script = ({ reply }) => reply(Buffer.alloc(answerBytes));
      client.socket.pause();
      client.socket.write(request());
    }
    const read = (): number =>
      sessions.reduce((sum, { broker }) => {
        for (const { writableLength, bytesWritten } of broker.sockets) {
          sum += bytesWritten - writableLength;
        }
        return sum;
      }, 0);
    await stalls(read);
    const allowed = 2 * sharedBytes + clientsCount * clientConnectionBytesMax;
    assert.ok(most <= allowed, `${most} bytes were held, ${allowed} are allowed`);
    for (const { client } of sessions) client.socket.resume();
    const isAll = (): boolean =>
      sessions.every(({ client }) => client.receivedBytes === answerBytes + 8);
    await until('every answer', isAll, { deadlineMs: 60_000 });
    assert.ok(most <= allowed, `${most} bytes were held, ${allowed} are allowed`);
  } finally {
    clearInterval(sampling);
    closeAll(sessions);
  }
  await isGivenBack(memory);
});

test('R14: answers that must be rewritten end connections once too much is held', async () => {
  const memory = memoryOf();
  const whole: Handler = () => ({ kind: 'forward', rewrite: async (frame) => [frameOf(frame)] });
  const sessions = await crowd(memory, whole);
  const half = 100 * 1024;
  const tail = 1024;
  try {
    for (const { broker, client } of sessions) {
      broker.script = ({ socket, header }) => {
        socket.write(
          Buffer.concat([int32(half + tail + 4), int32(header.correlationId), Buffer.alloc(half)]),
        );
      };
      client.socket.write(request());
    }
    const ended = (): SessionUnderTest[] =>
      sessions.filter(({ summaries }) => summaries.length > 0);
    const rest = clientsCount - Math.floor(sharedBytes / half);
    await until('those that find no room', () => ended().length >= rest - 1, {
      describe: () => `${ended().length} of ${rest} ended`,
    });
    const allowed = sharedBytes + clientsCount * clientConnectionBytesMax;
    assert.ok(memory.held.usedBytes <= allowed, `${memory.held.usedBytes} bytes are held`);
    for (const { summaries } of ended()) {
      assert.match(summaries[0]?.reason ?? '', /has to be rewritten cannot be held/);
    }
    const served = sessions.filter(({ summaries }) => summaries.length === 0);
    assert.ok(served.length > 0);
    for (const { broker, client } of served) {
      broker.seen[0]?.socket.write(Buffer.alloc(tail));
      await until('the answer', () => client.receivedBytes === half + tail + 8);
    }
  } finally {
    closeAll(sessions);
  }
  await isGivenBack(memory);
});

test('R14: a large request finds no room while too much is held, a small one does', async () => {
  const memory = memoryOf();
  const [small, large] = await Promise.all(
    [1, 2].map(() => sessionBetween({ memory, handler: () => ({ kind: 'forward' }) })),
  );
  assert.ok(small !== undefined && large !== undefined);
  memory.held.add(sharedBytes);
  try {
    small.broker.script = ({ reply }) => reply(Buffer.alloc(4));
    small.client.socket.write(request(Buffer.alloc(100)));
    await until('the answer', () => small.client.frames.length === 1);
    large.client.socket.write(request(Buffer.alloc(2 * heldBytesAlways)));
    await until('the end', () => large.summaries.length === 1);
    assert.match(large.summaries[0]?.reason ?? '', /request of \d+ bytes cannot be held/);
  } finally {
    closeAll([small, large]);
    memory.held.remove(sharedBytes);
  }
  await isGivenBack(memory);
});

test('R14: a request that ends its connection gives back once what waited behind it', async () => {
  const intakeBudget = new IntakeBudget(sharedBytes);
  let release = (): void => undefined;
  const slow: Handler = ({ header }) => ({
    kind: 'answer',
    response: new Promise((resolve) => {
      release = () => resolve([frameOf(int32(header.correlationId))]);
    }),
  });
  const fixture = await sessionBetween({
    intakeBudget,
    route: (apiKey) =>
      apiKey === ApiKey.Heartbeat
        ? { kind: 'handler', handler: slow }
        : { kind: 'refused', reason: 'not served' },
  });
  const { client, session, summaries } = fixture;
  try {
    const first = request();
    client.socket.write(first);
    await until('the request', () => session.bytesFromClient === first.length);
    const refused = requestFrame({ apiKey: ApiKey.Fetch, apiVersion: 4, correlationId: 2 });
    client.socket.write(Buffer.concat([refused, request(Buffer.alloc(5000))]));
    await until('all of it to wait', () => intakeBudget.usedBytes > 5000);
    release();
    await until('the end', () => summaries.length === 1);
    assert.equal(summaries[0]?.reason, 'not served');
    assert.equal(intakeBudget.usedBytes, 0);
  } finally {
    fixture.close();
  }
});

test('R14: each new answer gets a part of what is left, and none when nothing is', () => {
  const held = new HeldBytes(800);
  assert.equal(held.room(1000), 100);
  assert.equal(held.room(50), 50);
  assert.equal(held.room(-1), 0);
  held.add(799);
  assert.equal(held.room(1000), 1);
  held.add(1);
  assert.equal(held.room(1000), 0);
  assert.ok(held.isOver);
  held.remove(800);
  assert.throws(() => held.remove(1), /given back/);
});

class ReachableAccounts extends HeldBytes {
  readonly accounts: HeldCount[] = [];

  override account(onMiscount: (message: string) => void): HeldCount {
    const account = super.account(onMiscount);
    this.accounts.push(account);
    return account;
  }
}

test('R14: a connection that miscounts ends, and no other, and the sum stays right', async () => {
  const held = new ReachableAccounts(sharedBytes);
  const memory = { held, blocks: new ReceiveBlocks(sharedBytes) };
  const handler: Handler = () => ({ kind: 'forward' });
  const [broken, sound] = [
    await sessionBetween({ handler, memory }),
    await sessionBetween({ handler, memory }),
  ];
  try {
    held.accounts[1]?.add(50);
    held.accounts[0]?.add(20);
    held.accounts[0]?.remove(27);
    assert.equal(held.usedBytes, 50);
    await until('the end of the one', () => broken.summaries.length === 1);
    const [{ reason, isFault } = assert.fail()] = broken.summaries;
    assert.deepEqual([reason, isFault], ['27 held bytes were given back, 20 were taken', true]);
    sound.broker.script = ({ reply }) => reply(int32(0));
    sound.client.socket.write(request());
    await until('an answer to the other', () => sound.client.frames.length === 1);
    assert.deepEqual(sound.summaries, []);
    held.accounts[1]?.remove(50);
  } finally {
    closeAll([broken, sound]);
  }
  await isGivenBack(memory);
});
