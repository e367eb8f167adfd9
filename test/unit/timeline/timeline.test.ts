// The arithmetic of timelines by example; test/property/timeline-laws.test.ts has the laws.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import {
  appendPartitions,
  checkTimeline,
  currentLeaderEpochToNative,
  type Extent,
  extentAt,
  firstNativeOffset,
  lastExtent,
  lastFetchedEpochToNative,
  newMirror,
  nextEpoch,
  openNativeExtent,
  splice,
  type Timeline,
  TimelineError,
  toNativeEpoch,
  toNativeOffset,
  toVirtualBound,
  toVirtualEpoch,
  toVirtualOffset,
} from '../../../src/timeline/timeline.ts';

const promoted = splice(newMirror(virtualOffset(40n)), {
  virtualEnd: virtualOffset(1000n),
  nativeEnd: nativeOffset(8n),
  nativeEpoch: nativeEpoch(3),
  lastVirtualEpoch: virtualEpoch(6),
});

function nativePart(timeline: Timeline) {
  const extent = openNativeExtent(timeline);
  assert.ok(extent !== null);
  return extent;
}

test('rules 1 and 2: promotion splices the shell behind the mirror', () => {
  assert.deepEqual(promoted.extents, [
    { where: 'mirror', start: 40n, end: 1000n },
    {
      where: 'native',
      start: 1000n,
      end: null,
      offsetShift: 992n,
      epochShift: 4,
      firstEpoch: 7,
    },
  ]);
  checkTimeline(promoted);
  const extent = nativePart(promoted);
  assert.equal(firstNativeOffset(extent), 8n);
  assert.equal(toVirtualOffset(extent, nativeOffset(8n)), 1000n);
  assert.equal(toNativeOffset(extent, virtualOffset(1005n)), 13n);
  assert.equal(toVirtualEpoch(extent, nativeEpoch(3)), 7);
  assert.equal(toNativeEpoch(extent, virtualEpoch(9)), 5);
});

test('the shift is negative where the shell got more markers than the mirror has records', () => {
  const timeline = splice(newMirror(virtualOffset(0n)), {
    virtualEnd: virtualOffset(2n),
    nativeEnd: nativeOffset(9n),
    nativeEpoch: nativeEpoch(5),
    lastVirtualEpoch: virtualEpoch(-1),
  });
  checkTimeline(timeline);
  const extent = nativePart(timeline);
  assert.equal(toVirtualOffset(extent, nativeOffset(9n)), 2n);
  assert.equal(toVirtualEpoch(extent, nativeEpoch(5)), 0);
});

test('sentinels are never shifted', () => {
  const extent = nativePart(promoted);
  for (const sentinel of [-1n, -2n, -3n, -6n]) {
    assert.equal(toVirtualOffset(extent, nativeOffset(sentinel)), sentinel);
    assert.equal(toNativeOffset(extent, virtualOffset(sentinel)), sentinel);
    assert.equal(toVirtualBound(extent, nativeOffset(sentinel)), sentinel);
  }
  assert.equal(toVirtualEpoch(extent, nativeEpoch(-1)), -1);
  assert.equal(toNativeEpoch(extent, virtualEpoch(-1)), -1);
});

test('an offset before the native extent is refused instead of becoming a sentinel', () => {
  const extent = nativePart(promoted);
  assert.throws(() => toNativeOffset(extent, virtualOffset(999n)), TimelineError);
});

test('native offsets below n are hidden: bounds in them count as S', () => {
  const extent = nativePart(promoted);
  assert.equal(toVirtualBound(extent, nativeOffset(0n)), 1000n);
  assert.equal(toVirtualBound(extent, nativeOffset(7n)), 1000n);
  assert.equal(toVirtualBound(extent, nativeOffset(10n)), 1002n);
});

test('R8: a CurrentLeaderEpoch before V0 is fenced, a LastFetchedEpoch before V0 is -1', () => {
  const extent = nativePart(promoted);
  assert.equal(currentLeaderEpochToNative(extent, virtualEpoch(6)), 'fenced');
  assert.equal(currentLeaderEpochToNative(extent, virtualEpoch(0)), 'fenced');
  assert.equal(currentLeaderEpochToNative(extent, virtualEpoch(-1)), -1);
  assert.equal(currentLeaderEpochToNative(extent, virtualEpoch(7)), 3);
  assert.equal(lastFetchedEpochToNative(extent, virtualEpoch(6)), -1);
  assert.equal(lastFetchedEpochToNative(extent, virtualEpoch(-1)), -1);
  assert.equal(lastFetchedEpochToNative(extent, virtualEpoch(8)), 4);
});

