// `causeway mirror promote|failover|pause|resume|cancel`: one call for all topics, then for promote
// a wait until each is done or has fallen back. Exit code: 0 all done, 1 none, 3 some, 4 still
// running when the wait ended.
import type { Command } from 'commander';
import type { CommandAnswer, CommandRow, MirrorAnswer, ReceiptAnswer } from './answers.ts';
import { action, type CommandContext, type Runner } from './command.ts';
import { CliError, ExitCode, RefusedError } from './io.ts';
import { parseDurationMs, readTextFile } from './key-values.ts';
import { livingSources, livingText, writersText } from './living-source.ts';
import { table } from './output.ts';
import { receiptTable } from './receipt-text.ts';

type Verb = 'promote' | 'failover' | 'pause' | 'resume' | 'cancel';

interface VerbOptions {
  link?: string;
  all?: boolean;
  topicsFile?: string;
  dryRun?: boolean;
  yes?: boolean;
  deadline?: string;
  /** Commander: seconds, or false for --no-wait. */
  wait?: string | boolean;
  atomic?: boolean;
  fenceSource?: boolean;
  requireReplicated?: boolean;
  acceptLoss?: boolean;
  adopt?: boolean;
  discard?: boolean;
}

const pollIntervalMs = 300;
const defaultDeadlineMs = 300_000;
/** The server decides at its deadline; the answer needs a moment to be seen. */
const afterDeadlineMs = 15_000;

interface Selection {
  readonly topics?: string[];
  readonly link?: string;
  readonly all?: boolean;
}

async function selection(
  context: CommandContext,
  topics: readonly string[],
  options: VerbOptions,
): Promise<Selection> {
  const ways = [topics.length > 0, options.all === true, options.topicsFile !== undefined];
  if (ways.filter(Boolean).length !== 1) {
    const forms = 'TOPIC..., --link NAME --all, or --topics-file FILE';
    throw new CliError(ExitCode.usage, `say which topics, in one way: ${forms}`);
  }
  const link = options.link === undefined ? {} : { link: options.link };
  if (options.all === true) {
    if (options.link === undefined) throw new CliError(ExitCode.usage, '--all needs --link NAME');
    return { ...link, all: true };
  }
  if (options.topicsFile === undefined) return { ...link, topics: [...new Set(topics)] };
  const text = await readTextFile(options.topicsFile, context.io);
  const listed = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (listed.length === 0) throw new CliError(ExitCode.usage, `${options.topicsFile} is empty`);
  return { ...link, topics: [...new Set(listed)] };
}

const irreversible = new Set<Verb>(['promote', 'failover']);

/**
 * A person is asked before what cannot be undone; a script must say --yes only for whole links and
 * files.
 */
async function confirm(
  context: CommandContext,
  verb: Verb,
  chosen: Selection,
  options: VerbOptions,
): Promise<void> {
  if (!irreversible.has(verb) || options.yes === true || options.dryRun === true) return;
  const isBulk = options.all === true || options.topicsFile !== undefined;
  const what =
    chosen.topics === undefined ? `all mirrors of ${chosen.link}` : chosen.topics.join(', ');
  const living = verb === 'failover' ? await livingSources(context, chosen) : [];
  const why =
    living.length === 0 ? '' : `${livingText(living)}; ${await writersText(context, chosen)}. `;
  if (!context.io.isInteractive) {
    if (living.length > 0) throw new CliError(ExitCode.usage, `${why}To fail over, add --yes`);
    if (!isBulk) return;
    throw new CliError(ExitCode.usage, `${verb} of many topics cannot be undone: add --yes`);
  }
  const question = `${verb} ${what}? This cannot be undone. [y/N] `;
  const answer = await context.io.ask(`${why === '' ? '' : `Note: ${why}\n`}${question}`);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(ExitCode.failed, 'nothing was done');
}

type Verdict = 'done' | 'failed' | 'running';

interface Outcome {
  readonly topic: string;
  readonly verdict: Verdict;
  readonly state: string | null;
  readonly message: string | null;
}

function blockingText(mirror: MirrorAnswer): string | null {
  const reasons = mirror.blocking.map(({ code, message }) => `${code}: ${message}`);
  if (reasons.length > 0) return reasons.join('; ');
  return mirror.error === null ? null : `${mirror.error.code}: ${mirror.error.message}`;
}

function isStopping(state: string | null, phase: string | null): boolean {
  return state === 'PENDING_STOPPED' || phase !== null;
}

function firstOutcome(row: CommandRow, verb: Verb, isDry: boolean): Outcome {
  const { topic, state, error } = row;
  if (error !== null) {
    return { topic, verdict: 'failed', state, message: `${error.code}: ${error.message}` };
  }
  const isRunning = !isDry && irreversible.has(verb) && state !== 'STOPPED';
  return { topic, verdict: isRunning ? 'running' : 'done', state, message: null };
}

