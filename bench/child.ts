// Runs a program of ours in a process of its own and reads its CPU time and memory from the kernel,
// so that a figure never includes the harness. Owns the child's life: it ends with `stop`, or with
// this process.
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Clock ticks per second of /proc (USER_HZ), 100 on Linux. */
const ticksPerSecond = 100;

/** Children that have not been stopped; they end with this process at the latest. */
const running = new Set<ChildProcess>();

process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class Child {
  readonly #process: ChildProcess;
  readonly #lines: string[] = [];
  #waiting: ((line: string) => void) | null = null;

  constructor(args: readonly string[]) {
    this.#process = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    let rest = '';
    this.#process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop() ?? '';
      for (const line of parts) this.#take(line);
    });
    running.add(this.#process);
    this.#process.once('exit', () => running.delete(this.#process));
  }

  get pid(): number {
    const { pid } = this.#process;
    if (pid === undefined) throw new Error('the child did not start');
    return pid;
  }

  #take(line: string): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) waiting(line);
    else this.#lines.push(line);
  }

  /** The next line of the child's standard output. */
  line(): Promise<string> {
    const ready = this.#lines.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null) => reject(new Error(`the child ended with ${code}`));
      this.#process.once('exit', onExit);
      this.#waiting = (line) => {
        this.#process.off('exit', onExit);
        resolve(line);
      };
    });
  }

  send(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  /** User and system CPU seconds used so far. */
  cpuSeconds(): number {
    return cpuSeconds(this.pid);
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGTERM');
    await ended;
  }
}

/**
 * User and system CPU seconds of a live process, all threads. Neither count is ever too high: that
 * of the threads lacks those that ended, that of the process what is less than a tick.
 */
export function cpuSeconds(pid: number): number {
  return Math.max(cpuSecondsOfThreads(pid), cpuSecondsInTicks(pid));
}

function cpuSecondsOfThreads(pid: number): number {
  const folder = `/proc/${pid}/task`;
  const nanoseconds = readdirSync(folder).map((thread) => threadNanoseconds(`${folder}/${thread}`));
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e9;
}

/** 0 of a thread that has just ended, and from a kernel that does not count so. */
function threadNanoseconds(folder: string): number {
  try {
    return Number(readFileSync(`${folder}/schedstat`, 'latin1').split(' ')[0]);
  } catch (error) {
    if (error instanceof Error && 'code' in error) {
      if (error.code === 'ENOENT' || error.code === 'ESRCH') return 0;
    }
    throw error;
  }
}

function cpuSecondsInTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The command name (field 2) may contain spaces; fields are counted from behind its parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Resident memory of a live process in bytes. */
export function residentBytes(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  if (!match) throw new Error(`no VmRSS for ${pid}`);
  return Number(match[1]) * 1024;
}
