// Reading into blocks: what comes by TLS record goes on in larger pieces, in order, in memory that
// is used again, and no byte of it waits longer than it must.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turnOver } from 'node:timers/promises';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { BlockReader } from '../../../src/gateway/block-reader.ts';
import { HeldBytes } from '../../../src/gateway/held-bytes.ts';
import { type PeerEvents, PeerSocket } from '../../../src/gateway/peer-socket.ts';
import { ReceiveBlocks } from '../../../src/gateway/receive-blocks.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
  withoutOpenssl,
} from '../../helpers/certificates.ts';
import { pieceAt } from '../../helpers/pieces.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { until } from '../../helpers/wait.ts';

const recordBytes = 16 * 1024;
const lateBytes = 100_000;

interface Gathering {
  readonly reader: BlockReader;
  readonly blocks: ReceiveBlocks;
  /** Lengths of what was given on. */
  readonly given: number[];
  /** As a read of so many bytes, of the stream's next. */
  read(count: number): void;
}

/** A reader of records whose block is a larger one already. */
function gathering(): Gathering {
  const blocks = new ReceiveBlocks();
  const given: number[] = [];
  let receivedBytes = 0;
  let givenBytes = 0;
  const reader = new BlockReader({
    blocks,
    gathersRecords: true,
    onChunk: (chunk) => {
      assert.ok(chunk.equals(pieceAt(givenBytes, chunk.length)), `other bytes at ${givenBytes}`);
      givenBytes += chunk.length;
      given.push(chunk.length);
    },
  });
  const read = (count: number): void => {
    const into = reader.next();
    assert.ok(into.length >= count, `${into.length} bytes to read into`);
    pieceAt(receivedBytes, count).copy(into);
    receivedBytes += count;
    reader.onRead(count);
  };
  read(reader.next().length);
  given.length = 0;
  return { reader, blocks, given, read };
}

test('longest records of one turn are given on together at its end', async () => {
  const { given, read } = gathering();
  read(recordBytes);
  read(recordBytes);
  assert.deepEqual(given, []);
  await turnOver();
  assert.deepEqual(given, [2 * recordBytes]);
  read(recordBytes);
  await turnOver();
  assert.deepEqual(given, [2 * recordBytes, recordBytes]);
});

test('a record that is not one of the longest goes on at once, with those before it', () => {
  const { given, read } = gathering();
  read(200);
  assert.deepEqual(given, [200]);
  read(recordBytes);
  read(recordBytes - 1);
  assert.deepEqual(given, [200, 2 * recordBytes - 1]);
});

test('what fills a block goes on before another block is taken, and that one is larger', () => {
  const { given, read, blocks } = gathering();
  for (let count = 0; count < 4; count++) read(recordBytes);
  assert.deepEqual(given, [4 * recordBytes]);
  for (let count = 0; count < 16; count++) read(recordBytes);
  assert.deepEqual(given, [4 * recordBytes, 16 * recordBytes]);
  assert.equal(blocks.usedBytes, 16 * recordBytes, 'one block');
});

test('R14: a block that somebody still writes from is not read into where it is used', () => {
  const { reader, blocks, read } = gathering();
  const first = reader.next();
  read(100);
  const writing = blocks.retain(first);
  assert.ok(writing);
  const behind = reader.next();
  assert.equal(behind.buffer, first.buffer);
  assert.equal(behind.byteOffset, first.byteOffset + 100, 'there is room behind it');
  blocks.release(writing);
  read(recordBytes - 1);
  assert.equal(reader.next().byteOffset, first.byteOffset, 'all of it has left');
});

test('a connection that only says little gives its larger block up at once', () => {
  const { reader, read, blocks } = gathering();
  for (let count = 0; count < 64; count++) read(100);
  reader.next();
  assert.equal(blocks.usedBytes, 8 * 1024);
});

const skip = await withoutOpenssl();

