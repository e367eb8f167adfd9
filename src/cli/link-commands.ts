// `causeway link ...`: create, list, describe, delete, settings, tasks.
import type { Command } from 'commander';
import type { LinkAnswer, TaskPlanAnswer } from './answers.ts';
import { action, type CommandContext, collect, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { collectSettings, parseProperties, readTextFile } from './key-values.ts';
import { importMm2, Mm2Error } from './mm2-import.ts';
import { block, seconds, table, time } from './output.ts';

const pathOf = (name: string): string => `/links/${encodeURIComponent(name)}`;

interface CreateOptions {
  source?: string;
  sourceClusterId?: string;
  config: string[];
  configFile?: string;
  importMm2?: string;
  mm2Flow?: string;
  validateOnly?: boolean;
}

/** Settings out of a MirrorMaker 2 file; what differs from it is said on stderr. */
async function importedSettings(
  context: CommandContext,
  options: CreateOptions,
): Promise<ReadonlyMap<string, string>> {
  const file = options.importMm2;
  if (file === undefined) return new Map();
  const properties = parseProperties(await readTextFile(file, context.io), file);
  try {
    const { flow, settings, notes } = importMm2(properties, options.mm2Flow);
    for (const note of notes) context.io.error(`${file}, ${flow}: ${note}\n`);
    return settings;
  } catch (error) {
    if (!(error instanceof Mm2Error)) throw error;
    throw new CliError(ExitCode.usage, `${file}: ${error.message}`);
  }
}

async function createLink(
  context: CommandContext,
  name: string,
  options: CreateOptions,
): Promise<void> {
  const given = { config: options.config, configFile: options.configFile };
  const imported = await importedSettings(context, options);
  const settings = new Map([...imported, ...(await collectSettings(given, context.io))]);
  if (options.source !== undefined) settings.set('bootstrap.servers', options.source);
  if (!settings.has('bootstrap.servers')) {
    throw new CliError(ExitCode.usage, 'give the source with --source HOST:PORT[,HOST:PORT...]');
  }
  const isDry = options.validateOnly ?? false;
  const configs = [...settings].map(([key, value]) => ({ name: key, value }));
  const id = options.sourceClusterId;
  await context.client.rest('POST', '/links', {
    query: { link_name: name, validate_only: isDry },
    body: { configs, ...(id === undefined ? {} : { source_cluster_id: id }) },
  });
  if (isDry) {
    context.done({ name, valid: true }, `Link ${name} could be created.`);
    return;
  }
  context.done({ name, created: true }, `Link ${name} created.`);
}

async function listLinks(context: CommandContext): Promise<void> {
  const { links } = await context.client.get<{ links: LinkAnswer[] }>('/links');
  context.print(links, () =>
    table(
      ['NAME', 'STATE', 'SOURCE CLUSTER', 'MIRRORS', 'LAST CONTACT', 'RPO', 'ERROR'],
      links.map((link) => [
        link.name,
        link.state,
        link.sourceClusterId,
        link.topicNames.length,
        contactText(link),
        rpoText(link),
        link.error === 'NO_ERROR' ? null : link.error,
      ]),
    ),
  );
}

function contactText({ lastContactTimeMs, isContactRecorded }: LinkAnswer): string {
  return `${time(lastContactTimeMs)}${isContactRecorded ? ' or later (before a restart)' : ''}`;
}

function rpoText({ rpoSeconds, isRpoAtMost, rpoUnknownTopics }: LinkAnswer): string {
  const known = `${isRpoAtMost ? 'at most ' : ''}${seconds(rpoSeconds)}`;
  const { length } = rpoUnknownTopics;
  return rpoSeconds === null || length === 0 ? known : `${known} (not known of ${length})`;
}

async function describeLink(context: CommandContext, name: string): Promise<void> {
  const link = await context.client.get<LinkAnswer>(pathOf(name));
  context.print(link, () => {
    const head = block([
      ['Name', link.name],
      ['Id', link.linkId],
      ['Source cluster', link.sourceClusterId],
      ['State', link.state],
      ['Error', link.error === 'NO_ERROR' ? null : `${link.error} ${link.errorMessage ?? ''}`],
      ['Last contact', contactText(link)],
      ['RPO', rpoText(link)],
      ['RPO not known of', link.rpoUnknownTopics.join(', ') || null],
      ['Mirrors', link.topicNames.length === 0 ? null : link.topicNames.join(', ')],
    ]);
    return `${head}\n${settingsTable(link)}\n${tasksTable(link)}`;
  });
}

function settingsTable(link: LinkAnswer): string {
  return table(['SETTING', 'VALUE'], Object.entries(link.configs).sort());
}

function tasksTable(link: LinkAnswer): string {
  return table(
    ['TASK', 'STATE', 'LAST SUCCESS', 'COUNTS', 'ERRORS'],
    link.tasks.map((task) => [
      task.name,
      task.state,
      time(task.lastSuccessTimeMs),
      countsText(task.counts),
      task.errors.map((error) => `${error.code}: ${error.message}`).join('; ') || null,
    ]),
  );
}

interface DeleteOptions {
  force?: boolean;
  dryRun?: boolean;
}

async function deleteLink(
  context: CommandContext,
  name: string,
  options: DeleteOptions,
): Promise<void> {
  const isDry = options.dryRun ?? false;
  const query = { force: options.force ?? false, validate_only: isDry };
  await context.client.rest('DELETE', pathOf(name), { query });
  if (isDry) context.done({ name, valid: true }, `Link ${name} could be deleted.`);
  else context.done({ name, deleted: true }, `Link ${name} deleted.`);
}

async function listSettings(context: CommandContext, name: string): Promise<void> {
  const link = await context.client.get<LinkAnswer>(pathOf(name));
  context.print(link.configs, () => settingsTable(link));
}

interface SetOptions {
  configFile?: string;
  delete: string[];
  dryRun?: boolean;
}

async function setSettings(
  context: CommandContext,
  name: string,
  pairs: string[],
  options: SetOptions,
): Promise<void> {
  const given = { config: pairs, configFile: options.configFile };
  const settings = await collectSettings(given, context.io);
  const data = [
    ...[...settings].map(([key, value]) => ({ name: key, value, operation: 'SET' })),
    ...options.delete.map((key) => ({ name: key, operation: 'DELETE' })),
  ];
  if (data.length === 0) {
    throw new CliError(ExitCode.usage, 'give at least one key=value, --config-file or --delete');
  }
  const isDry = options.dryRun ?? false;
  const query = { validate_only: isDry };
  await context.client.rest('PUT', `${pathOf(name)}/configs:alter`, { query, body: { data } });
  const names = data.map((row) => row.name);
  if (isDry) context.done({ name, valid: names }, `Link ${name} could be changed.`);
  else context.done({ name, changed: names }, `Link ${name}: changed ${names.join(', ')}.`);
}

function countsText(counts: Readonly<Record<string, number>> | undefined): string | null {
  const texts = Object.entries(counts ?? {}).map(([name, count]) => `${name} ${count}`);
  return texts.length === 0 ? null : texts.join(', ');
}

const isOff = ({ problems }: TaskPlanAnswer): boolean =>
  problems.some(({ code }) => code === 'NOT_CONFIGURED');

/** Problems and changes of all tasks, in one table. */
function plansTable(tasks: readonly TaskPlanAnswer[]): string {
  const rows = tasks.flatMap((plan) => [
    ...plan.problems.map(({ code, message }) =>
      isOff(plan) ? [plan.task, 'off', null, message] : [plan.task, 'problem', code, message],
    ),
    ...plan.changes.map(({ action, subject, detail }) => [plan.task, action, subject, detail]),
  ]);
  return table(['TASK', 'ACTION', 'SUBJECT', 'DETAIL'], rows);
}

async function listTasks(
  context: CommandContext,
  name: string,
  options: { dryRun?: boolean },
): Promise<void> {
  if (options.dryRun) {
    const { tasks } = await context.client.get<{ tasks: TaskPlanAnswer[] }>(`${pathOf(name)}/plan`);
    context.print(tasks, () => plansTable(tasks));
    return;
  }
  const link = await context.client.get<LinkAnswer>(pathOf(name));
  context.print(link.tasks, () => tasksTable(link));
}

const comparingTasks = new Set(['AutoCreateMirror', 'TopicConfigsSync', 'AclSync']);

/** What differs between source and mirrors now, edits that are left alone included. */
async function showDrift(context: CommandContext, name: string): Promise<void> {
  const { tasks } = await context.client.get<{ tasks: TaskPlanAnswer[] }>(`${pathOf(name)}/plan`);
  const comparing = tasks.filter(({ task }) => comparingTasks.has(task));
  // What could not be compared may well differ.
  const open = comparing.filter((plan) => plan.changes.length + plan.problems.length > 0);
  const isSame = open.every(isOff);
  const off = open.map(({ task }) => task).join(', ');
  const same = `Link ${name}: no difference${off === '' ? '' : `; switched off: ${off}`}.\n`;
  context.print(comparing, () => (isSame ? same : plansTable(open)));
  if (!isSame) context.exitCode = ExitCode.partly;
}

export function addLinkCommands(program: Command, runner: Runner): void {
  const link = program.command('link').description('links to source clusters');
  link
    .command('create')
    .description('create a link')
    .argument('<name>')
    .option('--source <servers>', 'bootstrap servers of the source: HOST:PORT[,HOST:PORT...]')
    .option('--source-cluster-id <id>', 'refuse a source with another cluster id')
    .option('--config <key=value>', 'a setting; may be given several times', collect, [])
    .option('--config-file <file>', 'settings as a Java properties file; - reads standard input')
    .option('--import-mm2 <file>', 'topics, groups and prefix of a MirrorMaker 2 file')
    .option('--mm2-flow <flow>', 'which of its flows (A->B), when several are enabled')
    .option('--validate-only', 'check everything, create nothing')
    .action(action(runner, createLink));
  link.command('list').description('all links').action(action(runner, listLinks));
  link
    .command('describe')
    .description('one link with its settings and tasks')
    .argument('<name>')
    .action(action(runner, describeLink));
  link
    .command('delete')
    .description('delete a link')
    .argument('<name>')
    .option('--force', 'also with mirrors that are not stopped')
    .option('--dry-run', 'check, delete nothing')
    .option('--yes', 'ask nothing')
    .action(action(runner, deleteLink));
  link
    .command('tasks')
    .description('sync tasks of a link')
    .argument('<name>')
    .option('--dry-run', 'what they would change now, and what they leave alone')
    .action(action(runner, listTasks));
  link
    .command('drift')
    .description('how topics, configs and ACLs differ from the source; exit 3 when they do')
    .argument('<name>')
    .action(action(runner, showDrift));
  const config = link.command('config').description('settings of a link');
  config
    .command('list')
    .description('settings that are not at their default')
    .argument('<name>')
    .action(action(runner, listSettings));
  config
    .command('set')
    .description('change settings')
    .argument('<name>')
    .argument('[key=value...]')
    .option('--config-file <file>', 'settings as a Java properties file; - reads standard input')
    .option('--delete <key>', 'back to the default; may be given several times', collect, [])
    .option('--dry-run', 'check, change nothing')
    .action(action(runner, setSettings));
}
