// Memory for answers out of mirrors: used again, but never while somebody refers to it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  fetchRequestCodec,
} from '../../../protocol/generated/fetch-request.ts';
import { fetchResponseCodec } from '../../../protocol/generated/fetch-response.ts';
import {
  ApiKey,
  decodeResponseHeader,
  encodeRequestFrame,
  Reader,
} from '../../../protocol/index.ts';
import { readExtent } from '../../../src/gateway/extent-reader.ts';
import type { Handler, ListenerRole } from '../../../src/gateway/handler.ts';
import { fetchHandler } from '../../../src/gateway/handlers/fetch.ts';
import { readRoundingPart } from '../../../src/gateway/limits.ts';
import { ReadMemory } from '../../../src/gateway/read-memory.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { until } from '../../helpers/wait.ts';
import { createTestLog } from '../storage/fixtures.ts';
import { answered, exchangeFetch } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import { FakeBroker, FakeDirectory, FakeSession, ordersId } from './read-fixtures.ts';
import { sessionBetween } from './session-fixtures.ts';
import { frameOf, requestFrame, type SeenRequest } from './wire-fixtures.ts';

const kib = 1024;

test('R14: nobody gets memory that is in use, and little is kept', () => {
  const step = fc.record({ bytes: fc.integer({ min: 1, max: 600 * kib }), gives: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const memory = new ReadMemory(1024 * kib);
      const open = new Map<ArrayBufferLike, () => void>();
      for (const { bytes, gives } of steps) {
        const answer = memory.forAnswer();
        const [one, two] = [answer.take(bytes), answer.take(bytes)];
        assert.equal(one.length, bytes);
        assert.equal(two.length, bytes);
        if (bytes < 64 * kib) continue;
        assert.ok(one.buffer !== two.buffer && !open.has(one.buffer) && !open.has(two.buffer));
        assert.ok(one.buffer.byteLength <= bytes * (1 + readRoundingPart));
        const giveBack = (): void => {
          answer.giveBack();
          open.delete(one.buffer);
          open.delete(two.buffer);
        };
        open.set(one.buffer, giveBack);
        open.set(two.buffer, giveBack);
        if (gives) [...open.values()][0]?.();
        assert.ok(memory.freeBytes <= 1024 * kib);
      }
    }),
  );
});

test('reads of nearly one size share memory, the latest first', () => {
  const memory = new ReadMemory();
  const answer = memory.forAnswer();
  const [first, second] = [answer.take(1000 * kib), answer.take(1000 * kib)];
  answer.giveBack();
  assert.equal(memory.freeBytes, first.buffer.byteLength + second.buffer.byteLength);
  const next = memory.forAnswer();
  assert.equal(next.take(1010 * kib).buffer, second.buffer);
  assert.equal(next.take(990 * kib).buffer, first.buffer);
  assert.notEqual(next.take(500 * kib).buffer.byteLength, first.buffer.byteLength);
  answer.giveBack();
  assert.equal(memory.freeBytes, 0, 'given back once');
});

const version = 12;
const link: ListenerRole = { kind: 'link' };

function fetchFrame(correlationId: number): Buffer {
  const partitions = [createFetchPartition({ partitionMaxBytes: 1 << 30 })];
  const topics = [createFetchTopic({ topic: 'orders', partitions })];
  const header = { apiKey: ApiKey.Fetch, apiVersion: version, correlationId, clientId: 'c' };
  const request = createFetchRequest({ maxBytes: 1 << 30, minBytes: 1, topics });
  return Buffer.concat(
    encodeRequestFrame(header, (writer) => fetchRequestCodec.encode(writer, request, version)),
  );
}

function recordsOf(frame: Buffer | undefined): Buffer | null | undefined {
  const reader = new Reader(frame ?? assert.fail('no answer'));
  decodeResponseHeader(reader, ApiKey.Fetch, version);
  return fetchResponseCodec.decode(reader, version).responses[0]?.partitions[0]?.records;
}

