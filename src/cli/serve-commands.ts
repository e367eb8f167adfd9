// `causeway serve` and `causeway state import`: the two commands that work from the configuration
// file. Owns the signals of a serving process. A start that fails is one clear line and exit code
// 1.
import { totalmem } from 'node:os';
import type { Command } from 'commander';
import type { CausewayConfig, TlsListenerConfig } from '../config/config.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { addStateExport } from './other-commands.ts';
import { block, bytes, table } from './output.ts';
import { readConfig } from './read-config.ts';

interface ServeOptions {
  config: string;
  check?: boolean;
  acceptLoss?: boolean;
  takeOver?: boolean;
}

async function reportConfig(context: CommandContext, config: CausewayConfig): Promise<void> {
  const { memoryBytesMax, memoryTerms, memoryWarning } = await import('../config/limits.ts');
  const { gateway, storage, admin } = config;
  if (gateway.tls !== undefined) await checkTls(gateway.tls);
  const { destinationWarnings } = await import('../serve.ts');
  const memoryFault = memoryWarning(totalmem());
  const warnings = await destinationWarnings(config);
  if (memoryFault !== null) warnings.push(memoryFault);
  const ports = `${gateway.brokerPorts.first}-${gateway.brokerPorts.last}`;
  context.print({ valid: true, name: config.name, memory: memoryTerms, warnings }, () => {
    const head = block([
      ['Configuration', 'valid'],
      ['Name', config.name],
      ['Destination', config.destination.bootstrapServers.join(', ')],
      ['Clients connect to', `${gateway.advertise}:${gateway.bootstrapPort}, then ${ports}`],
      ['Mirror logs', storage.directory],
      ['Admin API', `${admin.bind}:${admin.port}`],
    ]);
    const memory = table(
      ['MEMORY AT MOST, FOR EACH', 'BYTES', 'HOW MANY AT MOST'],
      [
        ...memoryTerms.map(({ what, bytesMax, countMax }) => [what, bytes(bytesMax), countMax]),
        ['in all, with one broker each', bytes(memoryBytesMax()), 1],
      ],
    );
    return `${head}\n${memory}${warnings.map((warning) => `\nWarning: ${warning}\n`).join('')}`;
  });
}

/** The files are read as a start would read them. */
async function checkTls(tls: TlsListenerConfig): Promise<void> {
  const { checkTlsFiles } = await import('../gateway/listener-tls.ts');
  try {
    await checkTlsFiles(tls);
  } catch (error) {
    throw new CliError(ExitCode.failed, error instanceof Error ? error.message : String(error));
  }
}

/** Serves until a signal or a fault that nobody handled; then the process ends. */
async function serve(context: CommandContext, options: ServeOptions): Promise<void> {
  const config = await readConfig(context, options.config);
  if (options.check === true) {
    await reportConfig(context, config);
    return;
  }
  // The service itself is loaded only here: all other commands start without it.
  const { serveUntilSignal } = await import('../serve.ts');
  const { acceptLoss = false, takeOver = false } = options;
  await serveUntilSignal(config, { acceptLoss, takeOver });
}

async function importStateFile(
  context: CommandContext,
  file: string,
  options: { config: string },
): Promise<void> {
  const config = await readConfig(context, options.config);
  const { importStateFromFile } = await import('../serve.ts');
  const { topic, recordsCount, isCut } = await importStateFromFile(config, file);
  const cut = isCut ? ' The file ended in part of a commit, which was left out.' : '';
  const line = `${recordsCount} records written to state topic ${topic}.${cut}`;
  context.done({ topic, recordsCount, isCut, imported: true }, line);
}

export function addServeCommands(program: Command, runner: Runner): void {
  program
    .command('serve')
    .description('run the proxy')
    .requiredOption('--config <file>', 'the configuration, a YAML file')
    .option('--check', 'check the configuration and end')
    .option('--accept-loss', 'go on although mirror logs are missing or corrupt: they are lost')
    .option('--take-over', 'fence an instance of the same name that is at work')
    .action(action(runner, serve));
  const state = program.command('state').description('the durable state of links and timelines');
  addStateExport(state, runner);
  state
    .command('import')
    .description('restore the state into a missing or empty state topic; no proxy may run')
    .argument('<file>')
    .requiredOption('--config <file>', 'the configuration of the proxy')
    .action(action(runner, importStateFile));
}
