// The scanner of Produce requests against the generated codec: the same id, acks and topics at any
// split of the bytes, and no more bytes needed than up to the last topic's name.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  encodeProduceRequest,
} from '../../protocol/generated/produce-request.ts';
import { ProduceScanner, ProtocolError, Writer, zeroUuid } from '../../protocol/index.ts';

const bytes = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((value) => Buffer.from(value));
const tags = fc.option(
  fc.record({ tag: fc.constant(9), data: bytes(20) }).map((tag) => [tag]),
  { nil: undefined },
);
const ids = fc.constantFrom<string>('BAAAAAAAAAAAAAAAAAAAAA', 'CAAAAAAAAAAAAAAAAAAAAA', zeroUuid);

const requests = fc.record({
  version: fc.integer({ min: 3, max: 13 }),
  transactionalId: fc.option(fc.string({ maxLength: 200 })),
  acks: fc.constantFrom<number>(-1, 0, 1),
  topics: fc.array(
    fc.record({
      name: fc.string({ minLength: 1, maxLength: 200 }),
      topicId: ids,
      records: fc.array(fc.tuple(fc.option(bytes(400)), tags), { maxLength: 4 }),
      unknownTags: tags,
    }),
    { maxLength: 5 },
  ),
  header: bytes(40),
  cuts: fc.array(fc.nat(60), { maxLength: 60 }),
});

type Generated = typeof requests extends fc.Arbitrary<infer Value> ? Value : never;

function encoded({ version, transactionalId, acks, topics }: Generated): Buffer {
  const flexible = version >= 9;
  const writer = new Writer();
  const message = createProduceRequest({
    transactionalId,
    acks,
    timeoutMs: 1000,
    topicData: topics.map(({ name, topicId, records, unknownTags }) =>
      createTopicProduceData({
        name: version >= 13 ? '' : name,
        topicId: version >= 13 ? topicId : zeroUuid,
        partitionData: records.map(([data, partitionTags], index) =>
          createPartitionProduceData({
            index,
            records: data,
            unknownTags: flexible ? partitionTags : undefined,
          }),
        ),
        unknownTags: flexible ? unknownTags : undefined,
      }),
    ),
  });
  encodeProduceRequest(writer, message, version);
  return Buffer.concat(writer.toChunks());
}

test('transactional id, acks and topics come out the same at any split', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const { version, topics, header, cuts } = request;
      const frame = Buffer.concat([header, encoded(request)]);
      const scanner = new ProduceScanner({ version, bodyOffset: header.length });
      let position = 0;
      for (const cut of cuts) {
        if (scanner.push(frame.subarray(position, position + cut))) break;
        position = Math.min(frame.length, position + cut);
      }
      assert.equal(scanner.push(frame.subarray(position)), true);
      assert.equal(scanner.transactionalId, request.transactionalId ?? '');
      assert.equal(scanner.acks, request.acks);
      assert.deepEqual(
        scanner.topics,
        topics.map(({ name, topicId }) =>
          version >= 13 ? { name: '', topicId } : { name, topicId: zeroUuid },
        ),
      );
    }),
  );
});

test('what it looked at is all that it needs, and not a byte more', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const { version, header, cuts } = request;
      const frame = Buffer.concat([header, encoded(request)]);
      const newScanner = () => new ProduceScanner({ version, bodyOffset: header.length });
      const scanner = newScanner();
      let position = 0;
      for (const cut of [...cuts, frame.length]) {
        scanner.push(frame.subarray(position, position + cut));
        position = Math.min(frame.length, position + cut);
      }
      const { scannedBytes } = scanner;
      assert.equal(newScanner().push(frame.subarray(0, scannedBytes)), true);
      assert.equal(newScanner().push(frame.subarray(0, scannedBytes - 1)), false);
    }),
  );
});

test('the records of the last topic are not waited for', () => {
  const request = { version: 9, transactionalId: null, acks: 1, header: Buffer.alloc(0), cuts: [] };
  const records: Generated['topics'][number]['records'] = [[Buffer.alloc(1000), undefined]];
  const topic = { name: 'orders', topicId: zeroUuid, records, unknownTags: undefined };
  const frame = encoded({ ...request, topics: [topic, { ...topic, name: 'last' }] });
  const scanner = new ProduceScanner({ version: 9, bodyOffset: 0 });
  assert.equal(scanner.push(frame.subarray(0, frame.indexOf('last') + 3)), false);
  assert.equal(scanner.push(frame.subarray(frame.indexOf('last') + 3, -1000)), true);
});

test('bytes that are no request end in a ProtocolError, or are never taken for known', () => {
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 13 }), bytes(300), (version, garbage) => {
      const scanner = new ProduceScanner({ version, bodyOffset: 0 });
      try {
        for (const byte of garbage) scanner.push(Buffer.of(byte));
      } catch (error) {
        assert.ok(error instanceof ProtocolError);
      }
    }),
  );
});

test('a count above what a Java int holds is refused, not wrapped', () => {
  const scanner = new ProduceScanner({ version: 9, bodyOffset: 0 });
  const start = Buffer.from([0, 0xff, 0xff, 0, 0, 0, 0]);
  assert.throws(
    () => scanner.push(Buffer.concat([start, Buffer.from([0x82, 0x80, 0x80, 0x80, 0x10])])),
    ProtocolError,
  );
});
