// Real Kafka clusters for tests: one constructor, any listed version, any number of brokers.
//
// Owns: ports, directories and processes of the brokers it started, and nothing else on the
// machine. Node 1 is broker and controller in one; the others are brokers only. Clients are told
// addresses that cannot be reached ("kafka-1.<random>.invalid:9092"), so that an address leaking
// through a proxy fails the test; `addressMap` leads from them to the real ports.
// Invariant: a cluster never outlives the test process, not even when that is killed.

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { isAlive } from './file-lock.ts';
import { type GuardedProcess, startGuardedProcess } from './guarded-process.ts';
import {
  classPath,
  defaultKafkaVersion,
  jvmFlags,
  type KafkaVersion,
  kafkaJars,
} from './kafka-jars.ts';
import { type ClusterView, describeBrokers } from './kafka-probe.ts';
import {
  logProperties,
  serverProperties,
  usesZooKeeper,
  zooKeeperProperties,
} from './kafka-settings.ts';
import { releasePorts, reservePorts } from './ports.ts';
import { GiveUp, until } from './wait.ts';

const run = promisify(execFile);

export interface KafkaClusterOptions {
  version?: KafkaVersion;
  brokers?: number;
  /** Broker settings on top of those for tests; they win. */
  settings?: Record<string, string>;
  /** Of single brokers, on top of the others. */
  settingsOf?: (id: number) => Record<string, string>;
  heapMb?: number;
  /** More flags of the brokers' JVMs. */
  brokerFlags?: readonly string[];
  /** Appears in the advertised names and the directory. */
  name?: string;
  /** `unreachable` names need `addressMap`; `reachable` tells clients the real ports. */
  advertise?: 'unreachable' | 'reachable';
  /** Clients are told 127.0.0.1 and these ports, one for each broker, for relays before them. */
  advertisedPorts?: readonly number[];
  /** By its settings the client listener wants TLS; then the one between brokers must not. */
  securesClients?: boolean;
}

export interface KafkaBroker {
  readonly id: number;
  readonly host: '127.0.0.1';
  /** The real port. */
  readonly port: number;
  /** What clients are told, host:port. */
  readonly advertised: string;
  /** The listener between brokers: tells its own real address, whatever clients are told. */
  readonly internalPort: number;
}

interface BrokerSlot extends KafkaBroker {
  port: number;
  advertised: string;
  directory: string;
  process: GuardedProcess | undefined;
}

interface ClusterParts {
  version: KafkaVersion;
  directory: string;
  slots: BrokerSlot[];
  ports: number[];
  javaFlags: string[];
  brokerFlags: readonly string[];
  securesClients: boolean;
  zooKeeper: GuardedProcess | undefined;
}

/** Directories of clusters that were never stopped; removed when the test process ends. */
const directoriesLeft = new Set<string>();
const directoryPrefix = 'causeway-cluster-';

/** Removes what killed test processes could not: directories whose owner's pid is gone. */
async function sweepDeadDirectories(): Promise<void> {
  for (const name of await readdir(os.tmpdir())) {
    if (!name.startsWith(directoryPrefix)) continue;
    const owner = Number(name.slice(directoryPrefix.length).split('-')[0]);
    if (Number.isInteger(owner) && !isAlive(owner)) {
      await rm(path.join(os.tmpdir(), name), { recursive: true, force: true, maxRetries: 3 });
    }
  }
}

process.on('exit', () => {
  for (const directory of directoriesLeft) {
    rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  }
});

function startBroker(parts: ClusterParts, slot: BrokerSlot): Promise<GuardedProcess> {
  return startGuardedProcess({
    command: 'java',
    args: [
      ...parts.javaFlags,
      ...parts.brokerFlags,
      'kafka.Kafka',
      path.join(slot.directory, 'server.properties'),
    ],
    logFile: path.join(slot.directory, 'broker.log'),
    cwd: slot.directory,
  });
}

function asRetriable(error: unknown): never {
  throw new Error(error instanceof Error ? error.message : String(error), { cause: error });
}

function tail(text: string, linesCount: number): string {
  return text.trimEnd().split('\n').slice(-linesCount).join('\n');
}

export class KafkaCluster {
  readonly version: KafkaVersion;
  clusterId = '';
  readonly #parts: ClusterParts;

  constructor(parts: ClusterParts) {
    this.#parts = parts;
    this.version = parts.version;
  }

  get brokers(): readonly KafkaBroker[] {
    return this.#parts.slots;
  }

