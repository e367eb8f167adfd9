// What all commands share: the client for the chosen address, the chosen output form, and how an
// outcome becomes the exit code. Commander parses; commands get this as their first argument.
import type { Command } from 'commander';
import { AdminClient, defaultUrl } from './admin-client.ts';
import { CliError, type CliIo, ExitCode } from './io.ts';
import { json } from './output.ts';

interface GlobalOptions {
  output?: string;
  url?: string;
}

export class CommandContext {
  readonly io: CliIo;
  readonly #options: GlobalOptions;
  #client: AdminClient | undefined;
  exitCode: ExitCode = ExitCode.done;

  constructor(io: CliIo, options: GlobalOptions) {
    this.io = io;
    this.#options = options;
    const { output } = options;
    if (output !== undefined && output !== 'table' && output !== 'json') {
      throw new CliError(ExitCode.usage, `-o: "${output}" is neither table nor json`);
    }
  }

  get client(): AdminClient {
    const { url } = this.#options;
    this.#client ??= new AdminClient(url ?? this.io.environment.CAUSEWAY_URL ?? defaultUrl);
    return this.#client;
  }

  get isJson(): boolean {
    return this.#options.output === 'json';
  }

  /** Prints the value as JSON, or what `asTable` makes of it. */
  print(value: unknown, asTable: () => string): void {
    this.io.out(this.isJson ? json(value) : asTable());
  }

  /** One line about what was done; JSON readers get an object instead. */
  done(value: object, line: string): void {
    this.io.out(this.isJson ? json(value) : `${line}\n`);
  }
}

/** Set by main.ts: where the exit code of the command that ran is left. */
export interface Runner {
  readonly io: CliIo;
  exitCode: ExitCode;
}

type Action<Arguments extends unknown[]> = (
  context: CommandContext,
  ...given: Arguments
) => Promise<void>;

/** Wraps an action so that it gets its context, and its exit code comes out. */
export function action<Arguments extends unknown[]>(
  runner: Runner,
  run: Action<Arguments>,
): (this: Command, ...given: unknown[]) => Promise<void> {
  return async function (this: Command, ...given: unknown[]): Promise<void> {
    const context = new CommandContext(runner.io, this.optsWithGlobals<GlobalOptions>());
    // Commander adds the command itself as the last argument.
    await run(context, ...(given.slice(0, -1) as Arguments));
    runner.exitCode = context.exitCode;
  };
}

/** Collects an option that may be given several times. */
export function collect(value: string, before: readonly string[]): string[] {
  return [...before, value];
}
