// `npm run bench -- failover`: one call that fails over thousands of mirrored topics of one
// partition each, in a proxy process of its own, after its source was killed, with live clients and
// groups whose offsets had just changed; and the promotion of one topic without lag. Owns no figure
// but those it measured. The baseline is what the destination itself needs to create as many
// topics.
import {
  createCreatableTopic,
  createCreateTopicsRequest,
} from '../protocol/generated/create-topics-request.ts';
import {
  createOffsetCommitRequest,
  createOffsetCommitRequestPartition,
  createOffsetCommitRequestTopic,
} from '../protocol/generated/offset-commit-request.ts';
import { createTopicsApi, offsetCommitApi, produceApi } from '../src/cluster/apis.ts';
import type { Cluster } from '../src/cluster/cluster.ts';
import { type LinkedStage, linkName, startStage } from '../test/helpers/linked-stage.ts';
import { post, waitForState } from '../test/helpers/mirror-commands.ts';
import { produceRequest } from '../test/helpers/raw-writes.ts';
import { until } from '../test/helpers/wait.ts';
import { cpuSeconds } from './child.ts';
import { LiveClient } from './live-clients.ts';
import { type BenchResult, percentile, row } from './report.ts';

const topicsCount = Number(process.env.CAUSEWAY_BENCH_TOPICS ?? 5_000);
const clientsCount = 200;
const groupsCount = 1_000;
const partitionsPerGroup = 10;
const atOnce = 250;
const inFlight = 8;
const waitMs = 1_200_000;
const linkNodeId = 1_000_000;
const planned = 'planned';

interface Answer {
  readonly rows: readonly { readonly state: string | null; readonly error: unknown }[];
  readonly receipt: { readonly id: string } | null;
}

interface MirrorRow {
  readonly name: string;
  readonly state: string;
  readonly partitions: readonly { readonly mirrorEnd: number | string }[];
}

function chunks<Item>(items: readonly Item[], size: number): Item[][] {
  const found: Item[][] = [];
  for (let at = 0; at < items.length; at += size) found.push(items.slice(at, at + size));
  return found;
}

async function createTopics(cluster: Cluster, names: readonly string[]): Promise<void> {
  for (const some of chunks(names, atOnce)) {
    const topics = some.map((name) =>
      createCreatableTopic({ name, numPartitions: 1, replicationFactor: 1 }),
    );
    const request = createCreateTopicsRequest({ topics, timeoutMs: 60_000 });
    const target = { kind: 'controller' } as const;
    const answer = await cluster.send(target, createTopicsApi, request, { timeoutMs: 65_000 });
    const failed = answer.topics.find(({ errorCode }) => errorCode !== 0);
    if (failed) throw new Error(`${failed.name}: ${failed.errorCode} ${failed.errorMessage}`);
  }
}

async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
}

/** One record into each topic. */
async function fill(cluster: Cluster, names: readonly string[]): Promise<void> {
  for (const some of chunks(names, atOnce)) {
    const request = produceRequest('', 0, ['x'.repeat(100)]);
    request.topicData = some.flatMap(
      (name) => produceRequest(name, 0, ['x'.repeat(100)]).topicData,
    );
    await until(`records in ${some.length} topics`, async () => {
      const { responses } = await cluster.send({ kind: 'node', nodeId: 1 }, produceApi, request);
      const left = responses.filter((one) => one.partitionResponses[0]?.errorCode !== 0);
      request.topicData = request.topicData.filter(({ name }) =>
        left.some((one) => one.name === name),
      );
      return left.length === 0;
    });
  }
}

