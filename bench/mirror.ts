// `npm run bench -- mirror [--quick] [--form 6xnone]`: bytes per CPU-second and per second of the
// mirror path (Fetch from a real broker, checks, append, flush) in a proxy process of its own,
// against a plain Node socket that reads the same answers from the same broker and writes them to a
// file, and against MirrorMaker 2 as it comes and tuned, all in one run; beside them a socket that
// is fed by a fellow Node process. A topic is filled once and copied by each in turn, a few times.
// The mirror copies it before that too, since what runs for weeks is judged by what it costs then;
// the sockets and MirrorMaker 2 are new processes each time. Owns no figure but those it measured.
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Cluster } from '../src/cluster/cluster.ts';
import { type CausewayProcess, startCauseway } from '../test/helpers/causeway-process.ts';
import { type KafkaCluster, startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { until } from '../test/helpers/wait.ts';
import { cpuSeconds, residentBytes } from './child.ts';
import { fetchScript } from './fetch-script.ts';
import { createTopic, loadTopic, type TopicPlan } from './loaded-topic.ts';
import { mirrorMaker } from './mirror-maker.ts';
import { mirroredRecords } from './mirror-progress.ts';
import {
  type BenchOptions,
  type BenchResult,
  type BenchRow,
  comparedRow,
  median,
  row,
  turnOrder,
} from './report.ts';
import {
  brokerSink,
  type Figures,
  megabytesPerCpuSecond,
  megabytesPerSecond,
  plainSink,
} from './sinks.ts';
import { inWarmMemory } from './warm-memory.ts';

const sinkShare = 0.8;
const timesTuned = 8;
const timesDefault = 10;

/** In each of the first few, V8 still compiles some of the mirror's code, and throws some away. */
const warmUpCopies = 4;

type Kind = 'sink' | 'fedSink' | 'mirror' | 'tuned' | 'default';

interface Stage {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly looker: Cluster;
  readonly causeway: CausewayProcess;
  readonly directory: string;
}

const linkName = 'bench';

/** The mirror is made while its link rests, and measured from the moment that it goes on. */
async function mirror(stage: Stage, plan: TopicPlan, bytes: number): Promise<Figures> {
  const { causeway } = stage;
  await causeway.cli('link', 'config', 'set', linkName, 'cluster.link.paused=true');
  await causeway.cli('mirror', 'create', plan.topic, '--link', linkName);
  const figures = await inWarmMemory(memoryFor(stage, bytes), async () => {
    const begun = { at: performance.now(), cpu: cpuSeconds(causeway.pid) };
    await causeway.cli('link', 'config', 'set', linkName, 'cluster.link.paused=false');
    const hasAll = async (): Promise<boolean> =>
      (await mirroredRecords(causeway, plan.topic)) >= plan.records;
    await until('the whole mirror', hasAll, { deadlineMs: 600_000, intervalMs: 250 });
    return {
      bytes,
      seconds: (performance.now() - begun.at) / 1000,
      cpuSeconds: cpuSeconds(causeway.pid) - begun.cpu,
    };
  });
  await causeway.cli('mirror', 'delete', plan.topic, '--yes');
  return figures;
}

const memoryFor = ({ directory }: Stage, bytes: number) => ({
  bytes,
  file: path.join(directory, 'memory'),
});

type Samples = Record<Kind, Figures[]>;

async function samplesOf(stage: Stage, plan: TopicPlan, rounds: number): Promise<Samples> {
  const { source, directory } = stage;
  const samples: Samples = { sink: [], fedSink: [], mirror: [], tuned: [], default: [] };
  await createTopic(source, plan);
  const bytes = await loadTopic(source, plan);
  const script = await fetchScript(source, plan);
  const file = path.join(directory, 'sink');
  const toFile = async (sink: () => Promise<Figures>): Promise<Figures> => {
    const figures = await inWarmMemory(memoryFor(stage, bytes), sink);
    await rm(file);
    return figures;
  };
  const maker = (isTuned: boolean, round: number): Promise<Figures> =>
    mirrorMaker({ ...stage, plan, bytes, isTuned, round });
  const ways: readonly (readonly [Kind, (round: number) => Promise<Figures>])[] = [
    ['fedSink', () => toFile(() => plainSink(bytes, file))],
    ['sink', () => toFile(() => brokerSink(source, script, file))],
    ['mirror', () => mirror(stage, plan, bytes)],
    ['tuned', (round) => maker(true, round)],
    ['default', (round) => maker(false, round)],
  ];
  for (let copy = 0; copy < warmUpCopies; copy++) await mirror(stage, plan, bytes);
  for (let round = 0; round < rounds; round++) {
    for (const [kind, run] of turnOrder(ways, round)) samples[kind].push(await run(round));
  }
  return samples;
}

async function measure(stage: Stage, plan: TopicPlan, rounds: number): Promise<BenchRow[]> {
  const samples = await samplesOf(stage, plan, rounds);
  const middle = (kind: Kind, figureOf: (figures: Figures) => number): number =>
    median(samples[kind].map(figureOf));
  const perCpu = (kind: Kind): number[] => samples[kind].map(megabytesPerCpuSecond);
  const name = formOf(plan);
  const unit = 'MB per CPU-second';
  const label = (baseline: string): string => `${name}: mirror, against ${baseline}`;
  const values = perCpu('mirror');
  const against = (kind: Kind, what: string, target: number): BenchRow =>
    comparedRow(label(what), unit, { values, baselines: perCpu(kind) }, { target });
  const rate = (kind: Kind, what: string): BenchRow =>
    row(`${name}: ${what}`, middle(kind, megabytesPerSecond), 'MB/s');
  return [
    against('sink', 'a socket that writes to a file', sinkShare),
    row(`${name}: socket fed by a Node process`, median(perCpu('fedSink')), unit),
    against('tuned', 'MirrorMaker 2 tuned', timesTuned),
    against('default', 'MirrorMaker 2 as it comes', timesDefault),
    rate('mirror', 'mirror'),
    rate('sink', 'socket that writes to a file'),
    rate('fedSink', 'socket fed by a Node process'),
    rate('tuned', 'MirrorMaker 2 tuned'),
    rate('default', 'MirrorMaker 2 as it comes'),
  ];
}

type Form = Omit<TopicPlan, 'topic'>;

function formOf({ partitions, compression }: Form): string {
  return `${partitions}x${compression}`;
}

function allPlans(quick: boolean): Form[] {
  const partitions = quick ? [6] : [6, 1, 1000];
  const compressions = quick ? (['none'] as const) : (['none', 'lz4'] as const);
  return partitions.flatMap((count) =>
    compressions.map((compression) => {
      const records = quick ? 256 * 1024 : 2 * 1024 * 1024;
      return { partitions: count, records, compression };
    }),
  );
}

/** What `--form` can be. */
export function mirrorForms(quick: boolean): readonly string[] {
  return allPlans(quick).map(formOf);
}

function plans({ quick, form }: BenchOptions): Form[] {
  return allPlans(quick).filter((plan) => form === undefined || formOf(plan) === form);
}

export async function benchMirror(options: BenchOptions): Promise<BenchResult> {
  const forms = plans(options);
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-bench-'));
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 512 }),
    startKafkaCluster({ name: 'destination', advertise: 'reachable', heapMb: 512 }),
  ]);
  const causeway = await startCauseway({ destination });
  const looker = openCluster(destination);
  try {
    await causeway.cli('link', 'create', linkName, '--source', source.bootstrap);
    const stage = { source, destination, looker, causeway, directory };
    const rows: BenchRow[] = [];
    for (const plan of forms) {
      const topic = `bench-${plan.partitions}-${plan.compression}`;
      rows.push(...(await measure(stage, { ...plan, topic }, options.quick ? 1 : 5)));
    }
    rows.push(row('proxy, resident memory', residentBytes(causeway.pid) / 1e6, 'MB'));
    return { bench: 'mirror', rows };
  } finally {
    await looker.close();
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
    await rm(directory, { recursive: true, force: true });
  }
}
