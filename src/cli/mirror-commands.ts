// `causeway mirror create|list|describe|delete`. The commands that change a mirror's state are in
// mirror-verbs.ts, the comparison with the source in mirror-verify.ts.
import type { Command } from 'commander';
import type { MirrorAnswer, Reason } from './answers.ts';
import { action, type CommandContext, collect, type Runner } from './command.ts';
import { exportTail } from './export-tail.ts';
import { CliError, ExitCode } from './io.ts';
import { parseArguments } from './key-values.ts';
import { addDetach } from './leaving-commands.ts';
import { addMirrorVerbs } from './mirror-verbs.ts';
import { addMirrorVerify } from './mirror-verify.ts';
import { block, bytes, lagText, largestLag, seconds, table, time } from './output.ts';

interface CreateOptions {
  link: string;
  sourceTopic?: string;
  config: string[];
  replicationFactor?: string;
  dryRun?: boolean;
}

async function createMirror(
  context: CommandContext,
  topic: string,
  options: CreateOptions,
): Promise<void> {
  const configs = [...parseArguments(options.config)].map(([name, value]) => ({ name, value }));
  const factor = options.replicationFactor;
  if (factor !== undefined && !/^\d{1,5}$/.test(factor)) {
    throw new CliError(ExitCode.usage, '--replication-factor: must be a number');
  }
  // Without --source-topic the name is the source's, and the link's prefix makes the mirror's.
  const names =
    options.sourceTopic === undefined
      ? { source_topic_name: topic }
      : { source_topic_name: options.sourceTopic, mirror_topic_name: topic };
  const isDry = options.dryRun ?? false;
  await context.client.rest('POST', `/links/${encodeURIComponent(options.link)}/mirrors`, {
    query: { validate_only: isDry },
    body: {
      ...names,
      configs,
      ...(factor === undefined ? {} : { replication_factor: Number(factor) }),
    },
  });
  const shown = { sourceTopic: names.source_topic_name, link: options.link };
  if (isDry) context.done({ ...shown, valid: true }, `A mirror of ${topic} could be created.`);
  else context.done({ ...shown, created: true }, `Mirror of ${shown.sourceTopic} created.`);
}

interface ListOptions {
  link?: string;
  status?: string;
}

async function listMirrors(context: CommandContext, options: ListOptions): Promise<void> {
  const query = { link: options.link, status: options.status };
  const { mirrors } = await context.client.get<{ mirrors: MirrorAnswer[] }>('/mirrors', query);
  context.print(mirrors, () =>
    table(
      ['MIRROR', 'LINK', 'SOURCE TOPIC', 'STATE', 'PARTITIONS', 'MAX LAG', 'STALLED', 'ERROR'],
      mirrors.map((mirror) => [
        mirror.name,
        mirror.link,
        mirror.sourceTopic,
        mirror.phase === null ? mirror.state : `${mirror.state} (${mirror.phase})`,
        mirror.growth === null
          ? mirror.partitions.length
          : `${mirror.partitions.length} of ${mirror.growth.sourcePartitions}`,
        mirror.state === 'STOPPED' ? null : largestLag(mirror.partitions),
        mirror.partitions.filter((partition) => partition.isStalled).length,
        mirror.error === null ? null : mirror.error.code,
      ]),
    ),
  );
}

function reasonText(head: string, { code, message, remedy }: Reason): string {
  return `${head} ${code}: ${message}\n${remedy === null ? '' : `  ${remedy}\n`}`;
}

/** Null while it has those of its source. */
function growthText({ growth, partitions }: MirrorAnswer): string | null {
  if (growth === null) return null;
  const { sourcePartitions, sinceTimeMs, cause } = growth;
  const since = time(sinceTimeMs);
  const lacks = `${partitions.length} of the source’s ${sourcePartitions}, since ${since}`;
  return cause === null ? lacks : `${lacks}: ${cause}`;
}

function lostText({ lostRanges, lostTotals }: MirrorAnswer): [string, string][] {
  const listed = new Map<number, number>();
  for (const { partition } of lostRanges) {
    listed.set(partition, (listed.get(partition) ?? 0) + 1);
  }
  const cutOff = lostTotals.filter(
    ({ partition, ranges }) => ranges > (listed.get(partition) ?? 0),
  );
  return [
    ...lostRanges.map(({ partition, from, to, timeMs }): [string, string] => [
      'Lost history',
      `partition ${partition}: offsets [${from}, ${to}), found ${time(timeMs)}`,
    ]),
    ...cutOff.map(({ partition, ranges, records }): [string, string] => [
      'Lost history',
      `partition ${partition}: ${records} offsets in ${ranges} ranges in all`,
    ]),
  ];
}

