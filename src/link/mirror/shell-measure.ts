// What a shell topic holds when its mirror is switched: n and the epochs of its leaders, and that
// nobody wrote into it. Invariant: only control batches may be in a shell; records are refused with
// their count, unless it was said what becomes of them.
import {
  ErrorCode,
  errorName,
  forEachBatch,
  isControl,
  nextOffset,
} from '../../../protocol/index.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { LinkError } from '../link-error.ts';
import { forEachLimited } from '../signal.ts';
import { earliestTimestamp, fetchOnce, latestTimestamp, listOffsets } from '../source-offsets.ts';

const scanBytesMax = 1024 * 1024;
const scansInFlight = 8;

export interface ShellPartition {
  readonly partition: number;
  /** n. */
  readonly nativeEnd: bigint;
  readonly nativeEpoch: number;
}

export type ShellMeasure =
  | { readonly kind: 'measured'; readonly partitions: readonly ShellPartition[] }
  | { readonly kind: 'refused'; readonly error: LinkError };

/**
 * Records that somebody wrote into a shell past us: refused; or made part of the topic, from S on;
 * or hidden for ever.
 */
export type WrittenShells = 'refuse' | 'adopt' | 'discard';

export interface MeasureOptions {
  readonly written: WrittenShells;
  /** Remembers how far shells were looked through and held markers only. */
  readonly verified?: Map<string, bigint>;
  /** Metadata of the shells that were read just now; without them they are asked for. */
  readonly topics?: ReadonlyMap<string, TopicInfo>;
}

interface ShellToMeasure {
  readonly name: string;
  readonly topicId: string;
  readonly partitionsCount: number;
}

interface WrittenShell {
  readonly shell: ShellToMeasure;
  readonly info: TopicInfo;
  readonly ends: readonly ShellPartition[];
}

/**
 * Reads n and the leaders' epochs of many shells. Only markers of refused transactions may be in
 * [0, n): a shell with records is refused with their count, unless it was said what to do with
 * them.
 * @throws ClusterError when the destination does not answer at all
 */
export async function measureShells(
  destination: Cluster,
  shells: readonly ShellToMeasure[],
  options: MeasureOptions = { written: 'refuse' },
): Promise<ReadonlyMap<string, ShellMeasure>> {
  const topics =
    options.topics ?? (await destination.metadata(shells.map(({ name }) => name))).topics;
  const measures = new Map<string, ShellMeasure>();
  const partitions = shells.flatMap(({ name }) =>
    (topics.get(name)?.partitions ?? []).map(({ partition, leaderId }) => ({
      topic: name,
      partition,
      leaderId,
    })),
  );
  const ends = await listOffsets(destination, partitions, { timestamp: latestTimestamp });
  const written: WrittenShell[] = [];
  for (const shell of shells) {
    const info = topics.get(shell.name);
    const measure = measureOne(shell, info, (partition) =>
      ends.get(partitionKey(shell.name, partition)),
    );
    measures.set(shell.name, measure);
    if (info === undefined || measure.kind !== 'measured') continue;
    if (measure.partitions.some(({ nativeEnd }) => nativeEnd > 0n)) {
      written.push({ shell, info, ends: measure.partitions });
    }
  }
  // What is to be hidden need not be looked at.
  if (options.written === 'discard') return measures;
  await forEachLimited(written, scansInFlight, async (shell) => {
    measures.set(shell.shell.name, await measureWritten(destination, shell, options));
  });
  return measures;
}

async function measureWritten(
  destination: Cluster,
  written: WrittenShell,
  options: MeasureOptions,
): Promise<ShellMeasure> {
  const { name } = written.shell;
  const refused = (error: LinkError): ShellMeasure => ({ kind: 'refused', error });
  try {
    const found = await countRecords(destination, written, options.verified);
    const records = [...found.values()].reduce((total, { count }) => total + count, 0);
    if (options.written === 'adopt') {
      const partitions = written.ends.map((end) => {
        const { count, start } = found.get(end.partition) ?? { count: 0, start: 0n };
        // All that is in it counts: its oldest batches may have the oldest epoch that there can be.
        return count === 0 ? end : { ...end, nativeEnd: start, nativeEpoch: 0 };
      });
      return { kind: 'measured', partitions };
    }
    if (records === 0) return { kind: 'measured', partitions: written.ends };
    const message = `${records} records were written to the shell topic '${name}' past Causeway`;
    return refused(new LinkError('ILLEGAL_STATE', message));
  } catch (error) {
    if (error instanceof LinkError) return refused(error);
    if (!(error instanceof ClusterError)) throw error;
    const message = `'${name}': ${error.message}`;
    return refused(new LinkError('DESTINATION_REFUSED', message, { cause: error }));
  }
}

