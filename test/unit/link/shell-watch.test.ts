// The regular look at the shells: what one stale answer of the destination means for a mirror
// whose name another one had before, and a shell that was given partitions.
//
// Owns: one mirror and what the destination shows of its shell. Refuses to know how shells are
// measured. Invariant: time passes only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import { ShellWatch } from '../../../src/link/mirror/shell-watch.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { Events } from '../../../src/observe/events.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, FakeState, shellId, sourceId, topicInfo } from './fakes.ts';

function mirror(topicId: string): TopicRecord {
  return {
    kind: 'topic',
    name: 't',
    topicId,
    link: 'dr',
    sourceTopic: 't',
    sourceTopicId: sourceId,
    state: 'ACTIVE',
    stateTimeMs: 0,
    error: null,
    partitions: [newMirror(virtualOffset(0n))],
    stoppedBy: null,
  };
}

async function scene(t: TestContext) {
  const seen = { nowMs: 0, looks: 0, sourcePartitions: null as number | null };
  const state = new FakeState();
  const destination = new FakeCluster();
  const events = new Events();
  const clock = { monotonicMs: () => seen.nowMs, unixMs: () => seen.nowMs };
  const limits = { shellWatchMs: 1 };
  const context = { state, destination, events, clock, limits } as unknown as LinkContext;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const watch = new ShellWatch({
    context,
    changes,
    takeUp: async () => {
      seen.looks++;
    },
    onFailed: async () => undefined,
    sourcePartitions: () => seen.sourcePartitions,
  });
  const moreLooks = async () => {
    const before = seen.looks;
    await until('two more looks', () => seen.looks > before + 2);
  };
  state.topics.set('t', mirror(shellId));
  watch.start();
  t.after(() => watch.close());
  return { seen, state, destination, events, moreLooks };
}

test('a shell is not gone because one of its name was, long ago', async (t) => {
  const { seen, state, moreLooks } = await scene(t);
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE', 'one answer decides nothing');
  // Made anew under its name; a broker does not know the new shell yet.
  state.topics.set('t', mirror(sourceId));
  seen.nowMs = 3_600_000;
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE');
  seen.nowMs += 3_600_000;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
  assert.equal(state.topics.get('t')?.error?.code, 'SHELL_TOPIC_DELETED');
});

test('a shell with more partitions than its source ends the mirror, growth does not', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  destination.topics.set('t', topicInfo('t', shellId, [0, 0]));
  // Not known yet, or ahead of the mirror because the source has grown: it follows.
  for (const sourcePartitions of [null, 2]) {
    seen.sourcePartitions = sourcePartitions;
    await moreLooks();
    seen.nowMs += 3_600_000;
    await moreLooks();
    assert.equal(state.topics.get('t')?.state, 'ACTIVE', `${sourcePartitions} at the source`);
  }
  seen.sourcePartitions = 1;
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE', 'one answer decides nothing');
  seen.nowMs += 3_600_000;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
  assert.equal(state.topics.get('t')?.error?.code, 'SHELL_TOPIC_CHANGED');
  assert.match(state.topics.get('t')?.error?.message ?? '', /2 partitions past Causeway/);
});

const denial = {
  ...{ resourceType: 2, resourceName: 't', patternType: 3, principal: 'User:*', host: '*' },
  ...{ operation: 4, permissionType: 2 },
};

test('R16: a promoted topic that was deleted says which denial stands at its source', async (t) => {
  const { seen, state, events, moreLooks } = await scene(t);
  const promoted = { ...mirror(shellId), state: 'STOPPED', stoppedBy: 'promote' } as const;
  state.topics.set('t', { ...promoted, fence: { acls: [denial] } });
  await moreLooks();
  seen.nowMs += 3_600_000;
  await until('the end of the record', () => !state.topics.has('t'));
  const told = events.since(0).map(({ event }) => event);
  assert.deepEqual(told, ['source_fence_left', 'promoted_topic_deleted']);
  assert.match(events.since(0)[0]?.message ?? '', /kafka-acls --remove --topic 't'/);
  assert.deepEqual([...state.logRemovals.keys()], [shellId], 'its logs are to be deleted');
});

test('nothing is told of a promoted topic that is another one by now', async (t) => {
  const { seen, state, events, moreLooks } = await scene(t);
  const promoted = { ...mirror(shellId), state: 'STOPPED', stoppedBy: 'promote' } as const;
  state.topics.set('t', { ...promoted, fence: { acls: [denial] } });
  await moreLooks();
  // Between the look and the lock somebody has made a mirror of it again.
  const { topics } = state;
  const get = topics.get.bind(topics);
  topics.get = (name) => (name === 't' ? mirror(sourceId) : get(name));
  seen.nowMs += 3_600_000;
  await moreLooks();
  assert.deepEqual(events.since(0), []);
  assert.equal(state.commits.length, 0);
});
