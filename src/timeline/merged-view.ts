// What a promoted partition looks like as one log: log start, high watermark and leader epochs out
// of the copy and the shell topic. Pure: callers bring what the copy and the broker say. Invariant:
// answers never show a hidden native offset, and an epoch's end never lies before the extent that
// it belongs to ends.
import type { NativeEpoch, NativeOffset, VirtualEpoch, VirtualOffset } from './offsets.ts';
import { virtualEpoch, virtualOffset } from './offsets.ts';
import {
  firstNativeOffset,
  type NativeExtent,
  toVirtualBound,
  toVirtualEpoch,
} from './timeline.ts';

/** Answer to "where does this epoch end": -1, -1 when unknown. */
export interface VirtualEpochEnd {
  readonly epoch: VirtualEpoch;
  readonly endOffset: VirtualOffset;
}

export interface NativeEpochEnd {
  readonly epoch: NativeEpoch;
  readonly endOffset: NativeOffset;
}

/** What the copy knows about an epoch (MirrorLog.epochEnd). */
export interface CopyEpochEnd {
  readonly epoch: number;
  readonly endOffset: bigint;
}

/**
 * Whether records from S on have been deleted in the shell (by its retention, or past us). A log
 * has no holes: what lies below a deleted record counts as deleted, and so does the copy. Else a
 * consumer at S would be told that it is out of range, start over with the copy, and come to S
 * again, for ever.
 */
export function isCopyOutlived(extent: NativeExtent, nativeStart: NativeOffset): boolean {
  return nativeStart > firstNativeOffset(extent);
}

/**
 * The copy's start while it holds anything that counts, else where the shell's log starts, never
 * below S. `copyStart` is null when the copy is known to be gone, not when it cannot be read.
 */
export function mergedLogStart(
  extent: NativeExtent,
  starts: { readonly copyStart: VirtualOffset | null; readonly nativeStart: NativeOffset },
): VirtualOffset {
  const { copyStart, nativeStart } = starts;
  const isCopied = copyStart !== null && copyStart < extent.start;
  if (isCopied && !isCopyOutlived(extent, nativeStart)) return copyStart;
  return toVirtualBound(extent, nativeStart);
}

/**
 * OffsetForLeaderEpoch for an epoch before V0: answered from the copy. As a broker does, an epoch
 * before the first known one "ends" where that begins; a copy without any batch has nothing before
 * S.
 */
export function epochEndInCopy(
  extent: NativeExtent,
  epoch: VirtualEpoch,
  copy: CopyEpochEnd,
): VirtualEpochEnd {
  if (epoch < 0) return { epoch: virtualEpoch(-1), endOffset: virtualOffset(-1n) };
  const endOffset = copy.endOffset < 0n ? extent.start : virtualOffset(copy.endOffset);
  return { epoch: copy.epoch < 0 ? epoch : virtualEpoch(copy.epoch), endOffset };
}

/**
 * The broker's answer for an epoch from V0 on (OffsetForLeaderEpoch, and Fetch's DivergingEpoch).
 * An epoch that the broker has from before the splice is one of hidden markers: for clients the
 * last one before V0.
 */
export function epochEndFromNative(extent: NativeExtent, native: NativeEpochEnd): VirtualEpochEnd {
  const epoch = toVirtualEpoch(extent, native.epoch);
  const hidden = native.epoch >= 0 && epoch < extent.firstEpoch;
  return {
    epoch: hidden ? virtualEpoch(extent.firstEpoch - 1) : epoch,
    endOffset: toVirtualBound(extent, native.endOffset),
  };
}
