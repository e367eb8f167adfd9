// What a foreign test suite is to the runner: a list of tests that can be run one by one against an
// address. Knows nothing of the proxy; a suite can't tell what it is pointed at.

import { spawn } from 'node:child_process';
import type { Variant } from '../proxy-parts.ts';
import type { ClusterShape } from '../sides.ts';

/** As clients log in when a variant wants it. */
export interface ClientSecurity {
  readonly caFile: string;
  readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256';
  readonly username: string;
  readonly password: string;
}

export interface Target {
  /** host:port, an IPv4 literal. */
  readonly bootstrap: string;
  readonly security?: ClientSecurity;
  /** URL of the API that makes relays before the brokers misbehave. */
  readonly toxics?: string;
}

export type Verdict = 'pass' | 'fail' | 'skip';

export interface TestRun {
  readonly verdict: Verdict;
  /** All that the test has printed. */
  readonly output: string;
}

export interface Suite {
  readonly name: string;
  /** What is run, and of which version: `name version`. */
  readonly version: string;
  readonly shape: ClusterShape;
  readonly variants: readonly Variant[];
  /** Fetches and builds what is needed, once. */
  prepare(): Promise<void>;
  tests(): Promise<readonly string[]>;
  run(test: string, target: Target): Promise<TestRun>;
}

export interface CommandResult {
  /** Null when a signal has ended it, as at a time-out. */
  readonly code: number | null;
  readonly output: string;
}

/** Runs a command to its end; stdout and stderr together. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: Readonly<Record<string, string>>; timeoutMs?: number } = {},
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.timeoutMs ?? 600_000,
      killSignal: 'SIGKILL',
    });
    let output = '';
    const collect = (text: string): void => {
      output += text;
    };
    child.stdout.setEncoding('utf8').on('data', collect);
    child.stderr.setEncoding('utf8').on('data', collect);
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}

/** For steps of the preparation: anything but success is an error with all that was said. */
export async function mustRun(
  command: string,
  args: readonly string[],
  options: Parameters<typeof runCommand>[2] = {},
): Promise<string> {
  const { code, output } = await runCommand(command, args, options);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${output}`);
  return output;
}
