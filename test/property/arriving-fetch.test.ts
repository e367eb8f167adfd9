// A Fetch answer that is used up while it comes in, against the same answer decoded whole: at any
// split of the stream and whatever is taken, what was taken and what is left are the records, in
// their order, and everything else decodes as it was sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createAbortedTransaction,
  createEpochEndOffset,
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  decodeFetchResponse,
  encodeFetchResponse,
  type FetchResponse,
} from '../../protocol/generated/fetch-response.ts';
import {
  buildBatch,
  decodeResponseHeader,
  ErrorCode,
  ProtocolError,
  Reader,
  Writer,
  wholeBatches,
} from '../../protocol/index.ts';
import { FrameBuffer } from '../../src/cluster/frame-buffer.ts';
import type { FrameReceiver } from '../../src/cluster/frame-intake.ts';
import { ResponseAssembler } from '../../src/cluster/response-assembler.ts';
import { arrivingFetch, type TakerOf } from '../../src/link/fetch/arriving-fetch.ts';

const fetchKey = 1;
const correlationId = 7;
const topicIds = ['AAAAAAAAAAAAAAAAAAAAAQ', 'AAAAAAAAAAAAAAAAAAAAAg'];

function batchOf(baseOffset: number, valueBytes: number): Buffer {
  const value = Buffer.alloc(valueBytes, baseOffset);
  return buildBatch({
    baseOffset: BigInt(baseOffset),
    records: [{ key: null, value, timestamp: 1n }],
  });
}

const partitions = fc.record({
  errorCode: fc.constantFrom(0, 0, 0, 1, 6),
  valueBytes: fc.array(fc.oneof(fc.nat(300), fc.constantFrom(70_000, 300_000, 600_000)), {
    maxLength: 6,
  }),
  cutBytes: fc.nat(90),
  abortedCount: fc.nat(2),
  isDiverging: fc.boolean(),
});

type Part = typeof partitions extends fc.Arbitrary<infer Value> ? Value : never;

const plain = { errorCode: 0, cutBytes: 0, abortedCount: 0, isDiverging: false } as const;

function answerOf(topics: readonly (readonly Part[])[], version: number): FetchResponse {
  const partition = (part: Part, partitionIndex: number) => {
    const { errorCode, valueBytes, cutBytes, abortedCount, isDiverging } = part;
    const records = Buffer.concat(valueBytes.map((bytes, index) => batchOf(index, bytes)));
    return createPartitionData({
      partitionIndex,
      errorCode,
      highWatermark: 1000n + BigInt(partitionIndex),
      abortedTransactions: Array.from({ length: abortedCount }, () =>
        createAbortedTransaction({ producerId: 5n, firstOffset: 1n }),
      ),
      records: records.subarray(0, Math.max(0, records.length - cutBytes)),
      ...(isDiverging && version >= 12
        ? { divergingEpoch: createEpochEndOffset({ epoch: 3, endOffset: 9n }) }
        : {}),
    });
  };
  return createFetchResponse({
    throttleTimeMs: 3,
    sessionId: version >= 7 ? 99 : 0,
    responses: topics.map((parts, index) =>
      createFetchableTopicResponse({
        ...(version >= 13 ? { topicId: topicIds[index] ?? '' } : { topic: `topic-${index}` }),
        partitions: parts.map(partition),
      }),
    ),
  });
}

function frameOf(answer: FetchResponse, version: number): Buffer {
  const writer = new Writer();
  writer.writeInt32(correlationId);
  if (version >= 12) writer.writeUvarint(0);
  encodeFetchResponse(writer, answer, version);
  const body = writer.toBuffer();
  const size = Buffer.alloc(4);
  size.writeInt32BE(body.length);
  return Buffer.concat([size, body]);
}

/** Feeds `stream` in pieces of the given sizes, in turn, to where the assembler wants it. */
function receive(
  stream: Buffer,
  version: number,
  into: { receiver: FrameReceiver; sizes: readonly number[]; isPushed?: boolean },
): FetchResponse {
  let answer: FetchResponse | undefined;
  const assembler = new ResponseAssembler({
    frameBytesMax: 64 << 20,
    begin: (sizeInBytes) => into.receiver.begin({ sizeInBytes, version }),
    onFrame: (frame) => {
      const reader = new Reader(frame);
      assert.equal(decodeResponseHeader(reader, fetchKey, version).correlationId, correlationId);
      answer = decodeFetchResponse(reader, version);
      assert.equal(reader.remaining, 0);
    },
  });
  let position = 0;
  for (let turn = 0; position < stream.length; turn++) {
    const size = into.sizes[turn % into.sizes.length] ?? 1;
    const target = into.isPushed === true ? undefined : assembler.target;
    const end = Math.min(position + size, stream.length);
    if (target === undefined) {
      assembler.push(stream.subarray(position, end));
      position = end;
    } else {
      const copied = stream.copy(target, 0, position, end);
      assembler.filled(copied);
      position += copied;
    }
  }
  assert.ok(answer);
  return answer;
}

