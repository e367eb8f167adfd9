// What promotion and failover have in common: measuring a topic for the splice, the ABORT batches
// for transactions open at its end, and the record after the switch. Refuses to know when a switch
// is right. Invariants: the first epoch of the new extent lies above every epoch that was stored or
// advertised; ABORT batches are appended only under a hold, at offsets that a durable record can
// cut back to.
import { buildControlBatch } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { MirrorLog, OpenTransaction } from '../../../storage/mirror-log.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { PartitionView } from '../../gateway/topic-directory.ts';
import type { TopicRecord } from '../../state/records.ts';
import { nativeEpoch, nativeOffset, virtualEpoch, virtualOffset } from '../../timeline/offsets.ts';
import { lastExtent, nextEpoch, splice } from '../../timeline/timeline.ts';
import { LinkError } from '../link-error.ts';
import { forEachLimited } from '../signal.ts';
import type { MirrorTopic } from './mirror-topics.ts';
import { measureShells, type ShellPartition, type WrittenShells } from './shell-measure.ts';

const flushesInFlight = 64;

export interface SwitchPartition {
  readonly view: PartitionView;
  /** Null: it is lost, and that is accepted. */
  readonly log: MirrorLog | null;
  readonly shell: ShellPartition;
  /** End of what came from the source and is here. */
  readonly mirroredEnd: bigint;
  /** The same, but of a lost copy: where the topic goes on. */
  readonly end: bigint;
  readonly open: readonly OpenTransaction[];
  /** Transactions open at `mirroredEnd`: `open`, and those that an interrupted failover ended. */
  readonly openCount: number;
  /** Highest epoch stored or advertised, ABORT batches left out. */
  readonly lastEpoch: number;
}

export interface SwitchTopic {
  readonly record: TopicRecord;
  readonly partitions: readonly SwitchPartition[];
}

export interface Measured {
  readonly ready: readonly SwitchTopic[];
  readonly refused: ReadonlyMap<string, LinkError>;
}

/** Where partitions end whose copy is lost, by topic and partition: only where that is accepted. */
export type LostEnds = ReadonlyMap<string, bigint>;

export interface MeasureSwitchOptions {
  readonly flush: boolean;
  readonly written: WrittenShells;
  readonly lost?: LostEnds;
  /** By topic: where it goes on, if that is not its own shell. */
  readonly shells?: ReadonlyMap<string, { readonly name: string; readonly topicId: string }>;
}

/**
 * Nobody knows which epochs a lost copy had: far above what is likely, so that none goes back.
 */
const epochsOfLostCopy = 1_000_000;

/** @throws LinkError STORAGE_ERROR naming the partition */
function usableLogs(topic: MirrorTopic, lost: LostEnds): readonly MirrorLog[] {
  return topic.partitions.flatMap(({ partition, log }) => {
    if (log !== null) return [log];
    if (lost.has(partitionKey(topic.name, partition))) return [];
    throw new LinkError(
      'STORAGE_ERROR',
      `The mirror log of '${topic.name}-${partition}' cannot be used, so its end is not known. ` +
        'See the log of Causeway; to give up what is in it: failover --accept-loss',
    );
  });
}

/**
 * Flushes (not for a dry run) and measures topics whose fetching has stopped.
 * @throws ClusterError when the destination does not answer
 */
export async function measureSwitch(
  destination: Cluster,
  topics: readonly MirrorTopic[],
  options: MeasureSwitchOptions,
): Promise<Measured> {
  const { lost = new Map() } = options;
  const refused = new Map<string, LinkError>();
  const usable: { topic: MirrorTopic; logs: readonly MirrorLog[] }[] = [];
  for (const topic of topics) {
    try {
      usable.push({ topic, logs: usableLogs(topic, lost) });
    } catch (error) {
      if (!(error instanceof LinkError)) throw error;
      refused.set(topic.name, error);
    }
  }
  if (options.flush) {
    await forEachLimited(usable, flushesInFlight, async ({ topic, logs }) => {
      const error = await flushAll(logs);
      if (error !== null) refused.set(topic.name, error);
    });
  }
  const shellOf = ({ name, record }: MirrorTopic) =>
    options.shells?.get(name) ?? { name, topicId: record.topicId ?? '' };
  const shells = usable
    .filter(({ topic }) => !refused.has(topic.name))
    .map(({ topic }) => ({ ...shellOf(topic), partitionsCount: topic.partitions.length }));
  const measures = await measureShells(destination, shells, { written: options.written });
  const ready: SwitchTopic[] = [];
  for (const { topic } of usable) {
    const measure = measures.get(shellOf(topic).name);
    if (measure?.kind === 'measured') ready.push(switchTopic(topic, measure.partitions, lost));
    else if (measure !== undefined) refused.set(topic.name, measure.error);
  }
  return { ready, refused };
}

async function flushAll(logs: readonly MirrorLog[]): Promise<LinkError | null> {
  try {
    await Promise.all(logs.map((log) => log.flush()));
    return null;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return new LinkError('STORAGE_ERROR', error.message, { cause: error });
  }
}

