// Offsets and epochs of promoted partitions in what passes a virtual broker: native to virtual in
// answers, on the received bytes and without changing a length; virtual to native in requests.
// Refuses to know sockets and copies. Invariants: no native offset of a promoted partition leaves
// here unshifted; a partition whose standing no longer allows the broker's answer is answered
// retriably instead (fail closed).

import { FetchStream } from '../../protocol/fetch-stream.ts';
import {
  FetchWalk,
  type PartitionStart,
  type PartitionTags,
  type PartitionVisitor,
  type VisitPartition,
} from '../../protocol/fetch-walk.ts';
import type { FetchPartition } from '../../protocol/generated/fetch-request.ts';
import {
  decodeFetchResponse,
  type FetchResponse,
  fetchResponseCodec,
} from '../../protocol/generated/fetch-response.ts';
import {
  ApiKey,
  decodeResponseHeader,
  ErrorCode,
  forEachBatch,
  patchBatch,
  Reader,
  Writer,
} from '../../protocol/index.ts';
import { epochEndFromNative } from '../timeline/merged-view.ts';
import {
  type NativeOffset,
  nativeEpoch,
  nativeOffset,
  type VirtualOffset,
  virtualEpoch,
  virtualOffset,
} from '../timeline/offsets.ts';
import {
  lastFetchedEpochToNative,
  type NativeExtent,
  toNativeEpoch,
  toNativeOffset,
  toVirtualBound,
  toVirtualEpoch,
} from '../timeline/timeline.ts';
import { completeHints, fetchKey, refusal, setLeader } from './fetch-answers.ts';
import type { GatewayServices, ResponsePatch } from './handler.ts';
import { framed } from './messages.ts';
import { advertiseNodes, type LeaderHint } from './node-endpoints.ts';
import { noteBounds, type ShellBounds } from './shell-facts.ts';
import { promotedStart } from './shell-starts.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from './topic-standing.ts';

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
  /** Partitions whose answer must not reach the client, by `fetchKey`. */
  readonly replaced: ReadonlyMap<string, Replaced>;
  readonly nodeEndpoints: number;
}

/** What becomes of a broker's answer for one partition; null: it stays as it is. */
export type AnswerPlace =
  | { readonly kind: 'shifted'; readonly shift: PartitionShift }
  | { readonly kind: 'replaced'; readonly instead: Replaced };

interface AnsweredPartition {
  readonly topicName: string;
  readonly topicId: string | undefined;
  readonly partition: number;
}

export function answerPlace(
  services: GatewayServices,
  answered: AnsweredPartition,
): AnswerPlace | null {
  const { topicName, topicId, partition: index } = answered;
  const topic = { name: topicName, ...(topicId === undefined ? {} : { topicId }) };
  const standing = topicStanding(services.directory, topic);
  if (standing.kind === 'ordinary') return null;
  const view = standing.kind === 'known' ? standing.view : undefined;
  const place = view?.partition(index);
  // A partition that was added after the promotion is the shell's own, unshifted.
  if (view !== undefined && !isMirrored(view) && place === undefined) return null;
  const extent = view === undefined || isMirrored(view) ? undefined : openNativeExtent(place);
  if (extent !== undefined && place !== undefined) {
    const shell = { topicId: view?.topicId ?? null, partition: index, native: extent };
    return {
      kind: 'shifted',
      shift: new PartitionShift(extent, {
        startOf: (nativeStart) => promotedStart(services, shell, place, nativeStart),
        onBounds: (bounds) => noteBounds(services, shell, bounds),
      }),
    };
  }
  const isMirror = view !== undefined && isMirrored(view);
  const hint = isMirror
    ? { leaderId: services.linkNodeId, leaderEpoch: mirrorLeaderEpoch(view, index) }
    : undefined;
  return { kind: 'replaced', instead: { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER, hint } };
}

/** Patches the frame in place; what cannot be done in place is said in the result. */
export function shiftFrame(
  services: GatewayServices,
  frame: Buffer,
  bodyOffset: number,
  version: number,
): ShiftedFrame {
  const replaced = new Map<string, Replaced>();
  const visit = shifting(services, (start, instead) => {
    const topic = { topic: start.topicName, topicId: start.topicId ?? '' };
    replaced.set(fetchKey(topic, start.partition), instead);
  });
  const walk = new FetchWalk(version, visit);
  walk.walkBody(frame, bodyOffset);
  return { replaced, nodeEndpoints: walk.nodeEndpoints };
}

