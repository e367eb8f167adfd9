// Where the shells of promoted topics start, as their brokers say it, as far as it puts an end to a
// copy: once records from S on are deleted, those below are too (merged-view.ts). Owns what was
// last told, and the question of it; refuses to know who deletes the copies. Invariant: only a
// start beyond n is kept, and each later word of a broker replaces it.
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  listOffsetsRequestCodec,
} from '../../protocol/generated/list-offsets-request.ts';
import { listOffsetsResponseCodec } from '../../protocol/generated/list-offsets-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { isCopyOutlived, mergedLogStart } from '../timeline/merged-view.ts';
import {
  type NativeOffset,
  nativeOffset,
  type VirtualOffset,
  virtualEpoch,
  virtualOffset,
} from '../timeline/offsets.ts';
import { type NativeExtent, toNativeEpoch } from '../timeline/timeline.ts';
import type { GatewayServices, SessionView } from './handler.ts';
import { apiOf } from './messages.ts';
import type { PartitionView } from './topic-directory.ts';

const earliestTimestamp = -2n;
/** Later versions may wait for the answer. */
const listOffsetsVersionMax = 9;

const listOffsetsApi = apiOf(listOffsetsRequestCodec, listOffsetsResponseCodec);

const outlived = new WeakMap<GatewayServices, Map<string, NativeOffset>>();

/** Whether a promoted partition has a copy of which anything is left, or may be. */
export function hasCopy({ timeline, log }: PartitionView, native: NativeExtent): boolean {
  if (timeline.extents[0]?.where !== 'mirror') return false;
  return log === null || log.logStart < native.start;
}

export interface ShellPlace {
  readonly topicId: string | null;
  readonly partition: number;
  readonly native: NativeExtent;
}

function noteShellStart(
  services: GatewayServices,
  { topicId, partition, native }: ShellPlace,
  nativeStart: NativeOffset,
): void {
  if (topicId === null || nativeStart < 0n) return;
  const key = `${topicId}/${partition}`;
  let known = outlived.get(services);
  if (!isCopyOutlived(native, nativeStart)) {
    known?.delete(key);
    return;
  }
  if (known === undefined) {
    known = new Map();
    outlived.set(services, known);
  }
  known.set(key, nativeStart);
}

/**
 * Where a promoted partition starts, when its broker tells where the shell does (or -1). A copy
 * that cannot be read keeps the start that it was made with.
 */
export function promotedStart(
  services: GatewayServices,
  place: ShellPlace,
  view: PartitionView,
  nativeStart: NativeOffset,
): VirtualOffset {
  const { native } = place;
  if (!hasCopy(view, native)) return mergedLogStart(native, { copyStart: null, nativeStart });
  noteShellStart(services, place, nativeStart);
  const copyStart = virtualOffset(view.log?.logStart ?? view.timeline.extents[0]?.start ?? -1n);
  return mergedLogStart(native, { copyStart, nativeStart });
}

/** Where the shell starts when the copy counts as deleted by that, else null. */
export function outlivedBy(services: GatewayServices, place: ShellPlace): NativeOffset | null {
  return outlived.get(services)?.get(`${place.topicId}/${place.partition}`) ?? null;
}

export interface StartAsked extends ShellPlace {
  readonly topic: string;
  /** Virtual; not below V0. */
  readonly currentLeaderEpoch: number;
}

export interface ToldStart {
  readonly errorCode: number;
  readonly offset: NativeOffset;
}

export interface ToldStarts {
  /** By `PARTITION/TOPIC`. */
  readonly starts: ReadonlyMap<string, ToldStart>;
  readonly throttleTimeMs: number;
}

/** Asks the broker behind the session, as the client. */
export async function askShellStarts(
  session: SessionView,
  asked: readonly StartAsked[],
): Promise<ToldStarts> {
  const starts = new Map<string, ToldStart>();
  if (asked.length === 0) return { starts, throttleTimeMs: 0 };
  const topics = new Map<string, StartAsked[]>();
  for (const one of asked) topics.set(one.topic, [...(topics.get(one.topic) ?? []), one]);
  const request = createListOffsetsRequest({
    replicaId: -1,
    topics: [...topics].map(([name, members]) =>
      createListOffsetsTopic({
        name,
        partitions: members.map(({ partition, native, currentLeaderEpoch }) =>
          createListOffsetsPartition({
            partitionIndex: partition,
            currentLeaderEpoch: toNativeEpoch(native, virtualEpoch(currentLeaderEpoch)),
            timestamp: earliestTimestamp,
          }),
        ),
      }),
    ),
  });
  const options = { versionMax: listOffsetsVersionMax };
  const response = await session.callUpstream(listOffsetsApi, request, options);
  for (const { name, partitions } of response.topics) {
    for (const { partitionIndex, errorCode, offset } of partitions) {
      const start = nativeOffset(offset);
      starts.set(`${partitionIndex}/${name}`, { errorCode, offset: start });
      const place = topics.get(name)?.find(({ partition }) => partition === partitionIndex);
      if (place !== undefined && errorCode === ErrorCode.NONE)
        noteShellStart(session.services, place, start);
    }
  }
  return { starts, throttleTimeMs: response.throttleTimeMs };
}
