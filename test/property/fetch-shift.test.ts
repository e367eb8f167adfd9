// The shift in place against a naive one over decoded messages: same answer, same length, and
// ordinary topics in the same frame untouched.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createAbortedTransaction,
  createEpochEndOffset,
  createFetchableTopicResponse,
  createFetchResponse,
  createLeaderIdAndEpoch,
  createPartitionData,
  decodeFetchResponse,
  encodeFetchResponse,
  type FetchResponse,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ProtocolError, Reader, Writer } from '../../protocol/index.ts';
import { shiftFrame, shiftPassing, shiftRecords } from '../../src/gateway/fetch-shift.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../src/timeline/offsets.ts';
import { lastExtent, newMirror, splice, type Timeline } from '../../src/timeline/timeline.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeSession, ordersId, otherId } from '../unit/gateway/read-fixtures.ts';

const offsets = fc.oneof(fc.constantFrom(-1n, -2n), fc.bigInt({ min: 0n, max: 5000n }));

const splices = fc.record({
  start: fc.nat(100),
  mirrored: fc.nat(1000),
  nativeEnd: fc.nat(2000),
  nativeEpoch: fc.nat(9),
  lastVirtualEpoch: fc.integer({ min: -1, max: 20 }),
});

const partitions = fc.record({
  errorCode: fc.constantFrom(0, 1, 6, 74),
  highWatermark: offsets,
  lastStableOffset: offsets,
  logStartOffset: offsets,
  aborted: fc.option(fc.array(offsets, { maxLength: 3 })),
  batches: fc.array(fc.tuple(fc.nat(50), fc.integer({ min: 1, max: 5 }), fc.nat(5)), {
    maxLength: 4,
  }),
  cutBytes: fc.nat(90),
  leaderEpoch: fc.integer({ min: -1, max: 9 }),
  diverging: fc.option(fc.tuple(fc.nat(9), fc.bigInt({ min: 0n, max: 5000n }))),
});

type Splice = typeof splices extends fc.Arbitrary<infer Value> ? Value : never;
type Part = typeof partitions extends fc.Arbitrary<infer Value> ? Value : never;

function timelineOf(one: Splice): Timeline {
  return splice(newMirror(virtualOffset(BigInt(one.start))), {
    virtualEnd: virtualOffset(BigInt(one.start + one.mirrored)),
    nativeEnd: nativeOffset(BigInt(one.nativeEnd)),
    nativeEpoch: nativeEpoch(one.nativeEpoch),
    lastVirtualEpoch: virtualEpoch(one.lastVirtualEpoch),
  });
}

/** Records as a broker sends them: native offsets from n on, the last batch cut anywhere. */
function recordsOf(part: Part, nativeEnd: number, nativeEpochFirst: number): Buffer {
  let next = BigInt(nativeEnd);
  const all = part.batches.map(([gap, count, epoch]) => {
    const base = next + BigInt(gap);
    next = base + BigInt(count);
    return batch(base, count, { epoch: nativeEpochFirst + epoch });
  });
  const whole = Buffer.concat(all);
  return whole.subarray(0, Math.max(0, whole.length - part.cutBytes));
}

function dataOf(part: Part, one: Splice, version: number): PartitionData {
  const isFlexible = version >= 12;
  return createPartitionData({
    errorCode: part.errorCode,
    highWatermark: part.highWatermark,
    lastStableOffset: part.lastStableOffset,
    logStartOffset: version >= 5 ? part.logStartOffset : -1n,
    abortedTransactions:
      part.aborted?.map((firstOffset) => createAbortedTransaction({ firstOffset })) ?? null,
    records: recordsOf(part, one.nativeEnd, one.nativeEpoch),
    ...(isFlexible && part.leaderEpoch >= 0
      ? { currentLeader: createLeaderIdAndEpoch({ leaderId: 1, leaderEpoch: part.leaderEpoch }) }
      : {}),
    ...(isFlexible && part.diverging !== null
      ? {
          divergingEpoch: createEpochEndOffset({
            epoch: part.diverging[0],
            endOffset: part.diverging[1],
          }),
        }
      : {}),
  });
}

