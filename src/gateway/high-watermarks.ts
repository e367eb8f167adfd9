// High watermarks of promoted partitions as clients were last told them, for answers out of their
// copies. Owns what is known since the start, and asks once for what is not: a restart must not
// make a high watermark go back (R8). Refuses to know fetch requests. Invariant: what is told only
// rises, and never lies below S.
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
  listOffsetsRequestCodec,
} from '../../protocol/generated/list-offsets-request.ts';
import { listOffsetsResponseCodec } from '../../protocol/generated/list-offsets-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { nativeOffset } from '../timeline/offsets.ts';
import { type NativeExtent, toVirtualBound } from '../timeline/timeline.ts';
import type { GatewayServices, SessionView } from './handler.ts';
import { apiOf } from './messages.ts';
import type { TopicView } from './topic-directory.ts';

const latestTimestamp = -1n;
/** Later versions may wait for the answer. */
const listOffsetsVersionMax = 9;

const listOffsetsApi = apiOf(listOffsetsRequestCodec, listOffsetsResponseCodec);

/** Last virtual high watermarks of promoted partitions, for answers out of their copies. */
const highWatermarks = new WeakMap<GatewayServices, Map<string, bigint>>();

export function noteHighWatermark(
  services: GatewayServices,
  topicId: string,
  partition: number,
  highWatermark: bigint,
): void {
  if (highWatermark < 0n) return;
  let known = highWatermarks.get(services);
  if (known === undefined) {
    known = new Map();
    highWatermarks.set(services, known);
  }
  const key = `${topicId}/${partition}`;
  if (highWatermark > (known.get(key) ?? -1n)) known.set(key, highWatermark);
}

/** Never below S (splice-facts, "Bytes"). */
export function knownHighWatermark(
  services: GatewayServices,
  topicId: string | null,
  partition: number,
  extent: NativeExtent,
): bigint {
  const known = highWatermarks.get(services)?.get(`${topicId}/${partition}`) ?? -1n;
  return known > extent.start ? known : extent.start;
}

export interface CopiedPartition {
  readonly view: TopicView;
  readonly partition: number;
  readonly native: NativeExtent;
}

/**
 * Asks the broker behind the session for what nothing is known of yet. A broker that does not lead
 * the partition, or does not answer, leaves it unknown: S is told then. Returns for how many
 * milliseconds the client is throttled by that.
 */
export async function learnHighWatermarks(
  session: SessionView,
  copied: readonly CopiedPartition[],
): Promise<number> {
  const known = highWatermarks.get(session.services);
  const unknown = new Map<string, CopiedPartition>();
  const topics = new Map<string, number[]>();
  for (const one of copied) {
    const { view, partition } = one;
    if (view.topicId === null || known?.has(`${view.topicId}/${partition}`)) continue;
    unknown.set(`${view.name}/${partition}`, one);
    topics.set(view.name, [...(topics.get(view.name) ?? []), partition]);
  }
  if (unknown.size === 0) return 0;
  const request = createListOffsetsRequest({
    replicaId: -1,
    topics: [...topics].map(([name, partitions]) =>
      createListOffsetsTopic({
        name,
        partitions: partitions.map((partitionIndex) =>
          createListOffsetsPartition({ partitionIndex, timestamp: latestTimestamp }),
        ),
      }),
    ),
  });
  try {
    const options = { versionMax: listOffsetsVersionMax };
    const response = await session.callUpstream(listOffsetsApi, request, options);
    for (const { name, partitions } of response.topics) {
      for (const { partitionIndex, errorCode, offset } of partitions) {
        const asked = unknown.get(`${name}/${partitionIndex}`);
        const topicId = asked?.view.topicId;
        if (asked === undefined || topicId == null || errorCode !== ErrorCode.NONE) continue;
        const highWatermark = toVirtualBound(asked.native, nativeOffset(offset));
        noteHighWatermark(session.services, topicId, partitionIndex, highWatermark);
      }
    }
    return response.throttleTimeMs;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return 0;
  }
}
