// The shell topic of a mirror in the destination: made, grown, deleted, measured. Owns these admin
// calls and their error codes; refuses to know states and links. Invariant: a call whose outcome is
// unknown is reported as such (ClusterError) and never taken for done; only control batches may be
// in a shell.
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
} from '../../protocol/generated/create-partitions-request.ts';
import {
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import type { CreateTopicsResponse } from '../../protocol/generated/create-topics-response.ts';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
} from '../../protocol/generated/delete-topics-request.ts';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
} from '../../protocol/generated/describe-configs-request.ts';
import { ErrorCode, errorName, forEachBatch, isControl, nextOffset } from '../../protocol/index.ts';
import {
  createPartitionsApi,
  createTopicsApi,
  deleteTopicsApi,
  describeConfigsApi,
} from '../cluster/apis.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import { partitionKey } from './fetch-session.ts';
import { LinkError } from './link-error.ts';
import { forEachLimited } from './signal.ts';
import { earliestTimestamp, fetchOnce, latestTimestamp, listOffsets } from './source-offsets.ts';
import type { SourceConfig } from './topic-configs.ts';

const adminTimeoutMs = 30_000;
const topicResource = 2;
const brokerResource = 4;
const scanBytesMax = 1024 * 1024;
const scansInFlight = 8;

export interface NewShell {
  readonly name: string;
  readonly partitionsCount: number;
  /** -1: the destination's default. */
  readonly replicationFactor: number;
  readonly configs: Readonly<Record<string, string>>;
}

/** The id of a shell that was made, or why it was not; a ClusterError: nobody knows whether. */
export type ShellOutcome = string | LinkError | ClusterError;

/** @throws LinkError TOPIC_EXISTS, DESTINATION_REFUSED; ClusterError when the outcome is unknown */
export async function createShell(
  destination: Cluster,
  shell: NewShell & { readonly validateOnly: boolean },
): Promise<string> {
  const outcomes = await createShells(destination, [shell], shell);
  const outcome = outcomes.get(shell.name) ?? existsAlready(shell.name);
  if (typeof outcome !== 'string') throw outcome;
  return outcome;
}

/** Many by one request, with an outcome for each. */
export async function createShells(
  destination: Cluster,
  shells: readonly NewShell[],
  { validateOnly }: { readonly validateOnly: boolean },
): Promise<ReadonlyMap<string, ShellOutcome>> {
  const topics = shells.map((shell) =>
    createCreatableTopic({
      name: shell.name,
      numPartitions: shell.partitionsCount,
      replicationFactor: shell.replicationFactor,
      configs: Object.entries(shell.configs).map(([name, value]) =>
        createCreatableTopicConfig({ name, value }),
      ),
    }),
  );
  try {
    const response = await destination.send(
      { kind: 'controller' },
      createTopicsApi,
      createCreateTopicsRequest({ topics, timeoutMs: adminTimeoutMs, validateOnly }),
      { timeoutMs: adminTimeoutMs + 5_000 },
    );
    const results = new Map(response.topics.map((result) => [result.name, result] as const));
    return new Map(
      shells.map(({ name }) => [name, shellOutcome(name, results.get(name), validateOnly)]),
    );
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return new Map(shells.map(({ name }) => [name, error]));
  }
}

export function existsAlready(name: string): LinkError {
  return new LinkError('TOPIC_EXISTS', `Topic '${name}' already exists.`);
}

function shellOutcome(
  name: string,
  result: CreateTopicsResponse['topics'][number] | undefined,
  validateOnly: boolean,
): ShellOutcome {
  if (result === undefined || result.errorCode === ErrorCode.TOPIC_ALREADY_EXISTS) {
    return existsAlready(name);
  }
  if (result.errorCode === ErrorCode.REQUEST_TIMED_OUT) {
    // The broker stopped waiting for the controller, which may well have created it, or still does.
    const message = `the destination did not create topic '${name}' in time`;
    return new ClusterError('TIMEOUT', message, { maybeSent: !validateOnly });
  }
  if (result.errorCode === ErrorCode.NONE) return result.topicId;
  return new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to create topic '${name}': ` +
      `${errorName(result.errorCode)}${result.errorMessage ? `: ${result.errorMessage}` : ''}` +
      remedyOf(result.errorCode, name, 'Create'),
  );
}

/** Makes the shell have `count` partitions. @throws LinkError DESTINATION_REFUSED, ClusterError */
export async function growShell(destination: Cluster, name: string, count: number): Promise<void> {
  const response = await destination.send(
    { kind: 'controller' },
    createPartitionsApi,
    createCreatePartitionsRequest({
      topics: [createCreatePartitionsTopic({ name, count, assignments: null })],
      timeoutMs: adminTimeoutMs,
      validateOnly: false,
    }),
    { timeoutMs: adminTimeoutMs + 5_000 },
  );
  const result = response.results[0];
  const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (errorCode === ErrorCode.NONE) return;
  // A repeated call after a lost answer: done already.
  const info = (await destination.metadata([name])).topics.get(name);
  if (info !== undefined && info.partitions.length >= count) return;
  throw new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to grow topic '${name}' to ${count} partitions: ` +
      `${errorName(errorCode)}${result?.errorMessage ? `: ${result.errorMessage}` : ''}` +
      remedyOf(errorCode, name, 'Alter'),
  );
}

