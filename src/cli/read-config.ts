// Reads the configuration file for the commands that work from it. Owns how its faults are told:
// all of them, the last one as the command's own error. Refuses to know what it is read for.
// Invariant: a configuration with a fault is never returned.
import type { CausewayConfig } from '../config/config.ts';
import { ConfigError, loadConfig } from '../config/load.ts';
import type { CommandContext } from './command.ts';
import { CliError, ExitCode } from './io.ts';

export async function readConfig(context: CommandContext, file: string): Promise<CausewayConfig> {
  try {
    return await loadConfig(file, context.io.environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems.slice(0, -1)) context.io.error(`causeway: ${problem}\n`);
    throw new CliError(ExitCode.failed, error.problems.at(-1) ?? 'the configuration is wrong');
  }
}
