// Kafka's own checkers: producers and consumers that report every record as JSON, and the copier
// that copies exactly once. Each test is one small scenario, judged by what arrived.

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { defaultKafkaVersion, kafkaJars } from '../../helpers/kafka-jars.ts';
import { jaasLine } from '../../helpers/secured-clusters.ts';
import { programFile } from '../../helpers/toolchains.ts';
import { variants } from '../proxy-parts.ts';
import { type CommandResult, runCommand, type Suite, type Target, type TestRun } from './suite.ts';

const recordsCount = 5_000;
const toolsPackage = 'org.apache.kafka.tools';

/** What one scenario has to work with. */
interface Bench {
  readonly target: Target;
  readonly topic: string;
  /** Properties of clients: how to log in. */
  readonly settingsFile: string;
  /** The same, and retries without duplicates, which the producer would leave out. */
  readonly producerSettingsFile: string;
  java(mainClass: string, args: readonly string[]): Promise<CommandResult>;
}

function clientSettings({ security }: Target): string {
  if (security === undefined) return '';
  const { mechanism, username, password, caFile } = security;
  return [
    'security.protocol=SASL_SSL',
    `sasl.mechanism=${mechanism}`,
    `sasl.jaas.config=${jaasLine(mechanism, username, password)}`,
    'ssl.truststore.type=PEM',
    `ssl.truststore.location=${caFile}`,
    '',
  ].join('\n');
}

/** A scenario ends with the count it found; anything but `recordsCount` is a failure. */
type Scenario = (bench: Bench) => Promise<{ count: number; output: string }>;

function mustSucceed({ code, output }: CommandResult): string {
  if (code !== 0) throw new Error(`ended with ${code}:\n${output}`);
  return output;
}

async function produce(bench: Bench): Promise<{ count: number; output: string }> {
  const output = mustSucceed(
    await bench.java(`${toolsPackage}.VerifiableProducer`, [
      ...['--bootstrap-server', bench.target.bootstrap],
      ...['--command-config', bench.producerSettingsFile],
      ...['--topic', bench.topic, '--max-messages', String(recordsCount)],
      ...['--acks', '-1', '--throughput', '-1'],
    ]),
  );
  const count = output.match(/"name":"producer_send_success"/g)?.length ?? 0;
  return { count, output };
}

function consumed(output: string): number {
  const rounds = output.matchAll(/"name":"records_consumed".*?"count":(\d+)/g);
  return [...rounds].reduce((sum, [, count]) => sum + Number(count), 0);
}

function consume(mainClass: string, args: readonly string[]): Scenario {
  return async (bench) => {
    const written = await produce(bench);
    const output = mustSucceed(
      await bench.java(`${toolsPackage}.${mainClass}`, [
        ...['--bootstrap-server', bench.target.bootstrap],
        ...['--command-config', bench.settingsFile],
        ...['--topic', bench.topic, '--group-id', bench.topic],
        ...['--max-messages', String(recordsCount), ...args],
      ]),
    );
    return { count: consumed(output), output: written.output + output };
  };
}

/** Reads the copy as a consumer of committed records does. */
async function copyExactlyOnce(bench: Bench): Promise<{ count: number; output: string }> {
  const written = await produce(bench);
  const copy = `${bench.topic}-copy`;
  const copied = mustSucceed(
    await bench.java(`${toolsPackage}.TransactionalMessageCopier`, [
      ...['--broker-list', bench.target.bootstrap, '--group-mode', '--input-partition', '0'],
      ...['--input-topic', bench.topic, '--output-topic', copy],
      ...['--max-messages', String(recordsCount), '--consumer-group', bench.topic],
      ...['--transaction-size', '200', '--transactional-id', bench.topic],
      '--enable-random-aborts',
    ]),
  );
  const read = mustSucceed(
    await bench.java(`${toolsPackage}.consumer.ConsoleConsumer`, [
      ...['--bootstrap-server', bench.target.bootstrap, '--command-config', bench.settingsFile],
      ...['--topic', copy, '--from-beginning', '--isolation-level', 'read_committed'],
      ...['--timeout-ms', '10000'],
    ]),
  );
  const lines = read.split('\n').filter((line) => /^\d+$/.test(line));
  const count = new Set(lines).size === lines.length ? lines.length : -1;
  return { count, output: `${written.output}${copied}${read}` };
}

const share = ['--offset-reset-strategy', 'earliest'];
const scenarios: Readonly<Record<string, Scenario>> = {
  VerifiableProducer: produce,
  'VerifiableConsumer classic': consume('VerifiableConsumer', [
    ...['--group-protocol', 'classic', '--reset-policy', 'earliest'],
  ]),
  'VerifiableConsumer consumer': consume('VerifiableConsumer', [
    ...['--group-protocol', 'consumer', '--reset-policy', 'earliest'],
  ]),
  VerifiableShareConsumer: consume('VerifiableShareConsumer', share),
  TransactionalMessageCopier: copyExactlyOnce,
};

async function run(test: string, target: Target): Promise<TestRun> {
  const scenario = scenarios[test];
  if (scenario === undefined) throw new Error(`no scenario ${test}`);
  if (scenario === copyExactlyOnce && target.security !== undefined) {
    return { verdict: 'skip', output: 'the copier takes no settings of clients' };
  }
  const jars = await kafkaJars();
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-checkers-'));
  const settingsFile = path.join(directory, 'client.properties');
  await writeFile(settingsFile, clientSettings(target));
  const producerSettingsFile = path.join(directory, 'producer.properties');
  const retries = 'retries=2147483647\nenable.idempotence=true\n';
  await writeFile(producerSettingsFile, clientSettings(target) + retries);
  const log = `-Dlog4j.configuration=file:${programFile('java', 'log4j.properties')}`;
  const flags = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', log];
  const java = (mainClass: string, args: readonly string[]): Promise<CommandResult> =>
    runCommand('java', [...flags, '-cp', path.join(jars, '*'), mainClass, ...args], {
      timeoutMs: 180_000,
    });
  const topic = `checkers-${randomBytes(4).toString('hex')}`;
  try {
    const bench = { target, topic, settingsFile, producerSettingsFile, java };
    const { count, output } = await scenario(bench);
    return { verdict: count === recordsCount ? 'pass' : 'fail', output: `${output}\n${count}\n` };
  } catch (error) {
    return { verdict: 'fail', output: error instanceof Error ? error.message : String(error) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export function checkers(): Suite {
  return {
    name: 'checkers',
    version: `checkers of Kafka ${defaultKafkaVersion}`,
    shape: {
      settings: {
        'auto.create.topics.enable': 'true',
        'group.coordinator.rebalance.protocols': 'classic,consumer,share',
        'group.share.record.lock.duration.ms': '15000',
      },
    },
    variants,
    prepare: async () => void (await kafkaJars()),
    tests: async () => Object.keys(scenarios),
    run,
  };
}