function measureOne(
  shell: ShellToMeasure,
  info: TopicInfo | undefined,
  endOf: (partition: number) => { errorCode: number; offset: bigint } | undefined,
): ShellMeasure {
  const refused = (message: string): ShellMeasure => ({
    kind: 'refused',
    error: new LinkError('DESTINATION_REFUSED', message),
  });
  if (info === undefined || info.errorCode !== ErrorCode.NONE) {
    return refused(
      `The shell topic '${shell.name}' is not there: ${errorName(info?.errorCode ?? 3)}`,
    );
  }
  if (info.topicId !== shell.topicId) {
    return refused(`Topic '${shell.name}' is not the mirror's shell any more: its id has changed`);
  }
  const partitions: ShellPartition[] = [];
  for (let partition = 0; partition < shell.partitionsCount; partition++) {
    const found = info.partitions.find((candidate) => candidate.partition === partition);
    const end = endOf(partition);
    if (found === undefined || end === undefined || end.errorCode !== ErrorCode.NONE) {
      const code = end?.errorCode ?? found?.errorCode ?? ErrorCode.LEADER_NOT_AVAILABLE;
      return refused(`The end of '${shell.name}-${partition}' cannot be read: ${errorName(code)}`);
    }
    partitions.push({
      partition,
      nativeEnd: end.offset,
      nativeEpoch: Math.max(0, found.leaderEpoch),
    });
  }
  return { kind: 'measured', partitions };
}

/** Native offsets from 0 up to where the visible part of a promoted partition begins. */
export interface HiddenRange {
  readonly partition: number;
  readonly end: bigint;
}

/** Records that are no markers in hidden ranges, by partition. @throws LinkError, ClusterError */
export async function countHidden(
  destination: Cluster,
  topic: { readonly name: string; readonly topicId: string; readonly info: TopicInfo },
  ranges: readonly HiddenRange[],
): Promise<ReadonlyMap<number, number>> {
  const { name, topicId, info } = topic;
  const ends = ranges.map(({ partition, end }) => ({ partition, nativeEnd: end, nativeEpoch: 0 }));
  const shell = { name, topicId, partitionsCount: info.partitions.length };
  const found = await countRecords(destination, { shell, info, ends }, undefined);
  return new Map([...found].map(([partition, { count }]) => [partition, count]));
}

/** Records that are no markers, by partition; from batch headers alone. */
async function countRecords(
  destination: Cluster,
  written: WrittenShell,
  verified: Map<string, bigint> | undefined,
): Promise<ReadonlyMap<number, { readonly count: number; readonly start: bigint }>> {
  const { shell, info, ends } = written;
  const leaders = ends.map(({ partition }) => ({
    topic: shell.name,
    partition,
    leaderId: info.partitions.find((entry) => entry.partition === partition)?.leaderId ?? -1,
  }));
  const starts = await listOffsets(destination, leaders, { timestamp: earliestTimestamp });
  const found = new Map<number, { count: number; start: bigint }>();
  for (const { partition, nativeEnd } of ends) {
    let count = 0;
    const key = partitionKey(shell.topicId, partition);
    const start = starts.get(partitionKey(shell.name, partition));
    if (start === undefined || start.errorCode !== ErrorCode.NONE) {
      throw unreadable(shell.name, partition, start?.errorCode);
    }
    const known = verified?.get(key) ?? 0n;
    let offset = known > start.offset ? known : start.offset;
    while (offset < nativeEnd) {
      const { errorCode, records, highWatermark } = await fetchOnce(destination, {
        topic: shell.name,
        topicId: shell.topicId,
        partition,
        leaderId: leaders.find((leader) => leader.partition === partition)?.leaderId ?? -1,
        offset,
        bytesMax: scanBytesMax,
      });
      if (errorCode !== ErrorCode.NONE) throw unreadable(shell.name, partition, errorCode);
      const before = offset;
      forEachBatch(records, (header) => {
        if (header.baseOffset >= nativeEnd) return false;
        if (!isControl(header)) count += header.recordsCount;
        offset = nextOffset(header);
        return undefined;
      });
      if (offset > before) continue;
      // A leader that is not there yet says nothing of what lies above; else it was all cleaned.
      if (highWatermark < nativeEnd) {
        throw unreadable(shell.name, partition, ErrorCode.OFFSET_NOT_AVAILABLE);
      }
      offset = nativeEnd;
    }
    if (count === 0) verified?.set(key, offset);
    found.set(partition, { count, start: start.offset });
  }
  return found;
}

function unreadable(topic: string, partition: number, errorCode: number | undefined): LinkError {
  const cause = errorName(errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
  return new LinkError(
    'DESTINATION_REFUSED',
    `The shell topic '${topic}-${partition}' cannot be read: ${cause}`,
  );
}
