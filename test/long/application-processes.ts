// Kafka's own applications as processes: a Streams application, a standalone Connect worker with
// file connectors, and the transactional copier that Kafka tests itself with.
//
// Owns: their command lines, files and ports. Knows nothing of proxies or of what a test checks.
// Invariant: a process that ended is told by `assertHealthy`, and `stop` ends each in its own way.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { ClientProcess } from '../helpers/client-process.ts';
import { kafkaConnectJars, kafkaJars, kafkaStreamsJars } from '../helpers/kafka-jars.ts';
import { releasePorts, reservePorts } from '../helpers/ports.ts';
import { programFile } from '../helpers/toolchains.ts';
import { until } from '../helpers/wait.ts';

const log = `-Dlog4j.configuration=file:${programFile('java', 'log4j.properties')}`;
const flags = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', log];

export interface Application {
  /** Rejects with what is wrong. */
  assertHealthy(): Promise<void>;
  stop(): Promise<void>;
}

export async function temporaryDirectory(name: string): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), `causeway-${name}-`));
}

export interface StreamsOptions {
  /** Of the application, and of its group. */
  readonly id?: string;
  /** Of its group: `streams` is KIP-1071's. */
  readonly protocol?: 'classic' | 'streams';
}

export async function startStreams(
  bootstrap: string,
  topics: { readonly from: string; readonly to: string; readonly counts: string },
  { id = 'streams-copy', protocol = 'classic' }: StreamsOptions = {},
): Promise<Application> {
  const directory = await temporaryDirectory('streams');
  const jars = path.join(await kafkaStreamsJars(), '*');
  const program = programFile('streams', 'StreamsCopy.java');
  const own = [bootstrap, topics.from, topics.to, topics.counts, directory, id, protocol];
  let state = '';
  const args = [...flags, '-cp', jars, program, ...own];
  const child = new ClientProcess('streams', { command: 'java', args }, (event) => {
    if (event.event === 'state') state = String(event.state);
  });
  await child.wait('RUNNING', () => state === 'RUNNING', { deadlineMs: 300_000 });
  return {
    assertHealthy: async () => {
      assert.deepEqual([state, child.errors], ['RUNNING', []], child.describe());
    },
    stop: async () => {
      await child.stop(60_000);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export interface ConnectApplication extends Application {
  /** Each record of the sink's topic is a line of this file. */
  readonly sinkFile: string;
  /** Each line of this file becomes a record of the source connector's topic. */
  readonly sourceFile: string;
}

function properties(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

interface ConnectorStatus {
  readonly connector: { readonly state: string };
  readonly tasks: readonly { readonly state: string; readonly trace?: string }[];
}

export async function startConnect(
  bootstrap: string,
  topics: { readonly sink: string; readonly source: string },
): Promise<ConnectApplication> {
  const directory = await temporaryDirectory('connect');
  const [port = 0] = await reservePorts(1);
  const sinkFile = path.join(directory, 'sink.txt');
  const sourceFile = path.join(directory, 'source.txt');
  await writeFile(sourceFile, '');
  const plugins = path.join(directory, 'plugins');
  await mkdir(plugins);
  const converter = 'org.apache.kafka.connect.storage.StringConverter';
  const files = {
    worker: {
      'bootstrap.servers': bootstrap,
      'key.converter': converter,
      'value.converter': converter,
      'offset.storage.file.filename': path.join(directory, 'offsets'),
      'offset.flush.interval.ms': '1000',
      'plugin.path': plugins,
      'plugin.discovery': 'hybrid_warn',
      listeners: `http://127.0.0.1:${port}`,
    },
    sink: {
      name: 'sink',
      'connector.class': 'org.apache.kafka.connect.file.FileStreamSinkConnector',
      topics: topics.sink,
      file: sinkFile,
    },
    source: {
      name: 'source',
      'connector.class': 'org.apache.kafka.connect.file.FileStreamSourceConnector',
      topic: topics.source,
      file: sourceFile,
    },
  };
  const names: string[] = [];
  for (const [name, values] of Object.entries(files)) {
    names.push(path.join(directory, `${name}.properties`));
    await writeFile(names.at(-1) ?? '', properties(values));
  }
  const jars = path.join(await kafkaConnectJars(), '*');
  const main = 'org.apache.kafka.connect.cli.ConnectStandalone';
  const args = [...flags, '-cp', jars, main, ...names];
  const child = new ClientProcess('connect', { command: 'java', args }, () => undefined);
  const assertHealthy = async (): Promise<void> => {
    for (const name of ['sink', 'source']) {
      const answer = await fetch(`http://127.0.0.1:${port}/connectors/${name}/status`);
      const status = (await answer.json()) as ConnectorStatus;
      const states = [status.connector.state, ...status.tasks.map(({ state }) => state)];
      assert.deepEqual(states, ['RUNNING', 'RUNNING'], status.tasks[0]?.trace ?? name);
    }
  };
  const stop = async (): Promise<void> => {
    if (child.isRunning) await endBySignal(child);
    releasePorts([port]);
    await rm(directory, { recursive: true, force: true });
  };
  const isHealthy = (): Promise<boolean> => assertHealthy().then(() => true);
  try {
    await until('Connect running', isHealthy, {
      deadlineMs: 300_000,
      intervalMs: 1_000,
      describe: () => child.describe(),
    });
  } catch (error) {
    // A worker does not end with its stdin.
    await stop();
    throw error;
  }
  return { sinkFile, sourceFile, assertHealthy, stop };
}

/**
 * Copies a partition in transactions, some of which it aborts and does again. It ends at the end
 * that it found when it began, and is started anew then, under the same transactional id.
 */
export async function startCopier(
  bootstrap: string,
  topics: { readonly from: string; readonly to: string },
): Promise<Application> {
  const main = 'org.apache.kafka.tools.TransactionalMessageCopier';
  const own = {
    'broker-list': bootstrap,
    'input-topic': topics.from,
    'input-partition': '0',
    'output-topic': topics.to,
    'transaction-size': '20',
    'transactional-id': 'copier',
    'consumer-group': 'copier',
  };
  const options = Object.entries(own).flatMap(([name, value]) => [`--${name}`, value]);
  const switches = ['--group-mode', '--use-group-metadata', '--enable-random-aborts'];
  const jars = path.join(await kafkaJars(), '*');
  const args = [...flags, '-cp', jars, main, ...options, ...switches];
  const start = (): ClientProcess =>
    new ClientProcess('copier', { command: 'java', args }, () => undefined);
  let child = start();
  let failure: string | null = null;
  let isStopping = false;
  const run = async (): Promise<void> => {
    while (failure === null) {
      await until('the end of a copy', () => !child.isRunning, { deadlineMs: 3_600_000 });
      if (isStopping) return;
      if (child.exitCode === 0) child = start();
      else failure = child.describe();
    }
  };
  const running = run();
  return {
    assertHealthy: async () => assert.equal(failure, null),
    stop: async () => {
      isStopping = true;
      if (child.isRunning) await endBySignal(child);
      await running;
    },
  };
}

async function endBySignal(child: ClientProcess): Promise<void> {
  child.signal('SIGTERM');
  await until('the end of an application', () => !child.isRunning, { deadlineMs: 120_000 });
}
