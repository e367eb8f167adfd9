// Real foreign clients as tests see them: consumers and producers of four libraries, all alike.
//
// Owns: which program serves which client, and the typed face over its JSON lines (the protocol is
// in test/clients/programs/README.md). Knows nothing of proxies or clusters beyond a bootstrap
// address. Invariant: `records` holds everything the client was given, in the order it was given.

import path from 'node:path';
import { type ClientCommand, type ClientEvent, ClientProcess } from './client-process.ts';
import {
  classPath,
  defaultKafkaVersion,
  jvmFlags,
  type KafkaVersion,
  kafkaJars,
} from './kafka-jars.ts';
import {
  goProgram,
  javaPrograms,
  kafkaPythonInterpreter,
  missingToolchain,
  programFile,
  pythonInterpreter,
  saramaProgram,
  type Toolchain,
} from './toolchains.ts';
import type { UntilOptions } from './wait.ts';

export type ProducerKind =
  | 'java'
  | 'librdkafka'
  | 'franz-go'
  | 'kafkajs'
  | 'sarama'
  | 'kafka-python';
export type ConsumerKind = ProducerKind | 'java-kip848' | 'librdkafka-kip848';

/** sarama and kafka-python are left to the tests that name them. */
export const producerKinds: readonly ProducerKind[] = ['java', 'librdkafka', 'franz-go', 'kafkajs'];
export const consumerKinds: readonly ConsumerKind[] = [
  'java',
  'java-kip848',
  'librdkafka',
  'librdkafka-kip848',
  'franz-go',
  'kafkajs',
];

interface ClientOptions {
  bootstrap: string;
  topic: string;
  clientId?: string;
  /** The library's own settings (Java and librdkafka; of kafkajs only `retries`). */
  properties?: Record<string, string>;
  /** Version of the Java client library. */
  javaVersion?: KafkaVersion;
}

export interface ConsumerOptions extends ClientOptions {
  /** Without a group all partitions are read from their start. */
  group?: string;
  reset?: 'earliest' | 'latest' | 'none';
  isolation?: 'read_uncommitted' | 'read_committed';
  /** The library commits by itself so often; otherwise only `commit()` does. */
  autoCommitMs?: number;
  recordsMax?: number;
}

export interface ProducerOptions extends ClientOptions {
  acks?: 'all' | '1' | '0';
  isIdempotent?: boolean;
  transactionalId?: string;
  compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  lingerMs?: number;
}

export interface ConsumedRecord {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  key: string | null;
  value: string | null;
}

export interface RecordToSend {
  topic?: string;
  partition?: number;
  key?: string;
  value: string | null;
}

export interface Acknowledged {
  topic: string;
  partition: number;
  offset: number;
}

const toolchains: Record<ConsumerKind, Toolchain> = {
  java: 'java',
  'java-kip848': 'java',
  librdkafka: 'python',
  'librdkafka-kip848': 'python',
  'franz-go': 'go',
  kafkajs: 'node',
  sarama: 'go',
  'kafka-python': 'python',
};

/** A line for `test(name, { skip })` when this client cannot run here; false when it can. */
export async function skipReason(kind: ConsumerKind): Promise<string | false> {
  const reason = await missingToolchain(toolchains[kind]);
  return reason === undefined ? false : `${kind}: ${reason}`;
}

/** One of the Java programs, with the clients of a version. */
export async function javaCommand(
  main: string,
  argument: string,
  version: KafkaVersion = defaultKafkaVersion,
): Promise<ClientCommand> {
  const jars = await kafkaJars(version);
  const classes = [classPath(jars), await javaPrograms()].join(path.delimiter);
  const flags = ['-Xmx128m', ...jvmFlags(jars)];
  const log = `-Dlog4j.configuration=file:${programFile('java', 'log4j.properties')}`;
  return { command: 'java', args: [...flags, log, '-cp', classes, main, argument] };
}

async function clientCommand(
  kind: ConsumerKind,
  role: 'consume' | 'produce',
  options: ClientOptions,
): Promise<ClientCommand> {
  const groupProtocol = kind.endsWith('-kip848') ? 'consumer' : 'classic';
  const { javaVersion, ...rest } = options;
  const argument = JSON.stringify({ role, groupProtocol, ...rest });
  if (kind === 'sarama') return { command: await saramaProgram(), args: [argument] };
  if (kind === 'kafka-python') {
    const program = programFile('kafka-python', 'client.py');
    return { command: await kafkaPythonInterpreter(), args: [program, argument] };
  }
  switch (toolchains[kind]) {
    case 'java': {
      const main = role === 'consume' ? 'Consume' : 'Produce';
      return javaCommand(main, argument, javaVersion);
    }
    case 'python':
      return {
        command: await pythonInterpreter(),
        args: [programFile('python', 'client.py'), argument],
      };
    case 'go':
      return { command: await goProgram(), args: [argument] };
    case 'node':
      return {
        command: process.execPath,
        args: [programFile('kafkajs', 'client.js'), argument],
        env: { KAFKAJS_NO_PARTITIONER_WARNING: '1' },
      };
  }
}

export class ForeignConsumer {
  readonly kind: ConsumerKind;
  readonly records: ConsumedRecord[] = [];
  /** Every assignment so far: how many records, and answers to commits, had come before it. */
  readonly assignments: {
    readonly partitions: readonly string[];
    readonly after: number;
    readonly commitsBefore: number;
  }[] = [];
  /** Partitions held at present, as `topic-partition`. */
  readonly assigned = new Set<string>();
  readonly #process: ClientProcess;
  #commitsCount = 0;

