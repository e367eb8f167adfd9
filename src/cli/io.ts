// What a command may touch of the outside: output, environment, standard input; and how it fails.
// Everything is a parameter, so that tests run commands inside their own process.

/** Exit codes of the design: see docs of `causeway --help`. */
export const ExitCode = {
  done: 0,
  /** Refused or failed. */
  failed: 1,
  /** Wrong usage. */
  usage: 2,
  /** Partly done, or unhealthy. */
  partly: 3,
  /** Still running when the wait ended. */
  running: 4,
} as const;

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** Ends the command with one line on stderr. */
export class CliError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
  }
}

/** The proxy was asked and has refused, or failed, in its own words. */
export class RefusedError extends CliError {
  readonly code: string;

  constructor(code: string, message: string) {
    super(ExitCode.failed, message);
    this.name = 'RefusedError';
    this.code = code;
  }
}

export interface CliIo {
  out(text: string): void;
  error(text: string): void;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** A person can be asked. */
  readonly isInteractive: boolean;
  /** Asks a question and reads one line. */
  ask(question: string): Promise<string>;
  /** All of standard input. */
  readInput(): Promise<string>;
  /**
   * Fires when the user wants to stop (Ctrl-C) a command that follows something. Only read by such
   * a command: whoever has read it has to end by itself.
   */
  readonly interrupted: AbortSignal;
  pause(ms: number): Promise<void>;
  /** Monotonic milliseconds. */
  now(): number;
}
