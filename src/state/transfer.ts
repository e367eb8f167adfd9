// `causeway state export` and `import`: the whole state to a file and back (R20). Owns the
// conditions under which a state may be restored. Invariants: an export disturbs nobody (it only
// reads); an import never mixes: it writes into an empty topic, for the cluster and the name of the
// export, all in one transaction.
import { readFile } from 'node:fs/promises';
import type { Cluster } from '../cluster/cluster.ts';
import { formatExport, parseExport, type StateExport } from './export-file.ts';
import { FencedError } from './fenced.ts';
import { stateLimitsDefault } from './limits.ts';
import type { StateClock } from './options.ts';
import { decodeRecord, encodeRecord } from './record-format.ts';
import { stateKey } from './records.ts';
import { writeFileDurably } from './snapshot.ts';
import { StateError } from './state.ts';
import {
  asUnavailable,
  checkStateTopic,
  createStateTopic,
  findStateTopic,
  stateTopicName,
} from './state-topic.ts';
import { TopicReader } from './topic-reader.ts';
import { TransactionWriter } from './transaction-writer.ts';
import { RecordView } from './view.ts';

export interface TransferOptions {
  /** The instance's name. */
  readonly name: string;
  readonly cluster: Cluster;
  readonly clock: StateClock;
  readonly file: string;
}

export interface TransferResult {
  readonly topic: string;
  readonly recordsCount: number;
  /** The file ends in part of a commit, which is left out. */
  readonly isCut: boolean;
}

/** Everything committed so far; may run beside a working instance. @throws StateError */
export async function exportState(options: TransferOptions): Promise<TransferResult> {
  return guarded(async (signal) => {
    const { name, cluster, clock, file } = options;
    const topic = stateTopicName(name);
    if (!(await findStateTopic(cluster, topic, signal))) {
      throw new StateError('MISSING', `state topic ${topic} does not exist`);
    }
    const view = new RecordView();
    await readInto(view, newReader(options, topic, signal), 'stable');
    const records = view.records();
    const { clusterId } = await cluster.metadata([]);
    const head = { name, clusterId, writtenTimeMs: Math.round(clock.wallMs()) };
    await writeFileDurably(file, formatExport(head, records));
    return { topic, recordsCount: records.length, isCut: false };
  });
}

/** Into a missing or empty state topic only, with no instance running. @throws StateError */
export async function importState(options: TransferOptions): Promise<TransferResult> {
  return guarded(async (signal) => {
    const { name, cluster, clock, file } = options;
    const topic = stateTopicName(name);
    const content = await readExport(options);
    const found = await findStateTopic(cluster, topic, signal);
    const info = found ?? (await createStateTopic(cluster, topic, signal));
    await checkStateTopic(cluster, info, signal);
    const reader = newReader(options, topic, signal);
    const view = new RecordView();
    await readInto(view, reader, 'stable');
    requireEmpty(topic, view);
    const writer = new TransactionWriter({
      cluster,
      topic,
      transactionalId: topic,
      now: () => clock.now(),
      wallMs: () => clock.wallMs(),
      signal,
      onDoubt: () => undefined,
    });
    await writer.fence(stateLimitsDefault.openTimeoutMs);
    await readInto(view, reader, 'end');
    requireEmpty(topic, view);
    await writeAll(writer, content, file);
    return { topic, recordsCount: content.records.length, isCut: content.isCut };
  });
}

async function writeAll(
  writer: TransactionWriter,
  content: StateExport,
  file: string,
): Promise<void> {
  const records = content.records.map((record) => ({
    key: stateKey(record),
    value: encodeRecord(record),
  }));
  if (records.length === 0) throw new StateError('CORRUPT', `${file}: holds no records`);
  const timeoutMs = stateLimitsDefault.openTimeoutMs;
  try {
    await writer.commit(records, timeoutMs);
  } catch (error) {
    if (!(error instanceof FencedError)) throw error;
    const message =
      'another instance was started meanwhile; nothing is certain, export and compare';
    throw new StateError('IN_DOUBT', message, { cause: error });
  }
}

async function readExport(options: TransferOptions): Promise<StateExport> {
  const { name, cluster, file } = options;
  let content: StateExport;
  try {
    content = parseExport(await readFile(file, 'utf8'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StateError('CORRUPT', `${file}: ${reason}`, { cause: error });
  }
  const { head } = content;
  if (head.name !== name) {
    const message = `${file}: is the state of "${head.name}", not of "${name}"`;
    throw new StateError('CORRUPT', message);
  }
  const { clusterId } = await cluster.metadata([]);
  if (head.clusterId !== clusterId) {
    const message =
      `${file}: belongs to cluster ${head.clusterId}, ` + `the destination is ${clusterId}`;
    throw new StateError('CORRUPT', message);
  }
  return content;
}

/** A lease that its owner gave up says nothing any more; any other record does. */
function requireEmpty(topic: string, view: RecordView): void {
  if (view.isEmpty && (view.lease?.released ?? true)) return;
  const what = view.isEmpty ? 'the lease of an instance that may be running' : 'records';
  const message =
    `state topic ${topic} holds ${what}: an import never mixes. ` +
    'Stop every instance, delete the topic if its content is to be given up, and import again';
  throw new StateError('CORRUPT', message);
}

function newReader(options: TransferOptions, topic: string, signal: AbortSignal): TopicReader {
  const { cluster, clock } = options;
  return new TopicReader({ cluster, topic, signal, now: () => clock.now() });
}

async function readInto(
  view: RecordView,
  reader: TopicReader,
  until: 'stable' | 'end',
): Promise<void> {
  const timeoutMs = stateLimitsDefault.openTimeoutMs;
  for (const [key, value] of await reader.read({ until, timeoutMs })) {
    view.apply(value === null ? { delete: key } : { put: decodeRecord(key, value) });
  }
}

async function guarded<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  try {
    return await work(controller.signal);
  } catch (error) {
    throw asUnavailable(error);
  } finally {
    controller.abort();
  }
}
