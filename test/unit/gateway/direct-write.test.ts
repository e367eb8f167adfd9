// Writing past the stream: between two ends of one connection, the same bytes in the same order,
// whatever the reader does, and a peer that is gone is told of as a stream tells it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { HeldBytes } from '../../../src/gateway/held-bytes.ts';
import { type PeerEvents, PeerSocket } from '../../../src/gateway/peer-socket.ts';
import { ReceiveBlocks } from '../../../src/gateway/receive-blocks.ts';
import { pieceAt } from '../../helpers/pieces.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { until } from '../../helpers/wait.ts';

interface Pair {
  readonly peer: PeerSocket;
  readonly reader: Socket;
  readonly blocks: ReceiveBlocks;
  readonly held: HeldBytes;
  close(): void;
}

async function pairOf(events: Partial<PeerEvents> = {}): Promise<Pair> {
  const blocks = new ReceiveBlocks();
  const held = new HeldBytes();
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const reader = connect({ host: '127.0.0.1', port });
  const [accepted] = (await once(server, 'connection')) as [Socket];
  const ignored = (): void => undefined;
  const peer = new PeerSocket(
    accepted,
    { blocks, held },
    {
      onChunk: ignored,
      onDrain: ignored,
      onEnd: ignored,
      onError: ignored,
      onClose: ignored,
      ...events,
    },
  );
  return {
    peer,
    reader,
    blocks,
    held,
    close: () => {
      peer.destroy();
      reader.destroy();
      server.close();
    },
  };
}

test('R13: what leaves at once and what has to wait arrive in the order they were given', async () => {
  const random = new SeededRandom();
  const { peer, reader, held, close } = await pairOf();
  let received = 0;
  let wrongAt = -1;
  reader.on('data', (chunk: Buffer) => {
    const isRight = chunk.equals(pieceAt(received, chunk.length));
    if (!isRight && wrongAt < 0) wrongAt = received;
    received += chunk.length;
  });
  let sent = 0;
  const send = (): void => {
    for (let count = 1 + random.below(4); count > 0; count--) {
      const piece = pieceAt(sent, 1 + Math.floor(random.next() ** 3 * 200_000));
      peer.write(piece);
      sent += piece.length;
    }
    peer.flush();
  };
  try {
    for (let turn = 0; turn < 100; turn++) {
      if (turn % 25 === 0) {
        reader.pause();
        while (!peer.hasUnsent) send();
      }
      send();
      if (random.next() < 0.3) reader.resume();
      await new Promise((resolve) => setImmediate(resolve));
    }
    reader.resume();
    await until('all bytes', () => received === sent, {
      describe: () => `${received} of ${sent}; ${random.describe()}`,
    });
    assert.equal(wrongAt, -1, `other bytes from ${wrongAt} on; ${random.describe()}`);
    assert.equal(peer.bytesWritten, sent);
    assert.equal(peer.movedBytes, sent);
    await until('what was held to be given back', () => held.usedBytes === 0);
  } finally {
    close();
  }
});

test('whoever was told that there is no room hears of it though all of it left at once', async () => {
  let drains = 0;
  const { peer, reader, close } = await pairOf({ onDrain: () => drains++ });
  reader.resume();
  try {
    peer.write(Buffer.alloc(300 * 1024));
    assert.ok(peer.isFull);
    peer.flush();
    assert.equal(drains, 0, 'told while it was being flushed');
    await until('word of room', () => drains === 1);
    assert.equal(peer.hasUnsent, false);
  } finally {
    close();
  }
});

test('who waits until the kernel has all hears of it then, and not when the connection ends', async () => {
  const { peer, reader, close } = await pairOf();
  const taken: string[] = [];
  try {
    reader.pause();
    peer.write(Buffer.alloc(10));
    peer.flush();
    peer.whenTaken(() => taken.push('at once'));
    assert.deepEqual(taken, ['at once']);
    const tooMuch = Buffer.alloc(16 * 1024 * 1024);
    for (const name of ['first', 'second']) {
      peer.write(tooMuch);
      peer.flush();
      peer.whenTaken(() => taken.push(name));
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(taken, ['at once']);
    reader.resume();
    await until('both', () => taken.length === 3);
    assert.deepEqual(taken, ['at once', 'first', 'second']);
    reader.pause();
    peer.write(tooMuch);
    peer.write(tooMuch);
    peer.flush();
    peer.whenTaken(() => taken.push('never'));
    const closed = once(peer.socket, 'close');
    peer.destroy();
    await closed;
    assert.equal(taken.length, 3);
  } finally {
    close();
  }
});

test('a write to a peer that has reset the connection ends it with the error, once', async () => {
  const errors: Error[] = [];
  let closes = 0;
  const { peer, reader, close } = await pairOf({
    onError: (error) => errors.push(error),
    onClose: () => closes++,
  });
  peer.pause();
  try {
    reader.resetAndDestroy();
    await until('the end of the connection', () => {
      peer.write(Buffer.alloc(10));
      peer.flush();
      return closes > 0;
    });
    assert.equal(closes, 1);
    assert.equal(errors.length, 1);
    assert.match(errors[0]?.message ?? '', /ECONNRESET|EPIPE/);
    peer.write(Buffer.alloc(10));
    peer.flush();
    assert.equal(peer.hasUnsent, false);
  } finally {
    close();
  }
});
