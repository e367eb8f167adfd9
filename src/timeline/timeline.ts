// A partition's timeline: the ordered, gapless list of extents that says where each virtual offset's record
// is. Pure data and arithmetic; it belongs to a shell topic id, never to a name. Invariants (checked by
// `checkTimeline`): contiguous, only the last extent is open, virtual epochs never go back.
import type { NativeEpoch, NativeOffset, VirtualEpoch, VirtualOffset } from './offsets.ts';

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
  /** Highest virtual epoch advertised or stored so far, or -1. */
  readonly lastVirtualEpoch: VirtualEpoch;
}
