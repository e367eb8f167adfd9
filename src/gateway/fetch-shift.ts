// Offsets and epochs of promoted partitions in what passes a virtual broker: native to virtual in
// answers, on the received bytes and without changing a length; virtual to native in requests.
// Refuses to know sockets and copies. Invariants: no native offset of a promoted partition leaves
// here unshifted; a partition whose standing no longer allows the broker's answer is answered
// retriably instead (fail closed).

import { type ScannedPartition, scanFetchResponse } from '../../protocol/fetch-scanner.ts';
import type { FetchPartition } from '../../protocol/generated/fetch-request.ts';
import {
  decodeFetchResponse,
  type FetchResponse,
  fetchResponseCodec,
} from '../../protocol/generated/fetch-response.ts';
import {
  decodeResponseHeader,
  ErrorCode,
  forEachBatch,
  patchBatch,
  Reader,
  Writer,
} from '../../protocol/index.ts';
import { epochEndFromNative, mergedLogStart } from '../timeline/merged-view.ts';
import { nativeEpoch, nativeOffset, virtualEpoch, virtualOffset } from '../timeline/offsets.ts';
import {
  lastFetchedEpochToNative,
  type NativeExtent,
  toNativeEpoch,
  toNativeOffset,
  toVirtualBound,
  toVirtualEpoch,
} from '../timeline/timeline.ts';
import { partitionKey, refusal, setLeader } from './fetch-answers.ts';
import type { GatewayServices } from './handler.ts';
import { noteHighWatermark } from './high-watermarks.ts';
import { framed } from './messages.ts';
import { advertiseNodes, type LeaderHint } from './node-endpoints.ts';
import type { PartitionView } from './topic-directory.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from './topic-standing.ts';

const fetchKey = 1;

/** The same fetch as the shell's broker understands it. The offset must lie in the extent. */
export function partitionToNative(
  extent: NativeExtent,
  partition: FetchPartition,
  offset: bigint = partition.fetchOffset,
): FetchPartition {
  const { currentLeaderEpoch, lastFetchedEpoch } = partition;
  return {
    ...partition,
    fetchOffset: toNativeOffset(extent, virtualOffset(offset)),
    currentLeaderEpoch: toNativeEpoch(extent, virtualEpoch(currentLeaderEpoch)),
    lastFetchedEpoch: lastFetchedEpochToNative(extent, virtualEpoch(lastFetchedEpoch)),
  };
}

export interface Replaced {
  readonly errorCode: number;
  readonly hint: LeaderHint | undefined;
}

export interface ShiftedFrame {
  /** Partitions whose answer must not reach the client, by `partitionKey`. */
  readonly replaced: ReadonlyMap<string, Replaced>;
  readonly nodeEndpoints: number;
}

/** Patches the frame in place; what cannot be done in place is said in the result. */
export function shiftFrame(
  services: GatewayServices,
  frame: Buffer,
  bodyOffset: number,
  version: number,
): ShiftedFrame {
  const replaced = new Map<string, Replaced>();
  const { nodeEndpoints } = scanFetchResponse(frame, bodyOffset, version, (scanned) => {
    const topic = { name: scanned.topicName, ...idOf(scanned) };
    const standing = topicStanding(services.directory, topic);
    if (standing.kind === 'ordinary') return;
    const index = scanned.partition;
    const view = standing.kind === 'known' ? standing.view : undefined;
    const place = view?.partition(index);
    // A partition that was added after the promotion is the shell's own, unshifted.
    if (view !== undefined && !isMirrored(view) && place === undefined) return;
    const extent = view === undefined || isMirrored(view) ? undefined : openNativeExtent(place);
    if (extent !== undefined && place !== undefined) {
      const highWatermark = shiftPartition(frame, scanned, extent, place);
      if (view?.topicId != null) noteHighWatermark(services, view.topicId, index, highWatermark);
      return;
    }
    const isMirror = view !== undefined && isMirrored(view);
    replaced.set(
      partitionKey({ topic: scanned.topicName, topicId: scanned.topicId ?? '' }, index),
      {
        errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        hint: isMirror
          ? { leaderId: services.linkNodeId, leaderEpoch: mirrorLeaderEpoch(view, index) }
          : undefined,
      },
    );
  });
  return { replaced, nodeEndpoints };
}

function idOf(scanned: ScannedPartition): { topicId?: string } {
  return scanned.topicId === undefined ? {} : { topicId: scanned.topicId };
}