interface Noted {
  readonly context: CommandContext;
  /** What an operator should know, by its code. */
  readonly notes: Map<string, string>;
}

async function look({ context, notes }: Noted, { topic, message: why }: Outcome): Promise<Outcome> {
  const path = `/mirrors/${encodeURIComponent(topic)}`;
  const mirror = await context.client.get<MirrorAnswer>(path);
  for (const { code, message } of mirror.notices) notes.set(code, `${code}: ${message}`);
  const { state, phase } = mirror;
  if (state === 'STOPPED') return { topic, verdict: 'done', state, message: null };
  const message = blockingText(mirror);
  if (isStopping(state, phase)) return { topic, verdict: 'running', state, message };
  const reason = message ?? why;
  const back = `went back to ${state}${reason === null ? '' : ` (${reason})`}`;
  return { topic, verdict: 'failed', state, message: back };
}

interface Round {
  readonly outcomes: Outcome[];
  /** Why the proxy could not be asked any more; what was running may be so still. */
  readonly lost: string | null;
}

/** A proxy that starts again, or reads its state again, goes on with what it was told. */
async function lookAtRunning(noted: Noted, current: readonly Outcome[]): Promise<Round> {
  const outcomes: Outcome[] = [];
  for (const [index, one] of current.entries()) {
    try {
      outcomes.push(one.verdict === 'running' ? await look(noted, one) : one);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      const { message } = error;
      const isGone = error instanceof RefusedError && error.code === 'MIRROR_NOT_FOUND';
      if (!isGone) return { outcomes: [...outcomes, ...current.slice(index)], lost: message };
      outcomes.push({ ...one, verdict: 'failed', message });
    }
  }
  return { outcomes, lost: null };
}

/** Polls until nothing is running or the time is over. */
async function waitFor(noted: Noted, outcomes: Outcome[], waitMs: number): Promise<Outcome[]> {
  const { context } = noted;
  const endMs = context.io.now() + waitMs;
  let round: Round = { outcomes, lost: null };
  const isRunning = ({ verdict }: Outcome): boolean => verdict === 'running';
  while (round.outcomes.some(isRunning) && context.io.now() < endMs) {
    await context.io.pause(pollIntervalMs);
    round = await lookAtRunning(noted, round.outcomes);
  }
  const { lost } = round;
  if (lost === null) return round.outcomes;
  return round.outcomes.map((one) => (isRunning(one) ? { ...one, message: lost } : one));
}

function exitCodeOf(outcomes: readonly Outcome[], isWaiting: boolean): ExitCode {
  const count = (verdict: Verdict): number =>
    outcomes.filter((one) => one.verdict === verdict).length;
  if (count('failed') === outcomes.length && outcomes.length > 0) return ExitCode.failed;
  if (count('failed') > 0) return ExitCode.partly;
  return count('running') > 0 && isWaiting ? ExitCode.running : ExitCode.done;
}

function reportTable(
  verb: Verb,
  outcomes: readonly Outcome[],
  options: { isDry: boolean; receipt: ReceiptAnswer | null },
): string {
  const words: Readonly<Record<Verdict, string>> = {
    done: options.isDry ? `could ${verb}` : 'done',
    failed: options.isDry ? 'refused' : 'failed',
    running: 'running',
  };
  const rows = outcomes.map((one) => [one.topic, words[one.verdict], one.state, one.message]);
  const outcome = table(['TOPIC', verb.toUpperCase(), 'STATE', 'WHY'], rows);
  const { receipt, isDry } = options;
  return receipt === null ? outcome : `${outcome}\n${receiptTable(receipt, { isDry })}`;
}

function summary(verb: Verb, outcomes: readonly Outcome[]): string {
  const failed = outcomes.filter((one) => one.verdict === 'failed');
  const running = outcomes.filter((one) => one.verdict === 'running');
  const [first] = failed;
  if (first !== undefined) {
    const many = failed.length > 1 ? ` and ${failed.length - 1} more` : '';
    return `${verb} failed for ${first.topic}${many}: ${first.message ?? 'no reason given'}`;
  }
  const [still] = running;
  const why = still?.message ? `: ${still.message}` : '';
  return `${verb} is still running for ${running.length} of ${outcomes.length} topics${why}`;
}

interface Waiting {
  readonly deadlineMs: number | undefined;
  readonly waitMs: number;
  readonly isWaiting: boolean;
}

function waiting(verb: Verb, options: VerbOptions): Waiting {
  const deadlineMs =
    options.deadline === undefined ? undefined : parseDurationMs('--deadline', options.deadline);
  const untilDecided = (deadlineMs ?? defaultDeadlineMs) + afterDeadlineMs;
  if (options.wait === false) return { deadlineMs, waitMs: 0, isWaiting: false };
  const waitMs =
    typeof options.wait === 'string' ? parseDurationMs('--wait', options.wait) : untilDecided;
  return { deadlineMs, waitMs, isWaiting: irreversible.has(verb) };
}

