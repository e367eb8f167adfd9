// Mirrors made together, as the topic filters want them: how many requests and state transactions
// it takes, in which order, and that what goes wrong with one of them is its own.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { CreateTopicsRequest } from '../../../protocol/generated/create-topics-request.ts';
import { type Api, ClusterError } from '../../../src/cluster/cluster.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { MirrorCreator } from '../../../src/link/mirror/create-mirror.ts';
import { LogRemovals } from '../../../src/link/mirror/log-removals.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { parseLinkSettings } from '../../../src/link/settings/link-settings.ts';
import type { LinkRecord } from '../../../src/state/records.ts';
import { FakeCluster, FakeState, openTestStorage, testContext, topicInfo } from './fakes.ts';

const topicExists = 36;
const policyViolation = 44;

function idOf(side: 'S' | 'D', index: number): string {
  return `${side}${String.fromCharCode(65 + index).repeat(20)}A`;
}

/** Answers for configs that nothing was ever set, and makes topics unless a test says otherwise. */
class AdminCluster extends FakeCluster {
  readonly calls: string[] = [];
  /** Error codes by topic, of the dry run and of the real thing. */
  readonly refusedAtOnce = new Map<string, number>();
  readonly refusedLater = new Map<string, number>();
  readonly #state: FakeState | null;
  isAnswerLost = false;
  /** Called before starts and ends are told. */
  onListOffsets: () => void = () => undefined;

  constructor(state: FakeState | null = null) {
    super();
    this.#state = state;
  }

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ) {
    const value = typeof request === 'function' ? request(api.versionMax) : request;
    if (api.name === 'DescribeConfigs') {
      this.calls.push(api.name);
      const results = value.resources.map(({ resourceName }: { resourceName: string }) => {
        return { errorCode: 0, resourceName, configs: [] };
      });
      return { results } as Response;
    }
    if (api.name === 'CreateTopics') return this.#create(value) as Response;
    this.calls.push(api.name);
    if (api.name === 'ListOffsets') this.onListOffsets();
    return super.send(target, api, request);
  }

  #create({ topics, validateOnly }: CreateTopicsRequest) {
    this.calls.push(validateOnly ? 'CreateTopics (dry)' : 'CreateTopics');
    const refused = validateOnly ? this.refusedAtOnce : this.refusedLater;
    const results = topics.map(({ name, numPartitions }) => {
      const errorCode = refused.get(name) ?? 0;
      const topicId = idOf('D', Number(name.split('-')[1]));
      if (!validateOnly && errorCode === 0) {
        assert.equal(this.#state?.topics.get(name)?.state, 'PENDING_MIRROR');
        const epochs = Array.from({ length: numPartitions }, () => 0);
        this.topics.set(name, topicInfo(name, topicId, epochs));
      }
      return { name, errorCode, errorMessage: null, topicId };
    });
    if (!validateOnly && this.isAnswerLost) {
      throw new ClusterError('TIMEOUT', 'scripted', { maybeSent: true });
    }
    return { topics: results };
  }
}

async function scene(t: TestContext, count: number) {
  const state = new FakeState();
  const { storage } = await openTestStorage(t);
  const source = new AdminCluster();
  source.clusterId = 'source-cluster';
  const names = Array.from({ length: count }, (_, index) => `topic-${index}`);
  for (const [index, name] of names.entries()) {
    source.topics.set(name, topicInfo(name, idOf('S', index), [0, 0]));
    source.starts.set(`${name}/1`, 0n);
  }
  const destination = new AdminCluster(state);
  const context = testContext({ state, storage, destination, source });
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: (name) => topics.touch(name) });
  const removals = new LogRemovals({ context, topics, changes });
  const creator = new MirrorCreator({ context, topics, changes, removals });
  const settings = parseLinkSettings({ 'bootstrap.servers': 'source:9092' });
  const record = { name: 'dr', linkId: 'dr-id', sourceClusterId: source.clusterId };
  state.links.set('dr', record as LinkRecord);
  const feeds = { hold: async () => undefined };
  const ignored = { forget: () => undefined, release: () => undefined };
  const link = { name: 'dr', settings, record, connected: async () => source, feeds, ...ignored };
  const runtime = link as unknown as LinkRuntime;
  const wanted = names.map((name) => ({ name, sourceTopic: name }));
  const create = () => creator.createMatched(runtime, wanted);
  const states = () => names.map((name) => state.topics.get(name)?.state ?? 'none');
  return { state, source, destination, topics, creator, runtime, create, states, events };
}

