// `npm run bench -- distance [--quick]`: how much of a long line one partition fills: 100 ms there
// and back, so many bytes per second and no more, against a plain socket over the same line in the
// same run. Owns no figure but those it measured.
import path from 'node:path';
import { type CausewayProcess, startCauseway } from '../test/helpers/causeway-process.ts';
import { startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { until } from '../test/helpers/wait.ts';
import { Child } from './child.ts';
import { createTopic, loadTopic, type TopicPlan } from './loaded-topic.ts';
import { mirroredRecords } from './mirror-progress.ts';
import { type BenchOptions, type BenchResult, type BenchRow, row } from './report.ts';
import { type Figures, megabytesPerSecond } from './sinks.ts';

const roundTripMs = 100;
const target = 0.8;

function program(name: string, ...args: (string | number)[]): Child {
  return new Child([path.join(rootDirectory, 'dist/bench/baseline', name), ...args.map(String)]);
}

/** A plain socket over such a line. */
async function overTheLine(bytes: number, bytesPerSecond: number): Promise<Figures> {
  const source = program('byte-source.js', bytes);
  const relay = program('distant-relay.js', await source.line(), roundTripMs, bytesPerSecond);
  const sink = program('socket-sink.js', await relay.line(), 'discard');
  const figures = JSON.parse(await sink.line()) as Figures;
  await Promise.all([source.stop(), relay.stop()]);
  return figures;
}

/** From the first record that has arrived to the last. */
async function mirror(causeway: CausewayProcess, plan: TopicPlan, bytes: number): Promise<Figures> {
  const end = (): Promise<number> => mirroredRecords(causeway, plan.topic);
  const options = { deadlineMs: 600_000, intervalMs: 100 };
  const first = await until('the first record', end, options);
  const begun = performance.now();
  await until('the last record', async () => (await end()) >= plan.records, options);
  const seconds = (performance.now() - begun) / 1000;
  return { bytes: (bytes * (plan.records - first)) / plan.records, seconds, cpuSeconds: 0 };
}

export async function benchDistance({ quick }: BenchOptions): Promise<BenchResult> {
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 512 }),
    startKafkaCluster({ name: 'destination' }),
  ]);
  const causeway = await startCauseway({ destination });
  const broker = source.bootstrap;
  const rows: BenchRow[] = [];
  try {
    const rates = quick ? [20] : [20, 50];
    for (const rate of rates) {
      const bytesPerSecond = rate * 1e6;
      // Ten seconds' worth, or five.
      const records = Math.floor((bytesPerSecond * (quick ? 5 : 10)) / 1024);
      const plan = { topic: `far-${rate}`, partitions: 1, records, compression: 'none' } as const;
      await createTopic(source, plan);
      const bytes = await loadTopic(source, plan);
      const line = await overTheLine(bytes, bytesPerSecond);
      const port = Number(broker.split(':')[1]);
      const relay = program('distant-relay.js', port, roundTripMs, bytesPerSecond);
      const far = `127.0.0.1:${await relay.line()}`;
      const map = ['--config', `address.map=${broker}=${far}`];
      await causeway.cli('link', 'create', plan.topic, '--source', far, ...map);
      await causeway.cli('mirror', 'create', plan.topic, '--link', plan.topic);
      const copied = await mirror(causeway, plan, bytes);
      await causeway.cli('mirror', 'delete', plan.topic, '--yes');
      await causeway.cli('link', 'delete', plan.topic, '--yes');
      await relay.stop();
      const baseline = megabytesPerSecond(line);
      rows.push(
        row(`plain socket, ${rate} MB/s and ${roundTripMs} ms`, baseline, 'MB/s'),
        row('mirror of one partition', megabytesPerSecond(copied), 'MB/s', { baseline, target }),
      );
    }
    return { bench: 'distance', rows };
  } finally {
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
  }
}
