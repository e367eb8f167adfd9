// The service as an operator runs it: `node bin/causeway.js serve` in a process of its own, in
// front of a test cluster, driven by its command line.
//
// Owns: a directory with the configuration, mirror logs and log file, the ports, and the process.
// Knows the outside of the service only: configuration, signals, CLI, admin HTTP, log lines.
// Invariant: a restart keeps ports and directory, and the process never outlives the test process.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { type GuardedProcess, pauseProcess, startGuardedProcess } from './guarded-process.ts';
import type { KafkaCluster } from './kafka-cluster.ts';
import { releasePorts, reservePorts } from './ports.ts';
import { rootDirectory } from './repository.ts';
import { GiveUp, until } from './wait.ts';

export interface CausewayOptions {
  destination: KafkaCluster;
  /** Deep-merged over the configuration below, section by section. */
  config?: Record<string, Record<string, unknown>>;
  /** Passed to `serve`. */
  serveArgs?: string[];
  /** Name of the instance: of its state topic and so on. */
  name?: string;
  /** Start with a copy of this mirror-log directory. */
  copyDirectoryFrom?: string;
  env?: Record<string, string>;
}

export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
}

/** One JSON line of the service's log. */
export type LogLine = Record<string, unknown> & { event?: string };

const program = path.join(rootDirectory, 'bin/causeway.js');

function runCli(args: string[], env: Record<string, string>): Promise<CliResult> {
  return new Promise((resolve, reject) => {
    const options = {
      env: { ...process.env, ...env },
      timeout: 120_000,
      maxBuffer: 64 * 1024 * 1024,
    };
    const child = execFile(
      process.execPath,
      [program, ...args],
      options,
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        if (typeof code === 'number') resolve({ code, stdout, stderr });
        else
          reject(new Error(`causeway ${args.join(' ')} did not end: ${stderr}`, { cause: error }));
      },
    );
    child.stdin?.end();
  });
}

export class CausewayProcess {
  readonly directory: string;
  readonly bootstrap: string;
  readonly adminUrl: string;
  readonly #options: CausewayOptions;
  readonly #ports: readonly number[];
  #process: GuardedProcess | undefined;

  constructor(options: CausewayOptions, directory: string, ports: readonly number[]) {
    this.#options = options;
    this.directory = directory;
    this.#ports = ports;
    this.bootstrap = `127.0.0.1:${ports[0]}`;
    this.adminUrl = `http://127.0.0.1:${ports[1]}`;
  }

  get pid(): number {
    if (!this.#process?.isRunning) throw new Error('this proxy is not running');
    return this.#process.pid;
  }

  get isRunning(): boolean {
    return this.#process?.isRunning ?? false;
  }

  /** Where the mirror logs are. */
  get storageDirectory(): string {
    return path.join(this.directory, 'storage');
  }

  get configFile(): string {
    return path.join(this.directory, 'causeway.yaml');
  }

  get logFile(): string {
    return path.join(this.directory, 'causeway.log');
  }

  /** All lines that the service has logged, also before its last restart. */
  log(): LogLine[] {
    const lines = readFileSync(this.logFile, 'utf8').split('\n');
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as LogLine);
  }

  logText(): string {
    return readFileSync(this.logFile, 'utf8');
  }

  async writeConfig(): Promise<void> {
    const { destination, name, config = {} } = this.#options;
    const [bootstrapPort, adminPort, first] = this.#ports;
    const sections: Record<string, Record<string, unknown>> = {
      destination: {
        'bootstrap.servers': destination.bootstrap,
        addressMap: destination.addressMap,
      },
      gateway: {
        bind: '127.0.0.1',
        advertise: '127.0.0.1',
        bootstrapPort,
        brokerPorts: `${first}-${this.#ports.at(-1)}`,
      },
      storage: { type: 'disk', directory: this.storageDirectory, minFreeBytes: '64MiB' },
      admin: { bind: '127.0.0.1', port: adminPort },
      log: { level: 'info' },
    };
    for (const [section, values] of Object.entries(config)) {
      sections[section] = { ...sections[section], ...values };
    }
    await writeFile(this.configFile, stringify({ name: name ?? 'causeway', ...sections }));
  }

  /** Starts the process; resolves when /health/ready says so. */
  async start(extraArgs: string[] = []): Promise<void> {
    const serve = [program, 'serve', '--config', this.configFile];
    this.#process = await startGuardedProcess({
      command: process.execPath,
      args: [...serve, ...(this.#options.serveArgs ?? []), ...extraArgs],
      logFile: this.logFile,
      cwd: this.directory,
      ...(this.#options.env ? { env: this.#options.env } : {}),
    });
    await this.waitUntilReady();
  }

  async waitUntilReady(): Promise<void> {
    await until('readiness of the proxy', async () => {
      if (!this.isRunning) {
        throw new GiveUp(`the proxy ended at its start:\n${this.logText().slice(-4000)}`);
      }
      return (await fetch(`${this.adminUrl}/health/ready`)).ok;
    });
  }

  async kill9(): Promise<void> {
    await this.#process?.kill();
  }

  /** SIGSTOP; resolves when every thread has stopped. */
  async pause(): Promise<void> {
    await pauseProcess(this.pid);
  }

  resume(): void {
    this.#process?.signal('SIGCONT');
  }

  /** Orderly stop; directory and ports stay. */
  async stopProcess(): Promise<void> {
    await this.#process?.stop();
  }

  /** Runs `causeway ARGS` against this proxy; resolves with its exit code, whatever it is. */
  cliResult(...args: string[]): Promise<CliResult> {
    return runCli(args, { CAUSEWAY_URL: this.adminUrl });
  }

  /** Runs `causeway ARGS`; rejects unless it exits 0. */
  async cli(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cliResult(...args);
    if (code !== 0)
      throw new Error(`causeway ${args.join(' ')} exited ${code}: ${stderr}${stdout}`);
    return stdout;
  }

  /** Runs `causeway ARGS -o json` and parses the answer. */
  async cliJson<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.cli(...args, '-o', 'json')) as T;
  }

  /** GET of the admin API, parsed. */
  async get<T>(resource: string): Promise<T> {
    const answer = await fetch(`${this.adminUrl}${resource}`);
    if (!answer.ok) throw new Error(`GET ${resource}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Ends the process and removes its directory. */
  async stop(): Promise<void> {
    await this.kill9();
    releasePorts(this.#ports);
    await rm(this.directory, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Prepares a proxy without starting it. */
export async function prepareCauseway(options: CausewayOptions): Promise<CausewayProcess> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-proxy-'));
  // Bootstrap, admin, then one port per broker, one for the link node and some to grow into.
  const outside = await reservePorts(2);
  const range = await reservePorts(options.destination.brokers.length + 4, { isConsecutive: true });
  const causeway = new CausewayProcess(options, directory, [...outside, ...range]);
  await mkdir(causeway.storageDirectory);
  if (options.copyDirectoryFrom !== undefined) {
    await cp(options.copyDirectoryFrom, causeway.storageDirectory, { recursive: true });
  }
  await causeway.writeConfig();
  return causeway;
}

export async function startCauseway(options: CausewayOptions): Promise<CausewayProcess> {
  const causeway = await prepareCauseway(options);
  try {
    await causeway.start();
    return causeway;
  } catch (error) {
    await causeway.stop();
    throw error;
  }
}
