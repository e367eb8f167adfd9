// `npm run bench -- serve [--quick]`: Java's own consumer reading a mirror through the link node,
// against the same consumer at the source's broker, in turn, in one run: right after a restart of
// the proxy, whose caches are empty then, and again. Owns no figure but those it measured.
import { startCauseway } from '../test/helpers/causeway-process.ts';
import { javaTool } from '../test/helpers/java-tools.ts';
import { startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { until } from '../test/helpers/wait.ts';
import { cpuSeconds } from './child.ts';
import { createTopic, loadTopic, type TopicPlan } from './loaded-topic.ts';
import { mirroredRecords } from './mirror-progress.ts';
import {
  type BenchOptions,
  type BenchResult,
  type BenchRow,
  comparedRow,
  median,
  row,
} from './report.ts';
import { type Figures, megabytesPerSecond } from './sinks.ts';

const target = 0.9;

/** One whole reading; `pid` is whose CPU time is counted. */
async function consume(
  at: { bootstrap: string; pid: number },
  plan: TopicPlan,
  bytes: number,
): Promise<Figures> {
  const begun = cpuSeconds(at.pid);
  const wanted = ['--topic', plan.topic, '--num-records', String(plan.records)];
  const { stdout } = await javaTool(
    at,
    'kafka-consumer-perf-test',
    [...wanted, '--timeout', '60000'],
    {
      timeoutMs: 300_000,
    },
  );
  const [header = '', ...lines] = stdout
    .trim()
    .split('\n')
    .filter((line) => line.includes(','));
  // Fetching alone, without the time that joining the group takes.
  const column = header.split(',').findIndex((name) => name.trim() === 'fetch.time.ms');
  const milliseconds = Number(lines.at(-1)?.split(',')[column]);
  if (!(milliseconds > 0)) throw new Error(`no time in what the tool said: ${stdout}`);
  return { bytes, seconds: milliseconds / 1000, cpuSeconds: cpuSeconds(at.pid) - begun };
}

export async function benchServe({ quick }: BenchOptions): Promise<BenchResult> {
  const rounds = quick ? 1 : 7;
  const records = quick ? 128 * 1024 : 512 * 1024;
  const plan: TopicPlan = { topic: 'serve', partitions: 6, records, compression: 'none' };
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 512 }),
    startKafkaCluster({ name: 'destination', heapMb: 512 }),
  ]);
  const causeway = await startCauseway({ destination });
  try {
    await causeway.cli('link', 'create', 'serve', '--source', source.bootstrap);
    await createTopic(source, plan);
    const bytes = await loadTopic(source, plan);
    await causeway.cli('mirror', 'create', plan.topic, '--link', 'serve');
    const hasAll = async (): Promise<boolean> =>
      (await mirroredRecords(causeway, plan.topic)) >= records;
    await until('the whole mirror', hasAll, { deadlineMs: 300_000, intervalMs: 250 });
    const direct = { bootstrap: source.bootstrap, pid: source.pid() };
    const samples: Record<'direct' | 'cold' | 'cached', Figures[]> = {
      direct: [],
      cold: [],
      cached: [],
    };
    await consume(direct, plan, bytes);
    for (let round = 0; round < rounds; round++) {
      samples.direct.push(await consume(direct, plan, bytes));
      await causeway.stopProcess();
      await causeway.start();
      const mirrored = { bootstrap: causeway.bootstrap, pid: causeway.pid };
      samples.cold.push(await consume(mirrored, plan, bytes));
      samples.cached.push(await consume(mirrored, plan, bytes));
    }
    const rate = (kind: keyof typeof samples): number[] => samples[kind].map(megabytesPerSecond);
    const cost = (kind: keyof typeof samples): number[] =>
      samples[kind].map((one) => one.cpuSeconds / (one.bytes / 1e9));
    const rates = (what: string, kind: keyof typeof samples): BenchRow =>
      comparedRow(what, 'MB/s', { values: rate(kind), baselines: rate('direct') }, { target });
    const costs = (what: string, kind: keyof typeof samples): BenchRow =>
      comparedRow(what, 'CPU s per GB', { values: cost(kind), baselines: cost('direct') });
    return {
      bench: 'serve',
      rows: [
        row('consumer at the source', median(rate('direct')), 'MB/s'),
        rates('consumer of the mirror, after a restart', 'cold'),
        rates('consumer of the mirror, again', 'cached'),
        row('broker of the source', median(cost('direct')), 'CPU s per GB'),
        costs('proxy, after a restart', 'cold'),
        costs('proxy, again', 'cached'),
      ],
    };
  } finally {
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
  }
}
