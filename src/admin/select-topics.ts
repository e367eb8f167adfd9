// Picks the topics that a command is about: by names, or by a regular expression over the mirrors
// of a link. The expression comes from outside and runs on the event loop that also serves Kafka
// clients, so its time is bounded: `node:vm` can end a match that backtracks without end. That time
// is the wall's: on a machine that is busy enough a match that had hardly begun is ended too, and
// is tried again, since nobody whose failover is refused in a disaster writes a simpler one.
import { runInNewContext } from 'node:vm';
import { RequestError } from './errors.ts';

const matchTimeoutMs = 200;
/** Less of the processor than this in all, and it was not the expression that took the time. */
const processorMsMin = matchTimeoutMs / 2;
const attemptsMax = 10;
const topicsMax = 100_000;

interface Match {
  readonly names: readonly string[];
  readonly expression: RegExp;
}

/** @throws ERR_SCRIPT_EXECUTION_TIMEOUT */
function runMatch(match: Match): unknown {
  const script = 'names.filter((name) => expression.test(name))';
  return runInNewContext(script, { ...match }, { timeout: matchTimeoutMs });
}

/** The error is of the script's own context: no `Error` of ours. */
function isTimeout(error: unknown): boolean {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}

function compile(pattern: string): RegExp {
  try {
    new RegExp(pattern, 'u');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, 400, `mirror_topic_name_pattern: ${reason}`);
  }
  return new RegExp(`^(?:${pattern})$`, 'u');
}

/** @throws RequestError when the expression takes too long, or the machine is too busy to tell */
export function matching(
  names: readonly string[],
  pattern: string,
  run: (match: Match) => unknown = runMatch,
): string[] {
  const expression = compile(pattern);
  const before = process.cpuUsage();
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    try {
      const found = run({ names, expression });
      return Array.isArray(found) ? found.map(String) : [];
    } catch (error) {
      if (!isTimeout(error)) throw error;
      const { user, system } = process.cpuUsage(before);
      if ((user + system) / 1_000 < processorMsMin) continue;
      const limit = `takes longer than ${matchTimeoutMs} ms to match; give a simpler one`;
      throw new RequestError(400, 400, `mirror_topic_name_pattern: ${limit}`);
    }
  }
  const message = 'mirror_topic_name_pattern: the machine is too busy to match it; try again';
  throw new RequestError(503, 50003, message);
}

export interface TopicSelection {
  readonly names: readonly string[] | null | undefined;
  readonly pattern: string | null | undefined;
}

/** @throws RequestError when nothing was asked for */
export function selectTopics(
  selection: TopicSelection,
  mirrors: () => readonly string[],
): string[] {
  const { names, pattern } = selection;
  const selected = new Set(names ?? []);
  if (pattern !== null && pattern !== undefined && pattern !== '') {
    for (const name of matching(mirrors(), pattern)) selected.add(name);
  } else if (selected.size === 0) {
    const message = 'Give mirror_topic_names or mirror_topic_name_pattern.';
    throw new RequestError(400, 400, message);
  }
  if (selected.size > topicsMax) {
    throw new RequestError(400, 400, `At most ${topicsMax} topics can be named at once.`);
  }
  return [...selected];
}
