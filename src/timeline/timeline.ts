// A partition's timeline: the ordered, gapless list of extents that says where each virtual
// offset's record is. Pure data and arithmetic; it belongs to a shell topic id, never to a name.
// Invariants (checked by `checkTimeline`): contiguous, only the last extent is open, virtual epochs
// never go back. An extent may be empty (a mirror promoted before its first record): then no offset
// lies in it.
import {
  type NativeEpoch,
  type NativeOffset,
  nativeOffset,
  type VirtualEpoch,
  type VirtualOffset,
  virtualEpoch,
  virtualOffset,
} from './offsets.ts';

export interface MirrorExtent {
  readonly where: 'mirror';
  readonly start: VirtualOffset;
  /** Exclusive; null while the topic is being mirrored. */
  readonly end: VirtualOffset | null;
}

export interface NativeExtent {
  readonly where: 'native';
  readonly start: VirtualOffset;
  readonly end: VirtualOffset | null;
  /** virtual = native + offsetShift (S - n). */
  readonly offsetShift: bigint;
  /** virtual epoch = native epoch + epochShift. */
  readonly epochShift: number;
  /** First virtual epoch of this extent (V0). */
  readonly firstEpoch: VirtualEpoch;
}

export type Extent = MirrorExtent | NativeExtent;

export interface Timeline {
  readonly extents: readonly Extent[];
}

/** What promotion measured for one partition. */
export interface Splice {
  /** S: virtual end of the mirror extent. */
  readonly virtualEnd: VirtualOffset;
  /** n: native end of the shell. */
  readonly nativeEnd: NativeOffset;
  /** The shell partition's leader epoch now. */
  readonly nativeEpoch: NativeEpoch;
  /**
   * Highest virtual epoch advertised or stored so far (ABORT batches of this splice left out), or
   * -1.
   */
  readonly lastVirtualEpoch: VirtualEpoch;
}

export class TimelineError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'TimelineError';
  }
}

/** The timeline of a partition that begins to be mirrored at the source's log start. */
export function newMirror(start: VirtualOffset): Timeline {
  if (start < 0n) throw new TimelineError(`a mirror cannot start at ${start}`);
  return { extents: [{ where: 'mirror', start, end: null }] };
}

/**
 * One timeline per partition after the source grew to `starts.length` partitions: the ones that we
 * have stay untouched, the rest are new mirrors.
 */
export function appendPartitions(
  timelines: readonly Timeline[],
  starts: readonly VirtualOffset[],
): Timeline[] {
  if (starts.length < timelines.length) {
    throw new TimelineError(`partitions went back from ${timelines.length} to ${starts.length}`);
  }
  return [...timelines, ...starts.slice(timelines.length).map(newMirror)];
}

/** The extent that decides who leads the partition. */
export function lastExtent(timeline: Timeline): Extent {
  const last = timeline.extents.at(-1);
  if (last === undefined) throw new TimelineError('a timeline without extents');
  return last;
}

/** The native extent that a promoted partition ends in, or null while it is mirrored. */
export function openNativeExtent(timeline: Timeline): NativeExtent | null {
  const last = lastExtent(timeline);
  return last.where === 'native' ? last : null;
}

/** The extent of an offset, or undefined below the first one (and for sentinels). */
export function extentAt(timeline: Timeline, offset: VirtualOffset): Extent | undefined {
  return timeline.extents.findLast(
    ({ start, end }) => offset >= start && (end === null || offset < end),
  );
}

/** n: native offsets below it are hidden (only markers of refused transactions may be there). */
export function firstNativeOffset(extent: NativeExtent): NativeOffset {
  return nativeOffset(extent.start - extent.offsetShift);
}

/** Also for the end offset of a log. Sentinels (negative) are never shifted. */
export function toVirtualOffset(extent: NativeExtent, native: NativeOffset): VirtualOffset {
  return virtualOffset(native < 0n ? native : native + extent.offsetShift);
}

/** The largest that Kafka can write: what clients may name is as good as beyond it. */
const offsetMax = 0x7fff_ffff_ffff_ffffn;
const epochMax = 0x7fff_ffff;

/** @throws TimelineError outside the extent: below it a shift could even turn into a sentinel */
export function toNativeOffset(extent: NativeExtent, virtual: VirtualOffset): NativeOffset {
  const isBeyond = virtual < extent.start || (extent.end !== null && virtual > extent.end);
  if (virtual >= 0n && isBeyond) {
    throw new TimelineError(`offset ${virtual} is not in [${extent.start}..${extent.end ?? ''})`);
  }
  const native = virtual < 0n ? virtual : virtual - extent.offsetShift;
  return nativeOffset(native > offsetMax ? offsetMax : native);
}

/**
 * A bound that a broker reports (high watermark, log end, log start): what lies in the hidden range
 * counts as the extent's start, since clients never see an offset of it.
 */
