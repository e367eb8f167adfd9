// docs/mirror-states.md, drawn from the table that decides. Owns the text around it and the words
// for events; refuses to know a transition of its own. Invariant: every state and event of the
// table is in the document.
import {
  type MirrorEvent,
  mirrorStates,
  mirrorTransitions,
} from '../../src/link/mirror/mirror-state.ts';

/** Every event, and who brings it about. */
const meanings: Readonly<Record<MirrorEvent, string>> = {
  created: 'shell topic, id and mirror logs are there',
  pause: 'command',
  resume: 'command',
  promote: 'command, accepted',
  promoted: "a promotion's switch is committed",
  failover: 'command; committed in the same transaction as the switch',
  cancel: "command, or a promotion's deadline",
  fail: 'something that mirroring cannot go on with; the code is shown',
  'link-paused': 'shown while the link is paused',
  'link-failed': 'shown while the link has failed or is gone',
  'source-lost': 'shown while the source does not answer',
  reverse: 'refused everywhere in this version',
  restore: 'refused everywhere in this version',
};

const shownOnly = new Set<MirrorEvent>(['link-paused', 'link-failed', 'source-lost']);

function tableRow(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

function diagram(): string[] {
  const arrows = mirrorStates.flatMap((state) => {
    const byNext = new Map<string, string[]>();
    for (const [event, next] of Object.entries(mirrorTransitions[state])) {
      if (next === state) continue;
      byNext.set(next, [...(byNext.get(next) ?? []), event]);
    }
    return [...byNext].map(([next, events]) => `    ${state} --> ${next}: ${events.join(', ')}`);
  });
  return ['```mermaid', 'stateDiagram-v2', '    [*] --> PENDING_MIRROR', ...arrows, '```'];
}

function table(): string[] {
  const events = (Object.keys(meanings) as MirrorEvent[]).filter((event) =>
    mirrorStates.some((state) => mirrorTransitions[state][event] !== undefined),
  );
  const rows = mirrorStates.map((state) =>
    tableRow([
      `**${state}**`,
      ...events.map((event) => {
        const next = mirrorTransitions[state][event];
        if (next === undefined) return '';
        return next === state ? 'stays' : next;
      }),
    ]),
  );
  return [tableRow(['state', ...events]), tableRow(['---', ...events.map(() => '---')]), ...rows];
}

export function mirrorStatesDocument(): string {
  const words = Object.entries(meanings).map(([event, meaning]) => {
    const isShown = shownOnly.has(event as MirrorEvent);
    return tableRow([`\`${event}\``, isShown ? `${meaning}; never stored` : meaning]);
  });
  return [
    '# States of a mirror topic',
    '',
    'Drawn from `src/link/mirror/mirror-state.ts`, the only place where transitions are decided.',
    'After a change there: `npm run build`, then',
    '`UPDATE_DOCS=1 node --test dist/test/unit/link/mirror-states-document.test.js`.',
    '',
    'An empty cell is a refusal: the command answers ILLEGAL_STATE and nothing changes. Every',
    'stored transition is one state transaction and one `mirror_state_changed` event with its',
    'actor. LINK_PAUSED, LINK_FAILED and SOURCE_UNAVAILABLE are never stored: they are what a',
    'stored state looks like through the condition of its link. The states with SYNCHRONIZE and',
    'RESTORE are not reached in this version: fail-back (reverse, restore) is refused.',
    '',
    ...table(),
    '',
    '## Events',
    '',
    tableRow(['event', 'meaning']),
    tableRow(['---', '---']),
    ...words,
    '',
    '## Picture',
    '',
    ...diagram(),
    '',
  ].join('\n');
}
