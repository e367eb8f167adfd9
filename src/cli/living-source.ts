// Before a failover: does the source still answer, and who writes there? Then a promotion would
// lose nothing, and a person is told so. Refuses to decide. Invariants: a source that was never
// heard counts as silent; writers that are not known are said to be unknown, never to be none.
import type { LinkAnswer, WritersAnswer } from './answers.ts';
import type { CommandContext } from './command.ts';
import { CliError } from './io.ts';

const livingMs = 15_000;
const withinMinutes = 10;
const writersNamed = 5;

export interface LivingSource {
  readonly link: string;
  readonly secondsAgo: number;
}

export interface Chosen {
  readonly topics?: readonly string[];
  readonly link?: string;
  readonly all?: boolean;
}

/** Links of the chosen mirrors whose source answered within 15 s, and has not failed since. */
export async function livingSources(
  context: CommandContext,
  chosen: Chosen,
): Promise<readonly LivingSource[]> {
  const { links } = await context.client.get<{ links: LinkAnswer[] }>('/links');
  const wanted = new Set(chosen.topics ?? []);
  return links.flatMap(({ name, topicNames, lastContactTimeMs, isAnswering }) => {
    const isMeant =
      chosen.link === undefined
        ? topicNames.some((topic) => wanted.has(topic))
        : name === chosen.link;
    const agoMs = Date.now() - lastContactTimeMs;
    if (!isMeant || !isAnswering || lastContactTimeMs <= 0 || agoMs > livingMs) return [];
    return [{ link: name, secondsAgo: Math.max(0, Math.round(agoMs / 1000)) }];
  });
}

/** What the living sources say of their writers, as a sentence. */
export async function writersText(context: CommandContext, chosen: Chosen): Promise<string> {
  try {
    const body = { ...chosen, withinMs: withinMinutes * 60_000 };
    return toldWriters(await context.client.post<WritersAnswer>('/mirrors:writers', body));
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return `who writes there cannot be told: ${error.message}`;
  }
}

function toldWriters(answer: WritersAnswer): string {
  const { writers, writersCount, problems, problemsCount } = answer;
  const named = writers.slice(0, writersNamed).map(writerText);
  const more = writersCount > named.length ? ` and ${writersCount - named.length} more` : '';
  const none = `no producer with an id has written within ${withinMinutes} minutes`;
  const known =
    named.length > 0
      ? `written to by ${named.join(', ')}${more}`
      : `${none} (others leave no trace)`;
  const [problem] = problems;
  if (problem === undefined) return known;
  const others = problemsCount > 1 ? ` (and ${problemsCount - 1} more)` : '';
  return `${known}; not known for ${problem.topic}${others}: ${problem.message}`;
}

function writerText(writer: WritersAnswer['writers'][number]): string {
  const { topic, partition, producerId, lastTimeMs, isInTransaction } = writer;
  const agoMs = Date.now() - Number(lastTimeMs);
  const ago = Number(lastTimeMs) < 0 ? [] : [`${Math.max(0, Math.round(agoMs / 1000))} s ago`];
  const open = isInTransaction ? ['in a transaction'] : [];
  const details = [...ago, ...open].join(', ');
  return `producer ${producerId} (${topic}-${partition}${details === '' ? '' : `, ${details}`})`;
}

export function livingText(sources: readonly LivingSource[]): string {
  const named = sources.map(({ link, secondsAgo }) => `${link} (${secondsAgo} s ago)`).join(', ');
  return `the source answers: ${named}; promote would lose nothing`;
}
