// `npm run bench -- groups`: the rounds of the group task over 10,000 groups with offsets in 50
// partitions each, on real brokers: the first, idle ones, and one after 1 % have moved. Owns the
// groups; refuses to know mirrors (their ends are given). The baseline is what a tool that asks for
// one group at a time needs to read the same offsets, measured on some of them.
import type { Cluster } from '../src/cluster/cluster.ts';
import { defaultLinkLimits, type LinkContext, systemClock } from '../src/link/context.ts';
import type { LinkRuntime } from '../src/link/link.ts';
import type { MirrorTopics } from '../src/link/mirror/mirror-topics.ts';
import type { TopicChanges } from '../src/link/mirror/topic-changes.ts';
import { forEachLimited } from '../src/link/signal.ts';
import { CoordinatorMap, commitGroup, readGroups } from '../src/tasks/group-offsets.ts';
import { GroupSync } from '../src/tasks/groups.ts';
import { virtualOffset } from '../src/timeline/offsets.ts';
import { newMirror } from '../src/timeline/timeline.ts';
import { counted } from '../test/helpers/counted-cluster.ts';
import { type KafkaCluster, startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { createTopic } from '../test/helpers/topic-admin.ts';
import { until } from '../test/helpers/wait.ts';
import { type BenchOptions, type BenchResult, type BenchRow, median, row } from './report.ts';

const topic = 'bench';
const partitions = 50;
const nodeId = 1;
const inFlight = 32;
const idleRounds = 5;
const periodMs = 1_000;
const mirrorEnd = 1_000_000n;

interface Side {
  readonly cluster: Cluster;
  readonly sent: Map<string, number>;
}

interface Measured {
  readonly ms: number;
  readonly source: string;
  readonly destination: string;
  readonly sourceCount: number;
  readonly destinationCount: number;
  readonly commits: number;
}

function sideOf(kafka: KafkaCluster): Side {
  const sent = new Map<string, number>();
  return { cluster: counted(openCluster(kafka), sent), sent };
}

function groupName(index: number): string {
  return `group-${index}`;
}

async function commitAll(cluster: Cluster, indexes: readonly number[], offset: bigint) {
  const offsets = Array.from({ length: partitions }, (_, partition) => ({
    topic,
    partition,
    position: { offset, metadata: null },
  }));
  await forEachLimited(indexes, inFlight, async (index) => {
    const commit = { group: groupName(index), nodeId };
    await until(`a commit of ${commit.group}`, async () => {
      const errors = await commitGroup(cluster, commit, offsets);
      return [...errors.values()].every((code) => code === 0);
    });
  });
}

/** The task with mirrors whose ends are given: what it asks of both clusters is all there is. */
async function taskOf(source: Side, destination: Side): Promise<GroupSync> {
  const { clusterId, topics } = await source.cluster.metadata([topic]);
  const views = Array.from({ length: partitions }, (_, partition) => ({
    partition,
    timeline: newMirror(virtualOffset(0n)),
    log: { visibleEnd: mirrorEnd },
  }));
  const topicId = 'AAAAAAAAAAAAAAAAAAAAAg';
  const record = {
    link: 'dr',
    name: topic,
    topicId,
    state: 'ACTIVE',
    sourceTopic: topic,
    sourceTopicId: topics.get(topic)?.topicId,
    partitions: views.map(({ timeline }) => timeline),
  };
  const mirror = {
    name: topic,
    topicId,
    record,
    partitions: views,
    partition: (index: number) => views[index],
  };
  const offsetSync = { enabled: true, periodMs, filters: null, isPrefixed: false };
  const link = {
    name: 'dr',
    cluster: source.cluster,
    record: { sourceClusterId: clusterId },
    settings: { offsetSync, prefix: '' },
  };
  const lease = { isValid: () => true, check: () => undefined };
  const context = {
    destination: destination.cluster,
    clock: systemClock,
    limits: defaultLinkLimits,
    state: { lease, view: { shareGroups: new Map() } },
  };
  return new GroupSync({
    context: context as unknown as LinkContext,
    link: link as unknown as LinkRuntime,
    topics: { all: [mirror], byName: () => mirror } as unknown as MirrorTopics,
    changes: {} as unknown as TopicChanges,
  });
}

/** By API alone: each request is also counted by who sent it and by the broker that it is for. */
function byApi(sent: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...sent].filter(([name]) => !name.includes(' '));
}

