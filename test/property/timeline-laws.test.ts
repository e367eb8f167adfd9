// Laws of the timeline arithmetic, over random timelines of one to seven extents.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  nativeEpoch,
  nativeOffset,
  type VirtualOffset,
  virtualEpoch,
  virtualOffset,
} from '../../src/timeline/offsets.ts';
import {
  checkTimeline,
  currentLeaderEpochToNative,
  type Extent,
  extentAt,
  firstNativeOffset,
  lastExtent,
  lastFetchedEpochToNative,
  type NativeExtent,
  splice,
  type Timeline,
  toNativeEpoch,
  toNativeOffset,
  toVirtualBound,
  toVirtualEpoch,
  toVirtualOffset,
} from '../../src/timeline/timeline.ts';

interface Step {
  readonly mirrored: number;
  readonly nativeLength: number;
  readonly nativeEnd: number;
  readonly nativeEpoch: number;
  readonly epochsSeen: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  mirrored: fc.nat(1000),
  nativeLength: fc.nat(1000),
  nativeEnd: fc.nat(2000),
  nativeEpoch: fc.nat(50),
  epochsSeen: fc.nat(20),
});

/** Promotions and restores in turn, as the design's table of section 4 goes on. */
function build(start: number, steps: readonly Step[], endsAsMirror: boolean): Timeline {
  let timeline: Timeline = {
    extents: [{ where: 'mirror', start: virtualOffset(BigInt(start)), end: null }],
  };
  let seen = -1;
  for (const [index, one] of steps.entries()) {
    const mirror = lastExtent(timeline);
    seen += one.epochsSeen;
    timeline = splice(timeline, {
      virtualEnd: virtualOffset(mirror.start + BigInt(one.mirrored)),
      nativeEnd: nativeOffset(BigInt(one.nativeEnd)),
      nativeEpoch: nativeEpoch(one.nativeEpoch),
      lastVirtualEpoch: virtualEpoch(seen),
    });
    const native = lastExtent(timeline);
    if (native.where === 'native') seen = native.firstEpoch;
    if (index === steps.length - 1 && !endsAsMirror) break;
    const end = virtualOffset(native.start + BigInt(one.nativeLength));
    const before = timeline.extents.slice(0, -1);
    timeline = {
      extents: [...before, { ...native, end }, { where: 'mirror', start: end, end: null }],
    };
  }
  return timeline;
}

const timelines = fc
  .tuple(fc.nat(5000), fc.array(step, { maxLength: 3 }), fc.boolean())
  .map(([start, steps, endsAsMirror]) => build(start, steps, endsAsMirror));

const promotedTimelines = fc
  .tuple(fc.nat(5000), fc.array(step, { minLength: 1, maxLength: 3 }))
  .map(([start, steps]) => build(start, steps, false));

function natives(timeline: Timeline): NativeExtent[] {
  return timeline.extents.filter((extent) => extent.where === 'native');
}

/** The obvious second way: walk from the start. */
function naiveExtentAt(timeline: Timeline, offset: VirtualOffset): Extent | undefined {
  for (const extent of timeline.extents) {
    if (offset < extent.start) return undefined;
    if (extent.end === null || offset < extent.end) return extent;
  }
  return undefined;
}

test('whatever promotions and restores build holds the invariants', () => {
  fc.assert(fc.property(timelines, (timeline) => checkTimeline(timeline)));
});

test('each offset from the start on lies in exactly one extent', () => {
  fc.assert(
    fc.property(timelines, fc.nat(12_000), (timeline, value) => {
      const offset = virtualOffset(BigInt(value));
      const holders = timeline.extents.filter(
        ({ start, end }) => offset >= start && (end === null || offset < end),
      );
      const first = timeline.extents[0];
      assert.ok(first !== undefined);
      assert.equal(holders.length, offset >= first.start ? 1 : 0);
      assert.equal(extentAt(timeline, offset), holders[0]);
      assert.equal(extentAt(timeline, offset), naiveExtentAt(timeline, offset));
    }),
  );
});

