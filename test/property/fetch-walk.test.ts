// The walk through a FetchResponse against the generated codec: same fields, and positions that
// hold exactly these, whether the response is there as a whole or comes in pieces.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  FetchWalk,
  type PartitionStart,
  type PartitionTags,
  type RecordsSpan,
  type VisitPartition,
} from '../../protocol/fetch-walk.ts';
import {
  createAbortedTransaction,
  createEpochEndOffset,
  createFetchableTopicResponse,
  createFetchResponse,
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionData,
  createSnapshotId,
  encodeFetchResponse,
  type FetchResponse,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ProtocolError, type ProtocolErrorCode, Writer } from '../../protocol/index.ts';

const offsets = fc.bigInt({ min: -2n, max: 2n ** 62n });
const epochs = fc.integer({ min: -1, max: 1000 });
const bytes = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((value) => Buffer.from(value));
const tags = fc.option(
  fc.record({ tag: fc.constant(9), data: bytes(20) }).map((tag) => [tag]),
  { nil: undefined },
);

const partitions = fc.record({
  partitionIndex: fc.nat(100),
  errorCode: fc.integer({ min: -1, max: 120 }),
  highWatermark: offsets,
  lastStableOffset: offsets,
  logStartOffset: offsets,
  aborted: fc.option(fc.array(fc.tuple(offsets, offsets, tags), { maxLength: 4 })),
  records: fc.option(bytes(300)),
  diverging: fc.option(fc.tuple(fc.nat(9), offsets, tags)),
  leader: fc.option(fc.tuple(fc.nat(9), epochs, tags)),
  snapshot: fc.boolean(),
  unknownTags: tags,
});

const responses = fc.record({
  version: fc.integer({ min: 4, max: 18 }),
  topics: fc.array(fc.tuple(fc.string({ maxLength: 20 }), fc.array(partitions, { maxLength: 4 })), {
    maxLength: 4,
  }),
  endpoints: fc.nat(3),
  topTags: tags,
});

type Generated = typeof responses extends fc.Arbitrary<infer Value> ? Value : never;

const topicId = 'BAAAAAAAAAAAAAAAAAAAAA';

function build({ version, topics, endpoints, topTags }: Generated): FetchResponse {
  const isFlexible = version >= 12;
  return createFetchResponse({
    sessionId: version >= 7 ? 5 : 0,
    unknownTags: isFlexible ? topTags : undefined,
    nodeEndpoints:
      version >= 16
        ? Array.from({ length: endpoints }, (_, nodeId) =>
            createNodeEndpoint({ nodeId, host: `host-${nodeId}` }),
          )
        : [],
    responses: topics.map(([topic, parts]) =>
      createFetchableTopicResponse({
        topic,
        topicId,
        partitions: parts.map((part) =>
          createPartitionData({
            partitionIndex: part.partitionIndex,
            errorCode: part.errorCode,
            highWatermark: part.highWatermark,
            lastStableOffset: part.lastStableOffset,
            logStartOffset: part.logStartOffset,
            records: part.records,
            abortedTransactions:
              part.aborted?.map(([producerId, firstOffset, unknownTags]) =>
                createAbortedTransaction({
                  producerId,
                  firstOffset,
                  unknownTags: isFlexible ? unknownTags : undefined,
                }),
              ) ?? null,
            ...(isFlexible ? tagged(part) : {}),
          }),
        ),
      }),
    ),
  });
}

type Part = typeof partitions extends fc.Arbitrary<infer Value> ? Value : never;

function tagged({ diverging, leader, snapshot, unknownTags }: Part): Partial<PartitionData> {
  return {
    unknownTags,
    ...(snapshot ? { snapshotId: createSnapshotId({ epoch: 1, endOffset: 2n }) } : {}),
    ...(diverging === null
      ? {}
      : {
          divergingEpoch: createEpochEndOffset({
            epoch: diverging[0],
            endOffset: diverging[1],
            unknownTags: diverging[2],
          }),
        }),
    ...(leader === null
      ? {}
      : {
          currentLeader: createLeaderIdAndEpoch({
            leaderId: leader[0],
            leaderEpoch: leader[1],
            unknownTags: leader[2],
          }),
        }),
  };
}

/** Behind a correlation id and, from version 12 on, empty tags. */
function encode(response: FetchResponse, version: number): Buffer {
  const writer = new Writer();
  writer.writeInt32(0);
  if (version >= 12) writer.writeUvarint(0);
  encodeFetchResponse(writer, response, version);
  return writer.toBuffer();
}

const bodyOffsetOf = (version: number): number => (version >= 12 ? 5 : 4);

/** What a visitor was shown of one partition; all positions are in the frame. */
interface SeenPartition extends PartitionStart, PartitionTags {
  readonly abortedFirstOffsetsAt: readonly number[];
  readonly recordsStart: number;
  readonly recordsEnd: number;
}

