// `causeway mirror verify`: reads source and mirror again and compares them, partition by
// partition, in steps that the proxy answers one by one. Exit code: 0 all the same, 3 when
// something differs.
import type { Command } from 'commander';
import type { MirrorAnswer, VerifyAnswer } from './answers.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode } from './io.ts';
import { bytes, table } from './output.ts';

interface VerifyOptions {
  link?: string;
  all?: boolean;
  since?: string;
  throttle?: string;
}

const defaultBytesPerSecond = 20_000_000;

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min) return value;
  throw new CliError(ExitCode.usage, `${name}: "${text}" is not a whole number from ${min} on`);
}

async function chosenMirrors(
  context: CommandContext,
  topics: readonly string[],
  options: VerifyOptions,
): Promise<MirrorAnswer[]> {
  const isAll = options.all === true;
  if (isAll === topics.length > 0) {
    throw new CliError(
      ExitCode.usage,
      'say which topics, in one way: TOPIC... or --link NAME --all',
    );
  }
  if (isAll) {
    if (options.link === undefined) throw new CliError(ExitCode.usage, '--all needs --link NAME');
    const query = { link: options.link };
    const { mirrors } = await context.client.get<{ mirrors: MirrorAnswer[] }>('/mirrors', query);
    return mirrors.filter(({ state }) => state !== 'STOPPED');
  }
  const found: MirrorAnswer[] = [];
  for (const topic of new Set(topics)) {
    const mirror = await context.client.get<MirrorAnswer>(`/mirrors/${encodeURIComponent(topic)}`);
    if (options.link !== undefined && mirror.link !== options.link) {
      const message = `${topic} is mirrored by link ${mirror.link}, not by ${options.link}`;
      throw new CliError(ExitCode.failed, message);
    }
    found.push(mirror);
  }
  return found;
}

/** All steps of one partition, added up. */
async function verifyPartition(
  context: CommandContext,
  place: { readonly topic: string; readonly partition: number },
  options: { readonly since: number | null; readonly bytesPerSecond: number },
): Promise<VerifyAnswer> {
  const path = `/mirrors/${encodeURIComponent(place.topic)}/verify`;
  const body = { partition: place.partition, ...options };
  let step = await context.client.post<VerifyAnswer>(path, body);
  const { start } = step;
  let { batches, bytes: size } = step;
  while (!step.isDone) {
    const { next: from, end, hash } = step;
    step = await context.client.post<VerifyAnswer>(path, { ...body, from, end, hash });
    batches += step.batches;
    size += step.bytes;
  }
  return { ...step, start, batches, bytes: size };
}

function resultText(rows: readonly VerifyAnswer[]): string {
  const listed = table(
    ['MIRROR', 'PARTITION', 'FROM', 'TO', 'BATCHES', 'SIZE', 'RESULT', 'HASH'],
    rows.map((row) => [
      row.topic,
      row.partition,
      row.start,
      row.difference === null ? row.end : row.next,
      row.batches,
      bytes(row.bytes),
      row.difference === null ? 'same' : `${row.difference.kind} at ${row.difference.offset}`,
      row.hash.slice(0, 16),
    ]),
  );
  const differences = rows.flatMap(({ topic, partition, difference }) =>
    difference === null ? [] : [`${topic}-${partition}: ${difference.message}\n`],
  );
  return `${listed}${differences.join('')}`;
}

async function verifyMirrors(
  context: CommandContext,
  topics: string[],
  options: VerifyOptions,
): Promise<void> {
  const since = options.since === undefined ? null : wholeNumber('--since', options.since, 0);
  const bytesPerSecond =
    options.throttle === undefined
      ? defaultBytesPerSecond
      : wholeNumber('--throttle', options.throttle, 1024);
  const mirrors = await chosenMirrors(context, topics, options);
  const rows: VerifyAnswer[] = [];
  for (const { name: topic, partitions } of mirrors) {
    for (const { partition } of partitions) {
      const place = { topic, partition };
      rows.push(await verifyPartition(context, place, { since, bytesPerSecond }));
    }
  }
  context.print(rows, () => resultText(rows));
  if (rows.some(({ difference }) => difference !== null)) context.exitCode = ExitCode.partly;
}

export function addMirrorVerify(mirror: Command, runner: Runner): void {
  mirror
    .command('verify')
    .description('read mirrors and their source again and compare them; exit code 3: they differ')
    .argument('[topics...]')
    .option('--link <name>', 'the link of the topics; needed for --all only')
    .option('--all', 'all mirrors of the link that are not stopped')
    .option('--since <offset>', 'compare from this offset on')
    .option('--throttle <bytes>', `so many bytes a second at most (${defaultBytesPerSecond})`)
    .action(action(runner, verifyMirrors));
}
