// The command line: parses, runs one command, and returns its exit code (0 done, 1 refused or
// failed, 2 wrong usage, 3 partly done or unhealthy, 4 still running when the wait ended).
// Invariant: every failure is one clear line on stderr, without a stack, and without secrets.
import { Command, CommanderError } from 'commander';
import { scrubSecrets } from '../observe/scrub.ts';
import { version } from '../version.ts';
import type { Runner } from './command.ts';
import { addGroupCommands } from './group-commands.ts';
import { CliError, type CliIo, ExitCode } from './io.ts';
import { addUninstall } from './leaving-commands.ts';
import { addLinkCommands } from './link-commands.ts';
import { addMirrorCommands } from './mirror-commands.ts';
import { addOtherCommands } from './other-commands.ts';
import { processIo } from './process-io.ts';
import { addServeCommands } from './serve-commands.ts';

const exitCodesHelp = `
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 partly done or unhealthy,
            4 still running when the wait ended.
`;

function createProgram(runner: Runner): Command {
  const { io } = runner;
  const program = new Command('causeway');
  program
    .description('A broker-side Kafka cluster-linking proxy')
    .version(version)
    .option('-o, --output <form>', 'table or json')
    .option('--url <url>', 'the admin API (or CAUSEWAY_URL; default http://127.0.0.1:8082)')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.out(text),
      writeErr: (text) => io.error(text),
      outputError: (text, write) =>
        write(
          `causeway: ${text
            .replace(/^error: /, '')
            .trim()
            .replaceAll('\n', ' ')}\n`,
        ),
    })
    .addHelpText('after', exitCodesHelp)
    .exitOverride();
  addServeCommands(program, runner);
  addLinkCommands(program, runner);
  addMirrorCommands(program, runner);
  addGroupCommands(program, runner);
  addOtherCommands(program, runner);
  addUninstall(program, runner);
  return program;
}

function oneLine(text: string): string {
  return scrubSecrets(text)
    .trim()
    .replaceAll(/\s*\n\s*/g, '; ');
}

/** Runs one command. Never throws. */
export async function runWith(argv: readonly string[], io: CliIo): Promise<number> {
  const runner: Runner = { io, exitCode: ExitCode.done };
  try {
    await createProgram(runner).parseAsync(argv, { from: 'user' });
    return runner.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has written its line already; help and version end with 0.
      return error.exitCode === 0 ? ExitCode.done : ExitCode.usage;
    }
    const message = error instanceof Error ? error.message : String(error);
    io.error(`causeway: ${oneLine(message)}\n`);
    return error instanceof CliError ? error.exitCode : ExitCode.failed;
  }
}

export async function run(argv: string[]): Promise<number> {
  return runWith(argv, processIo());
}