/** `begin` says where in the frame the bytes lie that a visitor is shown. */
function collecting(seen: SeenPartition[], begin: () => number): VisitPartition {
  const inFrame = (at: number): number => (at < 0 ? at : at + begin());
  return (_bytes, start) => {
    const abortedFirstOffsetsAt: number[] = [];
    let recordsStart = -1;
    let recordsEnd = -1;
    const index = seen.length;
    const note = (tags: PartitionTags): void => {
      seen[index] = {
        ...partition,
        divergingEpochAt: inFrame(tags.divergingEpochAt),
        currentLeaderAt: inFrame(tags.currentLeaderAt),
        abortedFirstOffsetsAt,
        recordsStart,
        recordsEnd,
      };
    };
    const partition = {
      ...start,
      highWatermarkAt: inFrame(start.highWatermarkAt),
      lastStableOffsetAt: inFrame(start.lastStableOffsetAt),
      logStartOffsetAt: inFrame(start.logStartOffsetAt),
    };
    return {
      abortedFirstOffset: (_views, at) => abortedFirstOffsetsAt.push(inFrame(at)),
      records: (_views, span: RecordsSpan) => {
        recordsStart = inFrame(span.at);
        recordsEnd = recordsStart + span.sizeInBytes;
        note({ divergingEpochAt: -1, currentLeaderAt: -1 });
      },
      tags: (_views, tags) => note(tags),
    };
  };
}

function walkWhole(frame: Buffer, bodyOffset: number, version: number) {
  const seen: SeenPartition[] = [];
  const walk = new FetchWalk(
    version,
    collecting(seen, () => 0),
  );
  walk.walkBody(frame, bodyOffset);
  return { walk, seen };
}

/** Each step is shown first what is too little of it, then a few bytes more, from its beginning. */
function walkInPieces(frame: Buffer, version: number, pieceBytes: number) {
  const seen: SeenPartition[] = [];
  let position = 0;
  const walk = new FetchWalk(
    version,
    collecting(seen, () => position),
  );
  for (let there = 0; position < frame.length; ) {
    if (walk.bytesToPass > 0) {
      const passed = Math.min(walk.bytesToPass, frame.length - position);
      walk.passed(passed);
      position += passed;
      continue;
    }
    const end = walk.take(frame.subarray(position, there), 0);
    if (end >= 0) position += end;
    else if (there >= frame.length) break;
    else there = Math.min(Math.max(there, position) + pieceBytes, frame.length);
  }
  walk.finish();
  return { walk, seen };
}

test('the walk finds each field where the codec wrote it, in every version, at any split', () => {
  fc.assert(
    fc.property(responses, fc.integer({ min: 1, max: 50 }), (generated, pieceBytes) => {
      const { version } = generated;
      const response = build(generated);
      const frame = encode(response, version);
      const whole = walkWhole(frame, bodyOffsetOf(version), version);
      const expected = response.responses.flatMap(({ topic, partitions: parts }) =>
        parts.map((data) => ({ topic, data })),
      );
      for (const { walk, seen } of [whole, walkInPieces(frame, version, pieceBytes)]) {
        assert.equal(walk.sessionId, response.sessionId);
        assert.equal(walk.errorCode, response.errorCode);
        assert.equal(walk.nodeEndpoints, response.nodeEndpoints.length);
        assert.equal(seen.length, expected.length);
        for (const [index, one] of seen.entries()) {
          const { topic, data } = expected[index] ?? assert.fail();
          assert.equal(one.topicName, version >= 13 ? '' : topic);
          assert.equal(one.topicId, version >= 13 ? topicId : undefined);
          checkPartition(frame, one, data, version);
        }
      }
    }),
  );
});

function checkPartition(
  frame: Buffer,
  one: SeenPartition,
  data: PartitionData,
  version: number,
): void {
  assert.equal(one.partition, data.partitionIndex);
  assert.equal(one.errorCode, data.errorCode);
  assert.equal(frame.readBigInt64BE(one.highWatermarkAt), data.highWatermark);
  assert.equal(frame.readBigInt64BE(one.lastStableOffsetAt), data.lastStableOffset);
  if (version >= 5) assert.equal(frame.readBigInt64BE(one.logStartOffsetAt), data.logStartOffset);
  else assert.equal(one.logStartOffsetAt, -1);
  assert.deepEqual(
    one.abortedFirstOffsetsAt.map((position) => frame.readBigInt64BE(position)),
    (data.abortedTransactions ?? []).map(({ firstOffset }) => firstOffset),
  );
  assert.deepEqual(
    frame.subarray(one.recordsStart, one.recordsEnd),
    data.records ?? Buffer.alloc(0),
  );
  const hasDiverging = data.divergingEpoch.epoch >= 0 || data.divergingEpoch.endOffset !== -1n;
  if (hasDiverging) {
    assert.equal(frame.readInt32BE(one.divergingEpochAt), data.divergingEpoch.epoch);
    assert.equal(frame.readBigInt64BE(one.divergingEpochAt + 4), data.divergingEpoch.endOffset);
  } else assert.equal(one.divergingEpochAt, -1);
  if (data.currentLeader.leaderId >= 0) {
    assert.equal(frame.readInt32BE(one.currentLeaderAt), data.currentLeader.leaderId);
    assert.equal(frame.readInt32BE(one.currentLeaderAt + 4), data.currentLeader.leaderEpoch);
  } else assert.equal(one.currentLeaderAt, -1);
}

