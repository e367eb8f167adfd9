// The handover of a group over a scripted look at source and destination: what it waits for, and
// every way in which it ends.
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import { NameLocks } from '../../../src/link/signal.ts';
import { Events } from '../../../src/observe/events.ts';
import type { StateChange } from '../../../src/state/state.ts';
import { GroupHandovers } from '../../../src/tasks/group-handover.ts';
import type { GroupLook } from '../../../src/tasks/groups.ts';
import { until } from '../../helpers/wait.ts';

const live: GroupLook = {
  listed: { nodeId: 1, kind: 'classic', state: 'Stable' },
  problems: [],
  behind: [],
  isLiveHere: false,
};
const empty: GroupLook = { ...live, listed: { nodeId: 1, kind: 'classic', state: 'Empty' } };

let open: GroupHandovers[] = [];

afterEach(async () => {
  await Promise.all(open.map((one) => one.close()));
  open = [];
});

/** What is on record, as the next process finds it. */
type Records = Map<string, { waiting: readonly unknown[] }>;

function scripted(records: Records = new Map(), look = live) {
  const stage = { look, error: null as Error | null, nowMs: 0 };
  const clock = { monotonicMs: () => stage.nowMs, unixMs: () => 1_000 + stage.nowMs };
  const view = { handovers: records, links: new Map([['dr', {}]]) };
  const state = { lease: { check: () => undefined }, owned: async () => undefined, view };
  const context = { clock, events: new Events(), state };
  const commit = async (changes: readonly StateChange[]) => {
    for (const change of changes) {
      assert.ok('put' in change && change.put.kind === 'handovers');
      records.set(change.put.link, change.put);
    }
  };
  const handovers = new GroupHandovers({
    context: context as unknown as LinkContext,
    changes: { commit, locks: new NameLocks() },
    link: 'dr',
    mayAct: () => true,
    nameHere: (group) => `eu.${group}`,
    lookAt: async () => {
      if (stage.error !== null) throw stage.error;
      return stage.look;
    },
  });
  handovers.start();
  open.push(handovers);
  const begin = (validateOnly = false) =>
    handovers.begin('app', { deadlineMs: 60_000, actor: 'test', validateOnly });
  const shown = () => handovers.statuses.find(({ group }) => group === 'eu.app');
  return { stage, handovers, begin, shown, records };
}

describe('a handover', () => {
  test('holds the group until the source is empty and its last commit here', async () => {
    const { stage, handovers, begin, shown } = scripted();
    const begun = await begin();
    assert.equal(begun.waitingFor, "the source's group is Stable");
    assert.ok(handovers.isHeld('eu.app') && handovers.isAnyHeld);
    assert.ok(!handovers.isHeld('app'));
    stage.look = { ...empty, behind: [{ topic: 'eu.t', partition: 2 }] };
    await until('the missing offset', () => /offsets are not here.*eu\.t-2/.test(waits(shown())));
    stage.look = { ...empty, problems: [{ code: 'GROUP_OFFSETS_UNSTABLE', message: 'unstable' }] };
    await until('the problem', () => waits(shown()) === 'unstable');
    stage.error = new Error('source is gone');
    await until('the error', () => waits(shown()) === 'source is gone');
    assert.ok(handovers.isHeld('eu.app'));
    stage.error = null;
    stage.look = empty;
    await until('done', () => shown()?.state === 'DONE');
    assert.ok(!handovers.isHeld('eu.app') && !handovers.isAnyHeld);
  });

  test('ends at its deadline, saying what was missing', async () => {
    const { stage, handovers, begin, shown } = scripted();
    await begin();
    stage.nowMs = 60_000;
    await until('expired', () => shown()?.state === 'EXPIRED');
    assert.equal(waits(shown()), "the source's group is Stable");
    assert.ok(!handovers.isAnyHeld);
    stage.look = empty;
    assert.equal((await begin()).state, 'WAITING', 'it can be begun again');
  });

  test('can be cancelled, once', async () => {
    const { handovers, begin } = scripted();
    await begin();
    assert.equal(handovers.cancel('app', 'test').state, 'CANCELLED');
    assert.ok(!handovers.isAnyHeld);
    assert.throws(() => handovers.cancel('app', 'test'), { code: 'ILLEGAL_STATE' });
  });

  test('is refused for a group that the source does not have, or that is live here', async () => {
    const { stage, handovers, begin } = scripted();
    stage.look = { ...live, listed: null };
    await assert.rejects(begin(), { code: 'GROUP_NOT_FOUND' });
    stage.look = { ...live, isLiveHere: true };
    await assert.rejects(begin(), { code: 'ILLEGAL_STATE' });
    assert.ok(!handovers.isAnyHeld);
  });

  test('goes on after a restart, with the deadline that it had', async () => {
    const first = scripted();
    await first.begin();
    await first.handovers.close();
    const next = scripted(first.records);
    assert.ok(next.handovers.isHeld('eu.app'));
    assert.equal(next.shown()?.deadlineTimeMs, 61_000);
    next.stage.look = empty;
    await until('done', () => next.shown()?.state === 'DONE');
    await until('not on record', () => next.records.get('dr')?.waiting.length === 0);
  });

  test('whose end was not recorded holds nobody up who has joined since', async () => {
    const first = scripted();
    await first.begin();
    await first.handovers.close();
    const next = scripted(first.records, { ...live, isLiveHere: true });
    await until('ended', () => next.shown()?.state === 'CANCELLED');
    assert.ok(!next.handovers.isAnyHeld);
  });

  test('that is only tried holds nothing', async () => {
    const { handovers, begin } = scripted();
    assert.equal((await begin(true)).waitingFor, "the source's group is Stable");
    assert.ok(!handovers.isAnyHeld);
    assert.deepEqual(handovers.statuses, []);
  });
});

function waits(status: { readonly waitingFor: string | null } | undefined): string {
  return status?.waitingFor ?? '';
}
