// Where promoted partitions start: with their copies, or with their shells once those have outlived
// them (merged-view.ts). Owns the question to the brokers of shells; refuses to know who deletes
// copies. Invariant: what a broker says of a start is kept (shell-facts.ts) whoever asked.
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  listOffsetsRequestCodec,
} from '../../protocol/generated/list-offsets-request.ts';
import { listOffsetsResponseCodec } from '../../protocol/generated/list-offsets-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import { mergedLogStart } from '../timeline/merged-view.ts';
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
import { noteShellStart, type ShellPlace } from './shell-facts.ts';
import type { PartitionView } from './topic-directory.ts';

const earliestTimestamp = -2n;
/** Later versions may wait for the answer. */
const listOffsetsVersionMax = 9;

const listOffsetsApi = apiOf(listOffsetsRequestCodec, listOffsetsResponseCodec);

/** Whether a promoted partition has a copy of which anything is left, or may be. */
export function hasCopy({ timeline, log }: PartitionView, native: NativeExtent): boolean {
  if (timeline.extents[0]?.where !== 'mirror') return false;
  return log === null || log.logStart < native.start;
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

export interface StartAsked extends ShellPlace {
  readonly topic: string;
  /** Virtual; not below V0. */
  readonly currentLeaderEpoch: number;
}

export interface ToldStart {
  readonly errorCode: number;
  readonly offset: NativeOffset;
}

/** Asks the broker behind the session, as the client. By `partitionKey`. */
export async function askShellStarts(
  session: SessionView,
  asked: readonly StartAsked[],
): Promise<ReadonlyMap<string, ToldStart>> {
  const starts = new Map<string, ToldStart>();
  if (asked.length === 0) return starts;
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
      starts.set(partitionKey(name, partitionIndex), { errorCode, offset: start });
      const place = topics.get(name)?.find(({ partition }) => partition === partitionIndex);
      if (place !== undefined && errorCode === ErrorCode.NONE)
        noteShellStart(session.services, place, start);
    }
  }
  return starts;
}