  /** The real addresses of all brokers, comma-separated. */
  get bootstrap(): string {
    return this.brokers.map((broker) => `${broker.host}:${broker.port}`).join(',');
  }

  /** What clients are told -> where it can be reached. */
  get addressMap(): Record<string, string> {
    return Object.fromEntries(
      this.brokers.map((broker) => [broker.advertised, `${broker.host}:${broker.port}`]),
    );
  }

  #slot(id: number): BrokerSlot {
    const slot = this.#parts.slots.find((candidate) => candidate.id === id);
    if (!slot) throw new Error(`no broker ${id} in this cluster`);
    return slot;
  }

  #running(id: number): GuardedProcess {
    const { process } = this.#slot(id);
    if (!process?.isRunning) throw new Error(`broker ${id} is not running`);
    return process;
  }

  pid(id = 1): number {
    return this.#running(id).pid;
  }

  /** Where the broker keeps its partitions (`<topic>-<partition>/`). */
  dataDirectory(id = 1): string {
    return path.join(this.#slot(id).directory, 'data');
  }

  logText(id = 1): string {
    return readFileSync(path.join(this.#slot(id).directory, 'broker.log'), 'utf8');
  }

  /** Waits until `brokersCount` brokers are in the metadata that broker `id` gives. */
  async ready(id: number, brokersCount: number): Promise<ClusterView> {
    const slot = this.#slot(id);
    const isComplete = async (): Promise<ClusterView | undefined> => {
      if (!slot.process?.isRunning) {
        const log = tail(this.logText(id), 30);
        throw new GiveUp(`broker ${id} of Kafka ${this.version} ended at its start:\n${log}`);
      }
      const port = this.#parts.securesClients ? slot.internalPort : slot.port;
      const view = await describeBrokers(slot.host, port);
      return view.brokers.length >= brokersCount && view.controllerId >= 0 ? view : undefined;
    };
    return until(`broker ${id} of Kafka ${this.version} ready`, isComplete, {
      deadlineMs: 60_000,
      describe: () => `its log ends with:\n${tail(this.logText(id), 15)}`,
    });
  }

  #othersRunning(id: number): number {
    return this.#parts.slots.filter((slot) => slot.id !== id && slot.process?.isRunning).length;
  }

  /** Kills one broker, or all of them, with SIGKILL. */
  async kill9(id?: number): Promise<void> {
    const slots = id === undefined ? this.#parts.slots : [this.#slot(id)];
    await Promise.all(slots.map((slot) => slot.process?.kill()));
  }

  /** SIGSTOP: the broker hangs, connections stay open. */
  pause(id = 1): Promise<void> {
    return this.#running(id).pause();
  }

  resume(id = 1): void {
    this.#running(id).resume();
  }

  /** Orderly stop of one broker; its data and ports stay reserved. */
  async stopBroker(id = 1, graceMs?: number): Promise<void> {
    await this.#slot(id).process?.stop(graceMs);
  }

  /** Starts a stopped or killed broker again: same ports, same data. */
  async restartBroker(id = 1): Promise<void> {
    const slot = this.#slot(id);
    await slot.process?.stop();
    const attempt = async (): Promise<true> => {
      slot.process = await startBroker(this.#parts, slot);
      await this.ready(id, this.#othersRunning(id) + 1);
      return true;
    };
    if (!usesZooKeeper(this.version)) await attempt();
    // ZooKeeper refuses the id until the session of the killed broker has run out.
    else await until(`restart of broker ${id}`, () => attempt().catch(asRetriable));
  }

  /** Starts a broker again at another port; one with a reachable name tells clients of it. */
  async moveBroker(id: number): Promise<void> {
    const slot = this.#slot(id);
    await slot.process?.stop();
    const [port = 0] = await reservePorts(1);
    this.#parts.ports.push(port);
    const file = path.join(slot.directory, 'server.properties');
    const [before, after] = [`${slot.host}:${slot.port}`, `${slot.host}:${port}`];
    await writeFile(file, (await readFile(file, 'utf8')).replaceAll(before, after));
    slot.port = port;
    slot.advertised = slot.advertised.replace(before, after);
    await this.restartBroker(id);
  }

  /** Ends all brokers and removes their data. Tests need no orderly shutdown. */
  async stop(): Promise<void> {
    await this.kill9();
    await this.#parts.zooKeeper?.kill();
    releasePorts(this.#parts.ports);
    await rm(this.#parts.directory, { recursive: true, force: true, maxRetries: 5 });
    directoriesLeft.delete(this.#parts.directory);
  }
}

async function format(parts: ClusterParts, slot: BrokerSlot, clusterId: string): Promise<void> {
  const config = path.join(slot.directory, 'server.properties');
  const args = [...parts.javaFlags, 'kafka.tools.StorageTool', 'format'];
  await run('java', [...args, `--cluster-id=${clusterId}`, '-c', config], { timeout: 60_000 });
}

async function startZooKeeper(parts: ClusterParts, port: number): Promise<void> {
  const directory = path.join(parts.directory, 'zookeeper');
  await mkdir(directory);
  const config = path.join(directory, 'zookeeper.properties');
  await writeFile(config, zooKeeperProperties(path.join(directory, 'data'), port));
  const main = 'org.apache.zookeeper.server.quorum.QuorumPeerMain';
  parts.zooKeeper = await startGuardedProcess({
    command: 'java',
    args: [...parts.javaFlags, main, config],
    logFile: path.join(directory, 'zookeeper.log'),
    cwd: directory,
  });
}

function javaFlags(jars: string, logFile: string, heapMb: number): string[] {
  const memory = ['-Xms64m', `-Xmx${heapMb}m`];
  const log = `-Dlog4j.configuration=file:${logFile}`;
  return [...memory, ...jvmFlags(jars), log, '-cp', classPath(jars)];
}

async function planCluster(options: KafkaClusterOptions): Promise<KafkaCluster> {
  const version = options.version ?? defaultKafkaVersion;
  const count = options.brokers ?? 1;
  const name = options.name ?? 'kafka';
  const jars = await kafkaJars(version);
  await sweepDeadDirectories();
  const prefix = `${directoryPrefix}${process.pid}-${name}-`;
  const directory = await mkdtemp(path.join(os.tmpdir(), prefix));
  directoriesLeft.add(directory);
  const logFile = path.join(directory, 'log4j.properties');
  await writeFile(logFile, logProperties);
  const ports = await reservePorts(2 * count + 1);
  const domain = `${randomBytes(3).toString('hex')}.invalid`;
  const slots: BrokerSlot[] = [];
  const flags = javaFlags(jars, logFile, options.heapMb ?? 256);
  const { brokerFlags = [], securesClients = false } = options;
  const common = { version, directory, slots, ports, javaFlags: flags };
  const parts = { ...common, brokerFlags, securesClients, zooKeeper: undefined };
  const [controllerPort = 0] = ports;
  for (let id = 1; id <= count; id++) {
    const port = ports[2 * id - 1] ?? 0;
    const internalPort = ports[2 * id] ?? 0;
    const toldPort = options.advertisedPorts?.[id - 1];
    const isReachable = options.advertise === 'reachable' || toldPort !== undefined;
    const told = `127.0.0.1:${toldPort ?? port}`;
    const advertised = isReachable ? told : `${name}-${id}.${domain}:9092`;
    const slot: BrokerSlot = {
      id,
      host: '127.0.0.1',
      port,
      advertised,
      internalPort,
      directory: path.join(directory, `broker-${id}`),
      process: undefined,
    };
    const plan = {
      version,
      id,
      brokersCount: count,
      clientPort: port,
      internalPort,
      controllerPort,
      advertised,
      logDirectory: path.join(slot.directory, 'data'),
      settings: { ...options.settings, ...options.settingsOf?.(id) },
    };
    await mkdir(slot.directory);
    await writeFile(path.join(slot.directory, 'server.properties'), serverProperties(plan));
    slots.push(slot);
  }
  return startAll(parts, controllerPort);
}

async function startAll(parts: ClusterParts, controllerPort: number): Promise<KafkaCluster> {
  const cluster = new KafkaCluster(parts);
  try {
    if (usesZooKeeper(parts.version)) {
      await startZooKeeper(parts, controllerPort);
    } else {
      const clusterId = randomBytes(16).toString('base64url');
      await Promise.all(parts.slots.map((slot) => format(parts, slot, clusterId)));
    }
    for (const slot of parts.slots) slot.process = await startBroker(parts, slot);
    for (const slot of parts.slots) {
      const view = await cluster.ready(slot.id, parts.slots.length);
      cluster.clusterId = view.clusterId ?? '';
    }
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

/** Starts a cluster and resolves when every broker answers Metadata naming all brokers. */
export function startKafkaCluster(options: KafkaClusterOptions = {}): Promise<KafkaCluster> {
  return planCluster(options);
}
