// One running foreign client program: JSON lines in and out.
//
// Owns: the process, its replies by id, its events, its stderr. Knows nothing of Kafka or of what
// the events mean (foreign-clients.ts does). The programs end when stdin ends, so that none
// outlives the test process; they keep that process alive only while it waits for a reply.
// Invariant: every request is settled: by its reply, or with an error when the program ends.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { GiveUp, type UntilOptions, until } from './wait.ts';

export interface ClientEvent {
  event: string;
  [field: string]: unknown;
}

export interface ClientReply {
  id: number;
  [field: string]: unknown;
}

export interface ClientCommand {
  command: string;
  args: string[];
  env?: Record<string, string>;
}

/** An operation that the foreign client answered with an error of its own. */
export class ForeignClientError extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

interface Waiter {
  resolve: (reply: ClientReply) => void;
  reject: (error: Error) => void;
}

const stderrCharactersMax = 200_000;

function unrefAll(child: ChildProcessWithoutNullStreams): void {
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) {
    if ('unref' in stream && typeof stream.unref === 'function') stream.unref();
  }
}

export class ClientProcess {
  stderr = '';
  isRunning = true;
  exitCode: number | null = null;
  readonly errors: string[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiters = new Map<number, Waiter>();
  readonly #name: string;
  readonly #onEvent: (event: ClientEvent) => void;
  #nextId = 1;

  constructor(name: string, command: ClientCommand, onEvent: (event: ClientEvent) => void) {
    this.#name = name;
    this.#onEvent = onEvent;
    const env = { ...process.env, ...command.env };
    this.#child = spawn(command.command, command.args, { env, stdio: 'pipe' });
    unrefAll(this.#child);
    // EPIPE when the program dies under our hands: its exit tells all that there is to tell.
    this.#child.stdin.on('error', (error) => this.errors.push(`stdin: ${error.message}`));
    this.#child.on('error', (error) => this.errors.push(error.message));
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr = (this.stderr + text).slice(-stderrCharactersMax);
    });
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      // A JVM prints its own warnings ("[0.123s][warning]...") where the events go.
      if (line.startsWith('{')) this.#read(line);
      else this.stderr = `${this.stderr}${line}\n`.slice(-stderrCharactersMax);
    });
    this.#child.on('close', (code) => this.#ended(code));
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  #read(line: string): void {
    const event: ClientEvent = JSON.parse(line);
    if (event.event === 'error') this.errors.push(String(event.message));
    // Replies too: their place among the events says what had happened before.
    this.#onEvent(event);
    if (event.event !== 'reply') return;
    const id = Number(event.id);
    const waiter = this.#waiters.get(id);
    this.#waiters.delete(id);
    if (this.#waiters.size === 0) this.#child.unref();
    if (event.error === undefined) waiter?.resolve({ ...event, id });
    else waiter?.reject(new ForeignClientError(String(event.error), String(event.code)));
  }

  #ended(code: number | null): void {
    this.isRunning = false;
    this.exitCode = code;
    for (const waiter of this.#waiters.values()) {
      waiter.reject(new Error(`${this.#name} ended (exit code ${code}) before it answered`));
    }
    this.#waiters.clear();
  }

  /** What is known about the state of the program, for messages of failed tests. */
  describe(): string {
    const state = this.isRunning ? 'running' : `ended with exit code ${this.exitCode}`;
    const errors = this.errors.slice(-5).join(' | ') || 'none';
    const stderr = this.stderr.trimEnd().split('\n').slice(-8).join('\n');
    return `${this.#name} is ${state}; errors: ${errors}; stderr ends with:\n${stderr}`;
  }

  request(fields: Record<string, unknown>): Promise<ClientReply> {
    if (!this.isRunning) return Promise.reject(new Error(this.describe()));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiters.set(id, { resolve, reject });
      this.#child.ref();
      this.#child.stdin.write(`${JSON.stringify({ ...fields, id })}\n`);
    });
  }

  /** Like `until`, but ends with what the program said when it ends first. */
  wait<T>(what: string, probe: () => T, options: UntilOptions = {}): Promise<NonNullable<T>> {
    const probeOrGiveUp = (): T => {
      const value = probe();
      if (!value && !this.isRunning) throw new GiveUp(`${what}: ${this.describe()}`);
      return value;
    };
    const describe = (): string => `${options.describe?.() ?? ''} ${this.describe()}`;
    return until(`${this.#name}: ${what}`, probeOrGiveUp, { ...options, describe });
  }

  /** Ends stdin; the program closes its client and exits. SIGKILL when it takes too long. */
  async stop(graceMs = 20_000): Promise<void> {
    this.#child.stdin.end();
    const startedAt = performance.now();
    await until(
      `end of ${this.#name}`,
      () => {
        if (performance.now() - startedAt > graceMs) this.#child.kill('SIGKILL');
        return !this.isRunning;
      },
      { deadlineMs: graceMs + 10_000 },
    );
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await until(`end of ${this.#name}`, () => !this.isRunning, { intervalMs: 10 });
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}