/** Each group commits in ten topics of its own: nobody has read anything, then one record each. */
async function commitGroups(
  cluster: Cluster,
  names: readonly string[],
  offset: bigint,
): Promise<void> {
  const groups = Array.from({ length: groupsCount }, (_, index) => index);
  await inParallel(groups, async (index) => {
    const groupId = `bench-group-${index}`;
    const topics = Array.from({ length: partitionsPerGroup }, (_, place) => {
      const name = names[(index * partitionsPerGroup + place) % names.length] ?? '';
      const partitions = [
        createOffsetCommitRequestPartition({ committedOffset: offset, committedMetadata: '' }),
      ];
      return createOffsetCommitRequestTopic({ name, partitions });
    });
    const request = createOffsetCommitRequest({ groupId, generationIdOrMemberEpoch: -1, topics });
    await until(`the commit of ${groupId}`, async () => {
      const answer = await cluster.send({ kind: 'group', groupId }, offsetCommitApi, request);
      return answer.topics.every((one) => one.partitions[0]?.errorCode === 0);
    });
  });
}

async function mirrorAll(stage: LinkedStage, names: readonly string[]): Promise<void> {
  const { causeway } = stage;
  const filter = { name: '*', patternType: 'LITERAL', filterType: 'INCLUDE' };
  const settings = {
    'auto.create.mirror.topics.filters': JSON.stringify({ topicFilters: [filter] }),
    'auto.create.mirror.topics.max': '20000',
    'auto.create.mirror.topics.enable': 'true',
  };
  for (const [name, value] of Object.entries(settings)) {
    await causeway.cli('link', 'config', 'set', linkName, `${name}=${value}`);
  }
  let seen = 0;
  await until(
    'all records here',
    async () => {
      const { mirrors } = await causeway.get<{ mirrors: readonly MirrorRow[] }>(
        '/causeway/v1/mirrors',
      );
      const ready = mirrors.filter(
        ({ state, partitions }) => state === 'ACTIVE' && Number(partitions[0]?.mirrorEnd) >= 1,
      );
      seen = ready.length;
      return seen >= names.length;
    },
    { deadlineMs: waitMs, intervalMs: 1_000, describe: () => `${seen} of ${names.length}` },
  );
}

/** The first round of all groups is over: what changes from here on is new. */
async function groupsSynced({ causeway }: LinkedStage): Promise<void> {
  await until(
    'all groups here',
    async () => {
      const resource = `/causeway/v1/links/${linkName}/groups`;
      const { groups } = await causeway.get<{ groups: readonly unknown[] }>(resource);
      return groups.length >= groupsCount * partitionsPerGroup;
    },
    { deadlineMs: waitMs, intervalMs: 1_000 },
  );
}

async function promoteOne({ causeway }: LinkedStage): Promise<number> {
  const begun = performance.now();
  const one = { topics: [planned] };
  const { rows } = await post<Answer>(causeway, '/causeway/v1/mirrors:promote', one);
  const error = rows[0]?.error ?? null;
  if (error !== null) throw new Error(`promote: ${JSON.stringify(error)}`);
  await waitForState(causeway, planned, 'STOPPED');
  return performance.now() - begun;
}

function liveClients(stage: LinkedStage, names: readonly string[]): LiveClient[] {
  const bootstrapPort = Number(stage.causeway.bootstrap.split(':')[1]);
  const each = Math.max(1, Math.floor(names.length / clientsCount));
  return Array.from({ length: clientsCount }, (_, index) => {
    const topics = names.slice(index * each, (index + 1) * each);
    return new LiveClient({ bootstrapPort, topics, linkNodeId });
  });
}

function lastSwitchUnixMs(causeway: LinkedStage['causeway']): number {
  const switched = causeway
    .log()
    .filter(({ event, to }) => event === 'mirror_state_changed' && to === 'STOPPED');
  return Math.max(...switched.map(({ time }) => Date.parse(String(time))));
}

interface Switch {
  readonly dryMs: number;
  /** Until the last topic was switched, durably, as the log has it. */
  readonly switchedMs: number;
  readonly commandMs: number;
  readonly cpuSeconds: number;
  readonly firstRecordsMs: readonly number[];
  readonly leadersKnownMs: readonly number[];
  readonly metadataBytes: number;
}

