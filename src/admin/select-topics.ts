// Picks the topics that a command is about: by names, or by a regular expression over the mirrors
// of a link. The expression comes from outside and runs on the event loop that also serves Kafka
// clients, so its time is bounded: `node:vm` can end a match that backtracks without end.
import { runInNewContext } from 'node:vm';
import { RequestError } from './errors.ts';

const matchTimeoutMs = 200;
const topicsMax = 100_000;

function matching(names: readonly string[], pattern: string): string[] {
  try {
    new RegExp(pattern, 'u');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, 400, `mirror_topic_name_pattern: ${reason}`);
  }
  const script = 'names.filter((name) => expression.test(name))';
  const expression = new RegExp(`^(?:${pattern})$`, 'u');
  try {
    const found: unknown = runInNewContext(
      script,
      { names, expression },
      { timeout: matchTimeoutMs },
    );
    return Array.isArray(found) ? found.map(String) : [];
  } catch {
    const limit = `takes longer than ${matchTimeoutMs} ms to match; give a simpler one`;
    throw new RequestError(400, 400, `mirror_topic_name_pattern: ${limit}`);
  }
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
