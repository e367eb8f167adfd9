// What a detach would do, and what stands in its way: history that only the proxy has, groups with
// members, records that were hidden. Owns the arithmetic from virtual to native offsets of commits;
// refuses to change anything but hidden records, when it is asked to. Invariant: what cannot be
// read stands in the way, it never counts as absent.
import {
  createDeleteRecordsPartition,
  createDeleteRecordsRequest,
  createDeleteRecordsTopic,
} from '../../../protocol/generated/delete-records-request.ts';
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { deleteRecordsApi } from '../../cluster/apis.ts';
import type { Cluster, TopicInfo } from '../../cluster/cluster.ts';
import { readTopicConfigs } from '../../cluster/config-requests.ts';
import type { PartitionView } from '../../gateway/topic-directory.ts';
import { readTopicCommits } from '../../tasks/group-shift.ts';
import { firstNativeOffset, type NativeExtent, openNativeExtent } from '../../timeline/timeline.ts';
import { LinkError } from '../link-error.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import { countHidden, type HiddenRange } from '../mirror/shell-measure.ts';
import { policiesOf } from '../mirror/topic-configs.ts';
import { fenceOf } from '../mirror-statuses.ts';
import type { DetachPartition, DetachReport, MovedCommit } from '../service.ts';
import { type Blocking, blocking } from './blocking.ts';

/** The state has them in one record, which must stay well below what a broker takes. */
const commitsMax = 10_000;
const deleteTimeoutMs = 10_000;
const named = 5;

interface Spliced {
  readonly view: PartitionView;
  readonly extent: NativeExtent;
}

/** Partitions that came after the promotion have no timeline, and nothing to be moved. */
function splicedPartitions(topic: MirrorTopic): readonly Spliced[] {
  return topic.partitions.flatMap((view) => {
    const extent = openNativeExtent(view.timeline);
    return extent === null ? [] : [{ view, extent }];
  });
}

/** @throws ClusterError when the destination does not answer; LinkError when it refuses */
export async function lookAtDetach(
  destination: Cluster,
  topic: MirrorTopic,
  options: { readonly dropHistory: boolean },
): Promise<DetachReport> {
  const spliced = splicedPartitions(topic);
  const partitions = spliced.map(({ view, extent }) => shownPartition(view, extent));
  const { commits, live, problems } = await readTopicCommits(destination, new Set([topic.name]));
  const groups = movedCommits(commits, spliced);
  const reasons: Blocking[] = [
    ...fenceOf(topic),
    ...(options.dropHistory ? [] : partitions.flatMap(historyLeft)),
    ...live.map((group) => blocking('GROUP_NOT_EMPTY', `group '${group}' has members`)),
    ...problems.map((problem) => blocking('GROUPS_UNREADABLE', problem)),
    ...(await hiddenForEver(destination, topic)),
  ];
  if (groups.length > commitsMax) {
    const message = `groups have ${groups.length} offsets here; at most ${commitsMax} can be moved`;
    reasons.push(blocking('TOO_MANY_COMMITS', message));
  }
  return { topic: topic.name, isDone: false, partitions, groups, blocking: reasons };
}

function shownPartition(view: PartitionView, extent: NativeExtent): DetachPartition {
  const { log, partition } = view;
  const end: bigint = extent.start;
  const base = { partition, virtualEnd: end, offsetShift: extent.offsetShift };
  if (log === null) return { ...base, historyStart: null, historyBytes: null };
  const { logStart } = log;
  const historyStart = logStart < end ? logStart : end;
  return { ...base, historyStart, historyBytes: historyStart < end ? BigInt(log.sizeBytes) : 0n };
}

function historyLeft({ partition, historyStart, virtualEnd }: DetachPartition): Blocking[] {
  if (historyStart === virtualEnd) return [];
  const what =
    historyStart === null
      ? `the mirror log of partition ${partition} cannot be used`
      : `offsets ${historyStart} to ${virtualEnd} of partition ${partition} are in Causeway only`;
  return [blocking('HISTORY_LEFT', what)];
}

