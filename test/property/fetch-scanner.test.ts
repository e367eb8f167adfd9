// The fetch scanner against the generated codec: same fields, and positions that hold exactly
// these.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ScannedPartition, scanFetchResponse } from '../../protocol/fetch-scanner.ts';
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
import { ProtocolError, Writer } from '../../protocol/index.ts';

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

function encode(response: FetchResponse, version: number): Buffer {
  const writer = new Writer();
  writer.writeInt32(0);
  encodeFetchResponse(writer, response, version);
  return writer.toBuffer();
}

test('the scanner finds each field where the codec wrote it, in every version', () => {
  fc.assert(
    fc.property(responses, (generated) => {
      const { version } = generated;
      const response = build(generated);
      const frame = encode(response, version);
      const scanned: ScannedPartition[] = [];
      const whole = scanFetchResponse(frame, 4, version, (one) => scanned.push(one));
      assert.equal(whole.sessionId, response.sessionId);
      assert.equal(whole.nodeEndpoints, response.nodeEndpoints.length);
      const expected = response.responses.flatMap(({ topic, partitions: parts }) =>
        parts.map((data) => ({ topic, data })),
      );
      assert.equal(scanned.length, expected.length);
      for (const [index, one] of scanned.entries()) {
        const { topic, data } = expected[index] ?? assert.fail();
        assert.equal(one.topicName, version >= 13 ? '' : topic);
        assert.equal(one.topicId, version >= 13 ? topicId : undefined);
        checkPartition(frame, one, data, version);
      }
    }),
  );
});

function checkPartition(
  frame: Buffer,
  one: ScannedPartition,
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
      const ignore = (): void => undefined;
      const cut = frame.subarray(0, 4 + (seed % (frame.length - 4)));
      assert.throws(() => scanFetchResponse(cut, 4, version, ignore), ProtocolError);
      const longer = Buffer.concat([frame, Buffer.alloc(1)]);
      assert.throws(() => scanFetchResponse(longer, 4, version, ignore), ProtocolError);
    }),
  );
});