export function describeText(mirror: MirrorAnswer): string {
  const head = block([
    ['Mirror', mirror.name],
    ['Topic id', mirror.topicId],
    ['Link', mirror.link],
    ['Source topic', mirror.sourceTopic],
    ['State', mirror.phase === null ? mirror.state : `${mirror.state} (${mirror.phase})`],
    ['Since', time(mirror.stateTimeMs)],
    ['Stopped by', mirror.stoppedBy],
    ['Stray records', mirror.strayRecords],
    ['Partitions', growthText(mirror)],
    ...lostText(mirror),
    ['Error', mirror.error === null ? null : `${mirror.error.code}: ${mirror.error.message}`],
  ]);
  const blocking = [
    ...mirror.blocking.map((reason) => reasonText('Blocked by', reason)),
    ...mirror.notices.map((reason) => reasonText('Note:', reason)),
  ];
  const partitions = table(
    [
      'PARTITION',
      'START',
      'MIRROR END',
      'SOURCE END',
      'LAG',
      'LAG TIME',
      'LAG BYTES',
      'STALLED',
      'SIZE',
      'LAST HEARD',
    ],
    mirror.partitions.map((partition) => [
      partition.partition,
      partition.logStart,
      partition.mirrorEnd,
      Number(partition.sourceEnd) < 0 ? 'unknown' : partition.sourceEnd,
      lagText(partition),
      seconds(partition.lagSeconds),
      partition.lagBytes === null ? 'unknown' : bytes(Number(partition.lagBytes)),
      partition.isStalled ? (partition.stallCause ?? 'yes') : null,
      partition.sizeBytes === null ? 'unknown' : bytes(Number(partition.sizeBytes)),
      time(partition.heardTimeMs),
    ]),
  );
  return `${head}${blocking.join('')}\n${partitions}`;
}

async function describeMirror(context: CommandContext, topic: string): Promise<void> {
  const mirror = await context.client.get<MirrorAnswer>(`/mirrors/${encodeURIComponent(topic)}`);
  context.print(mirror, () => describeText(mirror));
}

interface DeleteOptions {
  keepTopic?: boolean;
  dryRun?: boolean;
  yes?: boolean;
}

async function deleteMirror(
  context: CommandContext,
  topic: string,
  options: DeleteOptions,
): Promise<void> {
  const keepTopic = options.keepTopic ?? false;
  const isDry = options.dryRun ?? false;
  if (context.io.isInteractive && !isDry && options.yes !== true) {
    const what = keepTopic ? 'The mirrored records' : 'The topic and its mirrored records';
    const answer = await context.io.ask(`${what} of ${topic} will be gone. Go on? [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(ExitCode.failed, 'nothing was done');
  }
  const query = { keepTopic, validateOnly: isDry };
  await context.client.delete(`/mirrors/${encodeURIComponent(topic)}`, query);
  if (isDry) context.done({ topic, valid: true }, `Mirror ${topic} could be deleted.`);
  else context.done({ topic, deleted: true }, `Mirror ${topic} deleted.`);
}

interface RecreateOptions {
  archiveAs?: string;
  dryRun?: boolean;
  yes?: boolean;
}

async function recreateMirror(
  context: CommandContext,
  topic: string,
  options: RecreateOptions,
): Promise<void> {
  const isDry = options.dryRun ?? false;
  if (context.io.isInteractive && !isDry && options.yes !== true) {
    const fate =
      options.archiveAs === undefined ? 'will be gone' : `will be in ${options.archiveAs}`;
    const question =
      `The records of ${topic} that were mirrored from its old source topic ${fate}. ` +
      'Go on? [y/N] ';
    const answer = await context.io.ask(question);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(ExitCode.failed, 'nothing was done');
  }
  const body = options.archiveAs === undefined ? {} : { archiveAs: options.archiveAs };
  const path = `/mirrors/${encodeURIComponent(topic)}/recreate`;
  await context.client.post(path, body, { validateOnly: isDry });
  if (isDry) context.done({ topic, valid: true }, `Mirror ${topic} could be made anew.`);
  else context.done({ topic, recreated: true }, `Mirror ${topic} begins anew.`);
}

export function addMirrorCommands(program: Command, runner: Runner): void {
  const mirror = program.command('mirror').description('mirror topics');
  mirror
    .command('create')
    .description('mirror a topic of the source of a link')
    .argument('<topic>')
    .requiredOption('--link <name>')
    .option('--source-topic <topic>', 'its name at the source, when it differs')
    .option('--config <key=value>', 'a topic setting; may be given several times', collect, [])
    .option('--replication-factor <n>', "default: the destination's")
    .option('--dry-run', 'check everything, create nothing')
    .action(action(runner, createMirror));
  mirror
    .command('list')
    .description('all mirrors')
    .option('--link <name>')
    .option('--status <state>', 'only those in this state')
    .action(action(runner, listMirrors));
  mirror
    .command('describe')
    .description('one mirror with its partitions')
    .argument('<topic>')
    .action(action(runner, describeMirror));
  mirror
    .command('delete')
    .description('end a mirror and delete its topic')
    .argument('<topic>')
    .option('--keep-topic', 'leave the topic, empty and ordinary')
    .option('--dry-run', 'check, delete nothing')
    .option('--yes', 'ask nothing')
    .action(action(runner, deleteMirror));
  mirror
    .command('recreate')
    .description('begin a failed mirror anew whose source topic was deleted and made again')
    .argument('<topic>')
    .option('--archive-as <name>', 'keep the old copy as the history of a topic of this name')
    .option('--dry-run', 'check everything, change nothing')
    .option('--yes', 'ask nothing')
    .action(action(runner, recreateMirror));
  mirror
    .command('export-tail')
    .description('what the source has of a switched topic and the topic has not, as JSON lines')
    .argument('<topic>')
    .requiredOption('--to <file>', 'a file that is not there yet')
    .action(action(runner, exportTail));
  addDetach(mirror, runner);
  addMirrorVerify(mirror, runner);
  addMirrorVerbs(mirror, runner);
}