test('virtual and native offsets map one to one within an extent, and keep their order', () => {
  fc.assert(
    fc.property(timelines, fc.nat(3000), fc.nat(3000), (timeline, a, b) => {
      for (const extent of natives(timeline)) {
        const length = extent.end === null ? 4000n : extent.end - extent.start;
        const [low, high] = a <= b ? [BigInt(a), BigInt(b)] : [BigInt(b), BigInt(a)];
        if (high > length) continue;
        const virtual = virtualOffset(extent.start + high);
        const native = toNativeOffset(extent, virtual);
        assert.ok(native >= firstNativeOffset(extent) && native >= 0n);
        assert.equal(toVirtualOffset(extent, native), virtual);
        const lower = toNativeOffset(extent, virtualOffset(extent.start + low));
        assert.equal(native - lower, high - low);
      }
    }),
  );
});

test('no offset outside an extent can be mapped into its broker', () => {
  fc.assert(
    fc.property(promotedTimelines, fc.nat(12_000), (timeline, value) => {
      const offset = virtualOffset(BigInt(value));
      for (const extent of natives(timeline)) {
        const inside = offset >= extent.start && (extent.end === null || offset <= extent.end);
        if (inside) assert.ok(toNativeOffset(extent, offset) >= 0n);
        else assert.throws(() => toNativeOffset(extent, offset));
      }
    }),
  );
});

test('sentinels pass every mapping untouched', () => {
  fc.assert(
    fc.property(promotedTimelines, fc.integer({ min: -10, max: -1 }), (timeline, sentinel) => {
      for (const extent of natives(timeline)) {
        const offset = BigInt(sentinel);
        assert.equal(toVirtualOffset(extent, nativeOffset(offset)), offset);
        assert.equal(toVirtualBound(extent, nativeOffset(offset)), offset);
        assert.equal(toNativeOffset(extent, virtualOffset(offset)), offset);
        assert.equal(toVirtualEpoch(extent, nativeEpoch(sentinel)), sentinel);
        assert.equal(toNativeEpoch(extent, virtualEpoch(sentinel)), sentinel);
      }
    }),
  );
});

test('R8: virtual epochs rise from extent to extent, and with the native ones within', () => {
  fc.assert(
    fc.property(promotedTimelines, fc.nat(50), fc.nat(50), (timeline, a, b) => {
      let previous = -1;
      for (const extent of natives(timeline)) {
        assert.ok(extent.firstEpoch > previous);
        previous = extent.firstEpoch;
        const atSplice = toNativeEpoch(extent, extent.firstEpoch);
        assert.ok(atSplice >= 0);
        const earlier = toVirtualEpoch(extent, nativeEpoch(atSplice + Math.min(a, b)));
        const later = toVirtualEpoch(extent, nativeEpoch(atSplice + Math.max(a, b)));
        assert.ok(later >= earlier && earlier >= extent.firstEpoch);
        assert.equal(toNativeEpoch(extent, later), atSplice + Math.max(a, b));
      }
    }),
  );
});

test('R8: V0 lies above every epoch seen before, so every older epoch is fenced', () => {
  fc.assert(
    fc.property(promotedTimelines, fc.nat(100), (timeline, value) => {
      const extent = lastExtent(timeline);
      assert.ok(extent.where === 'native');
      const epoch = virtualEpoch(value);
      const current = currentLeaderEpochToNative(extent, epoch);
      const last = lastFetchedEpochToNative(extent, epoch);
      if (epoch < extent.firstEpoch) {
        assert.equal(current, 'fenced');
        assert.equal(last, -1);
      } else {
        assert.equal(current, toNativeEpoch(extent, epoch));
        assert.equal(last, current);
      }
    }),
  );
});

test('a bound is never shown below its extent', () => {
  fc.assert(
    fc.property(promotedTimelines, fc.nat(5000), (timeline, value) => {
      for (const extent of natives(timeline)) {
        const bound = toVirtualBound(extent, nativeOffset(BigInt(value)));
        assert.ok(bound >= extent.start);
        assert.ok(bound >= toVirtualOffset(extent, nativeOffset(BigInt(value))));
      }
    }),
  );
});
