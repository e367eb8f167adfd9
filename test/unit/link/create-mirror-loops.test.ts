// No mirror of a topic that came from the destination, however long the way round: A to B to A, and
// A to B to C to A.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Api } from '../../../src/cluster/cluster.ts';
import { originsConfig } from '../../../src/gateway/mirror-origins.ts';
import type { LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { MirrorCreator } from '../../../src/link/mirror/create-mirror.ts';
import type { LogRemovals } from '../../../src/link/mirror/log-removals.ts';
import type { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import type { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import {
  linkSettingDefaults,
  parseLinkSettings,
} from '../../../src/link/settings/link-settings.ts';
import { NameLocks } from '../../../src/link/signal.ts';
import { FakeCluster, topicInfo } from './fakes.ts';

const topicId = 'AAAAAAAAAAAAAAAAAAAAAg';

/** A cluster whose topic tells where it came from, and which accepts every creation. */
class ChainedCluster extends FakeCluster {
  readonly #origins: readonly string[];

  constructor(clusterId: string, origins: readonly string[] = []) {
    super();
    this.clusterId = clusterId;
    this.#origins = origins;
    this.topics.set('orders', topicInfo('orders', topicId, [0]));
  }

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ) {
    if (api.name === 'DescribeConfigs') {
      const value = this.#origins.join(',');
      const configs = value === '' ? [] : [{ name: originsConfig, value, configSource: 0 }];
      return { results: [{ errorCode: 0, resourceName: 'orders', configs }] } as Response;
    }
    if (api.name === 'CreateTopics') {
      return { topics: [{ name: 'a.orders', errorCode: 0, topicId }] } as Response;
    }
    return super.send(target, api, request);
  }
}

function tryMirror(source: ChainedCluster, destination: ChainedCluster): Promise<string> {
  const context = { destination, ownTopicPrefix: '__causeway' };
  const changes = { locks: new NameLocks(), record: () => undefined };
  const settings = parseLinkSettings({
    'bootstrap.servers': linkSettingDefaults['bootstrap.servers'] || 'source:9092',
    'cluster.link.prefix': 'a.',
  });
  const record = { sourceClusterId: source.clusterId };
  const link = { name: 'round', settings, record, connected: async () => source };
  const creator = new MirrorCreator({
    context: context as unknown as LinkContext,
    topics: {} as MirrorTopics,
    removals: {} as LogRemovals,
    changes: changes as unknown as TopicChanges,
  });
  const request = { link: 'round', sourceTopic: 'orders', validateOnly: true, actor: 'test' };
  return creator.create(link as unknown as LinkRuntime, request);
}

test('a topic that came from here is refused, with the whole way round', async () => {
  const a = new ChainedCluster('A');
  await assert.rejects(tryMirror(new ChainedCluster('B', ['A']), a), {
    code: 'LOOP',
    message: "Source topic 'orders' came from here: A -> B -> A is a loop",
  });
  await assert.rejects(tryMirror(new ChainedCluster('C', ['A', 'B']), a), {
    code: 'LOOP',
    message: "Source topic 'orders' came from here: A -> B -> C -> A is a loop",
  });
});

test('a chain that does not come back is mirrored on', async () => {
  const d = new ChainedCluster('D');
  assert.equal(await tryMirror(new ChainedCluster('C', ['A', 'B']), d), 'a.orders');
  assert.equal(await tryMirror(new ChainedCluster('B'), d), 'a.orders');
});