/** By name, only if it still has this id. A topic that is not there is fine. */
export async function deleteShell(
  destination: Cluster,
  shell: { readonly name: string; readonly topicId: string },
): Promise<void> {
  const info = (await destination.metadata([shell.name])).topics.get(shell.name);
  if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) return;
  if (info.errorCode !== ErrorCode.NONE && info.topicId !== shell.topicId) {
    // Whose topic it is cannot be told, so nobody may take it for gone.
    throw new LinkError(
      'DESTINATION_REFUSED',
      `Topic '${shell.name}' cannot be deleted: the destination answers ` +
        errorName(info.errorCode),
    );
  }
  if (info.topicId !== shell.topicId) return;
  const response = await destination.send(
    { kind: 'controller' },
    deleteTopicsApi,
    (version) =>
      createDeleteTopicsRequest({
        topics:
          version >= 6 ? [createDeleteTopicState({ name: null, topicId: shell.topicId })] : [],
        topicNames: version >= 6 ? [] : [shell.name],
        timeoutMs: adminTimeoutMs,
      }),
    { timeoutMs: adminTimeoutMs + 5_000 },
  );
  const result = response.responses[0];
  const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  const gone: readonly number[] = [
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ];
  if (gone.includes(errorCode)) return;
  throw new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to delete topic '${shell.name}': ${errorName(errorCode)}`,
  );
}

interface DescribedResource {
  readonly type: number;
  readonly name: string;
  readonly keys: readonly string[] | null;
}

async function describe(
  cluster: Cluster,
  resources: readonly DescribedResource[],
  target: { kind: 'any' } | { kind: 'node'; nodeId: number },
): Promise<ReadonlyMap<string, readonly SourceConfig[] | LinkError>> {
  const response = await cluster.send(
    target,
    describeConfigsApi,
    createDescribeConfigsRequest({
      resources: resources.map(({ type, name, keys }) =>
        createDescribeConfigsResource({
          resourceType: type,
          resourceName: name,
          configurationKeys: keys === null ? null : [...keys],
        }),
      ),
    }),
  );
  const results = new Map(response.results.map((result) => [result.resourceName, result] as const));
  return new Map(
    resources.map(({ name }) => {
      const result = results.get(name);
      const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
      const isRead = result !== undefined && errorCode === ErrorCode.NONE;
      return [name, isRead ? result.configs : unreadableConfigs(name, errorCode)];
    }),
  );
}

/** The command that grants what was missing; empty when it is something else. */
function remedyOf(errorCode: number, topic: string, operation: string): string {
  const grant = '; grant it with kafka-acls --add';
  if (errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
    return `${grant} --topic '${topic}' --operation ${operation}`;
  }
  if (errorCode !== ErrorCode.CLUSTER_AUTHORIZATION_FAILED) return '';
  return `${grant} --cluster --operation ${operation}`;
}

function unreadableConfigs(name: string, errorCode: number): LinkError {
  const remedy = remedyOf(errorCode, name, 'DescribeConfigs');
  return new LinkError(
    remedy === '' ? 'SOURCE_TOPIC_NOT_FOUND' : 'SOURCE_UNAUTHORIZED',
    `The configs of '${name}' cannot be read: ${errorName(errorCode)}${remedy}`,
  );
}

/** Of each topic its configs, or why they cannot be read. @throws ClusterError */
export function manyTopicConfigs(
  cluster: Cluster,
  topics: readonly string[],
): Promise<ReadonlyMap<string, readonly SourceConfig[] | LinkError>> {
  const resources = topics.map((name) => ({ type: topicResource, name, keys: null }));
  return describe(cluster, resources, { kind: 'any' });
}

/** @throws LinkError, ClusterError */
export async function topicConfigs(
  cluster: Cluster,
  topic: string,
): Promise<readonly SourceConfig[]> {
  return orThrow((await manyTopicConfigs(cluster, [topic])).get(topic));
}

function orThrow(found: readonly SourceConfig[] | LinkError | undefined): readonly SourceConfig[] {
  if (found instanceof LinkError) throw found;
  return found ?? [];
}

/** One broker setting, or null when the broker does not say. */
export async function brokerConfig(
  cluster: Cluster,
  nodeId: number,
  key: string,
): Promise<string | null> {
  const resource = { type: brokerResource, name: String(nodeId), keys: [key] };
  const found = await describe(cluster, [resource], { kind: 'node', nodeId });
  return orThrow(found.get(resource.name)).find(({ name }) => name === key)?.value ?? null;
}

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
  const { topics } = await destination.metadata(shells.map(({ name }) => name));
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
