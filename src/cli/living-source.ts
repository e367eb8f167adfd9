// Before a failover: does the source still answer? Then a promotion would lose nothing, and a
// person is told so. Refuses to decide. Invariant: a source that was never heard counts as silent.
import type { LinkAnswer } from './answers.ts';
import type { CommandContext } from './command.ts';

const livingMs = 15_000;

export interface LivingSource {
  readonly link: string;
  readonly secondsAgo: number;
}

/** Links of the chosen mirrors whose source answered within 15 s, and has not failed since. */
export async function livingSources(
  context: CommandContext,
  chosen: { readonly topics?: readonly string[]; readonly link?: string },
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

export function livingText(sources: readonly LivingSource[]): string {
  const named = sources.map(({ link, secondsAgo }) => `${link} (${secondsAgo} s ago)`).join(', ');
  return `the source answers: ${named}; promote would lose nothing`;
}