function shiftNaively(data: PartitionData, timeline: Timeline, copyStart: bigint): PartitionData {
  const extent = lastExtent(timeline);
  assert.ok(extent.where === 'native');
  const { start, offsetShift, epochShift, firstEpoch } = extent;
  const shift = (offset: bigint): bigint => (offset < 0n ? offset : offset + offsetShift);
  const bound = (offset: bigint): bigint => {
    const virtual = shift(offset);
    return offset >= 0n && virtual < start ? start : virtual;
  };
  const epochOf = (epoch: number): number => (epoch < 0 ? epoch : epoch + epochShift);
  // A copy counts while nothing that clients were shown of the shell is deleted.
  const hasCopy = copyStart < start && shift(data.logStartOffset) <= start;
  const records = Buffer.from(data.records ?? Buffer.alloc(0));
  for (let position = 0; position + 8 <= records.length; ) {
    records.writeBigInt64BE(shift(records.readBigInt64BE(position)), position);
    if (position + 16 > records.length) break;
    records.writeInt32BE(epochOf(records.readInt32BE(position + 12)), position + 12);
    position += 12 + records.readInt32BE(position + 8);
  }
  const { logStartOffset, divergingEpoch, currentLeader } = data;
  const isDiverging = divergingEpoch.epoch >= 0;
  return {
    ...data,
    records,
    highWatermark: bound(data.highWatermark),
    lastStableOffset: bound(data.lastStableOffset),
    logStartOffset: logStartOffset >= 0n && hasCopy ? copyStart : bound(logStartOffset),
    abortedTransactions:
      data.abortedTransactions?.map((one) => ({ ...one, firstOffset: shift(one.firstOffset) })) ??
      null,
    currentLeader: { ...currentLeader, leaderEpoch: epochOf(currentLeader.leaderEpoch) },
    divergingEpoch: isDiverging
      ? {
          ...divergingEpoch,
          epoch: Math.max(epochOf(divergingEpoch.epoch), firstEpoch - 1),
          endOffset: bound(divergingEpoch.endOffset),
        }
      : divergingEpoch,
  };
}

function encode(response: FetchResponse, version: number): Buffer {
  const writer = new Writer();
  encodeFetchResponse(writer, response, version);
  return writer.toBuffer();
}

interface Case {
  readonly version: number;
  readonly one: Splice;
  readonly orders: Part;
  readonly other: Part;
}

const cases = fc.record({
  version: fc.integer({ min: 4, max: 15 }),
  one: splices,
  orders: partitions,
  other: partitions,
});

/** A promoted topic and an ordinary one, as the broker answers and as the client is to see it. */
function answerOf({ version, one, orders, other }: Case) {
  const timeline = timelineOf(one);
  const log = new MemoryMirrorLog(BigInt(one.start));
  const { directory, services } = new FakeSession({ kind: 'broker', nodeId: 1 });
  directory.put({ name: 'orders', mode: 'promoted', log, timeline });
  const message = (shifted: boolean): FetchResponse => {
    const data = dataOf(orders, one, version);
    return createFetchResponse({
      responses: [
        createFetchableTopicResponse({
          topic: version >= 13 ? '' : 'orders',
          topicId: ordersId,
          partitions: [shifted ? shiftNaively(data, timeline, log.logStart) : data],
        }),
        createFetchableTopicResponse({
          topic: version >= 13 ? '' : 'ordinary',
          topicId: otherId,
          partitions: [dataOf(other, one, version), dataOf(other, one, version)],
        }),
      ],
    });
  };
  return {
    directory,
    services,
    native: encode(message(false), version),
    expected: encode(message(true), version),
  };
}

test('R8: what is patched in place is what a decoded message would be shifted to', () => {
  fc.assert(
    fc.property(cases, (one) => {
      const { version } = one;
      const { services, native: frame, expected } = answerOf(one);
      const { replaced, nodeEndpoints } = shiftFrame(services, frame, 0, version);
      assert.equal(replaced.size, 0);
      assert.equal(nodeEndpoints, 0);
      assert.deepEqual(
        decodeFetchResponse(new Reader(frame), version),
        decodeFetchResponse(new Reader(expected), version),
      );
      assert.deepEqual(frame, expected);
    }),
    { numRuns: 300 },
  );
});

const cuts = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 20 });

/** Correlation id, and from version 12 on no tags. */
const headerOf = (version: number): Buffer =>
  Buffer.from(version >= 12 ? [0, 0, 0, 7, 0] : [0, 0, 0, 7]);

