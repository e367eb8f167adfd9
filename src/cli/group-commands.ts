// `causeway group ...`: offsets of groups here and at the source, and the handover of a group. Exit
// code of a handover: 0 done, 1 expired or cancelled, 4 still under way when the wait ended.
import type { Command } from 'commander';
import type { GroupAnswer, HandoverAnswer } from './answers.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { parseDurationMs } from './key-values.ts';
import { table, time } from './output.ts';

const pollIntervalMs = 500;
/** The server decides at its deadline; the answer needs a moment to be seen. */
const afterDeadlineMs = 5_000;

function pathOf(link: string): string {
  return `/links/${encodeURIComponent(link)}`;
}

async function listGroups(context: CommandContext, options: { link: string }): Promise<void> {
  const path = `${pathOf(options.link)}/groups`;
  const { groups } = await context.client.get<{ groups: GroupAnswer[] }>(path);
  context.print(groups, () =>
    table(
      ['GROUP', 'KIND', 'TOPIC', 'PARTITION', 'SOURCE OFFSET', 'HERE', 'HELD'],
      groups.map((row) => [
        row.group,
        row.kind,
        row.topic,
        row.partition,
        row.sourceOffset,
        Number(row.destinationOffset) < 0 ? null : row.destinationOffset,
        row.held,
      ]),
    ),
  );
}

interface HandoverOptions {
  link: string;
  deadline?: string;
  wait?: string | boolean;
  dryRun?: boolean;
  cancel?: boolean;
}

function handoverLine({ group, state, waitingFor, deadlineTimeMs }: HandoverAnswer): string {
  const deadline = state === 'WAITING' ? `, until ${time(deadlineTimeMs)} at most` : '';
  const why = waitingFor === null ? '' : `: ${waitingFor}`;
  return `Group ${group}: ${state}${deadline}${why}`;
}

async function current(
  context: CommandContext,
  link: string,
  group: string,
): Promise<HandoverAnswer> {
  const path = `${pathOf(link)}/handovers`;
  const { handovers } = await context.client.get<{ handovers: HandoverAnswer[] }>(path);
  const found = handovers.find((one) => one.group === group);
  if (found !== undefined) return found;
  const message = `the proxy knows no handover of '${group}' any more: it was restarted`;
  throw new CliError(ExitCode.failed, message);
}

async function handOver(
  context: CommandContext,
  group: string,
  options: HandoverOptions,
): Promise<void> {
  const path = `${pathOf(options.link)}/groups/${encodeURIComponent(group)}/handover`;
  if (options.cancel === true) {
    await context.client.delete(path);
    context.done({ group, cancelled: true }, `Group ${group}: the handover was cancelled.`);
    return;
  }
  const { deadline, wait } = options;
  const body =
    deadline === undefined ? {} : { deadlineMs: parseDurationMs('--deadline', deadline) };
  const isDry = options.dryRun === true;
  const query = isDry ? { validateOnly: true } : {};
  const askedMs = typeof wait === 'string' ? parseDurationMs('--wait', wait) : undefined;
  let answer = await context.client.post<HandoverAnswer>(path, body, query);
  const waitMs = askedMs ?? answer.deadlineTimeMs - Date.now() + afterDeadlineMs;
  const endMs = context.io.now() + (wait === false || isDry ? 0 : waitMs);
  while (answer.state === 'WAITING' && context.io.now() < endMs) {
    await context.io.pause(pollIntervalMs);
    answer = await current(context, options.link, answer.group);
  }
  context.print(answer, () => `${handoverLine(answer)}\n`);
  if (isDry || wait === false || answer.state === 'DONE') return;
  context.exitCode = answer.state === 'WAITING' ? ExitCode.running : ExitCode.failed;
  if (answer.state !== 'WAITING') context.io.error(`causeway: ${handoverLine(answer)}\n`);
}

export function addGroupCommands(program: Command, runner: Runner): void {
  const group = program.command('group').description('consumer groups of a source');
  group
    .command('list')
    .description('committed offsets, at the source and here')
    .requiredOption('--link <name>')
    .action(action(runner, listGroups));
  group
    .command('handover')
    .description("let members wait here until the source's group is empty and its last commit here")
    .argument('<group>', 'its name at the source')
    .requiredOption('--link <name>')
    .option('--deadline <time>', 'then members may join all the same (default 5m)')
    .option('--wait <seconds>', 'wait so long for the outcome (default: until the deadline)')
    .option('--no-wait', 'do not wait for the outcome')
    .option('--dry-run', 'say what is missing and do nothing')
    .option('--cancel', 'end the handover: members may join at once')
    .action(action(runner, handOver));
}