/** Returns the virtual high watermark (or a sentinel). */
function shiftPartition(
  frame: Buffer,
  scanned: ScannedPartition,
  extent: NativeExtent,
  place: PartitionView,
): bigint {
  const boundAt = (position: number): bigint => {
    const native = nativeOffset(frame.readBigInt64BE(position));
    const bound = toVirtualBound(extent, native);
    frame.writeBigInt64BE(bound, position);
    return bound;
  };
  const highWatermark = boundAt(scanned.highWatermarkAt);
  boundAt(scanned.lastStableOffsetAt);
  if (scanned.logStartOffsetAt >= 0) {
    const nativeStart = nativeOffset(frame.readBigInt64BE(scanned.logStartOffsetAt));
    if (nativeStart >= 0n) {
      const start = mergedLogStart(extent, { copyStart: copyStart(place), nativeStart });
      frame.writeBigInt64BE(start, scanned.logStartOffsetAt);
    }
  }
  for (const position of scanned.abortedFirstOffsetsAt) {
    const first = frame.readBigInt64BE(position);
    if (first >= 0n) frame.writeBigInt64BE(first + extent.offsetShift, position);
  }
  if (scanned.currentLeaderAt >= 0) {
    const epochAt = scanned.currentLeaderAt + 4;
    const epoch = nativeEpoch(frame.readInt32BE(epochAt));
    frame.writeInt32BE(toVirtualEpoch(extent, epoch), epochAt);
  }
  if (scanned.divergingEpochAt >= 0) shiftDivergence(frame, scanned.divergingEpochAt, extent);
  shiftRecords(frame.subarray(scanned.recordsStart, scanned.recordsEnd), extent);
  return highWatermark;
}

/**
 * The copy's start as long as there is one; a copy that cannot be read keeps the start it was made
 * with.
 */
export function copyStart(place: PartitionView) {
  const first = place.timeline.extents[0];
  if (first?.where !== 'mirror') return null;
  return place.log === null ? first.start : virtualOffset(place.log.logStart);
}

function shiftDivergence(frame: Buffer, position: number, extent: NativeExtent): void {
  const { epoch, endOffset } = epochEndFromNative(extent, {
    epoch: nativeEpoch(frame.readInt32BE(position)),
    endOffset: nativeOffset(frame.readBigInt64BE(position + 4)),
  });
  frame.writeInt32BE(epoch, position);
  frame.writeBigInt64BE(endOffset, position + 4);
}

export function shiftRecords(records: Buffer, extent: NativeExtent): void {
  const { offsetShift, epochShift } = extent;
  const covered = forEachBatch(records, (_header, position) => {
    patchBatch(records, position, { offsetShift, epochShift });
  });
  // The last batch of an answer may be cut: what of its header is there is shifted too.
  if (covered < records.length) patchBatch(records, covered, { offsetShift, epochShift });
}

/** A whole response on its way to the client, sent as it is but for what had to change. */
export function rewriteFetchFrame(
  services: GatewayServices,
  frame: Buffer,
  version: number,
): readonly Buffer[] | Promise<readonly Buffer[]> {
  const reader = new Reader(frame);
  decodeResponseHeader(reader, fetchKey, version);
  const bodyOffset = reader.offset;
  const { replaced, nodeEndpoints } = shiftFrame(services, frame, bodyOffset, version);
  if (replaced.size === 0 && nodeEndpoints === 0) return framed(frame, []);
  const response = decodeFetchResponse(reader, version);
  replacePartitions(response, replaced, version);
  const encode = (): readonly Buffer[] => {
    const writer = new Writer();
    fetchResponseCodec.encode(writer, response, version);
    return framed(frame.subarray(0, bodyOffset), writer.toChunks());
  };
  if (nodeEndpoints === 0) return encode();
  return advertiseNodes(services, response.nodeEndpoints).then(encode);
}

export function replacePartitions(
  response: FetchResponse,
  replaced: ReadonlyMap<string, Replaced>,
  version: number,
): void {
  if (replaced.size === 0) return;
  for (const topic of response.responses) {
    const key = { topic: topic.topic, topicId: version >= 13 ? topic.topicId : '' };
    topic.partitions = topic.partitions.map((data) => {
      const instead = replaced.get(partitionKey(key, data.partitionIndex));
      if (instead === undefined) return data;
      return setLeader(refusal(data.partitionIndex, instead.errorCode), instead.hint, version);
    });
  }
}
