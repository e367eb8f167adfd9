// Share groups of the source: read now and then, recorded when they have moved, shown without the
// source; what could not be read keeps its value.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { Events } from '../../../src/observe/events.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import type { ListedGroup } from '../../../src/tasks/group-listing.ts';
import type { SourceFindings } from '../../../src/tasks/group-source.ts';
import { SharePositions } from '../../../src/tasks/share-positions.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { FakeCluster, FakeState, shellId, sourceId, topicInfo } from '../link/fakes.ts';

const share: ListedGroup = { nodeId: 1, kind: 'share', state: 'Stable' };
const mirror = {
  kind: 'topic',
  name: 'eu.orders',
  link: 'dr',
  sourceTopic: 'orders',
  sourceTopicId: sourceId,
  partitions: [newMirror(virtualOffset(0n))],
} as unknown as TopicRecord;

function findings(changes: Partial<SourceFindings> = {}): SourceFindings {
  return {
    commits: new Map(),
    groups: new Map([['workers', share]]),
    problems: [],
    concerns: new Map(),
    mirrors: new Map([['orders', [mirror]]]),
    isWhole: true,
    ...changes,
  };
}

function scene() {
  const state = new FakeState();
  const link = { name: 'dr', record: { sourceClusterId: 'fake-cluster' } };
  state.links.set('dr', link as never);
  state.topics.set('eu.orders', mirror);
  const source = new FakeCluster();
  source.topics.set('orders', topicInfo('orders', sourceId, [0, 0]));
  const stage = { nowMs: 0, starts: [7n, -1n] as bigint[], errorCode: 0 };
  source.script('DescribeShareGroupOffsets', () => ({
    throttleTimeMs: 0,
    groups: [
      {
        groupId: 'workers',
        errorCode: stage.errorCode,
        errorMessage: null,
        topics: ['orders', 'not-mirrored'].map((topicName) => ({
          topicName,
          partitions: stage.starts.map((startOffset, partitionIndex) => {
            return { partitionIndex, startOffset, errorCode: 0, errorMessage: null };
          }),
        })),
      },
    ],
  }));
  const clock = { monotonicMs: () => stage.nowMs, unixMs: () => stage.nowMs };
  const events = new Events();
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const context = { state, clock, events } as unknown as LinkContext;
  const runtime = { ...link, cluster: source } as unknown as LinkRuntime;
  const groups = new SharePositions({ context, link: runtime, changes });
  const rows = () =>
    groups
      .rows((name) => `eu.${name}`)
      .map(({ group, topic: name, partition, sourceOffset, held }) =>
        [group, name, partition, sourceOffset, held].join(' '),
      );
  return { state, source, stage, groups, rows };
}

test('start offsets in mirrored topics are recorded and shown, as the source has them', async () => {
  const { groups, rows, state } = scene();
  assert.deepEqual(await groups.look(findings(), null), []);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share']);
  assert.equal(state.commits.length, 1);
});

test('they are read every half minute and before a promotion, and written when they moved', async () => {
  const { groups, rows, stage, state } = scene();
  await groups.look(findings(), null);
  stage.starts = [9n, 2n];
  await groups.look(findings(), null);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share'], 'not yet');
  await groups.look(findings(), new Set(['eu.orders']));
  const both = ['eu.workers eu.orders 0 9 share', 'eu.workers eu.orders 1 2 share'];
  assert.deepEqual(rows(), both);
  stage.nowMs = 31_000;
  await groups.look(findings(), null);
  assert.equal(state.commits.length, 2, 'nothing had moved');
});

test('what cannot be read keeps its value, and stands in nobody’s way', async () => {
  const { groups, rows, stage } = scene();
  await groups.look(findings(), null);
  stage.nowMs = 31_000;
  stage.errorCode = 30;
  const [problem] = await groups.look(findings(), null);
  assert.equal(problem?.isHarmless, true);
  assert.match(problem?.message ?? '', /kafka-acls --add --group 'workers' --operation Describe/);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share']);
});

test('of a promoted topic they stay; of a group that is gone they go', async () => {
  const { groups, rows, stage } = scene();
  await groups.look(findings(), null);
  stage.nowMs = 31_000;
  await groups.look(findings({ mirrors: new Map(), groups: new Map() }), null);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share'], 'the topic is no mirror any more');
  stage.nowMs = 62_000;
  await groups.look(findings({ groups: new Map() }), null);
  assert.deepEqual(rows(), []);
});

test('R9: those of a source topic that was made again under its name are not recorded', async () => {
  const { groups, rows, source, stage, state } = scene();
  await groups.look(findings(), null);
  source.topics.set('orders', topicInfo('orders', shellId, [0]));
  stage.starts = [99n, 98n];
  stage.nowMs = 31_000;
  const [problem] = await groups.look(findings(), null);
  assert.match(problem?.message ?? '', /'orders' was recreated/);
  assert.equal(problem?.isHarmless, true);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share']);
  source.isDead = true;
  stage.nowMs = 62_000;
  await groups.look(findings(), null);
  assert.deepEqual(rows(), ['eu.workers eu.orders 0 7 share']);
  assert.equal(state.commits.length, 1);
});