describe('a TLS socket that is read into blocks', { skip }, () => {
  let ca: CertificateAuthority;
  let certificate: Certificate;

  before(async () => {
    ca = await certificateAuthority();
    certificate = await ca.sign('server', 'IP:127.0.0.1');
  });

  after(() => ca.remove());

  async function pairOf(events: Partial<PeerEvents>, { isLate = false } = {}) {
    const blocks = new ReceiveBlocks();
    const { certificate: cert, key } = certificate;
    const server = createServer({ cert, key, allowHalfOpen: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const options = { host: '127.0.0.1', port, ca: ca.certificate, allowHalfOpen: true };
    const sender = connect(options);
    sender.on('error', () => undefined);
    const peer = await new Promise<PeerSocket>((resolve) => {
      const ignored = (): void => undefined;
      const all = { onChunk: ignored, onDrain: ignored, onEnd: ignored, onError: ignored };
      const memory = { blocks, held: new HeldBytes() };
      // Within the event, as the listener does: what follows the handshake may be there already.
      server.once('secureConnection', (socket: TLSSocket) => {
        const take = (): void =>
          resolve(new PeerSocket(socket, memory, { ...all, onClose: ignored, ...events }));
        if (isLate) socket.once('readable', take);
        else take();
      });
      if (isLate) sender.write(pieceAt(0, lateBytes));
    });
    const close = (): void => {
      peer.destroy();
      sender.destroy();
      server.close();
    };
    return { peer, sender, blocks, close };
  }

  test('R13: what comes goes on in order and whole, its end after it, paused or not', async () => {
    const random = new SeededRandom();
    let received = 0;
    let wrongAt = -1;
    let endedAt = -1;
    const { peer, sender, blocks, close } = await pairOf({
      onChunk: (chunk) => {
        const isRight = chunk.equals(pieceAt(received, chunk.length));
        if (!isRight && wrongAt < 0) wrongAt = received;
        received += chunk.length;
        if (random.next() < 0.1) {
          peer.pause();
          setImmediate(() => peer.resume());
        }
      },
      onEnd: () => {
        endedAt = received;
      },
    });
    try {
      let sent = 0;
      for (let turn = 0; turn < 200; turn++) {
        const length = 1 + Math.floor(random.next() ** 3 * 300_000);
        sender.write(pieceAt(sent, length));
        sent += length;
        if (random.next() < 0.5) await turnOver();
      }
      sender.end();
      await until('the end', () => endedAt >= 0, {
        describe: () => `${received} of ${sent}; ${random.describe()}`,
      });
      assert.equal(wrongAt, -1, `other bytes from ${wrongAt} on; ${random.describe()}`);
      assert.deepEqual([received, endedAt], [sent, sent], random.describe());
      assert.equal(peer.movedBytes, sent);
      peer.destroy();
      await until('the block to be given back', () => blocks.usedBytes === 0);
    } finally {
      close();
    }
  });

  test('what Node has read before comes first', async () => {
    let received = 0;
    const onChunk = (chunk: Buffer): void => {
      assert.ok(chunk.equals(pieceAt(received, chunk.length)), `other bytes from ${received} on`);
      received += chunk.length;
    };
    const { sender, close } = await pairOf({ onChunk }, { isLate: true });
    try {
      sender.write(pieceAt(lateBytes, 100_000));
      await until('all of it', () => received === lateBytes + 100_000);
    } finally {
      close();
    }
  });

  test('TLS records take no memory of their own, which cost whole garbage collections', async () => {
    let received = 0;
    const memories = new Set<ArrayBufferLike>();
    const lengths: number[] = [];
    const { peer, sender, blocks, close } = await pairOf({
      onChunk: (chunk) => {
        received += chunk.length;
        memories.add(chunk.buffer);
        lengths.push(chunk.length);
        assert.notEqual(blocks.owned(chunk), chunk, 'not of a block');
      },
    });
    try {
      const piece = Buffer.alloc(1024 * 1024);
      for (let count = 0; count < 16; count++) sender.write(piece);
      await until('all bytes', () => received === 16 * piece.length);
      assert.ok(memories.size <= 3, `${memories.size} pieces of memory`);
      const together = lengths.filter((length) => length > recordBytes);
      assert.ok(together.length > 0, 'each record for itself');
      assert.equal(peer.isFull, false);
    } finally {
      close();
    }
  });
});