async function readerOf(stored: Buffer) {
  const directory = new FakeDirectory();
  const log = new MemoryMirrorLog(0n, stored);
  directory.put({ name: 'orders', mode: 'mirror', log, topicId: ordersId });
  let memory: ReadMemory | undefined;
  let answers = 0;
  const handler: Handler = (context) => {
    if (context.header.apiKey !== ApiKey.Fetch) return { kind: 'forward' };
    memory = context.session.services.readMemory;
    const disposition = fetchHandler(context);
    if (disposition.kind !== 'answer') return disposition;
    const response = disposition.response.finally(() => answers++);
    return { ...disposition, response };
  };
  const fixture = await sessionBetween({ handler, role: link, directory });
  const rights = new FakeBroker();
  const heartbeats: SeenRequest[] = [];
  fixture.broker.script = (request) => {
    if (request.header.apiKey === ApiKey.Heartbeat) heartbeats.push(request);
    else request.socket.write(frameOf(rights.exchange(request.frame)));
  };
  return { ...fixture, heartbeats, freeBytes: () => memory?.freeBytes, answers: () => answers };
}

test('the memory of an answer is free when the kernel has all of it, not before', async () => {
  // More than the sockets of a connection take.
  const stored = batch(0n, 24, { valueBytes: 1024 * kib });
  const reader = await readerOf(stored);
  try {
    reader.client.socket.pause();
    reader.client.socket.write(fetchFrame(1));
    await until('the answer', () => reader.session.waitsFor === 'client');
    assert.equal(reader.freeBytes(), 0);
    reader.client.socket.resume();
    await until('the whole answer', () => reader.client.frames.length === 1);
    assert.deepEqual(recordsOf(reader.client.frames[0]), stored);
    await until('its memory', () => (reader.freeBytes() ?? 0) >= stored.length);
  } finally {
    reader.close();
  }
});

test('an answer that waits for its turn keeps its memory', async () => {
  const stored = batch(0n, 4, { valueBytes: 64 * kib });
  const reader = await readerOf(stored);
  try {
    // What the client may read is known from then on, without the broker.
    reader.client.socket.write(fetchFrame(1));
    await until('memory that is used again', () => (reader.freeBytes() ?? 0) > 0);
    const held = requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId: 2 });
    reader.client.socket.write(Buffer.concat([held, fetchFrame(3)]));
    await until('the third answer', () => reader.answers() === 2 && reader.heartbeats.length === 1);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(reader.freeBytes(), 0);
    reader.heartbeats[0]?.reply(Buffer.alloc(0));
    await until('all answers', () => reader.client.frames.length === 3);
    assert.deepEqual(reader.client.correlationIds, [1, 2, 3]);
    assert.deepEqual(recordsOf(reader.client.frames[2]), stored);
  } finally {
    reader.close();
  }
});

test('R14: a small batch before one that does not fit held all that was read for it', async () => {
  const { log } = await createTestLog();
  const small = batch(0n, 1);
  await log.append(Buffer.concat([small, batch(1n, 1, { valueBytes: 1024 * kib })]));
  await log.flush();
  const extent = { where: 'mirror', start: virtualOffset(0n), end: null } as const;
  const read = { log, extent, offset: 0n, readCommitted: false, bytesMax: 1024 * kib };
  const { records } = await readExtent(read);
  assert.deepEqual(records, small);
  // At most beside others of its size: in the memory that Node shares out for small buffers.
  const { byteLength } = records.buffer;
  assert.ok(byteLength <= Buffer.poolSize, `in ${byteLength} bytes`);
  // On the link node, where that memory is used again, it is free before the answer has left.
  const session = new FakeSession(link);
  session.directory.put({ name: 'orders', mode: 'mirror', log, topicId: ordersId });
  const asks = Array.from({ length: 20 }, () => ({ partitionMaxBytes: 1024 * kib }));
  const { response } = await exchangeFetch(session, asks, { maxBytes: 1 << 30 }, version);
  assert.deepEqual(answered(response).records, small);
  const { freeBytes } = session.services.readMemory;
  assert.ok(freeBytes > 1024 * kib && freeBytes < 3 * 1024 * kib, `${freeBytes} bytes`);
});
