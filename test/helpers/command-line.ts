// The command lines of the demo, the benchmarks and `npm run compat`. Owns what becomes of bad
// input: one line on stderr that names what is wrong, and exit code 2, before anything is started.
// Refuses to know what any option means.

import { type ParseArgsConfig, parseArgs } from 'node:util';

/** Ends the process; `usage` is how the command is called. */
export function refuse(problem: string, usage?: string): never {
  process.stderr.write(usage === undefined ? `${problem}\n` : `${problem}; usage: ${usage}\n`);
  process.exit(2);
}

/** The first sentence of an error: what Node advises behind it is not about this command. */
export function problemOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const [sentence = text] = text.split(/\.\s/);
  return `${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`;
}

function isAboutArguments(error: unknown): boolean {
  return error instanceof Error && String(Reflect.get(error, 'code')).startsWith('ERR_PARSE_ARGS');
}

/** As `parseArgs`, but a command line that does not fit is refused. */
export function readCommandLine<Config extends ParseArgsConfig>(
  config: Config,
  usage: string,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    if (!isAboutArguments(error)) throw error;
    return refuse(problemOf(error), usage);
  }
}