/** Patches what is shown; `onReplaced` is told which answers must not reach the client. */
function shifting(
  services: GatewayServices,
  onReplaced: (start: PartitionStart, instead: Replaced) => void,
): VisitPartition {
  return (bytes, start) => {
    const place = answerPlace(services, start);
    if (place === null) return null;
    if (place.kind === 'replaced') {
      onReplaced(start, place.instead);
      return null;
    }
    place.shift.offsets(bytes, start);
    return place.shift;
  };
}

interface OffsetsAt {
  readonly highWatermarkAt: number;
  readonly lastStableOffsetAt: number;
  readonly logStartOffsetAt: number;
}

interface ShiftedBounds {
  /** The log start that the client is told. */
  startOf(nativeStart: NativeOffset): VirtualOffset;
  onBounds(bounds: ShellBounds): void;
}

/** Patches one partition's answer, whole or piece by piece as it comes. */
export class PartitionShift implements PartitionVisitor {
  readonly extent: NativeExtent;
  readonly #bounds: ShiftedBounds;

  constructor(extent: NativeExtent, bounds: ShiftedBounds) {
    this.extent = extent;
    this.#bounds = bounds;
  }

  offsets(bytes: Buffer, at: OffsetsAt): void {
    this.#bounds.onBounds({
      highWatermark: this.#bound(bytes, at.highWatermarkAt),
      lastStableOffset: this.#bound(bytes, at.lastStableOffsetAt),
    });
    if (at.logStartOffsetAt < 0) return;
    const nativeStart = nativeOffset(bytes.readBigInt64BE(at.logStartOffsetAt));
    if (nativeStart < 0n) return;
    bytes.writeBigInt64BE(this.#bounds.startOf(nativeStart), at.logStartOffsetAt);
  }

  abortedFirstOffset(bytes: Buffer, at: number): void {
    const first = bytes.readBigInt64BE(at);
    if (first >= 0n) bytes.writeBigInt64BE(first + this.extent.offsetShift, at);
  }

  batch(head: Buffer): void {
    patchBatch(head, 0, this.extent);
  }

  tags(bytes: Buffer, { currentLeaderAt, divergingEpochAt }: PartitionTags): void {
    if (currentLeaderAt >= 0) {
      const epochAt = currentLeaderAt + 4;
      const epoch = nativeEpoch(bytes.readInt32BE(epochAt));
      bytes.writeInt32BE(toVirtualEpoch(this.extent, epoch), epochAt);
    }
    if (divergingEpochAt >= 0) shiftDivergence(bytes, divergingEpochAt, this.extent);
  }

  /** Returns the virtual offset (or a sentinel). */
  #bound(bytes: Buffer, at: number): bigint {
    const bound = toVirtualBound(this.extent, nativeOffset(bytes.readBigInt64BE(at)));
    bytes.writeBigInt64BE(bound, at);
    return bound;
  }
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

/**
 * For a response that is too large to be held. Where a partition's answer must not reach the client
 * any more it ends in the middle: its length is known to the client by then.
 */
export function shiftPassing(services: GatewayServices, version: number): ResponsePatch {
  const visit = shifting(services, ({ topicName, topicId }) => {
    const topic = topicName || topicId;
    throw new Error(`the standing of ${topic} changed while records of it were passing`);
  });
  return new FetchStream(version, visit);
}

/** A whole response on its way to the client, sent as it is but for what had to change. */
export function rewriteFetchFrame(
  services: GatewayServices,
  frame: Buffer,
  version: number,
): readonly Buffer[] | Promise<readonly Buffer[]> {
  const reader = new Reader(frame);
  decodeResponseHeader(reader, ApiKey.Fetch, version);
  const bodyOffset = reader.offset;
  const { replaced, nodeEndpoints } = shiftFrame(services, frame, bodyOffset, version);
  if (replaced.size === 0 && nodeEndpoints === 0) return framed(frame, []);
  const response = decodeFetchResponse(reader, version);
  replacePartitions(response, replaced, version);
  const encode = (): readonly Buffer[] => {
    completeHints(services, response, version);
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
    topic.partitions = topic.partitions.map((data) => {
      const instead = replaced.get(fetchKey(topic, data.partitionIndex));
      if (instead === undefined) return data;
      return setLeader(refusal(data.partitionIndex, instead.errorCode), instead.hint, version);
    });
  }
}
