// `npm run bench -- mirror`: bytes per CPU-second of the mirror path (Fetch from a real broker,
// checks, append, flush) in a proxy process of its own, against a plain Node socket that reads as
// many bytes in the same run: once throwing them away, once writing them to a file. Owns no figure
// but those it measured.
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type CausewayProcess, startCauseway } from '../test/helpers/causeway-process.ts';
import { javaTool } from '../test/helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { until } from '../test/helpers/wait.ts';
import { Child, cpuSeconds, residentBytes } from './child.ts';
import { type BenchResult, median, row } from './report.ts';

const recordsCount = 512 * 1024;
const recordBytes = 1024;
const partitionsCount = 6;
const rounds = 3;

interface Figures {
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

const bytesPerCpuSecond = (figures: Figures): number => figures.bytes / figures.cpuSeconds / 1e6;

async function load(source: KafkaCluster, topic: string): Promise<void> {
  const count = ['--partitions', String(partitionsCount), '--replication-factor', '1'];
  await javaTool(source, 'kafka-topics', ['--create', '--topic', topic, ...count]);
  const size = ['--num-records', String(recordsCount), '--record-size', String(recordBytes)];
  const options = { timeoutMs: 300_000 };
  // The tool takes its brokers as a client property; `javaTool` adds --bootstrap-server as well.
  await javaTool(
    source,
    'kafka-producer-perf-test',
    ['--topic', topic, ...size, '--throughput', '-1', '--command-property', 'acks=1'],
    options,
  );
}

async function baseline(bytes: number, target: string): Promise<Figures> {
  const folder = path.join(rootDirectory, 'dist/bench/baseline');
  const source = new Child([path.join(folder, 'byte-source.js'), String(bytes)]);
  const port = await source.line();
  const sink = new Child([path.join(folder, 'socket-sink.js'), port, target]);
  const figures = JSON.parse(await sink.line()) as Figures;
  await source.stop();
  return figures;
}

interface Lag {
  readonly partitions: readonly { readonly mirrorEnd: number; readonly sourceEnd: number }[];
}

async function mirroredAll(causeway: CausewayProcess, topic: string): Promise<boolean> {
  const { partitions } = await causeway.cliJson<Lag>('mirror', 'describe', topic);
  const ends = partitions.reduce((total, partition) => total + Number(partition.mirrorEnd), 0);
  return ends >= recordsCount;
}

async function mirror(causeway: CausewayProcess, topic: string, bytes: number): Promise<Figures> {
  const cpuBegun = cpuSeconds(causeway.pid);
  const begun = performance.now();
  await causeway.cli('mirror', 'create', topic, '--link', 'bench');
  await until('the whole mirror', () => mirroredAll(causeway, topic), {
    deadlineMs: 300_000,
    intervalMs: 500,
  });
  return {
    bytes,
    seconds: (performance.now() - begun) / 1000,
    cpuSeconds: cpuSeconds(causeway.pid) - cpuBegun,
  };
}

export async function benchMirror(): Promise<BenchResult> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-bench-'));
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 512 }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  const causeway = await startCauseway({ destination });
  try {
    await causeway.cli('link', 'create', 'bench', '--source', source.bootstrap);
    const bytes = recordsCount * recordBytes;
    const results: Record<'discard' | 'write' | 'mirror', Figures[]> = {
      discard: [],
      write: [],
      mirror: [],
    };
    for (let round = 0; round < rounds; round++) {
      const topic = `bench-${round}`;
      await load(source, topic);
      results.discard.push(await baseline(bytes, 'discard'));
      results.write.push(await baseline(bytes, path.join(directory, 'sink')));
      results.mirror.push(await mirror(causeway, topic, bytes));
      await causeway.cli('mirror', 'delete', topic, '--yes');
    }
    const middle = (name: keyof typeof results): number =>
      median(results[name].map(bytesPerCpuSecond));
    const rate = median(results.mirror.map((one) => one.bytes / one.seconds / 1e6));
    const unit = 'MB per CPU-second';
    return {
      bench: 'mirror',
      rows: [
        row('plain socket, discards', middle('discard'), unit),
        row('plain socket, writes to a file', middle('write'), unit),
        row('mirror, against discarding', middle('mirror'), unit, { baseline: middle('discard') }),
        row('mirror, against writing', middle('mirror'), unit, { baseline: middle('write') }),
        row('mirror, record bytes per second', rate, 'MB/s'),
        row('proxy, resident memory', residentBytes(causeway.pid) / 1e6, 'MB'),
      ],
    };
  } finally {
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
    await rm(directory, { recursive: true, force: true });
  }
}
