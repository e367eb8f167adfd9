// Kafka's own command line tools, run by their main class out of the jars.
//
// Owns: the tools' names and classes for each version. The tools follow advertised addresses, so
// they want a cluster with reachable ones, or a proxy's bootstrap address.
// Invariant: a tool that ends with an error rejects, with all that it said.

import { spawn } from 'node:child_process';
import path from 'node:path';
import { ClientProcess } from './client-process.ts';
import {
  classPath,
  defaultKafkaVersion,
  jvmFlags,
  type KafkaVersion,
  kafkaJars,
} from './kafka-jars.ts';
import { javaPrograms, programFile } from './toolchains.ts';

const toolsPackage = 'org.apache.kafka.tools';

const mainClasses = {
  'kafka-topics': `${toolsPackage}.TopicCommand`,
  'kafka-configs': `${toolsPackage}.ConfigCommand`,
  'kafka-acls': `${toolsPackage}.AclCommand`,
  'kafka-consumer-groups': `${toolsPackage}.consumer.group.ConsumerGroupCommand`,
  'kafka-share-groups': `${toolsPackage}.consumer.group.ShareGroupCommand`,
  'kafka-console-consumer': `${toolsPackage}.consumer.ConsoleConsumer`,
  'kafka-console-producer': `${toolsPackage}.ConsoleProducer`,
  'kafka-get-offsets': `${toolsPackage}.GetOffsetShell`,
  'kafka-delete-records': `${toolsPackage}.DeleteRecordsCommand`,
  'kafka-transactions': `${toolsPackage}.TransactionsCommand`,
  'kafka-broker-api-versions': `${toolsPackage}.BrokerApiVersionsCommand`,
  'kafka-metadata-quorum': `${toolsPackage}.MetadataQuorumCommand`,
  'kafka-log-dirs': `${toolsPackage}.LogDirsCommand`,
  'kafka-leader-election': `${toolsPackage}.LeaderElectionCommand`,
  'kafka-features': `${toolsPackage}.FeatureCommand`,
  'kafka-delegation-tokens': `${toolsPackage}.DelegationTokenCommand`,
  'kafka-cluster': `${toolsPackage}.ClusterTool`,
  'kafka-groups': `${toolsPackage}.GroupsCommand`,
  'kafka-client-metrics': `${toolsPackage}.ClientMetricsCommand`,
  'kafka-streams-groups': `${toolsPackage}.streams.StreamsGroupCommand`,
  'kafka-streams-application-reset': `${toolsPackage}.StreamsResetter`,
  'kafka-reassign-partitions': `${toolsPackage}.reassign.ReassignPartitionsCommand`,
  'kafka-dump-log': `${toolsPackage}.DumpLogSegments`,
  'kafka-producer-perf-test': `${toolsPackage}.ProducerPerformance`,
  'kafka-consumer-perf-test': `${toolsPackage}.ConsumerPerformance`,
  'kafka-share-consumer-perf-test': `${toolsPackage}.ShareConsumerPerformance`,
  'kafka-verifiable-producer': `${toolsPackage}.VerifiableProducer`,
  'kafka-verifiable-consumer': `${toolsPackage}.VerifiableConsumer`,
} as const;

export type JavaToolName = keyof typeof mainClasses;

const withoutBootstrap: readonly JavaToolName[] = ['kafka-dump-log'];
/** Its options belong to its commands, which come first. */
const bootstrapLast: readonly JavaToolName[] = ['kafka-cluster'];

export interface JavaToolResult {
  stdout: string;
  stderr: string;
}

export interface JavaToolOptions {
  /** Version of the tool. The classes are those of 4.4.0, the only one this table is for. */
  version?: Extract<KafkaVersion, '4.4.0'>;
  stdin?: string;
  timeoutMs?: number;
}

