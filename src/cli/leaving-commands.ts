// `causeway mirror detach` and `causeway uninstall --dry-run`: leaving the proxy. Owns the words;
// refuses to remove anything but a timeline.
import type { Command } from 'commander';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { bytes, table } from './output.ts';

type Int64 = number | string;

interface DetachAnswer {
  readonly topic: string;
  readonly isDone: boolean;
  readonly partitions: readonly {
    readonly partition: number;
    readonly virtualEnd: Int64;
    readonly offsetShift: Int64;
    readonly historyStart: Int64 | null;
    readonly historyBytes: Int64 | null;
  }[];
  readonly groups: readonly {
    readonly group: string;
    readonly partition: number;
    readonly oldOffset: Int64;
    readonly newOffset: Int64;
  }[];
  readonly blocking: readonly {
    readonly code: string;
    readonly message: string;
    readonly remedy: string | null;
  }[];
}

interface LeftoverAnswer {
  readonly kind: string;
  readonly subject: string;
  readonly detail: string;
  readonly remedy: string;
}

function detachText(answer: DetachAnswer): string {
  const partitions = table(
    ['PARTITION', 'OFFSETS SHRINK BY', 'HISTORY THAT GOES', 'ABOUT'],
    answer.partitions.map((one) => [
      one.partition,
      one.offsetShift,
      one.historyStart === one.virtualEnd
        ? 'none'
        : `${one.historyStart ?? 'unknown'} to ${one.virtualEnd}`,
      one.historyBytes === null ? 'unknown' : bytes(Number(one.historyBytes)),
    ]),
  );
  const groups =
    answer.groups.length === 0
      ? 'No group has offsets to be moved.\n'
      : table(
          ['GROUP', 'PARTITION', 'OFFSET', 'BECOMES'],
          answer.groups.map((one) => [one.group, one.partition, one.oldOffset, one.newOffset]),
        );
  const reasons = answer.blocking.map(({ code, message, remedy }) =>
    `In the way: ${code}: ${message}. ${remedy ?? ''}`.trimEnd(),
  );
  return [partitions, groups, ...reasons.map((line) => `${line}\n`)].join('\n');
}

interface DetachOptions {
  readonly dropHistory?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

async function detach(
  context: CommandContext,
  topic: string,
  options: DetachOptions,
): Promise<void> {
  const isDry = options.dryRun ?? false;
  if (context.io.isInteractive && !isDry && options.yes !== true) {
    const question =
      `Detach ${topic}? Its consumers and producers must be stopped, offsets of its groups are ` +
      'rewritten, and this cannot be undone. [y/N] ';
    const answer = await context.io.ask(question);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(ExitCode.failed, 'nothing was done');
  }
  const answer = await context.client.post<DetachAnswer>(
    `/mirrors/${encodeURIComponent(topic)}/detach`,
    { dropHistory: options.dropHistory ?? false },
    { validateOnly: isDry },
  );
  const head = answer.isDone
    ? `${topic} is detached: start its clients anew, at its brokers.\n`
    : `Nothing was changed. A detach of ${topic} would do this:\n`;
  context.print(answer, () => `${head}${detachText(answer)}`);
  const [first] = answer.blocking;
  if (first === undefined) return;
  context.exitCode = ExitCode.failed;
  context.io.error(`causeway: ${topic} cannot be detached: ${first.code}: ${first.message}\n`);
}

async function unfence(context: CommandContext, topic: string): Promise<void> {
  await context.client.order(`/mirrors/${encodeURIComponent(topic)}/unfence`, {});
  context.done({ topic, unfenced: true }, `The source of ${topic} is not fenced any more.`);
}

export function addDetach(mirror: Command, runner: Runner): void {
  mirror
    .command('unfence')
    .description('take back what --fence-source has denied at the source of a promoted topic')
    .argument('<topic>')
    .action(action(runner, unfence));
  mirror
    .command('detach')
    .description('make a promoted topic independent of the proxy, for good')
    .argument('<topic>')
    .option('--drop-history', 'give up what lies below S: it is in the proxy only')
    .option('--dry-run', 'say what would happen and what stands in the way')
    .option('--yes', 'ask nothing')
    .action(action(runner, detach));
}

async function uninstall(context: CommandContext, options: { dryRun?: boolean }): Promise<void> {
  if (options.dryRun !== true) {
    const message = 'uninstall removes nothing in this version: add --dry-run for what to do';
    throw new CliError(ExitCode.failed, message);
  }
  const { leftovers } = await context.client.get<{ leftovers: LeftoverAnswer[] }>('/leftovers');
  context.print(leftovers, () =>
    table(
      ['KIND', 'WHAT', 'DETAIL', 'TO DO'],
      leftovers.map(({ kind, subject, detail, remedy }) => [kind, subject, detail, remedy]),
    ),
  );
}

export function addUninstall(program: Command, runner: Runner): void {
  program
    .command('uninstall')
    .description('list everything that the proxy has made in the clusters, and what to do with it')
    .option('--dry-run', 'needed: nothing is removed in this version')
    .action(action(runner, uninstall));
}