async function runVerb(
  verb: Verb,
  context: CommandContext,
  topics: string[],
  options: VerbOptions,
): Promise<void> {
  if (options.adopt === true && options.discard === true) {
    throw new CliError(ExitCode.usage, 'say --adopt or --discard, not both');
  }
  const chosen = await selection(context, topics, options);
  const plan = waiting(verb, options);
  await confirm(context, verb, chosen, options);
  const isDry = options.dryRun ?? false;
  const deadline = {
    ...(plan.deadlineMs === undefined ? {} : { deadlineMs: plan.deadlineMs }),
    ...(options.atomic === true ? { atomic: true } : {}),
    ...(options.fenceSource === true ? { fenceSource: true } : {}),
    ...(options.requireReplicated === true ? { requireReplicated: true } : {}),
    ...(options.acceptLoss === true ? { acceptLoss: true } : {}),
    ...(options.adopt === true ? { written: 'adopt' } : {}),
    ...(options.discard === true ? { written: 'discard' } : {}),
  };
  const answer = await context.client.post<CommandAnswer>(
    `/mirrors:${verb}`,
    { ...chosen, ...deadline },
    { validateOnly: isDry },
  );
  let outcomes = answer.rows.map((row) => firstOutcome(row, verb, isDry));
  const notes = new Map<string, string>();
  if (plan.isWaiting && !isDry) outcomes = await waitFor({ context, notes }, outcomes, plan.waitMs);
  const { receipt } = answer;
  context.print({ command: verb, dryRun: isDry, topics: outcomes, receipt }, () =>
    outcomes.length === 0 ? 'No topics.\n' : reportTable(verb, outcomes, { isDry, receipt }),
  );
  for (const note of notes.values()) context.io.error(`causeway: note: ${note}\n`);
  context.exitCode = exitCodeOf(outcomes, plan.isWaiting);
  if (context.exitCode !== ExitCode.done) {
    context.io.error(`causeway: ${summary(verb, outcomes)}\n`);
  }
}

const descriptions: Readonly<Record<Verb, string>> = {
  promote: 'make mirrors writable topics with nothing lost; waits until that is done',
  failover: 'make mirrors writable topics at once, as far as they are; prints what is lost',
  pause: 'stop mirroring for a while',
  resume: 'go on after pause',
  cancel: 'take a running promotion back',
};

/** Known by name, so that nobody takes them for a typing error. */
const laterVerbs: Readonly<Record<string, string>> = {
  reverse: 'mirror a promoted topic back to its source',
  restore: 'make an old primary a mirror again',
};

function addLaterVerbs(mirror: Command, runner: Runner): void {
  for (const [verb, description] of Object.entries(laterVerbs)) {
    mirror
      .command(verb)
      .description(`${description} (not in this version)`)
      .argument('[topics...]')
      .allowUnknownOption()
      .action(
        action(runner, async () => {
          throw new CliError(ExitCode.failed, `mirror ${verb} is not in this version`);
        }),
      );
  }
}

export function addMirrorVerbs(mirror: Command, runner: Runner): void {
  addLaterVerbs(mirror, runner);
  for (const [verb, description] of Object.entries(descriptions) as [Verb, string][]) {
    const command = mirror
      .command(verb)
      .description(description)
      .argument('[topics...]')
      .option('--link <name>', 'the link of the topics; needed for --all only')
      .option('--all', 'all mirrors of the link that are not stopped')
      .option('--topics-file <file>', 'one topic a line; - reads standard input')
      .option('--dry-run', 'say what would happen')
      .option('--yes', 'ask nothing');
    if (verb === 'promote') {
      command
        .option('--deadline <time>', 'then back to ACTIVE, decided by the server (default 5m)')
        .option('--wait <seconds>', 'wait so long for the outcome (default: until the deadline)')
        .option('--no-wait', 'do not wait for the outcome')
        .option('--atomic', 'all topics together by one transaction, or none')
        .option('--fence-source', 'deny WRITE at the source; undone unless it is promoted')
        .option('--require-replicated', 'refuse while the history has one copy only');
    }
    if (verb === 'failover') {
      command
        .option('--accept-loss', 'give up what is in mirror logs that cannot be used')
        .option('--adopt', 'records written into the topics past Causeway become part of them')
        .option('--discard', 'records written into the topics past Causeway are hidden for ever');
    }
    command.action(
      action(runner, (context, topics: string[], options: VerbOptions) =>
        runVerb(verb, context, topics, options),
      ),
    );
  }
}