/** An offset below S has nothing to go on from any more: the first that is left is next. */
function movedCommits(
  commits: readonly { group: string; partition: number; offset: bigint }[],
  spliced: readonly Spliced[],
): readonly MovedCommit[] {
  const extents = new Map(spliced.map(({ view, extent }) => [view.partition, extent] as const));
  return commits.flatMap(({ group, partition, offset }) => {
    const extent = extents.get(partition);
    if (extent === undefined) return [];
    const start: bigint = extent.start;
    const newOffset = (offset > start ? offset : start) - extent.offsetShift;
    return newOffset === offset ? [] : [{ group, partition, oldOffset: offset, newOffset }];
  });
}

function hiddenRanges(topic: MirrorTopic): readonly HiddenRange[] {
  return splicedPartitions(topic).flatMap(({ view, extent }) => {
    const end = firstNativeOffset(extent);
    return end > 0n ? [{ partition: view.partition, end }] : [];
  });
}

/** Markers stay hidden by themselves; discarded records would be seen again. */
async function findHidden(destination: Cluster, topic: MirrorTopic) {
  const ranges = hiddenRanges(topic);
  const { topicId, name } = topic;
  if (ranges.length === 0 || topicId === null) return null;
  const info = (await destination.metadata([name])).topics.get(name);
  if (info === undefined || info.errorCode !== ErrorCode.NONE || info.topicId !== topicId) {
    throw new LinkError('DESTINATION_REFUSED', `Topic '${name}' is not there, or another one`);
  }
  const counts = await countHidden(destination, { name, topicId, info }, ranges);
  const withRecords = ranges.filter(({ partition }) => (counts.get(partition) ?? 0) > 0);
  return withRecords.length === 0 ? null : { info, ranges: withRecords };
}

async function hiddenForEver(destination: Cluster, topic: MirrorTopic): Promise<Blocking[]> {
  const hidden = await findHidden(destination, topic);
  if (hidden === null) return [];
  const answers = await readTopicConfigs(destination, [topic.name], ['cleanup.policy']);
  const policy = answers.get(topic.name)?.configs[0]?.value ?? undefined;
  if (policiesOf(policy).includes('delete')) return [];
  const list = hidden.ranges.slice(0, named).map(({ partition }) => partition);
  return [blocking('HIDDEN_RECORDS', `partition ${list.join(', ')} has discarded records`)];
}

/** Deletes discarded records for good. @throws LinkError DESTINATION_REFUSED */
export async function dropHidden(destination: Cluster, topic: MirrorTopic): Promise<void> {
  const hidden = await findHidden(destination, topic);
  for (const range of hidden?.ranges ?? []) {
    if (hidden !== null) await deleteBelow(destination, { info: hidden.info, range });
  }
}

async function deleteBelow(
  destination: Cluster,
  { info, range }: { readonly info: TopicInfo; readonly range: HiddenRange },
): Promise<void> {
  const { partition, end } = range;
  const leader = info.partitions.find((found) => found.partition === partition);
  const response = await destination.send(
    { kind: 'node', nodeId: leader?.leaderId ?? -1 },
    deleteRecordsApi,
    createDeleteRecordsRequest({
      timeoutMs: deleteTimeoutMs,
      topics: [
        createDeleteRecordsTopic({
          name: info.name,
          partitions: [createDeleteRecordsPartition({ partitionIndex: partition, offset: end })],
        }),
      ],
    }),
  );
  const code =
    response.topics[0]?.partitions[0]?.errorCode ?? (ErrorCode.UNKNOWN_SERVER_ERROR as number);
  if (code === ErrorCode.NONE) return;
  const message = `Discarded records of '${info.name}-${partition}' stay: ${errorName(code)}`;
  throw new LinkError('DESTINATION_REFUSED', message);
}
