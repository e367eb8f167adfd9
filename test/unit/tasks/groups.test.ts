// Rounds of the group task over two clusters in memory: what was read of a source topic is written
// only when the topic was still the mirrored one afterwards, and what was known before is kept.
//
// Owns: mirrors of two topics, and one group that commits in them. Refuses to know how offsets are
// compared. Invariant: the source is asked for nothing that a test does not count.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import { defaultLinkLimits, type LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import type { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import type { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { Events } from '../../../src/observe/events.ts';
import type { MirrorState, TopicRecord } from '../../../src/state/records.ts';
import { GroupSync } from '../../../src/tasks/groups.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { topicInfo } from '../link/fakes.ts';
import { FakeGroupCluster } from './fake-group-cluster.ts';

const retentionMs = 3_600_000;
const group = 'g';
const finishMs = 1_000;

function recordOf(name: string): TopicRecord {
  return {
    kind: 'topic',
    name,
    topicId: `shell of ${name}`,
    link: 'dr',
    sourceTopic: name,
    sourceTopicId: `source of ${name}`,
    state: 'ACTIVE',
    stateTimeMs: 0,
    error: null,
    partitions: [newMirror(virtualOffset(0n))],
    stoppedBy: null,
  };
}

function stage() {
  let nowMs = 0;
  const source = new FakeGroupCluster({ nowMs: () => nowMs, retentionMs });
  const destination = new FakeGroupCluster({ nowMs: () => nowMs, retentionMs });
  const log = { visibleEnd: 100n, end: 100n };
  const mirrors = ['t', 'other'].map((name) => {
    const mirror = {
      record: recordOf(name),
      get name() {
        return this.record.name;
      },
      get topicId() {
        return this.record.topicId;
      },
      get partitions() {
        return this.record.partitions.map((timeline, partition) => ({ partition, timeline, log }));
      },
      partition: (index: number) => mirror.partitions[index],
    };
    return mirror;
  });
  const byName = (name: string) => mirrors.find((mirror) => mirror.name === name);
  for (const { name, record } of mirrors) {
    source.topics.set(name, topicInfo(name, record.sourceTopicId, [0]));
  }
  const offsetSync = { enabled: true, periodMs: 1_000, filters: null, isPrefixed: false };
  const link = {
    name: 'dr',
    cluster: source,
    record: { sourceClusterId: 'fake' },
    settings: { offsetSync, prefix: '' },
  };
  const context = {
    destination,
    clock: { monotonicMs: () => nowMs, unixMs: () => nowMs },
    limits: defaultLinkLimits,
    events: new Events(),
    state: { lease: { isValid: () => true }, view: { shareGroups: new Map() } },
  };
  const task = new GroupSync({
    context: context as unknown as LinkContext,
    link: link as unknown as LinkRuntime,
    topics: { all: mirrors, byName } as unknown as MirrorTopics,
    changes: {} as unknown as TopicChanges,
  });
  const set = (name: string, changes: Partial<TopicRecord>): void => {
    const mirror = byName(name);
    if (mirror) mirror.record = { ...mirror.record, ...changes };
  };
  return {
    source,
    destination,
    task,
    log,
    set,
    setState: (state: MirrorState) => set('t', { state }),
    /** The topic is deleted at the source and made again; the group starts anew on it. */
    recreate: (offset: bigint) => {
      source.topics.set('t', topicInfo('t', 'a successor', [0]));
      source.commit(group, 't/0', offset);
    },
    round: async () => {
      nowMs += 1_000;
      const { problems } = await task.round();
      return problems;
    },
    here: (topic = 't') => destination.committed(group, `${topic}/0`),
  };
}

for (const state of ['ACTIVE', 'PENDING_STOPPED', 'PAUSED'] as const) {
  test(`R9, R5: nothing is written that a group committed on a source topic made again under its name, ${state}`, async () => {
    const { source, setState, recreate, round, here, task } = stage();
    setState(state);
    source.commit(group, 't/0', 50n);
    source.commit(group, 'other/0', 1n);
    assert.deepEqual(await round(), []);
    assert.equal(here(), 50n);
    recreate(7n);
    source.commit(group, 'other/0', 2n);
    const problems = await round();
    assert.deepEqual([here(), here('other')], [50n, 2n]);
    assert.match(problems[0]?.message ?? '', /in 't' are left as they are: .*was recreated/);
    assert.equal(problems[0]?.isHarmless, true, 'the mirror fails for it, the task does not');
    const known = task.positions(new Set(['t'])).map(({ sourceOffset }) => sourceOffset);
    assert.deepEqual(known, [50n]);
  });
}

test('R9: what a group had before is not forgotten when the successor has no commits', async () => {
  const { source, destination, task, round, log, here } = stage();
  source.commit(group, 't/0', 150n);
  await round();
  assert.equal(here(), 100n, 'as far as the mirror goes');
  source.topics.set('t', topicInfo('t', 'a successor', [0]));
  source.delete(group);
  await round();
  assert.deepEqual(
    task.status().map(({ held }) => held),
    ['clamped'],
  );
  log.visibleEnd = 120n;
  await task.finish(['t'], finishMs);
  assert.equal(here(), 120n);
  assert.equal(destination.count('OffsetCommit'), 2);
});

