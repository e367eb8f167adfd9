// Fetches that we send to the broker of a shell in our own name: its part of a merged answer, and
// the question behind a read of a copy. Owns what of that comes back in virtual offsets; refuses to
// know copies. Invariants: no endpoint of a broker comes back unmapped; what a client names as the
// leader epoch is the broker's to judge, once for each epoch.
import {
  createFetchRequest,
  createFetchTopic,
  type FetchPartition,
  type FetchRequest,
  type FetchTopic,
  fetchRequestCodec,
} from '../../protocol/generated/fetch-request.ts';
import {
  type FetchResponse,
  fetchResponseCodec,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { type Api, ClusterError } from '../cluster/cluster.ts';
import { fetchKey } from './fetch-answers.ts';
import { partitionToNative, replacePartitions, shiftFrame } from './fetch-shift.ts';
import type { SessionView } from './handler.ts';
import { advertiseNodes } from './node-endpoints.ts';
import { confirmedEpoch, hasHighWatermark, noteEpoch, type ShellPlace } from './shell-facts.ts';

/** As the client, in native offsets; the answer comes in virtual ones, with our endpoints. */
export async function fetchShells(
  session: SessionView,
  version: number,
  request: FetchRequest,
): Promise<FetchResponse> {
  const response = await session.callUpstream(shiftedFetchApi(session, version), request);
  await advertiseNodes(session.services, response.nodeEndpoints);
  return response;
}

function shiftedFetchApi(session: SessionView, version: number): Api<FetchRequest, FetchResponse> {
  return {
    key: 1,
    name: 'Fetch',
    versionMin: version,
    versionMax: version,
    encode: fetchRequestCodec.encode,
    decode: (reader, chosen) => {
      const start = reader.offset;
      const frame = reader.buffer.subarray(0, reader.end);
      const { replaced } = shiftFrame(session.services, frame, start, chosen);
      const response = fetchResponseCodec.decode(reader, chosen);
      replacePartitions(response, replaced, chosen);
      return response;
    },
  };
}

/** A partition that is to be read from its copy. */
export interface CopyAsked {
  readonly topic: FetchTopic;
  readonly partition: FetchPartition;
  readonly shell: ShellPlace;
}

/**
 * Asks about the shells of copies, where no high watermark is known yet, or the client names a
 * leader epoch that no broker has confirmed: one fetch at S. That a follower answers as well. A
 * broker that has no replica, or is gone, changes nothing. Returns what clients have to hear
 * instead of their copies (74, 75), by `fetchKey`.
 */
export async function askShells(
  session: SessionView,
  version: number,
  copies: readonly CopyAsked[],
): Promise<ReadonlyMap<string, PartitionData>> {
  const { services } = session;
  const asked = new Map<string, CopyAsked>();
  const topics = new Map<FetchTopic, FetchPartition[]>();
  for (const copy of copies) {
    const { topic, partition, shell } = copy;
    const isConfirmed = partition.currentLeaderEpoch <= confirmedEpoch(services, shell);
    if (shell.topicId === null || (isConfirmed && hasHighWatermark(services, shell))) continue;
    asked.set(fetchKey(topic, partition.partition), copy);
    const question = { ...partition, lastFetchedEpoch: -1, partitionMaxBytes: 1 };
    const { native } = shell;
    const partitions = topics.get(topic) ?? [];
    partitions.push(partitionToNative(native, question, native.start));
    topics.set(topic, partitions);
  }
  const refused = new Map<string, PartitionData>();
  if (asked.size === 0) return refused;
  const request = createFetchRequest({
    replicaId: -1,
    maxBytes: 1,
    sessionEpoch: -1,
    topics: [...topics].map(([topic, partitions]) => createFetchTopic({ ...topic, partitions })),
  });
  try {
    const { responses } = await fetchShells(session, version, request);
    for (const topic of responses) {
      for (const data of topic.partitions) {
        const key = fetchKey(topic, data.partitionIndex);
        const copy = asked.get(key);
        if (isEpochRefusal(data.errorCode)) refused.set(key, data);
        else if (copy !== undefined && data.errorCode === ErrorCode.NONE) {
          noteEpoch(services, copy.shell, copy.partition.currentLeaderEpoch);
        }
      }
    }
    return refused;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return refused;
  }
}

function isEpochRefusal(errorCode: number): boolean {
  return (
    errorCode === ErrorCode.FENCED_LEADER_EPOCH || errorCode === ErrorCode.UNKNOWN_LEADER_EPOCH
  );
}
