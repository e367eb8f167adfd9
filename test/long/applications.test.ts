// Kafka's own applications over a promotion of their input topics: Streams (exactly_once_v2),
// Connect and a transactional copy run through the proxy from the mirrors on, all the time that is
// given with `--minutes`, half of it before and half after the promotion, without a restart. At the
// end every value is counted.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type ForeignConsumer, startConsumer } from '../helpers/foreign-clients.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import {
  type Application,
  startConnect,
  startCopier,
  startStreams,
} from './application-processes.ts';

const inputs = { streams: 2, sunk: 1, copied: 1 } as const;
type Input = keyof typeof inputs;
const inputNames = Object.keys(inputs) as Input[];
const outputs = ['streams-out', 'streams-counts', 'from-file', 'copied-out'];

/** Writes to every partition of every input, now at the source, later through the proxy. */
class Writer {
  readonly sent = new Map<Input, string[]>(inputNames.map((name) => [name, []]));
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;

  constructor(stage: LinkedStage, random: SeededRandom) {
    this.#stage = stage;
    this.#random = random;
  }

  /** Until `endMs`; each of the applications is looked at between. */
  async run(
    at: 'atSource' | 'atProxy',
    endMs: number,
    between: () => Promise<void>,
  ): Promise<void> {
    while (performance.now() < endMs) {
      for (const topic of inputNames) {
        for (let partition = 0; partition < inputs[topic]; partition++) {
          const all = this.sent.get(topic) ?? [];
          const batch = values(`${topic}-${partition}-${all.length}`, this.#random.below(30) + 1);
          await write(this.#stage[at], topic, partition, batch);
          all.push(...batch);
        }
      }
      await between();
    }
  }
}

/** All values of a topic, read committed, when there are as many as expected. */
async function valuesOf(stage: LinkedStage, topic: string, count: number): Promise<string[]> {
  const { bootstrap } = stage.causeway;
  const reader: ForeignConsumer = await startConsumer('java', {
    bootstrap,
    topic,
    isolation: 'read_committed',
  });
  try {
    await reader.waitForCount(count, { deadlineMs: 300_000 });
    return reader.records.map(({ value }) => value ?? '');
  } finally {
    await reader.stop();
  }
}

async function assertCounts(stage: LinkedStage, sent: readonly string[]): Promise<void> {
  const expected = new Map<string, number>();
  for (const value of sent) {
    const digit = value.slice(-1);
    expected.set(digit, (expected.get(digit) ?? 0) + 1);
  }
  const reader = await startConsumer('java', {
    bootstrap: stage.causeway.bootstrap,
    topic: 'streams-counts',
    isolation: 'read_committed',
  });
  try {
    const latest = (): Map<string, number> =>
      new Map(reader.records.map(({ key, value }) => [key ?? '', Number(value)]));
    await reader.waitFor(
      'the last counts',
      () => [...expected].every(([digit, count]) => (latest().get(digit) ?? 0) >= count),
      { deadlineMs: 300_000 },
    );
    assert.deepEqual([...latest()].sort(), [...expected].sort());
  } finally {
    await reader.stop();
  }
}

test('Streams, Connect and an exactly-once copy stay healthy over a promotion of their inputs', {
  timeout: 7_200_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const halfMs = (Number(process.env.CAUSEWAY_TEST_MINUTES ?? 10) * 60_000) / 2;
  const stage = await startStage();
  const running: Application[] = [];
  try {
    const { bootstrap } = stage.causeway;
    for (const topic of inputNames) {
      await createTopic(stage.atSource, topic, { partitions: inputs[topic] });
      await stage.mirror(topic);
    }
    for (const topic of outputs) await createTopic(stage.atProxy, topic);
    const topics = { from: 'streams', to: 'streams-out', counts: 'streams-counts' };
    const streams = await startStreams(bootstrap, topics);
    running.push(streams);
    const connect = await startConnect(bootstrap, { sink: 'sunk', source: 'from-file' });
    running.push(connect);
    running.push(await startCopier(bootstrap, { from: 'copied', to: 'copied-out' }));

    const writer = new Writer(stage, random);
    const sent = (topic: Input): string[] => writer.sent.get(topic) ?? [];
    const lines: string[] = [];
    const between = async (): Promise<void> => {
      lines.push(`line ${lines.length}`);
      await appendFile(connect.sourceFile, `${lines.at(-1)}\n`);
      for (const one of running) await one.assertHealthy();
      // The sink, which flushes every second, sets the pace.
      const bytes = sent('sunk').reduce((sum, value) => sum + value.length + 1, 0);
      const hasFollowed = (): boolean => statSync(connect.sinkFile).size >= bytes;
      await until('the sink to follow', hasFollowed, { deadlineMs: 300_000 });
    };
    await writer.run('atSource', performance.now() + halfMs, between);
    for (const topic of inputNames) await stopMirroring(stage.causeway, 'promote', topic);
    await writer.run('atProxy', performance.now() + halfMs, between);

    const assertExact = async (topic: string, expected: readonly string[]): Promise<void> => {
      const found = await valuesOf(stage, topic, expected.length);
      assert.deepEqual([...found].sort(), [...expected].sort(), topic);
    };
    await assertExact('streams-out', sent('streams'));
    await assertCounts(stage, sent('streams'));
    await assertExact('copied-out', sent('copied'));
    await assertExact('from-file', lines);
    const sunk = (): string[] => readFileSync(connect.sinkFile, 'utf8').trimEnd().split('\n');
    await until('the sink complete', () => sunk().length >= sent('sunk').length);
    assert.deepEqual(sunk().sort(), [...sent('sunk')].sort(), 'the sink');
    for (const one of running) await one.assertHealthy();
    const counts = inputNames.map((topic) => `${topic} ${sent(topic).length}`);
    context.diagnostic(`values: ${counts.join(', ')}, lines ${lines.length}`);
  } finally {
    for (const one of running.reverse()) await one.stop();
    await stage.stop();
  }
});