test('R6: after a failover what was confirmed counts, with the source dead and after its topic failed', async () => {
  const { source, setState, recreate, round, log, here, task } = stage();
  source.commit(group, 't/0', 150n);
  await round();
  recreate(7n);
  await round();
  setState('FAILED');
  await round();
  source.isDead = true;
  await assert.rejects(round(), { code: 'UNREACHABLE' });
  log.visibleEnd = 130n;
  await task.finish(['t'], finishMs);
  assert.equal(here(), 130n);
});

test('R6: a round in the middle of a failover of many topics forgot what groups had in the first ones', async () => {
  const { source, setState, round, log, here, task } = stage();
  source.commit(group, 't/0', 150n);
  source.commit(group, 'other/0', 3n);
  await round();
  assert.equal(here(), 100n, 'as far as the mirror goes');
  const end = task.switching(['t', 'other']);
  log.visibleEnd = 130n;
  setState('STOPPED');
  source.commit(group, 'other/0', 4n);
  await round();
  await task.finish(['t'], finishMs);
  assert.equal(here(), 130n);
  end();
  await round();
  assert.deepEqual(task.positions(new Set(['t'])), [], 'it is the destination that has it now');
});

describe('while a source topic cannot be confirmed', () => {
  const unreadable = {
    ...topicInfo('t', 'source of t', []),
    errorCode: ErrorCode.LEADER_NOT_AVAILABLE,
  };

  test('R16: nothing is written and nothing forgotten; afterwards it goes on', async () => {
    const { source, round, here, task } = stage();
    source.commit(group, 't/0', 5n);
    await round();
    source.topics.set('t', unreadable);
    source.commit(group, 't/0', 6n);
    const [problem] = await round();
    assert.match(problem?.message ?? '', /LEADER_NOT_AVAILABLE/);
    assert.notEqual(problem?.isHarmless, true);
    assert.equal(here(), 5n);
    assert.equal(task.status().length, 1);
    source.topics.set('t', topicInfo('t', 'source of t', [0]));
    assert.deepEqual(await round(), []);
    assert.equal(here(), 6n);
  });

  test('R5: a group that is set back here meanwhile is not taken for a new one', async () => {
    const { source, destination, round, here } = stage();
    source.commit(group, 't/0', 5n);
    await round();
    source.topics.set('t', unreadable);
    source.commit(group, 't/0', 6n);
    await round();
    destination.commit(group, 't/0', 2n);
    source.topics.set('t', topicInfo('t', 'source of t', [0]));
    await round();
    assert.equal(here(), 2n);
  });

  test('it is not promoted, and its groups are not handed over', async () => {
    const { source, round, here, task } = stage();
    source.commit(group, 't/0', 5n);
    await round();
    source.topics.delete('t');
    source.commit(group, 't/0', 6n);
    const final = await task.finalRound(new Set(['t', 'other']));
    assert.match(final.get('t')?.[0]?.message ?? '', /source topic 't' is not there/);
    assert.deepEqual(final.get('other'), []);
    const { problems } = await task.lookAt(group);
    assert.match(problems[0]?.message ?? '', /source topic 't' is not there/);
    assert.equal(here(), 5n);
  });
});

test('R9: a group is handed over without what it has in a topic that is another one by now, which is not promoted', async () => {
  const { source, recreate, task, here } = stage();
  recreate(7n);
  source.commit(group, 'other/0', 3n);
  const look = await task.lookAt(group);
  assert.deepEqual([look.problems, look.behind], [[], []]);
  assert.deepEqual([here(), here('other')], [null, 3n]);
  const final = await task.finalRound(new Set(['t']));
  assert.match(final.get('t')?.[0]?.message ?? '', /was recreated/);
});

test('R9: another cluster under the address of the source is none of ours', async () => {
  const { source, round, here } = stage();
  const metadata = source.metadata.bind(source);
  source.metadata = async (names) => ({ ...(await metadata(names)), clusterId: 'swapped' });
  source.commit(group, 't/0', 5n);
  const [problem] = await round();
  assert.match(problem?.message ?? '', /the source is cluster swapped now/);
  assert.equal(here(), null);
});

test('topics are confirmed by one request a round, and only those with something new', async () => {
  const { source, round } = stage();
  const groups = Array.from({ length: 300 }, (_, index) => `group-${index}`);
  for (const one of groups) {
    source.commit(one, 't/0', 5n);
    source.commit(one, 'other/0', 5n);
  }
  await round();
  await round();
  source.commit('group-7', 'other/0', 6n);
  await round();
  assert.deepEqual(source.topicsAsked, [['t', 'other'], ['other']]);
});

test('R5: what a group had in a mirror is not written for the next mirror of that name', async () => {
  const { source, set, round, log, here, task } = stage();
  source.commit(group, 't/0', 150n);
  await round();
  assert.equal(here(), 100n);
  set('t', { topicId: 'the next shell', sourceTopicId: 'a successor' });
  log.visibleEnd = 120n;
  await task.finish(['t'], finishMs);
  assert.equal(here(), 100n);
});

test('R15: when groups were read for a topic is told of the topic, not of the round', async () => {
  const { source, round, task } = stage();
  source.commit(group, 't/0', 5n);
  await round();
  source.topics.set('t', {
    ...topicInfo('t', 'source of t', []),
    errorCode: ErrorCode.LEADER_NOT_AVAILABLE,
  });
  source.commit(group, 't/0', 6n);
  await round();
  assert.deepEqual([task.readTimeMs('t'), task.readTimeMs('other')], [1_000, 2_000]);
});
