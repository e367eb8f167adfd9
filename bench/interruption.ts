// `npm run bench -- interruption`: for how long a failover interrupts real clients that write and
// read the topics that are switched, each library by itself: from the moment the command is given
// to the first record written and acknowledged after it, and to the first such record read. Owns no
// figure but those it measured. The baseline is a write and a read of the same clients at the same
// topic once it is ordinary.
import {
  type ForeignConsumer,
  type ForeignProducer,
  type ProducerKind,
  skipReason,
  startConsumer,
  startProducer,
} from '../test/helpers/foreign-clients.ts';
import { type LinkedStage, startStage } from '../test/helpers/linked-stage.ts';
import { command } from '../test/helpers/mirror-commands.ts';
import { write } from '../test/helpers/raw-writes.ts';
import { createTopic } from '../test/helpers/topic-admin.ts';
import { type BenchResult, type BenchRow, median, row } from './report.ts';

const rounds = Number(process.env.CAUSEWAY_BENCH_ROUNDS ?? 5);
const targetMs = 500;
const deadline = { deadlineMs: 90_000, intervalMs: 2 };
const kinds: readonly ProducerKind[] = [
  'java',
  'librdkafka',
  'franz-go',
  'sarama',
  'kafkajs',
  'kafka-python',
];
/** The design's own target; the others are told only. */
const withTarget: ReadonlySet<ProducerKind> = new Set(['java', 'librdkafka', 'franz-go']);

interface Interruption {
  readonly answeredMs: number;
  readonly writtenMs: number;
  readonly readMs: number;
  /** Of one more write and read afterwards. */
  readonly baselineMs: number;
}

/** Sends one record after the other, at once after a refusal as an application would. */
async function firstWrite(producer: ForeignProducer, label: string): Promise<string> {
  for (let count = 0; ; count++) {
    const value = `${label} ${count}`;
    const isWritten = await producer.send({ partition: 0, value }).then(
      () => true,
      () => false,
    );
    if (isWritten) return value;
    if (!producer.isRunning) throw new Error(`the ${producer.kind} producer ended`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function readOf(consumer: ForeignConsumer, value: string): Promise<number> {
  const isIt = (record: { value: string | null }): boolean => record.value === value;
  await consumer.waitFor(`'${value}'`, (records) => records.some(isIt), deadline);
  return performance.now();
}

async function measure(
  stage: LinkedStage,
  topic: string,
  producer: ForeignProducer,
  consumer: ForeignConsumer,
): Promise<Interruption> {
  const writing = firstWrite(producer, `${topic} after`);
  const begun = performance.now();
  const answered = command(stage.causeway, 'failover', topic).then(({ error }) => {
    if (error) throw new Error(`failover of ${topic}: ${error.code} ${error.message}`);
    return performance.now();
  });
  const value = await writing;
  const writtenMs = performance.now() - begun;
  const readMs = (await readOf(consumer, value)) - begun;
  const answeredMs = (await answered) - begun;
  const again = performance.now();
  const next = await firstWrite(producer, `${topic} later`);
  const baselineMs = (await readOf(consumer, next)) - again;
  return { answeredMs, writtenMs, readMs, baselineMs };
}

async function oneRound(
  stage: LinkedStage,
  kind: ProducerKind,
  round: number,
): Promise<Interruption> {
  const topic = `interruption-${kind}-${round}`;
  const { atSource, causeway } = stage;
  await createTopic(atSource, topic, { partitions: 1 });
  await write(atSource, topic, 0, ['before']);
  await stage.mirror(topic);
  await stage.caughtUp(topic);
  const options = { bootstrap: causeway.bootstrap, topic };
  const [consumer, producer] = await Promise.all([
    startConsumer(kind, { ...options, group: topic, autoCommitMs: 1_000 }),
    startProducer(kind, options),
  ]);
  try {
    await consumer.waitForCount(1, deadline);
    // It has been refused once: its connections and metadata are those of a client at work.
    await producer.send({ partition: 0, value: 'refused' }).catch((error: unknown) => error);
    return await measure(stage, topic, producer, consumer);
  } finally {
    await Promise.all([consumer.kill(), producer.kill()]);
  }
}

function rowsOf(kind: ProducerKind, found: readonly Interruption[]): BenchRow[] {
  const middle = (name: keyof Interruption): number => median(found.map((one) => one[name]));
  const options = {
    baseline: middle('baselineMs'),
    ...(withTarget.has(kind) ? { atMost: targetMs } : {}),
  };
  return [
    row(`${kind}: the failover is answered`, middle('answeredMs'), 'ms'),
    row(`${kind}: one write, read back, afterwards`, middle('baselineMs'), 'ms'),
    row(`${kind}: first write`, middle('writtenMs'), 'ms', options),
    row(`${kind}: first read`, middle('readMs'), 'ms', options),
    row(`${kind}: first read, worst`, Math.max(...found.map(({ readMs }) => readMs)), 'ms'),
  ];
}

export async function benchInterruption(): Promise<BenchResult> {
  const stage = await startStage();
  try {
    const rows: BenchRow[] = [];
    for (const kind of kinds) {
      const reason = await skipReason(kind);
      if (reason !== false) {
        process.stderr.write(`# left out, ${reason}\n`);
        continue;
      }
      const found: Interruption[] = [];
      for (let round = 0; round < rounds; round++) found.push(await oneRound(stage, kind, round));
      rows.push(...rowsOf(kind, found));
    }
    return { bench: 'interruption', rows };
  } finally {
    await stage.stop();
  }
}