function switchTopic(
  topic: MirrorTopic,
  shells: readonly ShellPartition[],
  lost: LostEnds,
): SwitchTopic {
  const partitions = topic.partitions.flatMap((view): SwitchPartition[] => {
    const shell = shells[view.partition];
    const { log } = view;
    if (shell === undefined) return [];
    if (log === null) {
      const end = lost.get(partitionKey(topic.name, view.partition));
      return end === undefined ? [] : [lostPartition(view, shell, end)];
    }
    return [measuredPartition({ view, log, shell }, topic.record)];
  });
  return { record: topic.record, partitions };
}

/**
 * ABORT batches of a failover that was interrupted and is not undone yet are not of the source:
 * each has one offset from the cut on, and has ended one transaction.
 */
function measuredPartition(
  found: { view: PartitionView; log: MirrorLog; shell: ShellPartition },
  { stopping }: TopicRecord,
): SwitchPartition {
  const { view, log } = found;
  const cuts = stopping?.command === 'failover' ? stopping.cuts : [];
  const cut = cuts.find(({ partition }) => partition === view.partition)?.offset ?? log.end;
  const isLeftOver = log.end > cut;
  const mirroredEnd = isLeftOver ? cut : log.end;
  const open = log.openTransactions();
  const storedEpoch = isLeftOver ? log.visibleEpoch : log.lastEpoch;
  return {
    ...found,
    mirroredEnd,
    end: mirroredEnd,
    open,
    openCount: open.length + Number(log.end - mirroredEnd),
    lastEpoch: Math.max(view.advertisedEpoch, storedEpoch),
  };
}

/** Nothing of it is here; what comes next comes above everything that anybody may know of. */
function lostPartition(view: PartitionView, shell: ShellPartition, end: bigint): SwitchPartition {
  const mirroredEnd = lastExtent(view.timeline).start;
  const lastEpoch = view.advertisedEpoch + epochsOfLostCopy;
  return { view, log: null, shell, mirroredEnd, end, open: [], openCount: 0, lastEpoch };
}

/** S: after the ABORT batches, once they have been appended. */
export function endOf({ log, end }: SwitchPartition): bigint {
  return log === null ? end : log.end;
}

export function hasOpenTransactions({ partitions }: SwitchTopic): boolean {
  return partitions.some(({ open }) => open.length > 0);
}

/** Where the logs are cut back to if the switch is not committed. */
export function cutsOf({ partitions }: SwitchTopic): { partition: number; offset: bigint }[] {
  const kept = partitions.filter(({ log }) => log !== null);
  return kept.map(({ view, mirroredEnd }) => ({ partition: view.partition, offset: mirroredEnd }));
}

/** The caller has committed the cuts. Readers see nothing of it until the hold is lifted. */
export async function appendAborts(topic: SwitchTopic, unixMs: number): Promise<void> {
  await Promise.all(
    topic.partitions.map(async ({ view, log, open, lastEpoch, mirroredEnd }) => {
      if (open.length === 0 || log === null) return;
      log.hold(mirroredEnd);
      const partitionLeaderEpoch = nextEpoch(view.timeline, virtualEpoch(lastEpoch));
      const oldestFirst = [...open].sort((left, right) =>
        left.firstOffset < right.firstOffset ? -1 : 1,
      );
      const batches = oldestFirst.map((transaction, index) =>
        buildControlBatch({
          baseOffset: mirroredEnd + BigInt(index),
          producerId: transaction.producerId,
          producerEpoch: transaction.producerEpoch,
          partitionLeaderEpoch,
          timestamp: BigInt(unixMs),
          type: 'ABORT',
          coordinatorEpoch: 0,
        }),
      );
      await log.append(Buffer.concat(batches));
      await log.flush();
    }),
  );
}

/**
 * Something was appended behind the measure, by whoever was not seen to have stopped: S would lie
 * above what is durable, and above what the receipt says.
 */
export function hasMoved({ partitions }: SwitchTopic): boolean {
  return partitions.some(({ log, mirroredEnd, open }) => {
    if (log === null) return false;
    return log.end !== mirroredEnd + BigInt(open.length) || log.durableEnd !== log.end;
  });
}

export function liftHolds({ partitions }: SwitchTopic): void {
  for (const { log } of partitions) log?.hold(null);
}

/** Partitions of the record after the switch: the mirror extent ends at S, the shell goes on. */
export function splicedPartitions({ partitions }: SwitchTopic): TopicRecord['partitions'] {
  return partitions.map((partition) => {
    const { view, shell, lastEpoch } = partition;
    return splice(view.timeline, {
      virtualEnd: virtualOffset(endOf(partition)),
      nativeEnd: nativeOffset(shell.nativeEnd),
      nativeEpoch: nativeEpoch(shell.nativeEpoch),
      lastVirtualEpoch: virtualEpoch(lastEpoch),
    });
  });
}
