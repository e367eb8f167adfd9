// `causeway receipt|events|status|preflight` and `state export`.
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import type {
  EventAnswer,
  EventsAnswer,
  HealthAnswer,
  ReceiptAnswer,
  StatusAnswer,
} from './answers.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { block, bytes, time } from './output.ts';
import { receiptTable } from './receipt-text.ts';

async function showReceipt(context: CommandContext, id: string): Promise<void> {
  const receipt = await context.client.get<ReceiptAnswer>(`/receipts/${encodeURIComponent(id)}`);
  context.print(receipt, () => receiptTable(receipt));
}

function eventLine(event: EventAnswer): string {
  const [level, message] = [event.level.toUpperCase().padEnd(5), event.message];
  const clean = message.replaceAll(/\s+/g, ' ');
  return `${time(event.timeMs)} ${level} ${event.event}: ${clean}\n`;
}

const followWaitMs = 25_000;
const retryMs = 1000;

/** Prints events as they come until interrupted; goes on when the proxy restarts. */
async function followEvents(context: CommandContext, first: EventsAnswer): Promise<void> {
  const { io } = context;
  let { instanceId, lastId } = first;
  let isLost = false;
  while (!io.interrupted.aborted) {
    try {
      const query = { since: lastId, waitMs: followWaitMs };
      const answer = await context.client.get<EventsAnswer>('/events', query, io.interrupted);
      if (answer.instanceId !== instanceId) {
        // A new process counts from 1 again: read its events from the start.
        ({ instanceId } = answer);
        lastId = 0;
        continue;
      }
      isLost = false;
      printEvents(context, answer.events);
      lastId = answer.lastId;
    } catch (error) {
      if (io.interrupted.aborted) return;
      if (!(error instanceof CliError)) throw error;
      if (!isLost) io.error(`causeway: ${error.message}; trying again\n`);
      isLost = true;
      await io.pause(retryMs);
    }
  }
}

function printEvents(context: CommandContext, events: readonly EventAnswer[]): void {
  for (const event of events) {
    context.io.out(context.isJson ? `${JSON.stringify(event)}\n` : eventLine(event));
  }
}

interface EventsOptions {
  follow?: boolean;
  since?: string;
}

async function showEvents(context: CommandContext, options: EventsOptions): Promise<void> {
  const since = options.since ?? '0';
  if (!/^\d{1,15}$/.test(since)) throw new CliError(ExitCode.usage, '--since: must be an event id');
  const query = { since, limit: 10_000 };
  const answer = await context.client.get<EventsAnswer>('/events', query);
  if (options.follow === true) {
    printEvents(context, answer.events);
    await followEvents(context, answer);
    return;
  }
  context.print(answer.events, () => answer.events.map(eventLine).join(''));
}

function healthLines(health: HealthAnswer): string[] {
  return health.checks
    .filter((check) => !check.healthy)
    .map((check) => `${check.name}: ${check.message ?? 'not healthy'}`);
}

interface StatusOptions {
  check?: boolean;
}

async function showStatus(context: CommandContext, options: StatusOptions): Promise<void> {
  const status = await context.client.get<StatusAnswer>('/status');
  const { gateway, storage } = status;
  const problems = [...healthLines(status.ready), ...healthLines(status.links)];
  context.print(status, () => {
    const head = block([
      ['Causeway', `${status.version} (${status.name}, ${status.role})`],
      ['Destination', status.clusterId],
      [
        'Clients',
        `${gateway.advertise}:${gateway.bootstrapPort}, ${gateway.connections} connected`,
      ],
      ['Storage', storageText(storage)],
      ['Links', status.linksCount],
      ['Healthy', status.healthy ? 'yes' : 'no'],
    ]);
    const lines = [...problems, ...gateway.bypassGroups.map(bypassText)];
    return head + lines.map((line) => `  ${line}\n`).join('');
  });
  if (options.check === true && !status.healthy) {
    context.exitCode = ExitCode.partly;
    context.io.error(`causeway: not healthy: ${problems[0] ?? 'no cause given'}\n`);
  }
}

function bypassText(group: StatusAnswer['gateway']['bypassGroups'][number]): string {
  const hosts = [...new Set(group.members.map(({ host }) => host))].join(', ');
  return `BYPASS: group ${group.group} reads ${group.topics.join(', ')} past us, from ${hosts}`;
}

function storageText(storage: StatusAnswer['storage']): string {
  if (!storage.usable) return `${storage.directory} (not usable)`;
  const full = storage.isFull ? ', FULL: fetching has stopped' : '';
  const used = `${bytes(storage.usedBytes)} used, ${bytes(storage.freeBytes)} free`;
  return `${storage.directory} (${used}${full})`;
}

async function exportState(context: CommandContext, file: string): Promise<void> {
  const text = await context.client.getText('/state');
  if (file === '-') {
    context.io.out(text);
    return;
  }
  try {
    await writeFile(file, text, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(ExitCode.failed, `cannot write ${file}: ${reason}`);
  }
  context.done({ file, exported: true }, `State written to ${file}.`);
}

async function preflight(): Promise<void> {
  throw new CliError(ExitCode.failed, 'preflight is not in this version');
}

export function addStateExport(state: Command, runner: Runner): void {
  state
    .command('export')
    .description('write the state to a new file; - writes to standard output')
    .argument('<file>')
    .action(action(runner, exportState));
}

export function addOtherCommands(program: Command, runner: Runner): void {
  const receipt = program.command('receipt').description('receipts of failovers and promotions');
  receipt
    .command('show')
    .description('what was lost, by partition')
    .argument('<id>')
    .action(action(runner, showReceipt));
  program
    .command('events')
    .description('what has happened')
    .option('--follow', 'go on until interrupted')
    .option('--since <id>', 'only events after this id')
    .action(action(runner, showEvents));
  program
    .command('status')
    .description('the proxy in one look')
    .option('--check', 'exit 3 when anything is not healthy')
    .action(action(runner, showStatus));
  program
    .command('preflight')
    .description('check clusters before the first link (not in this version)')
    .option('--config <file>')
    .option('--link-file <file>')
    .action(action(runner, preflight));
}
