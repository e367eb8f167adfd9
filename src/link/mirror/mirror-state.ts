// The state machine of a mirror topic: states x events -> next state, in one literal. The only
// place where transitions are decided; pure. Refuses to know what a transition does. Invariant: a
// pair that is not in the table is refused, never guessed, and STOPPED is never left (reverse and
// restore come later).
//
// Only some states are stored: PENDING_MIRROR, ACTIVE, PAUSED, FAILED, PENDING_STOPPED, STOPPED.
// The others follow from the link (paused, failed, gone, source lost) and are shown on top, by the
// same table, so that a link with thousands of topics is paused by one record.
import type { MirrorState } from '../../state/records.ts';

export type MirrorEvent =
  | 'created' // shell, id and logs are there
  | 'pause'
  | 'resume'
  | 'promote' // accepted
  | 'promoted' // its switch is committed
  | 'failover' // committed; there is no state between
  | 'cancel' // of a promotion: by the operator, its deadline, or a restart
  | 'fail' // a cause that mirroring cannot go on with
  | 'link-paused'
  | 'link-failed'
  | 'source-lost'
  | 'reverse'
  | 'restore';

type Row = Partial<Record<MirrorEvent, MirrorState>>;

export const mirrorTransitions: Readonly<Record<MirrorState, Row>> = {
  PENDING_MIRROR: { created: 'ACTIVE', fail: 'FAILED' },
  ACTIVE: {
    pause: 'PAUSED',
    resume: 'ACTIVE',
    promote: 'PENDING_STOPPED',
    failover: 'STOPPED',
    cancel: 'ACTIVE',
    fail: 'FAILED',
    'link-paused': 'LINK_PAUSED',
    'link-failed': 'LINK_FAILED',
    'source-lost': 'SOURCE_UNAVAILABLE',
  },
  PAUSED: {
    pause: 'PAUSED',
    resume: 'ACTIVE',
    promote: 'PENDING_STOPPED',
    failover: 'STOPPED',
    fail: 'FAILED',
    'link-failed': 'LINK_FAILED',
  },
  LINK_PAUSED: {
    pause: 'PAUSED',
    failover: 'STOPPED',
    fail: 'FAILED',
    'link-failed': 'LINK_FAILED',
  },
  SOURCE_UNAVAILABLE: {
    pause: 'PAUSED',
    resume: 'ACTIVE',
    promote: 'PENDING_STOPPED',
    failover: 'STOPPED',
    fail: 'FAILED',
    'link-paused': 'LINK_PAUSED',
    'link-failed': 'LINK_FAILED',
  },
  LINK_FAILED: { failover: 'STOPPED', fail: 'FAILED' },
  FAILED: { failover: 'STOPPED', fail: 'FAILED' },
  PENDING_STOPPED: {
    promote: 'PENDING_STOPPED',
    failover: 'STOPPED',
    promoted: 'STOPPED',
    cancel: 'ACTIVE',
    fail: 'FAILED',
  },
  // Not reached yet: fail-back is refused.
  PENDING_SYNCHRONIZE: { failover: 'STOPPED', fail: 'FAILED' },
  PENDING_SETUP_FOR_RESTORE: { fail: 'FAILED' },
  PENDING_RESTORE: { fail: 'FAILED' },
  STOPPED: { promote: 'STOPPED', failover: 'STOPPED' },
};

export const mirrorStates = Object.keys(mirrorTransitions) as readonly MirrorState[];

/** The next state, or null when the event is refused in this state. */
export function nextState(state: MirrorState, event: MirrorEvent): MirrorState | null {
  return mirrorTransitions[state][event] ?? null;
}

/** What the link does to its topics' states; the first that applies wins. */
export interface LinkConditions {
  readonly linkFailed: boolean;
  readonly linkPaused: boolean;
  readonly sourceLost: boolean;
}

/** The state that is shown: the stored one, seen through the condition of its link. */
export function shownState(stored: MirrorState, link: LinkConditions): MirrorState {
  const events: readonly (readonly [boolean, MirrorEvent])[] = [
    [link.linkFailed, 'link-failed'],
    [link.linkPaused, 'link-paused'],
    [link.sourceLost, 'source-lost'],
  ];
  for (const [applies, event] of events) {
    if (!applies) continue;
    const next = nextState(stored, event);
    if (next !== null) return next;
  }
  return stored;
}

/** States in which records are fetched (the link permitting). */
export function isFetching(state: MirrorState): boolean {
  return state === 'ACTIVE' || state === 'SOURCE_UNAVAILABLE' || state === 'PENDING_STOPPED';
}

/** Everything but STOPPED: read-only for clients, led by the link node. */
export function isMirror(state: MirrorState): boolean {
  return state !== 'STOPPED';
}