test('a cut or lengthened response is a ProtocolError, never a wild position', () => {
  fc.assert(
    fc.property(responses, fc.nat(10_000), (generated, seed) => {
      const { version } = generated;
      const frame = encode(build(generated), version);
      const bodyOffset = bodyOffsetOf(version);
      const cut = frame.subarray(0, bodyOffset + (seed % (frame.length - bodyOffset)));
      const longer = Buffer.concat([frame, Buffer.alloc(1)]);
      for (const bytes of [cut, longer]) {
        assert.throws(() => walkWhole(bytes, bodyOffset, version), ProtocolError);
        assert.throws(() => walkInPieces(bytes, version, 1 + (seed % 50)), ProtocolError);
      }
    }),
  );
});

const int32 = (value: number): Buffer => {
  const field = Buffer.alloc(4);
  field.writeInt32BE(value);
  return field;
};

/** Throttle time, error and session id. */
const top = Buffer.alloc(4 + 2 + 4);
/** One topic by id, with one partition up to its aborted transactions. */
const upToAborted = [top, 2, Buffer.alloc(16), 2, Buffer.alloc(4 + 2 + 8 + 8 + 8)];
/** The same up to its tags: none aborted, no replica, no records. */
const upToTags = [...upToAborted, 0, Buffer.alloc(4), 0];
const hugeUvarint = [0xff, 0xff, 0xff, 0xff, 0x0f];

type Hostile = readonly [
  what: string,
  version: number,
  code: ProtocolErrorCode,
  parts: readonly (Buffer | number)[],
];

/** Refused also while the rest may be coming. */
const hostile: readonly Hostile[] = [
  ['null for topics', 7, 'UNEXPECTED_NULL', [top, int32(-1)]],
  ['more topics than any array has', 7, 'INVALID_LENGTH', [top, int32(1_000_001)]],
  [
    'more partitions than any array has',
    13,
    'INVALID_LENGTH',
    [...[top, 2, Buffer.alloc(16)], ...hugeUvarint],
  ],
  [
    'more aborted transactions than any array has',
    13,
    'INVALID_LENGTH',
    [...upToAborted, ...hugeUvarint],
  ],
  ['a name beyond the limit', 12, 'INVALID_LENGTH', [top, 2, 0x81, 0x80, 0x02]],
  ['a varint of more than 32 bits', 13, 'INVALID_VARINT', [top, 0xff, 0xff, 0xff, 0xff, 0x1f]],
  [
    'a diverging epoch too short for one',
    13,
    'INVALID_LENGTH',
    [...[...upToTags, 1, 0, 5], Buffer.alloc(40)],
  ],
  ['a tag twice', 13, 'INVALID_TAGS', [...upToTags, 2, 9, 0, 9, 0, 0, 0]],
  ['null for node endpoints', 16, 'UNEXPECTED_NULL', [top, 1, 1, 0, 1, 0]],
  ['node endpoints beyond their tag', 16, 'INVALID_LENGTH', [top, 1, 1, 0, 1, 9, Buffer.alloc(99)]],
];

/** Only the end of the bytes tells. */
const promising: readonly Hostile[] = [
  ['more topics than fit', 7, 'INVALID_LENGTH', [top, int32(2), Buffer.alloc(5)]],
  [
    'more aborted transactions than fit',
    13,
    'INVALID_LENGTH',
    [...upToAborted, 3, Buffer.alloc(31)],
  ],
  ['more records than there are', 13, 'TRUNCATED', [...upToAborted, 0, Buffer.alloc(4), 9, 1]],
  ['more tags than fit', 13, 'INVALID_LENGTH', [...upToTags, 2, 9, 0]],
  ['a tag longer than the rest', 13, 'INVALID_LENGTH', [...upToTags, 1, 9, 8, 0]],
];

const bytesOf = (parts: Hostile[3]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.of(part) : part)));

test('lengths and counts that cannot be are refused by name, whole or in pieces', () => {
  for (const [what, version, code, parts] of [...hostile, ...promising]) {
    assert.throws(() => walkWhole(bytesOf(parts), 0, version), { code }, `${what}, whole`);
  }
  for (const [what, version, code, parts] of hostile) {
    const frame = Buffer.concat([Buffer.alloc(bodyOffsetOf(version)), bytesOf(parts)]);
    assert.throws(() => walkInPieces(frame, version, 1), { code }, `${what}, in pieces`);
  }
  for (const [what, version, , parts] of promising) {
    const frame = Buffer.concat([Buffer.alloc(bodyOffsetOf(version)), bytesOf(parts)]);
    const code = 'TRUNCATED';
    assert.throws(() => walkInPieces(frame, version, 1), { code }, `${what}, in pieces`);
  }
});

test('versions that do not exist are refused', () => {
  for (const version of [3, 19, Number.NaN]) {
    const code = 'UNSUPPORTED_VERSION';
    assert.throws(() => new FetchWalk(version, () => null), { code });
  }
});