function tally(sent: ReadonlyMap<string, number>): string {
  const counts = byApi(sent).map(([name, count]) => `${count} ${name}`);
  return counts.join(', ') || 'nothing';
}

function total(sent: ReadonlyMap<string, number>): number {
  return byApi(sent).reduce((sum, [, count]) => sum + count, 0);
}

async function measure(task: GroupSync, source: Side, destination: Side): Promise<Measured> {
  source.sent.clear();
  destination.sent.clear();
  const startedAt = performance.now();
  const { problems } = await task.round();
  const ms = performance.now() - startedAt;
  if (problems.length > 0) throw new Error(problems[0]?.message);
  return {
    ms,
    source: tally(source.sent),
    destination: tally(destination.sent),
    sourceCount: total(source.sent),
    destinationCount: total(destination.sent),
    commits: destination.sent.get('OffsetCommit') ?? 0,
  };
}

/** Milliseconds per group, each asked for alone at the source. */
async function alone(source: Side, count: number): Promise<number> {
  const startedAt = performance.now();
  const options = { nodeId, requireStable: false, topicsOf: null };
  for (let index = 0; index < count; index++) {
    await readGroups(source.cluster, [groupName(index)], options);
  }
  return (performance.now() - startedAt) / count;
}

function rowsOf(what: string, measured: Measured, baseline: number): BenchRow[] {
  process.stderr.write(`${what}: source ${measured.source}; destination ${measured.destination}\n`);
  return [
    row(what, measured.ms, 'ms', { baseline, atMost: periodMs }),
    row(`${what}: requests at the source`, measured.sourceCount, 'requests'),
    row(`${what}: requests at the destination`, measured.destinationCount, 'requests'),
  ];
}

export async function benchGroups({ quick }: BenchOptions): Promise<BenchResult> {
  const groupsCount = quick ? 500 : 10_000;
  const [sourceKafka, destinationKafka] = await Promise.all([
    startKafkaCluster({ name: 'source' }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  const [source, destination] = [sideOf(sourceKafka), sideOf(destinationKafka)];
  try {
    for (const { cluster } of [source, destination]) {
      await createTopic(cluster, topic, { partitions });
      // Asking for a coordinator makes the broker create its topic of offsets.
      await until('coordinators', async () => {
        const located = await new CoordinatorMap(cluster).locate([groupName(0)]);
        return located.size > 0;
      });
    }
    const all = Array.from({ length: groupsCount }, (_, index) => index);
    await commitAll(source.cluster, all, 10n);
    const perGroup = await alone(source, Math.min(groupsCount, 200));
    const baseline = perGroup * groupsCount;
    const task = await taskOf(source, destination);
    const first = await measure(task, source, destination);
    const idle: Measured[] = [];
    for (let round = 0; round < idleRounds; round++) {
      idle.push(await measure(task, source, destination));
    }
    const written = idle.reduce((sum, { commits }) => sum + commits, 0);
    const moving = all.filter((index) => index % 100 === 0);
    await commitAll(source.cluster, moving, 11n);
    const moved = await measure(task, source, destination);
    const typical = idle.find(({ ms }) => ms === median(idle.map((one) => one.ms))) ?? first;
    const size = `${groupsCount} groups x ${partitions} partitions`;
    return {
      bench: 'groups',
      rows: [
        row(`read ${size} one group at a time`, baseline, 'ms'),
        ...rowsOf(`first round of ${size}`, first, baseline),
        ...rowsOf('idle round', typical, baseline),
        row(`commits in ${idleRounds} idle rounds`, written, 'requests', { atMost: 0 }),
        ...rowsOf('round after 1 % have moved', moved, baseline),
        row('commits for 1 % that have moved', moved.commits, 'requests', {
          atMost: moving.length,
        }),
      ],
    };
  } finally {
    await Promise.all([source.cluster.close(), destination.cluster.close()]);
    await Promise.all([sourceKafka.stop(), destinationKafka.stop()]);
  }
}
