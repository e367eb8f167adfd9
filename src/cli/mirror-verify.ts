// `causeway mirror verify`: reads source and mirror again and compares them, partition by
// partition, in steps that the proxy answers one by one. Invariant: a partition that cannot be
// compared is a row like any other, and those behind it are compared all the same. Exit code: 0 all
// the same, 3 when something differs or was not compared, 1 when nothing was.
import type { Command } from 'commander';
import type { Coded, MirrorAnswer, VerifiedRow, VerifyAnswer } from './answers.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode, RefusedError } from './io.ts';
import { bytes, Listing } from './output.ts';

interface VerifyOptions {
  link?: string;
  all?: boolean;
  since?: string;
  throttle?: string;
}

const defaultBytesPerSecond = 20_000_000;
/** Of the hash, in a table. */
const hashDigits = 16;

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

interface Place {
  readonly topic: string;
  readonly partition: number;
}

function added(before: VerifyAnswer, step: VerifyAnswer): VerifyAnswer {
  const batches = before.batches + step.batches;
  return { ...step, start: before.start, batches, bytes: before.bytes + step.bytes };
}

/** All steps of one partition, added up; a refusal is its row's, and no other's. */
async function verifyPartition(
  context: CommandContext,
  place: Place,
  options: { readonly since: number | null; readonly bytesPerSecond: number },
): Promise<VerifiedRow> {
  const path = `/mirrors/${encodeURIComponent(place.topic)}/verify`;
  const body = { partition: place.partition, ...options };
  let done: VerifyAnswer | null = null;
  try {
    do {
      const { next: from, end, hash } = done ?? { next: null, end: null, hash: null };
      const step: VerifyAnswer = await context.client.post(path, { ...body, from, end, hash });
      done = done === null ? step : added(done, step);
    } while (!done.isDone);
    return { ...done, error: null };
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    return { ...(done ?? nothingOf(place)), error: { code: error.code, message: error.message } };
  }
}

function nothingOf(place: { topic: string; partition: number | null }) {
  const unknown = { start: null, end: null, next: null, hash: null };
  return { ...place, ...unknown, batches: 0, bytes: 0, isDone: false, difference: null };
}

/** A mirror that is not made yet: without a row it would be passed over in silence. */
function pendingRow({ name: topic, state }: MirrorAnswer): VerifiedRow {
  const message = `'${topic}' is ${state}: there is nothing to compare yet`;
  return { ...nothingOf({ topic, partition: null }), error: { code: 'ILLEGAL_STATE', message } };
}

async function* verifiedRows(
  context: CommandContext,
  mirrors: readonly MirrorAnswer[],
  options: { readonly since: number | null; readonly bytesPerSecond: number },
): AsyncGenerator<VerifiedRow> {
  for (const mirror of mirrors) {
    if (mirror.partitions.length === 0) yield pendingRow(mirror);
    for (const { partition } of mirror.partitions) {
      yield await verifyPartition(context, { topic: mirror.name, partition }, options);
    }
  }
}

function resultOf({ difference, error }: VerifiedRow): string {
  if (error !== null) return error.code;
  return difference === null ? 'same' : `${difference.kind} at ${difference.offset}`;
}

/** Rows as they come: of many mirrors it takes hours, and what is known is known. */
function listing(context: CommandContext, mirrors: readonly MirrorAnswer[]): Listing<VerifiedRow> {
  return new Listing<VerifiedRow>({
    out: (text) => context.io.out(text),
    isJson: context.isJson,
    headers: ['MIRROR', 'PARTITION', 'FROM', 'TO', 'BATCHES', 'SIZE', 'HASH', 'RESULT'],
    likely: mirrors.flatMap(({ name, partitions }) =>
      partitions.map(({ partition, logStart, mirrorEnd }) => [
        ...[name, partition, logStart, mirrorEnd, 'BATCHES', '1023.9 MiB'],
        'f'.repeat(hashDigits),
      ]),
    ),
    cells: (row) => [
      row.topic,
      row.partition,
      row.start,
      row.difference === null && row.error === null ? row.end : row.next,
      row.batches,
      bytes(row.bytes),
      row.hash?.slice(0, hashDigits) ?? null,
      resultOf(row),
    ],
  });
}

/** What is to be said of a row beside its cells. */
function remark({ topic, partition, difference, error }: VerifiedRow): string | null {
  const message = difference?.message ?? error?.message;
  const place = partition === null ? topic : `${topic}-${partition}`;
  return message === undefined ? null : `${place}: ${message}`;
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
  const list = listing(context, mirrors);
  const failures: Coded[] = [];
  let rowsCount = 0;
  try {
    for await (const row of verifiedRows(context, mirrors, { since, bytesPerSecond })) {
      rowsCount++;
      list.add(row, remark(row));
      if (row.error !== null) failures.push(row.error);
      if (row.error !== null || row.difference !== null) context.exitCode = ExitCode.partly;
    }
  } finally {
    list.end();
  }
  const [first] = failures;
  if (first === undefined || failures.length < rowsCount) return;
  throw new CliError(ExitCode.failed, `nothing was compared whole: ${first.message}`);
}

export function addMirrorVerify(mirror: Command, runner: Runner): void {
  mirror
    .command('verify')
    .description(
      'read mirrors and their source again and compare them; exit code 3: not all are the same',
    )
    .argument('[topics...]')
    .option('--link <name>', 'the link of the topics; needed for --all only')
    .option('--all', 'all mirrors of the link that are not stopped')
    .option('--since <offset>', 'compare from this offset on')
    .option('--throttle <bytes>', `so many bytes a second at most (${defaultBytesPerSecond})`)
    .action(action(runner, verifyMirrors));
}
