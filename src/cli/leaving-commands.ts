// `causeway mirror detach` and `causeway uninstall`: leaving the proxy. Owns the words and the
// questions; refuses to know how anything is removed. Invariant: what cannot be undone is asked
// for.
import type { Command } from 'commander';
import type { Uninstalled } from '../uninstall.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { block, bytes, table } from './output.ts';
import { readConfig } from './read-config.ts';

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

interface UninstallOptions {
  readonly dryRun?: boolean;
  readonly config?: string;
  readonly keepDirectory?: boolean;
  readonly removeAcls?: boolean;
  readonly yes?: boolean;
}

async function listLeftovers(context: CommandContext): Promise<void> {
  const { leftovers } = await context.client.get<{ leftovers: LeftoverAnswer[] }>('/leftovers');
  context.print(leftovers, () =>
    table(
      ['KIND', 'WHAT', 'DETAIL', 'TO DO'],
      leftovers.map(({ kind, subject, detail, remedy }) => [kind, subject, detail, remedy]),
    ),
  );
}

/** Against a running proxy it lists; with the configuration, and the proxy stopped, it removes. */
async function uninstall(context: CommandContext, options: UninstallOptions): Promise<void> {
  const { config: file, dryRun: isDryRun = false } = options;
  const { keepDirectory = false, removeAcls = false } = options;
  if (file === undefined) {
    if (isDryRun) return listLeftovers(context);
    const message = 'stop the proxy and give --config FILE, or add --dry-run for what to do first';
    throw new CliError(ExitCode.usage, message);
  }
  const config = await readConfig(context, file);
  if (!isDryRun && options.yes !== true) await confirmUninstall(context, config.name);
  const { uninstall: remove } = await import('../uninstall.ts');
  const found = await remove(config, { isDryRun, keepDirectory, removeAcls });
  context.print(found, () => uninstalledText(found, { isDryRun, removeAcls }));
  const [first] = found.blocking;
  if (first === undefined) return;
  const more = found.blocking.length > 1 ? ` (and ${found.blocking.length - 1} more)` : '';
  context.exitCode = ExitCode.failed;
  context.io.error(`causeway: nothing was removed: ${first}${more}\n`);
}

async function confirmUninstall(context: CommandContext, name: string): Promise<void> {
  if (!context.io.isInteractive) {
    throw new CliError(ExitCode.usage, 'uninstall cannot be undone: add --yes');
  }
  const answer = await context.io.ask(`Remove the state of ${name} for good? [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(ExitCode.failed, 'nothing was done');
}

/** Each by its name: nobody knows them as ours once the state is gone. */
function aclsText(acls: readonly string[], options: Asked): string {
  if (acls.length === 0) return '';
  const stay = `${acls.length} ACLs that links made stay, clients need them (--remove-acls):`;
  const go = `${acls.length} ACLs that links made ${options.isDryRun ? 'would go' : 'are gone'}:`;
  return [options.removeAcls ? go : stay, ...acls.map((acl) => `  ${acl}`), ''].join('\n');
}

interface Asked {
  readonly isDryRun: boolean;
  readonly removeAcls: boolean;
}

function uninstalledText(found: Uninstalled, asked: Asked): string {
  const { topic, blocking, links, acls, directory, isDirectoryRemoved } = found;
  const { isDryRun } = asked;
  if (blocking.length > 0) return blocking.map((reason) => `In the way: ${reason}\n`).join('');
  const head = isDryRun ? 'Nothing was removed, and nothing stands in the way.' : 'Removed.';
  const kept = aclsText(acls, asked);
  return `${head}\n${block([
    ['State topic', topic],
    ['With it the links', links.join(', ') || 'none'],
    ['Mirror logs', isDirectoryRemoved || isDryRun ? directory : `${directory} (left as it is)`],
  ])}${kept}`;
}

export function addUninstall(program: Command, runner: Runner): void {
  program
    .command('uninstall')
    .description('remove the proxy for good: its state and mirror logs, once nothing rests on them')
    .option('--dry-run', 'say what is there and what stands in the way; removes nothing')
    .option('--config <file>', 'the configuration of the proxy, which must be stopped')
    .option('--keep-directory', 'leave the directory of mirror logs as it is')
    .option('--remove-acls', 'remove the ACLs that links made, which otherwise stay for clients')
    .option('--yes', 'ask nothing')
    .action(action(runner, uninstall));
}
