/** The frame scanner at every split of the stream. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FrameCollector, FrameScanner, ProtocolError } from '../../protocol/index.ts';

function framed(bodies: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    bodies.flatMap((body) => {
      const prefix = Buffer.alloc(4);
      prefix.writeInt32BE(body.length);
      return [prefix, Buffer.from(body)];
    }),
  );
}

/** Chunks of the stream, cut at the given places. */
function split(stream: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (stream.length + 1)))].sort((a, b) => a - b);
  const edges = [0, ...places, stream.length];
  return edges.slice(1).map((end, index) => Buffer.from(stream.subarray(edges[index], end)));
}

interface Seen {
  head: Buffer;
  sizeInBytes: number;
  body: Buffer[];
  ended: boolean;
}

function scan(chunks: readonly Buffer[], headBytes: number): { seen: Seen[]; atEdge: boolean } {
  const seen: Seen[] = [];
  const current = (): Seen => {
    const last = seen.at(-1);
    assert.ok(last !== undefined && !last.ended, 'body or end outside of a frame');
    return last;
  };
  const scanner = new FrameScanner({ headBytes });
  for (const chunk of chunks) {
    scanner.push(chunk, {
      onHead: (head, sizeInBytes) => {
        assert.ok(
          seen.every((frame) => frame.ended),
          'a head inside a frame',
        );
        seen.push({ head: Buffer.from(head), sizeInBytes, body: [], ended: false });
      },
      onBody: (view) => {
        assert.ok(view.length > 0, 'an empty view');
        assert.equal(view.buffer, chunk.buffer, 'a copy instead of a view');
        current().body.push(Buffer.from(view));
      },
      onEnd: () => {
        current().ended = true;
      },
    });
  }
  return { seen, atEdge: scanner.isBetweenFrames };
}

const bodies = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 });
const cuts = fc.array(fc.nat(500), { maxLength: 20 });

test('the frames found do not depend on how the stream is cut', () => {
  fc.assert(
    fc.property(bodies, cuts, fc.nat(24), (frames, places, headBytes) => {
      const { seen, atEdge } = scan(split(framed(frames), places), headBytes);
      assert.ok(atEdge);
      assert.equal(seen.length, frames.length);
      frames.forEach((frame, index) => {
        const found = seen[index];
        assert.ok(found?.ended);
        assert.equal(found.sizeInBytes, frame.length);
        assert.equal(found.head.length, Math.min(headBytes, frame.length));
        assert.ok(Buffer.concat([found.head, ...found.body]).equals(Buffer.from(frame)));
      });
    }),
  );
});

test('every split of one stream, and one byte at a time', () => {
  const frames = [Buffer.from('first'), Buffer.alloc(0), Buffer.from('a longer third frame')];
  const stream = framed(frames);
  for (let first = 0; first <= stream.length; first++) {
    for (let second = first; second <= stream.length; second++) {
      const { seen } = scan(split(stream, [first, second]), 8);
      const found = seen.map((frame) => Buffer.concat([frame.head, ...frame.body]).toString());
      assert.deepEqual(found, ['first', '', 'a longer third frame'], `${first} ${second}`);
    }
  }
  const bytes = [...stream].map((byte) => Buffer.from([byte]));
  assert.equal(scan(bytes, 8).seen.length, 3);
});

test('a stream that ends inside a frame is seen to', () => {
  const stream = framed([Buffer.from('abc'), Buffer.from('defgh')]);
  for (let end = 0; end <= stream.length; end++) {
    const { atEdge } = scan([stream.subarray(0, end)], 2);
    assert.equal(atEdge, end === 0 || end === 7 || end === stream.length, `${end}`);
  }
});

test('the collector gives whole frames, as views where one chunk holds them', () => {
  fc.assert(
    fc.property(bodies, cuts, (frames, places) => {
      const collector = new FrameCollector();
      const found = split(framed(frames), places).flatMap((chunk) => collector.push(chunk));
      assert.deepEqual(
        found.map((frame) => frame.toString('hex')),
        frames.map((frame) => Buffer.from(frame).toString('hex')),
      );
    }),
  );
  const chunk = framed([Buffer.alloc(1000, 1)]);
  assert.equal(new FrameCollector().push(chunk)[0]?.buffer, chunk.buffer);
});

test('a size that cannot be right ends the stream, wherever it is cut', () => {
  for (const size of [-1, -2147483648, 1001, 2147483647]) {
    const prefix = Buffer.alloc(4);
    prefix.writeInt32BE(size);
    for (let cut = 0; cut <= 4; cut++) {
      const collector = new FrameCollector({ frameBytesMax: 1000 });
      assert.throws(
        () => {
          collector.push(prefix.subarray(0, cut));
          collector.push(prefix.subarray(cut));
        },
        (error: unknown) => error instanceof ProtocolError && error.code === 'INVALID_FRAME',
      );
    }
  }
});

test('a frame that drips in holds at most twice what has come', () => {
  const collector = new FrameCollector();
  const size = 40 * 1024 * 1024;
  const prefix = Buffer.alloc(4);
  prefix.writeInt32BE(size);
  collector.push(prefix);
  for (let index = 0; index < 5000; index++) collector.push(Buffer.from([index & 0xff]));
  assert.ok(collector.allocatedBytes <= 1024 * 1024, `${collector.allocatedBytes} bytes`);
  collector.push(Buffer.alloc(3 * 1024 * 1024));
  assert.ok(collector.allocatedBytes <= 7 * 1024 * 1024, `${collector.allocatedBytes} bytes`);
  const [frame] = collector.push(Buffer.alloc(size - 5000 - 3 * 1024 * 1024, 7));
  assert.equal(frame?.length, size);
  assert.deepEqual([frame[0], frame[4999], frame[5000], frame.at(-1)], [0, 4999 & 0xff, 0, 7]);
});
