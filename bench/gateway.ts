// `npm run bench -- gateway`: Java's own producer and consumer at the broker, through a plain Node
// relay that parses nothing, and through the proxy, in turn, in one run. Owns no figure but those
// it measured.
import path from 'node:path';
import { startCauseway } from '../test/helpers/causeway-process.ts';
import { javaTool } from '../test/helpers/java-tools.ts';
import { startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { releasePorts, reservePort } from '../test/helpers/ports.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { Child, cpuSeconds } from './child.ts';
import { type BenchResult, type BenchRow, median, row } from './report.ts';

const recordsCount = 300_000;
const recordBytes = 1024;
const partitionsCount = 6;
const rounds = 3;

type PathName = 'direct' | 'relay' | 'proxy';

interface Way {
  readonly bootstrap: string;
  /** Process in the middle whose CPU time is counted, or null. */
  readonly pid: number | null;
}

interface Sample {
  readonly megabytesPerSecond: number;
  readonly cpuSecondsPerGigabyte: number;
}

/** The last "(12.34 MB/sec)" of the producer tool; it means MiB. */
function producedRate(text: string): number {
  const found = [...text.matchAll(/\(([\d.]+) MB\/sec\)/g)].at(-1)?.[1];
  if (found === undefined) throw new Error(`no rate in what the tool said: ${text}`);
  return Number(found) * 1.048576;
}

/** Column fetch.MB.sec of the consumer tool; it means MiB. */
function consumedRate(text: string): number {
  const lines = text.trim().split('\n');
  const header = lines.find((line) => line.includes('fetch.MB.sec'));
  const column = header?.split(',').findIndex((name) => name.trim() === 'fetch.MB.sec') ?? -1;
  const value = Number(lines.at(-1)?.split(',')[column]);
  if (!Number.isFinite(value)) throw new Error(`no rate in what the tool said: ${text}`);
  return value * 1.048576;
}

async function measure(way: Way, run: () => Promise<number>): Promise<Sample> {
  const begun = way.pid === null ? 0 : cpuSeconds(way.pid);
  const megabytesPerSecond = await run();
  const used = way.pid === null ? 0 : cpuSeconds(way.pid) - begun;
  const gigabytes = (recordsCount * recordBytes) / 1e9;
  return { megabytesPerSecond, cpuSecondsPerGigabyte: used / gigabytes };
}

async function produce(way: Way, topic: string): Promise<number> {
  const size = ['--num-records', String(recordsCount), '--record-size', String(recordBytes)];
  const { stdout } = await javaTool(
    way,
    'kafka-producer-perf-test',
    ['--topic', topic, ...size, '--throughput', '-1', '--command-property', 'acks=all'],
    { timeoutMs: 300_000 },
  );
  return producedRate(stdout);
}

async function consume(way: Way, topic: string): Promise<number> {
  const count = ['--num-records', String(recordsCount), '--timeout', '60000'];
  const { stdout } = await javaTool(way, 'kafka-consumer-perf-test', ['--topic', topic, ...count], {
    timeoutMs: 300_000,
  });
  return consumedRate(stdout);
}

type Samples = Record<PathName, { produce: Sample[]; consume: Sample[] }>;

async function sample(ways: Record<PathName, Way>): Promise<Samples> {
  const samples: Samples = {
    direct: { produce: [], consume: [] },
    relay: { produce: [], consume: [] },
    proxy: { produce: [], consume: [] },
  };
  for (let round = 0; round < rounds; round++) {
    for (const name of ['direct', 'relay', 'proxy'] as const) {
      const way = ways[name];
      const topic = `bench-${round}-${name}`;
      const count = ['--partitions', String(partitionsCount), '--replication-factor', '1'];
      await javaTool(ways.direct, 'kafka-topics', ['--create', '--topic', topic, ...count]);
      samples[name].produce.push(await measure(way, () => produce(way, topic)));
      samples[name].consume.push(await measure(way, () => consume(way, topic)));
      await javaTool(ways.direct, 'kafka-topics', ['--delete', '--topic', topic]);
    }
  }
  return samples;
}

function rowsOf(samples: Samples, what: 'produce' | 'consume'): BenchRow[] {
  const rate = (name: PathName): number =>
    median(samples[name][what].map((one) => one.megabytesPerSecond));
  const cost = (name: PathName): number =>
    median(samples[name][what].map((one) => one.cpuSecondsPerGigabyte));
  const unit = 'CPU s per GB';
  return [
    row(`${what}, direct`, rate('direct'), 'MB/s'),
    row(`${what}, plain relay`, rate('relay'), 'MB/s', { baseline: rate('direct') }),
    row(`${what}, proxy`, rate('proxy'), 'MB/s', { baseline: rate('direct') }),
    row(`${what}, plain relay`, cost('relay'), unit),
    row(`${what}, proxy against the relay`, cost('proxy'), unit, { baseline: cost('relay') }),
  ];
}

export async function benchGateway(): Promise<BenchResult> {
  const relayPort = await reservePort();
  const destination = await startKafkaCluster({ advertisedPorts: [relayPort], heapMb: 1024 });
  const [broker] = destination.brokers;
  if (broker === undefined) throw new Error('a cluster without brokers');
  const relayProgram = path.join(rootDirectory, 'dist/bench/baseline/plain-relay.js');
  const relay = new Child([relayProgram, String(relayPort), String(broker.port)]);
  await relay.line();
  const causeway = await startCauseway({ destination });
  try {
    const ways: Record<PathName, Way> = {
      direct: { bootstrap: `127.0.0.1:${broker.internalPort}`, pid: null },
      relay: { bootstrap: `127.0.0.1:${relayPort}`, pid: relay.pid },
      proxy: { bootstrap: causeway.bootstrap, pid: causeway.pid },
    };
    const samples = await sample(ways);
    return {
      bench: 'gateway',
      rows: [...rowsOf(samples, 'produce'), ...rowsOf(samples, 'consume')],
    };
  } finally {
    await causeway.stop();
    await relay.stop();
    await destination.stop();
    releasePorts([relayPort]);
  }
}