  constructor(kind: ConsumerKind, command: ClientCommand) {
    this.kind = kind;
    const onEvent = (event: ClientEvent): void => this.#take(event);
    this.#process = new ClientProcess(`${kind} consumer`, command, onEvent);
  }

  #take(event: ClientEvent): void {
    const partitions = Array.isArray(event.partitions) ? event.partitions.map(String) : [];
    if (event.event === 'record') {
      this.records.push({
        topic: String(event.topic),
        partition: Number(event.partition),
        offset: Number(event.offset),
        timestamp: Number(event.timestamp),
        key: event.key === null ? null : String(event.key),
        value: event.value === null ? null : String(event.value),
      });
    }
    if (event.event === 'assigned') {
      for (const name of partitions) this.assigned.add(name);
      const after = this.records.length;
      this.assignments.push({ partitions, after, commitsBefore: this.#commitsCount });
    }
    if (event.event === 'reply' && event.error === undefined) this.#commitsCount++;
    if (event.event === 'revoked') for (const name of partitions) this.assigned.delete(name);
  }

  get errors(): readonly string[] {
    return this.#process.errors;
  }

  get stderr(): string {
    return this.#process.stderr;
  }

  get isRunning(): boolean {
    return this.#process.isRunning;
  }

  /** Waits until the predicate holds of the records; fails with what the client said. */
  waitFor(
    what: string,
    predicate: (records: readonly ConsumedRecord[]) => boolean,
    options: UntilOptions = {},
  ): Promise<boolean> {
    const describe = (): string => {
      const last = JSON.stringify(this.records.at(-1) ?? null);
      return `${this.records.length} records so far, last ${last};`;
    };
    const probe = (): boolean => predicate(this.records);
    return this.#process.wait(what, probe, { describe, ...options });
  }

  waitForCount(count: number, options: UntilOptions = {}): Promise<boolean> {
    return this.waitFor(`${count} records`, (records) => records.length >= count, options);
  }

  waitForAssignment(options: UntilOptions = {}): Promise<boolean> {
    return this.#process.wait('assignment', () => this.assigned.size > 0, options);
  }

  /** Waits until the program has ended by itself, e.g. after `recordsMax`. */
  waitForEnd(options: UntilOptions = {}): Promise<boolean> {
    return this.#process.wait('end', () => !this.isRunning, options);
  }

  /** Commits the positions; returns them by `topic-partition`. */
  async commit(): Promise<Record<string, number>> {
    const { offsets } = await this.#process.request({ op: 'commit' });
    const entries = Object.entries(offsets ?? {});
    return Object.fromEntries(entries.map(([name, offset]) => [name, Number(offset)]));
  }

  /** Leaves the group in order and ends. */
  stop(): Promise<void> {
    return this.#process.stop();
  }

  kill(): Promise<void> {
    return this.#process.kill();
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }
}

export class ForeignProducer {
  readonly kind: ProducerKind;
  readonly #process: ClientProcess;
  #isReady = false;

  constructor(kind: ProducerKind, command: ClientCommand) {
    this.kind = kind;
    this.#process = new ClientProcess(`${kind} producer`, command, (event) => {
      if (event.event === 'ready') this.#isReady = true;
    });
  }

  get errors(): readonly string[] {
    return this.#process.errors;
  }

  get stderr(): string {
    return this.#process.stderr;
  }

  get isRunning(): boolean {
    return this.#process.isRunning;
  }

  waitUntilReady(): Promise<boolean> {
    return this.#process.wait('ready', () => this.#isReady, { deadlineMs: 180_000 });
  }

  /** Resolves with where the record went; rejects with a ForeignClientError. */
  async send(record: RecordToSend): Promise<Acknowledged> {
    const reply = await this.#process.request({ op: 'send', ...record });
    return {
      topic: String(reply.topic),
      partition: Number(reply.partition),
      offset: Number(reply.offset),
    };
  }

  /** Sends all at once (the library makes batches) and waits for every answer. */
  sendAll(records: readonly RecordToSend[]): Promise<Acknowledged[]> {
    return Promise.all(records.map((record) => this.send(record)));
  }

  async begin(): Promise<void> {
    await this.#process.request({ op: 'begin' });
  }

  async commit(): Promise<void> {
    await this.#process.request({ op: 'commit' });
  }

  async abort(): Promise<void> {
    await this.#process.request({ op: 'abort' });
  }

  async flush(): Promise<void> {
    await this.#process.request({ op: 'flush' });
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }

  kill(): Promise<void> {
    return this.#process.kill();
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }
}

export async function startConsumer(
  kind: ConsumerKind,
  options: ConsumerOptions,
): Promise<ForeignConsumer> {
  return new ForeignConsumer(kind, await clientCommand(kind, 'consume', options));
}

/** A Java share consumer: any number of them share a partition's records. */
export async function startShareConsumer(
  options: Pick<ConsumerOptions, 'bootstrap' | 'topic' | 'properties'> & { group: string },
): Promise<ForeignConsumer> {
  return new ForeignConsumer('java', await javaCommand('ShareConsume', JSON.stringify(options)));
}

/** Starts a producer and waits until it takes records (transactional ones: initialised). */
export async function startProducer(
  kind: ProducerKind,
  options: ProducerOptions,
): Promise<ForeignProducer> {
  const producer = new ForeignProducer(kind, await clientCommand(kind, 'produce', options));
  await producer.waitUntilReady();
  return producer;
}
