// How clients that ran against the source come over to the proxy when the source dies, with nothing
// but the name in `bootstrap.servers` leading elsewhere: measured, and as the table of
// docs/clients.md.
//
// Owns: the clients with their settings, one disaster with some of them at a time, and the rows.
// Invariant: a producer counts as over when a record that was acknowledged is in the log.

import {
  type ConsumerKind,
  type ForeignConsumer,
  type ForeignProducer,
  type ProducerKind,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { waitForSyncedOffsets } from '../helpers/group-commits.ts';
import type { KafkaVersion } from '../helpers/kafka-jars.ts';
import { type LinkedStage, linkName } from '../helpers/linked-stage.ts';
import { readLog } from '../helpers/log-records.ts';
import { command } from '../helpers/mirror-commands.ts';
import { write } from '../helpers/raw-writes.ts';
import type { Relay } from '../helpers/relay.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

export type Disaster = 'killed' | 'hangs';

export interface ClientCase {
  readonly client: string;
  readonly settings: string;
  readonly consumer: ConsumerKind;
  /** Undefined where only the consumer differs from another row. */
  readonly producer?: ProducerKind;
  readonly javaVersion?: KafkaVersion;
  readonly properties?: Readonly<Record<string, string>>;
}

const java = { consumer: 'java', producer: 'java' } as const;
const rdkafka = { consumer: 'librdkafka', producer: 'librdkafka' } as const;
const rebootstrap = { 'metadata.recovery.strategy': 'rebootstrap' };
const stay = { 'metadata.recovery.strategy': 'none' };
const trigger = { 'metadata.recovery.rebootstrap.trigger.ms': '5000' };
const triggered = 'rebootstrap, trigger and request timeout 5 s';

/** Some at a time: the machine has two processors. */
export const batches: readonly (readonly ClientCase[])[] = [
  [
    { client: 'Java 3.9.2', settings: 'default', ...java, javaVersion: '3.9.2' },
    {
      ...{ client: 'Java 3.9.2', settings: 'rebootstrap', ...java, javaVersion: '3.9.2' },
      properties: rebootstrap,
    },
    { client: 'Java 4.0.0', settings: 'default', ...java, javaVersion: '4.0.0' },
  ],
  [
    { client: 'Java 4.4.0', settings: 'default', ...java },
    { client: 'Java 4.4.0', settings: 'none', ...java, properties: stay },
    {
      ...{ client: 'Java 4.4.0', settings: triggered, ...java },
      properties: { ...trigger, 'request.timeout.ms': '5000', 'default.api.timeout.ms': '10000' },
    },
    { client: 'Java 4.4.0', settings: 'group.protocol=consumer', consumer: 'java-kip848' },
  ],
  [
    { client: 'librdkafka 2.16', settings: 'default', ...rdkafka },
    {
      ...{ client: 'librdkafka 2.16', settings: triggered, ...rdkafka },
      properties: { ...trigger, 'socket.timeout.ms': '5000' },
    },
    {
      ...{ client: 'librdkafka 2.16', settings: 'group.protocol=consumer' },
      consumer: 'librdkafka-kip848',
    },
    { client: 'franz-go 1.22', settings: 'default', consumer: 'franz-go', producer: 'franz-go' },
    { client: 'kafkajs 2.2', settings: 'default', consumer: 'kafkajs', producer: 'kafkajs' },
    { client: 'sarama 1.61', settings: 'default', consumer: 'sarama', producer: 'sarama' },
  ],
];

export interface CrossingRow {
  readonly client: string;
  readonly settings: string;
  readonly source: Disaster;
  readonly consumer: string;
  readonly idempotent: string;
  readonly transactional: string;
  /** The first one of each producer: for the test's messages. */
  readonly errors: readonly string[];
}

interface Actors {
  readonly one: ClientCase;
  readonly topic: string;
  readonly consumer: ForeignConsumer;
  readonly idempotent: ForeignProducer | null;
  readonly transactional: ForeignProducer | null;
}

const deadlinesMs: Readonly<Record<Disaster, number>> = { killed: 30_000, hangs: 130_000 };
const recordsBefore = 10;

function crossed(sinceMs: number): string {
  return `crosses, ${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`;
}

async function startActors(
  stage: LinkedStage,
  bootstrap: string,
  one: ClientCase,
  topic: string,
): Promise<Actors> {
  // A broker that has just gone on is fenced for a moment.
  await until(`${topic} at the source`, () => createTopic(stage.atSource, topic).then(() => true));
  const common = {
    ...{ bootstrap, topic },
    ...(one.javaVersion ? { javaVersion: one.javaVersion } : {}),
    ...(one.properties ? { properties: { ...one.properties } } : {}),
  };
  const produce = (more: { isIdempotent?: boolean; transactionalId?: string }) =>
    one.producer === undefined ? null : startProducer(one.producer, { ...common, ...more });
  const [consumer, idempotent, transactional] = await Promise.all([
    startConsumer(one.consumer, { ...common, group: topic, autoCommitMs: 200 }),
    produce({ isIdempotent: true }),
    produce({ transactionalId: topic }),
  ]);
  return { one, topic, consumer, idempotent, transactional };
}

/** All three at work at the source, mirrored, and the group's commit carried over. */
async function work(stage: LinkedStage, actors: Actors): Promise<void> {
  const { topic, consumer, idempotent, transactional } = actors;
  if (transactional) {
    await transactional.begin();
    await transactional.send({ partition: 0, value: 'in a transaction' });
    await transactional.commit();
  }
  for (let count = 0; count < recordsBefore; count++) {
    const value = `before ${count}`;
    if (idempotent) await idempotent.send({ partition: 0, value });
    else await write(stage.atSource, topic, 0, [value]);
  }
  await consumer.waitForCount(recordsBefore + (transactional ? 1 : 0), { deadlineMs: 90_000 });
  await stage.mirror(topic);
  await stage.caughtUp(topic);
}

async function consumerOver(actors: Actors, sinceMs: number, deadlineMs: number): Promise<string> {
  const { consumer } = actors;
  const isAfter = (record: { value: string | null }): boolean =>
    record.value?.startsWith('after') ?? false;
  return consumer
    .waitFor('a record of the destination', (all) => all.some(isAfter), {
      deadlineMs,
    })
    .then(
      () => crossed(sinceMs),
      () => (consumer.isRunning ? 'never' : 'ends'),
    );
}

interface Told {
  readonly told: string;
  /** What was acknowledged. */
  readonly value: string | null;
  readonly firstError: string | null;
}

/** Tries until it works, as an application would that keeps its producer. */
async function producerOver(
  producer: ForeignProducer,
  attempt: (value: string) => Promise<unknown>,
  timing: { sinceMs: number; deadlineMs: number; label: string },
): Promise<Told> {
  let told = 'never';
  let firstError: string | null = null;
  const endMs = timing.sinceMs + timing.deadlineMs;
  for (let count = 0; performance.now() < endMs; count++) {
    const value = `${timing.label} ${count}`;
    const late = new Promise<'late'>((resolve) => {
      setTimeout(resolve, Math.max(0, endMs - performance.now()), 'late').unref();
    });
    const outcome = await Promise.race([
      attempt(value).then(
        () => 'done' as const,
        (error: unknown) => ({ error }),
      ),
      late,
    ]);
    if (outcome === 'done') return { told: crossed(timing.sinceMs), value, firstError };
    if (outcome === 'late') break;
    told = 'fails';
    firstError ??= String(outcome.error);
    if (!producer.isRunning) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { told, value: null, firstError };
}

async function transaction(producer: ForeignProducer, value: string): Promise<void> {
  await producer.begin();
  try {
    await producer.send({ partition: 0, value });
    await producer.commit();
  } catch (error) {
    await producer.abort().catch((second: unknown) => second);
    throw error;
  }
}

async function watch(
  stage: LinkedStage,
  actors: Actors,
  timing: { sinceMs: number; deadlineMs: number },
): Promise<Omit<CrossingRow, 'client' | 'settings' | 'source'>> {
  const { idempotent, transactional, topic } = actors;
  const nothing: Told = { told: '', value: null, firstError: null };
  const [consumer, first, second] = await Promise.all([
    consumerOver(actors, timing.sinceMs, timing.deadlineMs),
    idempotent === null
      ? nothing
      : producerOver(idempotent, (value) => idempotent.send({ partition: 0, value }), {
          ...timing,
          label: 'idempotent',
        }),
    transactional === null
      ? nothing
      : producerOver(transactional, (value) => transaction(transactional, value), {
          ...timing,
          label: 'transactional',
        }),
  ]);
  const log = await readLog(stage.causeway, { name: topic, partitions: 1 });
  const told = ({ told: text, value }: Told): string =>
    value === null || log.some((record) => record.value === value)
      ? text
      : 'acknowledged, not in the log';
  const errors = [first, second].flatMap(({ firstError }) => firstError ?? []);
  return { consumer, idempotent: told(first), transactional: told(second), errors };
}

/** One disaster: the source dies, the topics are failed over, the name leads to the proxy. */
export async function disaster(
  stage: LinkedStage,
  name: Relay,
  how: Disaster,
  cases: readonly ClientCase[],
): Promise<CrossingRow[]> {
  const { source, causeway } = stage;
  name.pointTo(source.bootstrap);
  const tag = `${how}-${Date.now()}`;
  const actors = await Promise.all(
    cases.map((one, index) => startActors(stage, name.address, one, `crossing-${tag}-${index}`)),
  );
  try {
    for (const one of actors) await work(stage, one);
    const groups = actors.map(({ topic, transactional }) => {
      // A transaction of one record, its marker, and the others.
      const offset = recordsBefore + (transactional ? 2 : 0);
      return { group: topic, topic, offsets: [offset] };
    });
    await waitForSyncedOffsets(causeway, linkName, groups);
    const sinceMs = performance.now();
    if (how === 'killed') await source.kill9();
    else await source.pause();
    for (const { topic } of actors) {
      await until(`the failover of ${topic}`, async () => {
        return (await command(causeway, 'failover', topic)).error === null;
      });
      await write(stage.atProxy, topic, 0, ['after']);
    }
    name.pointTo(causeway.bootstrap);
    const timing = { sinceMs, deadlineMs: deadlinesMs[how] };
    const found = await Promise.all(actors.map((one) => watch(stage, one, timing)));
    return actors.flatMap(({ one: { client, settings } }, index) => {
      const row = found[index];
      return row ? [{ client, settings, source: how, ...row }] : [];
    });
  } finally {
    await Promise.all(
      actors
        .flatMap(({ consumer, idempotent, transactional }) => [consumer, idempotent, transactional])
        .map((client) => client?.kill()),
    );
    if (how === 'killed') await source.restartBroker(1);
    else source.resume();
  }
}

const columns = [
  'client',
  'settings',
  'source',
  'consumer',
  'idempotent',
  'transactional',
] as const;

export function tableOf(rows: readonly CrossingRow[]): string {
  const head = [
    '| client | settings | source | consumer | idempotent producer | transactional producer |',
    '|---|---|---|---|---|---|',
  ];
  const cells = rows.map((row) => `| ${columns.map((name) => row[name] || '–').join(' | ')} |`);
  return [...head, ...cells].join('\n');
}

/**
 * The outcomes on a page, without the figures, which are the machine's. A hanging source under
 * default settings is told, not compared: its outcomes hang on the libraries' own timeouts of one
 * to two minutes, about as long as is waited for them.
 */
export function outcomesIn(page: string): string[] {
  return page
    .split('\n')
    .filter((line) => /\| killed \||trigger .*\| hangs \|/.test(line))
    .map((line) => line.replace(/, [\d.]+ s/g, ''));
}
