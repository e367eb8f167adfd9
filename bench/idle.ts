// `npm run bench -- idle [--quick]`: what 10,000 mirrored partitions cost while nothing is written:
// CPU time of the proxy as a share of one core, and its resident memory. Owns no figure but those
// it measured; before any mirror exists the same is measured as the proxy's own.
import type { Cluster } from '../src/cluster/cluster.ts';
import { type CausewayProcess, startCauseway } from '../test/helpers/causeway-process.ts';
import { javaTool } from '../test/helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { until } from '../test/helpers/wait.ts';
import { cpuSeconds, residentBytes } from './child.ts';
import { type BenchOptions, type BenchResult, row } from './report.ts';

const coreShareMax = 5;
const megabytesMax = 600;

interface Listed {
  readonly topic: string;
  readonly state: string;
}

/** Percent of one core over so many seconds. */
async function coreShare(pid: number, seconds: number): Promise<number> {
  const begun = { at: performance.now(), cpu: cpuSeconds(pid) };
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const passed = (performance.now() - begun.at) / 1000;
  return ((cpuSeconds(pid) - begun.cpu) / passed) * 100;
}

async function mirrorAll(
  parts: { causeway: CausewayProcess; source: KafkaCluster; looker: Cluster },
  plan: { topics: number; partitions: number },
): Promise<void> {
  const { causeway, source, looker } = parts;
  const names = Array.from({ length: plan.topics }, (_, index) => `idle-${index}`);
  const count = ['--partitions', String(plan.partitions), '--replication-factor', '1'];
  const options = { timeoutMs: 300_000 };
  for (const name of names) {
    await javaTool(source, 'kafka-topics', ['--create', '--topic', name, ...count], options);
  }
  await until(
    'all topics at the source',
    async () => (await looker.metadata(names)).topics.size === names.length,
    { deadlineMs: 300_000 },
  );
  for (const name of names) await causeway.cli('mirror', 'create', name, '--link', 'idle');
  await until(
    'all mirrors at work',
    async () => {
      const mirrors = await causeway.cliJson<readonly Listed[]>('mirror', 'list');
      return mirrors.filter(({ state }) => state === 'ACTIVE').length === names.length;
    },
    { deadlineMs: 600_000, intervalMs: 1000 },
  );
}

export async function benchIdle({ quick }: BenchOptions): Promise<BenchResult> {
  const plan = quick ? { topics: 5, partitions: 200 } : { topics: 20, partitions: 500 };
  const [seconds, settleSeconds] = quick ? [10, 5] : [60, 30];
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 1024 }),
    startKafkaCluster({ name: 'destination', heapMb: 1024 }),
  ]);
  const causeway = await startCauseway({ destination });
  const looker = openCluster(source);
  try {
    await causeway.cli('link', 'create', 'idle', '--source', source.bootstrap);
    const alone = await coreShare(causeway.pid, seconds);
    const memoryAlone = residentBytes(causeway.pid) / 1e6;
    await mirrorAll({ causeway, source, looker }, plan);
    await coreShare(causeway.pid, settleSeconds);
    const share = await coreShare(causeway.pid, seconds);
    const memory = residentBytes(causeway.pid) / 1e6;
    const what = `${plan.topics * plan.partitions} idle partitions`;
    return {
      bench: 'idle',
      rows: [
        row('a link without mirrors: CPU', alone, '% of a core'),
        row('a link without mirrors: memory', memoryAlone, 'MB'),
        row(`${what}: CPU`, share, '% of a core', { atMost: coreShareMax }),
        row(`${what}: memory`, memory, 'MB', { atMost: megabytesMax }),
      ],
    };
  } finally {
    await looker.close();
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
  }
}