test('R8: patched as it passes, split anywhere, a response is the same', () => {
  fc.assert(
    fc.property(cases, cuts, (one, sizes) => {
      const { version } = one;
      const { services, native, expected } = answerOf(one);
      const frame = Buffer.concat([headerOf(version), native]);
      const patch = shiftPassing(services, version);
      const passed: Buffer[] = [];
      for (let position = 0, turn = 0; position < frame.length; turn++) {
        const size = sizes[turn % sizes.length] ?? 1;
        const chunk = Buffer.from(frame.subarray(position, position + size));
        // The memory of a chunk is used again as soon as it was dealt with.
        patch.push(chunk, (view) => passed.push(Buffer.from(view)));
        chunk.fill(0xee);
        position += size;
      }
      patch.finish();
      assert.deepEqual(Buffer.concat(passed), Buffer.concat([headerOf(version), expected]));
    }),
    { numRuns: 300 },
  );
});

/** One promoted partition's answer with these records. */
function promotedAnswer(records: Buffer, version: number) {
  const { directory, services } = new FakeSession({ kind: 'broker', nodeId: 1 });
  const timeline = timelineOf({ start: 0, mirrored: 100, ...nativeStart });
  directory.put({ name: 'orders', mode: 'promoted', log: new MemoryMirrorLog(0n), timeline });
  const partitionsOf = [createPartitionData({ highWatermark: 9n, records })];
  const topic = version >= 13 ? '' : 'orders';
  const responses = [
    createFetchableTopicResponse({ topic, topicId: ordersId, partitions: partitionsOf }),
  ];
  const body = encode(createFetchResponse({ responses }), version);
  return { services, frame: Buffer.concat([headerOf(version), body]) };
}

const nativeStart = { nativeEnd: 3, nativeEpoch: 0, lastVirtualEpoch: 4 };

type Damage = readonly [what: string, code: string, damage: (records: Buffer) => unknown];

const damages: readonly Damage[] = [
  ['ends before it begins', 'INVALID_BATCH', (records) => records.writeInt32BE(-1, 23)],
  ['has fewer records than none', 'INVALID_BATCH', (records) => records.writeInt32BE(-1, 57)],
  ['is shorter than a header', 'INVALID_BATCH', (records) => records.writeInt32BE(48, 8)],
  ['is of an old format', 'UNSUPPORTED_MAGIC', (records) => records.writeInt8(1, 16)],
];

test('a batch that cannot be was passed on shifted in a promoted answer, held or not', () => {
  for (const [what, code, damage] of damages) {
    const records = Buffer.concat([batch(3n, 2, {}), batch(5n, 2, {})]);
    damage(records);
    for (const version of [4, 11, 12, 15]) {
      const whole = promotedAnswer(records, version);
      const bodyOffset = headerOf(version).length;
      assert.throws(
        () => shiftFrame(whole.services, whole.frame, bodyOffset, version),
        { code },
        `${what}, held, version ${version}`,
      );
      const passing = promotedAnswer(records, version);
      const patch = shiftPassing(passing.services, version);
      assert.throws(
        () => patch.push(passing.frame, () => undefined),
        { code },
        `${what}, passing, version ${version}`,
      );
    }
    const shared = Buffer.from(records);
    const extent = lastExtent(timelineOf({ start: 0, mirrored: 100, ...nativeStart }));
    assert.ok(extent.where === 'native');
    assert.throws(() => shiftRecords(shared, extent), { code }, `${what}, of a share fetch`);
  }
});

test('the checksum of a short old message at the end of an answer was shifted as an epoch', () => {
  const old = Buffer.alloc(40, 1);
  old.writeInt8(1, 16);
  const { services, frame } = promotedAnswer(Buffer.concat([batch(3n, 2, {}), old]), 12);
  const code = 'UNSUPPORTED_MAGIC';
  assert.throws(() => shiftFrame(services, frame, headerOf(12).length, 12), { code });
});

test('a response that passes and is cut anywhere, or has more behind it, is refused', () => {
  fc.assert(
    fc.property(cases, fc.nat(), (one, cut) => {
      const { services, native } = answerOf(one);
      const frame = Buffer.concat([headerOf(one.version), native]);
      const push = (bytes: Buffer): void => {
        const patch = shiftPassing(services, one.version);
        patch.push(bytes, () => undefined);
        patch.finish();
      };
      assert.throws(() => push(frame.subarray(0, cut % frame.length)), ProtocolError);
      assert.throws(() => push(Buffer.concat([frame, Buffer.alloc(1)])), ProtocolError);
    }),
  );
});
