// The regular look at the shells: what one stale answer of the destination means for a mirror whose
// name another one had before.
//
// Owns: one mirror and a destination that does not show its shell. Refuses to know how shells are
// measured. Invariant: time passes only when the test says so.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import type { MirrorTopics } from '../../../src/link/mirror-topics.ts';
import { ShellWatch } from '../../../src/link/shell-watch.ts';
import { TopicChanges } from '../../../src/link/topic-changes.ts';
import { Events } from '../../../src/observe/events.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, FakeState, shellId, sourceId } from './fakes.ts';

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

test('a shell is not gone because one of its name was, long ago', async (t) => {
  let nowMs = 0;
  let looks = 0;
  const state = new FakeState();
  const destination = new FakeCluster();
  const events = new Events();
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const limits = { shellWatchMs: 1 };
  const context = { state, destination, events, clock, limits } as unknown as LinkContext;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const watch = new ShellWatch({
    context,
    changes,
    topics: {} as MirrorTopics,
    takeUp: async () => {
      looks++;
    },
    onFailed: async () => undefined,
  });
  const moreLooks = async () => {
    const before = looks;
    await until('two more looks', () => looks > before + 2);
  };
  state.topics.set('t', mirror(shellId));
  watch.start();
  t.after(() => watch.close());
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE', 'one answer decides nothing');
  // Made anew under its name; a broker does not know the new shell yet.
  state.topics.set('t', mirror(sourceId));
  nowMs = 3_600_000;
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE');
  nowMs += 3_600_000;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
  assert.equal(state.topics.get('t')?.error?.code, 'SHELL_TOPIC_DELETED');
});
