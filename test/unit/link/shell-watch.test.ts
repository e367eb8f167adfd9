// The regular look at the shells: what one stale answer of the destination means for a mirror
// whose name another one had before, and a shell that was given partitions or deleted.
//
// Owns: one mirror and what the three brokers of the destination show of its shell. Refuses to know
// how shells are measured. Invariant: time passes only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CreateTopicsRequest } from '../../../protocol/generated/create-topics-request.ts';
import {
  createCreatableTopicResult,
  createCreateTopicsResponse,
} from '../../../protocol/generated/create-topics-response.ts';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  createMetadataResponseTopic,
} from '../../../protocol/generated/metadata-response.ts';
import {
  type Api,
  ClusterError,
  type ClusterMetadata,
  type SendOptions,
  type Target,
} from '../../../src/cluster/cluster.ts';
import type { LinkContext } from '../../../src/link/context.ts';
import { ShellWatch } from '../../../src/link/mirror/shell-watch.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { Events } from '../../../src/observe/events.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, FakeState, mirrorRecord, shellId, sourceId, topicInfo } from './fakes.ts';

function mirror(topicId: string): TopicRecord {
  return mirrorRecord({ name: 't', topicId });
}

/** Any broker's metadata are those of broker 1; some do not know topics, or are mute. */
class Destination extends FakeCluster {
  override readonly brokers = [1, 2, 3].map((nodeId) => ({
    ...{ nodeId, host: 'fake', port: nodeId, rack: null },
  }));
  readonly empty = new Set<number>();
  readonly mute = new Set<number>();
  /** Names that it has, whether brokers have heard of them or not. */
  readonly atController = new Set<string>();
  /** They were just started, and their controller has told them nothing. */
  readonly untold = new Set<number>();

  override async metadata(names: 'all' | readonly string[]): Promise<ClusterMetadata> {
    const answer = await super.metadata(names);
    return this.empty.has(1) ? { ...answer, topics: new Map() } : answer;
  }

  override async send<Request, Response>(
    target: Target,
    api: Api<Request, Response>,
    request: unknown,
    options?: SendOptions,
  ): Promise<Response> {
    if (api.name === 'CreateTopics') {
      const { topics, validateOnly } = request as CreateTopicsRequest;
      assert.ok(validateOnly);
      const results = topics.map(({ name }) =>
        createCreatableTopicResult({ name, errorCode: this.atController.has(name) ? 36 : 0 }),
      );
      return createCreateTopicsResponse({ topics: results }) as Response;
    }
    if (api.name !== 'Metadata') return super.send(target, api, request, options);
    assert.ok(target.kind === 'node');
    if (this.mute.has(target.nodeId)) {
      throw new ClusterError('TIMEOUT', 'scripted', { maybeSent: true });
    }
    if (this.untold.has(target.nodeId)) return createMetadataResponse({}) as Response;
    const brokers = this.brokers.map((one) => createMetadataResponseBroker(one));
    const known = this.empty.has(target.nodeId) ? [] : [...this.topics.values()];
    const topics = known.map(({ name, topicId, errorCode }) =>
      createMetadataResponseTopic({ name, topicId, errorCode }),
    );
    return createMetadataResponse({ brokers, topics }) as Response;
  }
}

async function scene(t: TestContext) {
  const seen = { nowMs: 0, looks: 0, sourcePartitions: null as number | null };
  const state = new FakeState();
  const destination = new Destination();
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

test('a shell was gone when one broker did not know it, whatever the others said', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  destination.topics.set('t', topicInfo('t', shellId, [0]));
  const isActiveFor = async (ms: number, why: string): Promise<void> => {
    await moreLooks();
    seen.nowMs += ms;
    await moreLooks();
    assert.equal(state.topics.get('t')?.state, 'ACTIVE', why);
  };
  destination.empty.add(1);
  await isActiveFor(3_600_000, 'two know it');
  destination.mute.add(2).add(3);
  await isActiveFor(3_600_000, 'most say nothing');
  destination.mute.delete(2);
  await isActiveFor(3_600_000, 'one knows it');
  destination.empty.add(2);
  await isActiveFor(999, 'it may be found yet');
  destination.empty.delete(2);
  await isActiveFor(3_600_000, 'it was');
  destination.empty.add(2);
  await isActiveFor(999, 'the time begins anew');
  seen.nowMs += 1;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
  assert.equal(state.topics.get('t')?.error?.code, 'SHELL_TOPIC_DELETED');
});

test('shells were gone when all brokers had just started, and the histories of promoted topics', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  for (const nodeId of [1, 2, 3]) destination.untold.add(nodeId);
  destination.empty.add(1);
  await moreLooks();
  seen.nowMs += 3_600_000;
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE');
  state.topics.set('t', { ...mirror(shellId), state: 'STOPPED', stoppedBy: 'promote' });
  await moreLooks();
  seen.nowMs += 3_600_000;
  await moreLooks();
  assert.ok(state.topics.has('t'));
});

test('shells just made were gone when brokers had not heard of them yet', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  destination.topics.clear();
  destination.atController.add('t');
  const made = { ...mirror(shellId), madeTimeMs: seen.nowMs };
  state.topics.set('t', made);
  await moreLooks();
  seen.nowMs += 60_000;
  await moreLooks();
  assert.equal(state.topics.get('t')?.state, 'ACTIVE');
  // The controller knows it no more either.
  destination.atController.clear();
  await moreLooks();
  seen.nowMs += 1_000;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
});

test('a shell that brokers have shown is gone when they show it no more', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  destination.topics.set('t', topicInfo('t', shellId, [0]));
  destination.atController.add('t');
  state.topics.set('t', { ...mirror(shellId), madeTimeMs: seen.nowMs });
  await moreLooks();
  destination.topics.clear();
  await moreLooks();
  seen.nowMs += 1_000;
  await until('the failure', () => state.topics.get('t')?.state === 'FAILED');
});

test('a promoted topic takes its history with it: it has to be gone for longer', async (t) => {
  const { seen, state, moreLooks } = await scene(t);
  state.topics.set('t', { ...mirror(shellId), state: 'STOPPED', stoppedBy: 'promote' });
  await moreLooks();
  seen.nowMs += 7_999;
  await moreLooks();
  assert.ok(state.topics.has('t'));
  seen.nowMs += 1;
  await until('the end of the record', () => !state.topics.has('t'));
});

test('a promoted topic that was made again kept its name in doubt for eight seconds', async (t) => {
  const { seen, state, destination, moreLooks } = await scene(t);
  state.topics.set('t', { ...mirror(shellId), state: 'STOPPED', stoppedBy: 'promote' });
  destination.topics.set('t', topicInfo('t', sourceId, [0]));
  await moreLooks();
  seen.nowMs += 1_000;
  await until('the end of the record', () => !state.topics.has('t'));
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