function collect(
  name: JavaToolName,
  args: string[],
  options: JavaToolOptions,
): Promise<JavaToolResult> {
  return new Promise((resolve, reject) => {
    const child = spawn('java', args, { stdio: 'pipe', timeout: options.timeoutMs ?? 60_000 });
    const result = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      result.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      result.stderr += text;
    });
    child.once('error', reject);
    child.stdin.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve(result);
      else {
        const said = `${result.stdout}\n${result.stderr}`;
        reject(new Error(`${name} ended with ${code ?? signal}:\n${said}`));
      }
    });
    child.stdin.end(options.stdin ?? '');
  });
}

/** The tool's arguments with its bootstrap address, for tools that take one. */
function argumentsOf(
  target: { bootstrap: string } | null,
  name: JavaToolName,
  args: readonly string[],
): string[] {
  const isBare = withoutBootstrap.includes(name);
  if (!isBare && !target) throw new Error(`${name} needs a bootstrap address`);
  const address = isBare || !target ? [] : ['--bootstrap-server', target.bootstrap];
  return bootstrapLast.includes(name) ? [...args, ...address] : [...address, ...args];
}

function javaFlags(jars: string): string[] {
  const log = `-Dlog4j.configuration=file:${programFile('java', 'log4j.properties')}`;
  return ['-Xmx256m', ...jvmFlags(jars), log];
}

/** Runs a tool against a bootstrap address (null for tools that need none). */
export async function javaTool(
  target: { bootstrap: string } | null,
  name: JavaToolName,
  args: string[],
  options: JavaToolOptions = {},
): Promise<JavaToolResult> {
  const jars = await kafkaJars(options.version ?? defaultKafkaVersion);
  const classes = ['-cp', classPath(jars), mainClasses[name]];
  const all = [...javaFlags(jars), ...classes, ...argumentsOf(target, name, args)];
  return collect(name, all, options);
}

/** A line for a shell that runs a tool of the default version, as a person would. */
export async function javaToolLine(
  target: { bootstrap: string },
  name: JavaToolName,
  args: readonly string[],
): Promise<string> {
  const classes = path.join(await kafkaJars(defaultKafkaVersion), '*');
  const all = [mainClasses[name], ...argumentsOf(target, name, args)];
  return `java -cp '${classes}' ${all.join(' ')}`;
}

/**
 * Many tools in one JVM, one at a time: what a JVM's start costs, thirty tools cost together. They
 * are those of the default version.
 */
export class JavaTools {
  readonly #process: ClientProcess;

  private constructor(process: ClientProcess) {
    this.#process = process;
  }

  static async start(): Promise<JavaTools> {
    const jars = await kafkaJars(defaultKafkaVersion);
    const classes = [classPath(jars), await javaPrograms()].join(path.delimiter);
    const args = [...javaFlags(jars), '-cp', classes, 'Tools'];
    return new JavaTools(new ClientProcess('tools', { command: 'java', args }, () => undefined));
  }

  /** Rejects with all that the tool said when it ended with an error. */
  async run(
    target: { bootstrap: string } | null,
    name: JavaToolName,
    args: readonly string[],
    stdin = '',
  ): Promise<JavaToolResult> {
    const command = { op: 'tool', main: mainClasses[name], args: argumentsOf(target, name, args) };
    const { exitCode, ...said } = await this.#process.request({ ...command, stdin });
    const result = { stdout: String(said.stdout), stderr: String(said.stderr) };
    if (exitCode === 0) return result;
    throw new Error(`${name} ended with ${exitCode}:\n${result.stdout}\n${result.stderr}`);
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }
}

/** START-OFFSET and LAG of a share group of one partition, as `kafka-share-groups` prints them. */
export async function shareStartAndLag(
  tools: JavaTools,
  target: { bootstrap: string },
  group: string,
): Promise<string | undefined> {
  const args = ['--describe', '--group', group, '--offsets'];
  const { stdout } = await tools.run(target, 'kafka-share-groups', args);
  const row = stdout.split('\n').find((line) => line.startsWith(`${group} `));
  return row?.split(/\s+/).slice(3, 5).join(' ');
}
