// A child process that cannot outlive the test process, not even when that is killed with SIGKILL.
//
// Owns: a small shell between us and the program. The shell waits for the end of its stdin, which
// comes when we close the pipe or when we die in whatever way, and then kills the program with
// SIGKILL, stopped or not. The program holds the write end of a status pipe: its end-of-file tells
// us that the program is gone, while the shell still keeps its pid from being used again.
// Refuses to know what is run. The handles never keep our own process alive.

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { until } from './wait.ts';

// fd 3: our stdin pipe. fd 4 (only in the program): the status pipe.
const watchdogScript = `
exec 3<&0
( exec 4>&1 >>"$GUARDED_LOG" 2>&1 3<&- </dev/null; exec "$@" ) &
child=$!
echo "$child"
exec >&-
read -r _ <&3
kill -9 "$child"
wait "$child"
`;

export interface GuardedProcessOptions {
  command: string;
  args: string[];
  /** Stdout and stderr of the program are appended here. */
  logFile: string;
  cwd?: string;
  env?: Record<string, string>;
}

export interface GuardedProcess {
  readonly pid: number;
  readonly isRunning: boolean;
  /** Resolves when the program is gone. */
  readonly exited: Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** SIGSTOP; resolves when every thread stands still. */
  pause(): Promise<void>;
  resume(): void;
  /** SIGTERM, then SIGKILL when it takes longer than `graceMs`. */
  stop(graceMs?: number): Promise<void>;
  /** SIGKILL; resolves when the program is gone. */
  kill(): Promise<void>;
}

function hasOnlyStoppedThreads(pid: number): boolean {
  const tasks = `/proc/${pid}/task`;
  // Elsewhere than on Linux the signal has to be trusted.
  if (!existsSync('/proc/self/task')) return true;
  return readdirSync(tasks).every((thread) => {
    const stat = readFileSync(`${tasks}/${thread}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  });
}

/**
 * Stops a process as if the machine hung. The signal alone is not enough: threads run on a while.
 */
export async function pauseProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await until(`stop of process ${pid}`, () => hasOnlyStoppedThreads(pid), { intervalMs: 2 });
}

function unrefStream(stream: unknown): void {
  if (stream && typeof stream === 'object' && 'unref' in stream) {
    if (typeof stream.unref === 'function') stream.unref();
  }
}

function readPid(stdout: Readable): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = '';
    stdout.setEncoding('utf8');
    stdout.on('data', (chunk: string) => {
      text += chunk;
      if (text.includes('\n')) resolve(Number(text));
    });
    stdout.once('end', () => reject(new Error('the guarded process did not start')));
  });
}

class ShellGuardedProcess implements GuardedProcess {
  readonly pid: number;
  readonly exited: Promise<void>;
  isRunning = true;
  readonly #shell: ChildProcess;

  constructor(shell: ChildProcess, pid: number, ended: Promise<void>) {
    this.#shell = shell;
    this.pid = pid;
    this.exited = ended.then(() => {
      this.isRunning = false;
      this.#shell.stdin?.destroy();
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning) throw new Error(`process ${this.pid} is gone; cannot send ${signal}`);
    process.kill(this.pid, signal);
  }

  async pause(): Promise<void> {
    if (!this.isRunning) throw new Error(`process ${this.pid} is gone; cannot pause it`);
    await pauseProcess(this.pid);
  }

  resume(): void {
    this.signal('SIGCONT');
  }

  async stop(graceMs = 15_000): Promise<void> {
    if (!this.isRunning) return;
    this.signal('SIGTERM');
    const startedAt = performance.now();
    await until(
      `end of process ${this.pid}`,
      () => {
        const isLate = performance.now() - startedAt > graceMs;
        if (isLate && this.isRunning) this.signal('SIGKILL');
        return !this.isRunning;
      },
      { deadlineMs: graceMs + 10_000 },
    );
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return;
    this.signal('SIGKILL');
    await until(`end of process ${this.pid}`, () => !this.isRunning, { intervalMs: 10 });
  }
}

export async function startGuardedProcess(options: GuardedProcessOptions): Promise<GuardedProcess> {
  const shell = spawn(
    '/bin/sh',
    ['-c', watchdogScript, 'guard', options.command, ...options.args],
    {
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true,
      cwd: options.cwd,
      env: { ...process.env, ...options.env, GUARDED_LOG: options.logFile },
    },
  );
  const { stdout, stdin } = shell;
  if (!stdout || !stdin) throw new Error('no pipes to the guarded process');
  // EPIPE when the shell goes before we close our end: nothing is ever written to it anyway.
  stdin.on('error', () => stdin.destroy());
  const ended = new Promise<void>((resolve) => stdout.once('end', () => resolve()));
  const pid = await readPid(stdout);
  shell.unref();
  unrefStream(stdin);
  unrefStream(stdout);
  return new ShellGuardedProcess(shell, pid, ended);
}