export function toVirtualBound(extent: NativeExtent, native: NativeOffset): VirtualOffset {
  const virtual = toVirtualOffset(extent, native);
  return native >= 0n && virtual < extent.start ? extent.start : virtual;
}

export function toVirtualEpoch(extent: NativeExtent, native: NativeEpoch): VirtualEpoch {
  return virtualEpoch(native < 0 ? native : native + extent.epochShift);
}

export function toNativeEpoch(extent: NativeExtent, virtual: VirtualEpoch): NativeEpoch {
  return Math.min(epochMax, virtual < 0 ? virtual : virtual - extent.epochShift) as NativeEpoch;
}

/** What becomes of a request's CurrentLeaderEpoch: `fenced` is answered 74 by us (rule 2). */
export function currentLeaderEpochToNative(
  extent: NativeExtent,
  epoch: VirtualEpoch,
): NativeEpoch | 'fenced' {
  if (epoch >= 0 && epoch < extent.firstEpoch) return 'fenced';
  return toNativeEpoch(extent, epoch);
}

/** An epoch before the extent means nothing to its broker: -1 (rule 2). */
export function lastFetchedEpochToNative(extent: NativeExtent, epoch: VirtualEpoch): NativeEpoch {
  return epoch < extent.firstEpoch ? (-1 as NativeEpoch) : toNativeEpoch(extent, epoch);
}

/**
 * The first epoch of an extent that would follow now: above everything that was ever advertised.
 */
export function nextEpoch(timeline: Timeline, lastVirtualEpoch: VirtualEpoch): VirtualEpoch {
  let highest: number = lastVirtualEpoch;
  for (const extent of timeline.extents) {
    if (extent.where === 'native' && extent.firstEpoch > highest) highest = extent.firstEpoch;
  }
  return virtualEpoch(Math.max(highest, -1) + 1);
}

/** Promotion: closes the mirror extent at S and lets the shell topic go on from there. */
export function splice(timeline: Timeline, measured: Splice): Timeline {
  const mirror = lastExtent(timeline);
  const { virtualEnd, nativeEnd, nativeEpoch } = measured;
  if (mirror.where !== 'mirror') throw new TimelineError('only a mirror can be promoted');
  if (virtualEnd < mirror.start) {
    throw new TimelineError(`mirror [${mirror.start}..) cannot end at ${virtualEnd}`);
  }
  if (nativeEnd < 0n) throw new TimelineError(`native end ${nativeEnd}`);
  if (nativeEpoch < 0) throw new TimelineError(`native epoch ${nativeEpoch}`);
  const firstEpoch = nextEpoch(timeline, measured.lastVirtualEpoch);
  const native: NativeExtent = {
    where: 'native',
    start: virtualEnd,
    end: null,
    offsetShift: virtualEnd - nativeEnd,
    epochShift: firstEpoch - nativeEpoch,
    firstEpoch,
  };
  const before = timeline.extents.slice(0, -1);
  return { extents: [...before, { ...mirror, end: virtualEnd }, native] };
}

/** @throws TimelineError naming the first broken invariant */
export function checkTimeline(timeline: Timeline): void {
  const last = timeline.extents.length - 1;
  if (last < 0) throw new TimelineError('a timeline without extents');
  let previousEnd: VirtualOffset | null = null;
  let previousEpoch = -1;
  for (const [index, extent] of timeline.extents.entries()) {
    const at = `extent ${index}`;
    if (extent.start < 0n) throw new TimelineError(`${at} starts at ${extent.start}`);
    if (index > 0 && extent.start !== previousEnd) {
      throw new TimelineError(
        `${at} starts at ${extent.start}, the one before ends at ${previousEnd}`,
      );
    }
    if ((extent.end === null) !== (index === last)) {
      throw new TimelineError(`${at} of ${last + 1} is ${extent.end === null ? 'open' : 'closed'}`);
    }
    if (extent.end !== null && extent.end < extent.start) {
      throw new TimelineError(`${at} ends at ${extent.end}, before its start ${extent.start}`);
    }
    if (extent.where === 'native') {
      checkNative(extent, at, previousEpoch);
      previousEpoch = extent.firstEpoch;
    }
    previousEnd = extent.end;
  }
}

function checkNative(extent: NativeExtent, at: string, previousEpoch: number): void {
  if (extent.offsetShift > extent.start) {
    throw new TimelineError(`${at}: shift ${extent.offsetShift} makes native offsets negative`);
  }
  if (extent.firstEpoch <= previousEpoch) {
    throw new TimelineError(`${at}: epoch ${extent.firstEpoch} after ${previousEpoch}`);
  }
  if (extent.firstEpoch < extent.epochShift) {
    throw new TimelineError(`${at}: epoch shift ${extent.epochShift} makes native epochs negative`);
  }
}
