// `npm run bench -- gateway [--quick] [--form plain|tls]`: one raw client at the broker, through a
// plain Node relay that parses nothing, and through the proxy, in one run; the last two without and
// with TLS to the client, each of which is a form that can be run alone. Measures throughput, CPU
// per byte of the process in the middle, latency of one record in flight, and its memory per
// connection, all but the last once every way is warm, and in short turns: a broker that writes to
// disk is twice as fast at one moment as at another. Owns no figure but those it measured.
import path from 'node:path';
import { startCauseway } from '../test/helpers/causeway-process.ts';
import { certificateAuthority } from '../test/helpers/certificates.ts';
import { startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { releasePorts, reservePorts } from '../test/helpers/ports.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { createTopic } from '../test/helpers/topic-admin.ts';
import { Child, cpuSeconds, residentBytes } from './child.ts';
import { fetchRequest, LoadConnection, type Prepared, produceRequest } from './gateway-load.ts';
import {
  type BenchOptions,
  type BenchResult,
  type BenchRow,
  comparedRow,
  median,
  percentile,
  type RowLimit,
  row,
  turnOrder,
} from './report.ts';

interface Size {
  /** A multiple of twice the number of ways: see `turnOrder`. */
  readonly rounds: number;
  /** In one turn. */
  readonly bytes: number;
  readonly latencies: number;
  readonly connections: readonly number[];
}

const full: Size = { rounds: 60, bytes: 50e6, latencies: 300, connections: [1, 50, 1000] };
const quick: Size = { rounds: 10, bytes: 30e6, latencies: 200, connections: [1, 50] };

const partitions = 6;
const recordBytes = 1024;
const recordsPerBatch = 16;
const cpuRatioMost = 0.7;
const connectionsAtOnce = 20;
/** So much each way that V8 has compiled most of what it runs through. */
const warmUpRequests = 10_000;
const warmUpProduceBytes = 100e6;
const warmUpConsumeBytes = 250e6;
/** Parts of the warm-up: what V8 compiled while it saw one kind only it throws away at the next. */
const warmUpTurns = 2;

type WayName = 'direct' | 'relay' | 'proxy' | 'relay, TLS' | 'proxy, TLS';

interface Way {
  readonly name: WayName;
  readonly port: number;
  readonly usesTls: boolean;
  /** Process in the middle, or null. */
  readonly pid: number | null;
  /** What it is compared with, and what both add to. */
  readonly baseline: WayName | null;
}

interface Sample {
  readonly megabytesPerSecond: number;
  readonly cpuSecondsPerGigabyte: number;
}

interface Measured {
  readonly produce: Sample[];
  readonly consume: Sample[];
  readonly latencyMs: number[];
  /** Bytes of resident memory more than at rest, by number of connections. */
  readonly memory: Map<number, number>;
}

/** What `--form` can be. */
export const gatewayForms: readonly string[] = ['plain', 'tls'];

type Results = ReadonlyMap<WayName, Measured>;

async function measure(way: Way, run: () => Promise<number>): Promise<Sample> {
  const cpu = (): number => (way.pid === null ? 0 : cpuSeconds(way.pid));
  const begunMs = performance.now();
  const cpuBegun = cpu();
  const bytes = await run();
  const cpuUsed = cpu() - cpuBegun;
  const seconds = (performance.now() - begunMs) / 1000;
  return {
    megabytesPerSecond: bytes / 1e6 / seconds,
    cpuSecondsPerGigabyte: cpuUsed / (bytes / 1e9),
  };
}

async function measureMemory(way: Way, counts: readonly number[], into: Measured): Promise<void> {
  if (way.pid === null) return;
  const atRest = residentBytes(way.pid);
  const open: LoadConnection[] = [];
  try {
    for (const count of counts) {
      while (open.length < count) {
        const missing = Math.min(connectionsAtOnce, count - open.length);
        const more = await Promise.all(
          Array.from({ length: missing }, () => LoadConnection.open(way)),
        );
        open.push(...more);
        await Promise.all(more.map((connection) => connection.touch()));
      }
      into.memory.set(count, residentBytes(way.pid) - atRest);
    }
  } finally {
    for (const connection of open) connection.close();
  }
}

/** What one way is measured with: a connection, and requests to a topic that no other way uses. */
interface Load {
  readonly connection: LoadConnection;
  readonly large: Prepared;
  readonly small: Prepared;
  readonly reading: Prepared;
}

async function openLoad(way: Way, topic: string): Promise<Load> {
  const connection = await LoadConnection.open(way);
  const shape = { topic, partitions, recordBytes, recordsPerBatch };
  return {
    connection,
    large: produceRequest(shape),
    small: produceRequest({ ...shape, partitions: 1, recordsPerBatch: 1, recordBytes: 100 }),
    reading: fetchRequest(topic, partitions),
  };
}

/**
 * Every way alike, once: what runs for weeks is judged by what it costs then, and the program with
 * more code has more to compile at its start.
 */
async function warmUp({ connection, large, small, reading }: Load): Promise<void> {
  await connection.touch();
  for (let turn = 0; turn < warmUpTurns; turn++) {
    await connection.produce(large, warmUpProduceBytes / warmUpTurns);
    await connection.consume(reading, warmUpConsumeBytes / warmUpTurns);
    await connection.latencies(small, warmUpRequests / warmUpTurns);
  }
}

type Turn = (way: Way, load: Load, into: Measured) => Promise<void>;

/** What is measured in each round, all ways one after the other. */
const turnsOf = ({ bytes, latencies }: Size): readonly Turn[] => [
  async (way, { connection, large }, { produce }) => {
    produce.push(await measure(way, () => connection.produce(large, bytes)));
  },
  async (way, { connection, reading }, { consume }) => {
    consume.push(await measure(way, () => connection.consume(reading, bytes)));
  },
  async (_way, { connection, small }, { latencyMs }) => {
    latencyMs.push(...(await connection.latencies(small, latencies)));
  },
];

function measuredOf(results: Results, name: WayName): Measured {
  const found = results.get(name);
  if (found === undefined) throw new Error(`nothing was measured of ${name}`);
  return found;
}

function rowsOf(way: Way, results: Results): BenchRow[] {
  const own = measuredOf(results, way.name);
  const baseline = way.baseline === null ? null : measuredOf(results, way.baseline);
  const direct = measuredOf(results, 'direct');
  return [
    ...rateRows(way, own, baseline),
    ...latencyRows(way, { own, baseline, direct }),
    ...[...own.memory].map(([count, bytes]) => {
      const compared = baseline?.memory.get(count);
      const options = compared === undefined ? {} : { baseline: compared / 1e6 };
      return row(`memory of ${count} connections, ${way.name}`, bytes / 1e6, 'MB', options);
    }),
  ];
}

function rateRows(way: Way, own: Measured, baseline: Measured | null): BenchRow[] {
  return (['produce', 'consume'] as const).flatMap((what) => {
    const rowOf = (unit: string, of: (one: Sample) => number, limit: RowLimit): BenchRow => {
      const values = own[what].map(of);
      const name = `${what}, ${way.name}`;
      if (baseline === null) return row(name, median(values), unit);
      return comparedRow(name, unit, { values, baselines: baseline[what].map(of) }, limit);
    };
    const rate = rowOf('MB/s', (one) => one.megabytesPerSecond, { target: 1 });
    if (way.pid === null) return [rate];
    const limit = { ratioAtMost: cpuRatioMost };
    return [rate, rowOf('CPU s per GB', (one) => one.cpuSecondsPerGigabyte, limit)];
  });
}

/** Of a way with a process in the middle: what it adds to the broker's own. */
function latencyRows(
  way: Way,
  { own, baseline, direct }: { own: Measured; baseline: Measured | null; direct: Measured },
): BenchRow[] {
  return [0.5, 0.99, 0.999].map((share) => {
    const at = (of: Measured): number => percentile(of.latencyMs, share);
    const what = `p${share * 100} of one record, ${way.name}`;
    if (way.pid === null) return row(what, at(own), 'ms');
    const added = at(own) - at(direct);
    if (baseline === null) return row(`${what}, added`, added, 'ms');
    const most = share === 0.5 ? { ratioAtMost: 1 } : {};
    const addedByBaseline = at(baseline) - at(direct);
    // On a machine that is not quiet the relay may seem to save time: nothing to compare with.
    if (addedByBaseline <= 0) return row(`${what}, added`, added, 'ms');
    return row(`${what}, added`, added, 'ms', { baseline: addedByBaseline, ...most });
  });
}

async function measureAll(
  ways: readonly Way[],
  size: Size,
  newTopic: (name: string) => Promise<void>,
): Promise<Results> {
  const results = new Map<WayName, Measured>();
  for (const way of ways) {
    const own = { produce: [], consume: [], latencyMs: [], memory: new Map<number, number>() };
    results.set(way.name, own);
    await measureMemory(way, size.connections, own);
  }
  const loads = new Map<Way, Load>();
  try {
    for (const [index, way] of ways.entries()) {
      const topic = `bench-${index}`;
      await newTopic(topic);
      const load = await openLoad(way, topic);
      loads.set(way, load);
      await warmUp(load);
    }
    for (let round = 0; round < size.rounds; round++) {
      for (const turn of turnsOf(size)) {
        for (const [way, load] of turnOrder([...loads], round)) {
          await turn(way, load, measuredOf(results, way.name));
        }
      }
    }
  } finally {
    for (const { connection } of loads.values()) connection.close();
  }
  return results;
}

function waysOf(all: readonly Way[], form: string | undefined): Way[] {
  return all.filter(
    ({ name, usesTls }) => form === undefined || name === 'direct' || usesTls === (form === 'tls'),
  );
}

export async function benchGateway(options: BenchOptions): Promise<BenchResult> {
  const ports = await reservePorts(2);
  const [relayPort = 0, relayTlsPort = 0] = ports;
  const stops: (() => Promise<unknown>)[] = [async () => releasePorts(ports)];
  try {
    const ca = await certificateAuthority();
    stops.push(() => ca.remove());
    const { certificateFile, keyFile } = await ca.sign('server', 'IP:127.0.0.1');
    const destination = await startKafkaCluster({ heapMb: 1024 });
    stops.push(() => destination.stop());
    const [broker] = destination.brokers;
    if (broker === undefined) throw new Error('a cluster without brokers');
    const program = path.join(rootDirectory, 'dist/bench/baseline/plain-relay.js');
    const startRelay = async (port: number, ...files: string[]): Promise<number> => {
      const relay = new Child([program, String(port), String(broker.port), ...files]);
      stops.push(() => relay.stop());
      await relay.line();
      return relay.pid;
    };
    const relayPid = await startRelay(relayPort);
    const relayTlsPid = await startRelay(relayTlsPort, certificateFile, keyFile);
    const plain = await startCauseway({ destination });
    stops.push(() => plain.stop());
    const gateway = { tls: { certificate: certificateFile, key: keyFile } };
    const secured = await startCauseway({ destination, name: 'secured', config: { gateway } });
    stops.push(() => secured.stop());
    const all: Way[] = [
      { name: 'direct', port: broker.port, usesTls: false, pid: null, baseline: null },
      { name: 'relay', port: relayPort, usesTls: false, pid: relayPid, baseline: null },
      { name: 'proxy', port: portOf(plain), usesTls: false, pid: plain.pid, baseline: 'relay' },
      { name: 'relay, TLS', port: relayTlsPort, usesTls: true, pid: relayTlsPid, baseline: null },
      {
        name: 'proxy, TLS',
        port: portOf(secured),
        usesTls: true,
        pid: secured.pid,
        baseline: 'relay, TLS',
      },
    ];
    const ways = waysOf(all, options.form);
    const client = openCluster(destination);
    stops.push(() => client.close());
    const newTopic = (name: string): Promise<void> => createTopic(client, name, { partitions });
    const results = await measureAll(ways, options.quick ? quick : full, newTopic);
    return { bench: 'gateway', rows: ways.flatMap((way) => rowsOf(way, results)) };
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** There is one broker, so any listener but the link node's leads everywhere. */
function portOf({ bootstrap }: { bootstrap: string }): number {
  return Number(bootstrap.split(':').at(-1));
}
