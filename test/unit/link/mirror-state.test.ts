// The state table, every pair: what is allowed leads where it says, everything else is refused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  isFetching,
  isMirror,
  type MirrorEvent,
  mirrorStates,
  mirrorTransitions,
  nextState,
  shownState,
} from '../../../src/link/mirror/mirror-state.ts';
import type { MirrorState } from '../../../src/state/records.ts';

const events: readonly MirrorEvent[] = [
  'created',
  'pause',
  'resume',
  'promote',
  'promoted',
  'failover',
  'cancel',
  'fail',
  'link-paused',
  'link-failed',
  'source-lost',
  'reverse',
  'restore',
];

/** Written out a second time, on purpose: state, then the events that it accepts. */
const expected: Readonly<Record<MirrorState, string>> = {
  PENDING_MIRROR: 'created>ACTIVE fail>FAILED',
  ACTIVE:
    'pause>PAUSED resume>ACTIVE promote>PENDING_STOPPED failover>STOPPED cancel>ACTIVE ' +
    'fail>FAILED link-paused>LINK_PAUSED link-failed>LINK_FAILED source-lost>SOURCE_UNAVAILABLE',
  PAUSED:
    'pause>PAUSED resume>ACTIVE promote>PENDING_STOPPED failover>STOPPED fail>FAILED ' +
    'link-failed>LINK_FAILED',
  LINK_PAUSED: 'pause>PAUSED failover>STOPPED fail>FAILED link-failed>LINK_FAILED',
  SOURCE_UNAVAILABLE:
    'pause>PAUSED resume>ACTIVE promote>PENDING_STOPPED failover>STOPPED fail>FAILED ' +
    'link-paused>LINK_PAUSED link-failed>LINK_FAILED',
  LINK_FAILED: 'failover>STOPPED fail>FAILED',
  FAILED: 'failover>STOPPED fail>FAILED',
  PENDING_STOPPED:
    'promote>PENDING_STOPPED promoted>STOPPED failover>STOPPED cancel>ACTIVE fail>FAILED',
  PENDING_SYNCHRONIZE: 'failover>STOPPED fail>FAILED',
  PENDING_SETUP_FOR_RESTORE: 'fail>FAILED',
  PENDING_RESTORE: 'fail>FAILED',
  STOPPED: 'promote>STOPPED failover>STOPPED',
};

describe('each state', () => {
  for (const state of mirrorStates) {
    test(`${state} accepts exactly its events`, () => {
      const accepted = events.flatMap((event) => {
        const next = nextState(state, event);
        return next === null ? [] : [`${event}>${next}`];
      });
      assert.deepEqual(accepted.sort(), expected[state].split(' ').sort());
    });
  }
});

test('STOPPED is left by nothing, and nothing but a switch leads to it', () => {
  for (const state of mirrorStates) {
    for (const event of events) {
      const next = nextState(state, event);
      if (state === 'STOPPED') assert.ok(next === null || next === 'STOPPED', event);
      else if (next === 'STOPPED') assert.ok(event === 'promoted' || event === 'failover', event);
    }
  }
});

test('fail-back is refused everywhere', () => {
  for (const state of mirrorStates) {
    assert.equal(nextState(state, 'reverse'), null);
    assert.equal(nextState(state, 'restore'), null);
  }
});

test('every target is a state of the table', () => {
  for (const row of Object.values(mirrorTransitions)) {
    for (const next of Object.values(row)) assert.ok(mirrorStates.includes(next), next);
  }
});

test('a state is seen through its link, the worst condition first', () => {
  const fine = { linkFailed: false, linkPaused: false, sourceLost: false };
  const all = { linkFailed: true, linkPaused: true, sourceLost: true };
  assert.equal(shownState('ACTIVE', fine), 'ACTIVE');
  assert.equal(shownState('ACTIVE', { ...fine, sourceLost: true }), 'SOURCE_UNAVAILABLE');
  assert.equal(
    shownState('ACTIVE', { ...fine, linkPaused: true, sourceLost: true }),
    'LINK_PAUSED',
  );
  assert.equal(shownState('ACTIVE', all), 'LINK_FAILED');
  assert.equal(shownState('PAUSED', { ...all, linkFailed: false }), 'PAUSED');
  assert.equal(shownState('FAILED', all), 'FAILED');
  assert.equal(shownState('STOPPED', all), 'STOPPED');
  assert.equal(shownState('PENDING_STOPPED', all), 'PENDING_STOPPED');
});

test('records are fetched while mirroring or draining only', () => {
  const fetching = mirrorStates.filter(isFetching);
  assert.deepEqual(fetching, ['ACTIVE', 'SOURCE_UNAVAILABLE', 'PENDING_STOPPED']);
  assert.deepEqual(
    mirrorStates.filter((state) => !isMirror(state)),
    ['STOPPED'],
  );
});