describe('mirrors made together', () => {
  test('take two state transactions and one CreateTopics, the intents first', async (t) => {
    const { state, source, destination, topics, create, states } = await scene(t, 5);
    assert.deepEqual([...(await create())], []);
    assert.deepEqual(states(), Array(5).fill('ACTIVE'));
    assert.deepEqual(source.calls, ['DescribeConfigs', 'ListOffsets']);
    assert.deepEqual(destination.calls, ['CreateTopics (dry)', 'CreateTopics']);
    assert.equal(state.commits.length, 2);
    const intents = state.commits[0]?.map((change) => 'put' in change && change.put);
    assert.equal(intents?.length, 5);
    for (const name of ['topic-0', 'topic-4']) {
      const topic = topics.byName(name);
      assert.equal(topic?.topicId, destination.topics.get(name)?.topicId);
      assert.deepEqual(
        topic?.partitions.map(({ log }) => log?.end),
        [0n, 0n],
      );
    }
  });

  test('keep what goes wrong with one to itself', async (t) => {
    const { state, source, destination, create, states } = await scene(t, 6);
    source.topics.delete('topic-1');
    destination.refusedAtOnce.set('topic-2', topicExists);
    destination.refusedLater.set('topic-3', policyViolation);
    destination.refusedLater.set('topic-4', topicExists);
    const errors = await create();
    assert.deepEqual(
      [...errors].map(([name, error]) => [name, 'code' in error && error.code]).sort(),
      [
        ['topic-1', 'SOURCE_TOPIC_NOT_FOUND'],
        ['topic-2', 'TOPIC_EXISTS'],
        ['topic-3', 'DESTINATION_REFUSED'],
        ['topic-4', 'TOPIC_EXISTS'],
      ],
    );
    assert.deepEqual(states(), ['ACTIVE', 'none', 'none', 'none', 'none', 'ACTIVE']);
    // A topic that is there already was never gated.
    const gated = state.commits[0]?.flatMap((change) =>
      'put' in change && change.put.kind === 'topic' ? [change.put.name] : [],
    );
    assert.deepEqual(gated, ['topic-0', 'topic-3', 'topic-4', 'topic-5']);
  });

  test('R9: are not made of the configs and starts of topics that were made again meanwhile', async (t) => {
    const { source, create, states } = await scene(t, 2);
    source.onListOffsets = () => {
      source.topics.set('topic-1', topicInfo('topic-1', idOf('S', 9), [0, 0]));
    };
    const errors = await create();
    assert.match(errors.get('topic-1')?.message ?? '', /changed while it was read: .*recreated/);
    assert.deepEqual(states(), ['ACTIVE', 'none']);
  });

  test('stay intents when the answer of the destination is lost, and are gone on with', async (t) => {
    const { destination, creator, runtime, create, states, events } = await scene(t, 3);
    const told: string[] = [];
    events.subscribe(({ event }) => told.push(event));
    destination.isAnswerLost = true;
    assert.deepEqual([...(await create())], []);
    assert.deepEqual(states(), Array(3).fill('PENDING_MIRROR'));
    assert.equal(told.filter((event) => event === 'mirror_create_pending').length, 3);
    for (const name of ['topic-0', 'topic-1', 'topic-2']) await creator.resume(runtime, name);
    assert.deepEqual(states(), Array(3).fill('ACTIVE'));
  });

  test('are none when the intents cannot be committed', async (t) => {
    const { state, destination, create, states } = await scene(t, 2);
    state.fates = ['UNAVAILABLE'];
    await assert.rejects(create(), { code: 'UNAVAILABLE' });
    assert.deepEqual(states(), ['none', 'none']);
    assert.deepEqual(destination.calls, ['CreateTopics (dry)']);
  });
});

test('a mirror that was made anew forgot that WRITE was denied at its source for the old one', async (t) => {
  const { state, destination, creator, runtime, create, states } = await scene(t, 1);
  await create();
  const made = state.topics.get('topic-0') ?? assert.fail();
  const fence = {
    acls: [
      {
        ...{ resourceType: 2, resourceName: 'topic-0', patternType: 3 },
        ...{ principal: 'User:*', host: '*', operation: 4, permissionType: 2 },
      },
    ],
  };
  const error = { code: 'SOURCE_TOPIC_ID_CHANGED', message: 'made again' } as const;
  state.topics.set('topic-0', { ...made, state: 'FAILED', error, fence });
  destination.topics.delete('topic-0');
  const request = { archiveAs: null, validateOnly: false, actor: 'test' };
  await creator.recreate(runtime, 'topic-0', request);
  assert.deepEqual(states(), ['ACTIVE']);
  assert.deepEqual(state.topics.get('topic-0')?.fence, fence);
});

test('a mirror that was being made when its link was deleted was left without a link', async (t) => {
  const { state, source, destination, create, states } = await scene(t, 1);
  source.onListOffsets = () => state.links.delete('dr');
  await assert.rejects(create(), { name: 'LinkError', code: 'LINK_NOT_FOUND' });
  assert.deepEqual([states(), state.commits.length], [['none'], 0]);
  assert.ok(!destination.calls.includes('CreateTopics'));
});