test('extentAt finds the extent of an offset, and none below the start', () => {
  assert.equal(extentAt(promoted, virtualOffset(39n)), undefined);
  assert.equal(extentAt(promoted, virtualOffset(-1n)), undefined);
  assert.equal(extentAt(promoted, virtualOffset(40n))?.where, 'mirror');
  assert.equal(extentAt(promoted, virtualOffset(999n))?.where, 'mirror');
  assert.equal(extentAt(promoted, virtualOffset(1000n))?.where, 'native');
  assert.equal(lastExtent(promoted).where, 'native');
  assert.equal(openNativeExtent(newMirror(virtualOffset(0n))), null);
});

test('a mirror promoted before its first record keeps an empty extent', () => {
  const timeline = splice(newMirror(virtualOffset(7n)), {
    virtualEnd: virtualOffset(7n),
    nativeEnd: nativeOffset(0n),
    nativeEpoch: nativeEpoch(0),
    lastVirtualEpoch: virtualEpoch(-1),
  });
  checkTimeline(timeline);
  assert.equal(extentAt(timeline, virtualOffset(7n))?.where, 'native');
  assert.equal(nativePart(timeline).firstEpoch, 0);
});

test('only a mirror can be promoted, and never below its own start', () => {
  const measured = {
    virtualEnd: virtualOffset(5n),
    nativeEnd: nativeOffset(0n),
    nativeEpoch: nativeEpoch(0),
    lastVirtualEpoch: virtualEpoch(0),
  };
  assert.throws(() => splice(promoted, measured), TimelineError);
  assert.throws(() => splice(newMirror(virtualOffset(6n)), measured), TimelineError);
});

test('new partitions are appended, old ones never go away', () => {
  const grown = appendPartitions([promoted], [virtualOffset(0n), virtualOffset(12n)]);
  assert.equal(grown[0], promoted);
  assert.deepEqual(grown[1], newMirror(virtualOffset(12n)));
  assert.throws(() => appendPartitions(grown, [virtualOffset(0n)]), TimelineError);
});

test('after fail-back (design section 4) V0 lies above every epoch of earlier extents', () => {
  const failedBack: Timeline = {
    extents: [
      {
        where: 'native',
        start: virtualOffset(0n),
        end: virtualOffset(500n),
        offsetShift: 0n,
        epochShift: 0,
        firstEpoch: virtualEpoch(0),
      },
      { where: 'mirror', start: virtualOffset(500n), end: null },
    ],
  };
  checkTimeline(failedBack);
  assert.equal(nextEpoch(failedBack, virtualEpoch(-1)), 1);
  const again = splice(failedBack, {
    virtualEnd: virtualOffset(900n),
    nativeEnd: nativeOffset(620n),
    nativeEpoch: nativeEpoch(4),
    lastVirtualEpoch: virtualEpoch(11),
  });
  checkTimeline(again);
  assert.equal(nativePart(again).firstEpoch, 12);
  assert.equal(extentAt(again, virtualOffset(499n))?.where, 'native');
  assert.equal(extentAt(again, virtualOffset(500n))?.where, 'mirror');
  assert.equal(extentAt(again, virtualOffset(900n))?.where, 'native');
});

test('checkTimeline names each broken invariant', () => {
  const mirror: Extent = { where: 'mirror', start: virtualOffset(0n), end: virtualOffset(10n) };
  const native: Extent = {
    where: 'native',
    start: virtualOffset(10n),
    end: null,
    offsetShift: 10n,
    epochShift: 1,
    firstEpoch: virtualEpoch(1),
  };
  const open: Extent = { where: 'mirror', start: virtualOffset(0n), end: null };
  const broken: [RegExp, Extent[]][] = [
    [/without extents/, []],
    [/closed/, [mirror]],
    [/open/, [open, native]],
    [/starts at 11/, [mirror, { ...native, start: virtualOffset(11n) }]],
    [/starts at -1/, [{ ...open, start: virtualOffset(-1n) }]],
    [/before its start/, [{ ...mirror, start: virtualOffset(11n) }, native]],
    [/native offsets negative/, [mirror, { ...native, offsetShift: 11n }]],
    [/native epochs negative/, [mirror, { ...native, epochShift: 2 }]],
    [
      /epoch 1 after 1/,
      [mirror, { ...native, end: virtualOffset(20n) }, { ...native, start: virtualOffset(20n) }],
    ],
  ];
  checkTimeline({ extents: [mirror, native] });
  for (const [message, extents] of broken) {
    assert.throws(() => checkTimeline({ extents }), message);
  }
});