async function switchAll(stage: LinkedStage, names: readonly string[]): Promise<Switch> {
  const { causeway, source, atSource } = stage;
  const clients = liveClients(stage, names);
  for (const client of clients) await client.start();
  await commitGroups(atSource, names, 1n);
  const watching = Promise.all(clients.map((client) => client.watch()));
  // Awaited below; until then a fault of the command itself is to be told first.
  watching.catch((error: unknown) => process.stderr.write(`# a live client: ${error}\n`));
  await source.kill9();
  const all = { link: linkName, all: true };
  const dryBegun = performance.now();
  await post<Answer>(causeway, '/causeway/v1/mirrors:failover?validateOnly=true', all);
  const dryMs = performance.now() - dryBegun;
  const cpuBegun = cpuSeconds(causeway.pid);
  const begun = performance.now();
  const begunUnixMs = Date.now();
  const answer = await post<Answer>(causeway, '/causeway/v1/mirrors:failover', all);
  const commandMs = performance.now() - begun;
  const cpu = cpuSeconds(causeway.pid) - cpuBegun;
  const done = answer.rows.filter(({ state }) => state === 'STOPPED').length;
  if (done < names.length) throw new Error(`${done} of ${names.length} topics were failed over`);
  await watching;
  for (const client of clients) client.close();
  return {
    ...{ dryMs, commandMs, cpuSeconds: cpu },
    switchedMs: lastSwitchUnixMs(causeway) - begunUnixMs,
    firstRecordsMs: clients.map(({ firstRecordMs }) => firstRecordMs - begun),
    leadersKnownMs: clients.map(({ leadersKnownMs }) => leadersKnownMs - begun),
    metadataBytes: clients.reduce((sum, { metadataBytes }) => sum + metadataBytes, 0),
  };
}

export async function benchFailover(): Promise<BenchResult> {
  const stage = await startStage({
    source: { heapMb: 1024 },
    destination: { heapMb: 1024 },
    linkConfigs: { 'promote.quiet.ms': '0' },
  });
  try {
    const { atSource, atDestination } = stage;
    const names = Array.from({ length: topicsCount }, (_, index) => `bench-${index}`);
    await createTopics(atSource, [planned, ...names]);
    await fill(atSource, [planned, ...names]);
    await commitGroups(atSource, names, 0n);
    const mirrorBegun = performance.now();
    await mirrorAll(stage, [planned, ...names]);
    const mirrorMs = performance.now() - mirrorBegun;
    const groups = ['link', 'config', 'set', linkName, 'consumer.offset.sync.enable=true'];
    await stage.causeway.cli(...groups);
    await groupsSynced(stage);
    const promoteMs = await promoteOne(stage);
    const switched = await switchAll(stage, names);
    const plainBegun = performance.now();
    await createTopics(
      atDestination,
      names.map((name) => `plain-${name}`),
    );
    const baseline = performance.now() - plainBegun;
    const first = (share: number): number => percentile(switched.firstRecordsMs, share);
    const known = Math.max(...switched.leadersKnownMs);
    const limits = { baseline, atMost: 2_000 };
    return {
      bench: 'failover',
      rows: [
        row('topics in one call', topicsCount, 'topics'),
        row('live clients', clientsCount, 'clients'),
        row('groups with changed offsets', groupsCount, 'groups'),
        row('mirrors made by a filter and filled', mirrorMs, 'ms'),
        row('promotion of one topic without lag', promoteMs, 'ms', { atMost: 1_000 }),
        row('dry run', switched.dryMs, 'ms'),
        row('destination creates as many topics', baseline, 'ms'),
        row('failover, until all are switched durably', switched.switchedMs, 'ms', limits),
        row('failover, until it is answered', switched.commandMs, 'ms', limits),
        row('proxy, CPU of the failover', switched.cpuSeconds, 's'),
        row('first record of a client, p50', first(0.5), 'ms', { baseline }),
        row('first record of a client, p99', first(0.99), 'ms', { baseline }),
        row('all clients know all leaders', known, 'ms', limits),
        row('Metadata sent to the clients', switched.metadataBytes / 1e6, 'MB'),
      ],
    };
  } finally {
    await stage.stop();
  }
}