const scenes = fc.record({
  version: fc.integer({ min: 4, max: 17 }),
  topics: fc.array(fc.array(partitions, { maxLength: 4 }), { maxLength: 2 }),
  sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constantFrom(17_000, 250_000)), {
    minLength: 1,
    maxLength: 5,
  }),
  /** As TLS brings it: never read to its place. */
  isPushed: fc.boolean(),
  /** Of each offer in turn, whether it is taken; null: nobody takes of that partition. */
  verdicts: fc.array(fc.constantFrom(true, true, true, false, null), {
    minLength: 1,
    maxLength: 7,
  }),
});

test('what is taken of an answer and what is left are its records, at any split of the stream', () => {
  // As a fetcher has it: the same for all answers.
  const memory = new FrameBuffer();
  fc.assert(
    fc.property(scenes, ({ version, topics, sizes, isPushed, verdicts }) => {
      const sent = answerOf(topics, version);
      const taken = new Map<string, Buffer[]>();
      let turn = 0;
      const verdict = (): boolean | null => verdicts[turn++ % verdicts.length] ?? null;
      const takerOf: TakerOf = (partition) => {
        assert.equal(partition.highWatermark, 1000n + BigInt(partition.partition));
        const key = `${partition.topicId ?? partition.topicName}/${partition.partition}`;
        const pieces: Buffer[] = [];
        assert.ok(!taken.has(key), 'asked for once');
        taken.set(key, pieces);
        let notTaken = Buffer.alloc(0);
        if (verdict() === null) return null;
        return (batches, lastAt) => {
          const isAgain = batches.subarray(0, notTaken.length).equals(notTaken);
          assert.ok(isAgain, 'what was not taken is offered again, before all behind it');
          assert.deepEqual(wholeBatches(batches), { bytes: batches.length, last: lastAt });
          const isTaken = verdict() === true;
          notTaken = isTaken ? Buffer.alloc(0) : Buffer.from(batches);
          if (isTaken) pieces.push(Buffer.from(batches));
          return isTaken;
        };
      };
      const receiver = arrivingFetch(memory, takerOf);
      const left = receive(frameOf(sent, version), version, { receiver, sizes, isPushed });
      for (const [topicIndex, topic] of left.responses.entries()) {
        for (const [index, data] of topic.partitions.entries()) {
          const wanted = sent.responses[topicIndex]?.partitions[index];
          const name = version >= 13 ? topic.topicId : topic.topic;
          const pieces = taken.get(`${name}/${data.partitionIndex}`) ?? [];
          if (wanted?.errorCode !== ErrorCode.NONE) assert.equal(pieces.length, 0);
          const records = Buffer.concat([...pieces, data.records ?? Buffer.alloc(0)]);
          assert.ok(records.equals(wanted?.records ?? Buffer.alloc(0)));
          data.records = wanted?.records ?? null;
        }
      }
      assert.deepEqual(left, decodeFetchResponse(new Reader(bodyOf(sent, version)), version));
    }),
    { numRuns: 150 },
  );
});

/** The answer as a decoder sees it: fields that the version does not have are at their defaults. */
function bodyOf(answer: FetchResponse, version: number): Buffer {
  const writer = new Writer();
  encodeFetchResponse(writer, answer, version);
  return writer.toBuffer();
}

test('an answer that is used up while it comes in takes a fraction of its size', () => {
  const part = { ...plain, cutBytes: 10 };
  const valueBytes = Array.from({ length: 64 }, () => 65_000);
  const sent = answerOf(
    [
      [
        { ...part, valueBytes },
        { ...part, valueBytes },
      ],
    ],
    17,
  );
  const stream = frameOf(sent, 17);
  const memory = new FrameBuffer();
  let taken = 0;
  const receiver = arrivingFetch(memory, () => (batches) => {
    taken += batches.length;
    return true;
  });
  const left = receive(stream, 17, { receiver, sizes: [200_000] });
  const cut = left.responses[0]?.partitions.map(({ records }) => records?.length);
  assert.ok(taken > 8e6 && stream.length - taken < 200_000, `${taken} of ${stream.length}`);
  const cutBytes = batchOf(0, 65_000).length - part.cutBytes;
  assert.deepEqual(cut, [cutBytes, cutBytes], 'the batch that is cut stays');
  assert.ok(memory.sizeInBytes < 1e6, `${memory.sizeInBytes} bytes are kept`);
});

test('batches that are not taken at once are taken when more has come', () => {
  const sent = answerOf([[{ ...plain, valueBytes: Array.from({ length: 40 }, () => 65_000) }]], 13);
  let offers = 0;
  const receiver = arrivingFetch(new FrameBuffer(), () => () => ++offers > 3);
  const left = receive(frameOf(sent, 13), 13, { receiver, sizes: [250_000] });
  assert.equal(left.responses[0]?.partitions[0]?.records?.length, 0);
});

test('R18: an answer whose records are said to be longer than it is, or that goes on, is an error', () => {
  const sent = answerOf([[{ ...plain, valueBytes: [100] }]], 11);
  const stream = frameOf(sent, 11);
  const lengthAt = stream.indexOf(batchOf(0, 100)) - 4;
  const receiver = arrivingFetch(new FrameBuffer(), () => () => false);
  stream.writeInt32BE(100_000, lengthAt);
  assert.throws(() => receive(stream, 11, { receiver, sizes: [50] }), ProtocolError);
  stream.writeInt32BE(10, lengthAt);
  assert.throws(() => receive(stream, 11, { receiver, sizes: [50] }), ProtocolError);
});
