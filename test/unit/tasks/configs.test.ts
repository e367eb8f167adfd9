// The config task over scripted clusters: what becomes of a change when its mirror is switched
// while the source is being asked.
//
// Owns: one mirror whose source has another retention. Refuses to know which configs are synced.
// Invariant: every request that alters is counted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
} from '../../../protocol/generated/describe-configs-response.ts';
import {
  createAlterConfigsResourceResponse,
  createIncrementalAlterConfigsResponse,
} from '../../../protocol/generated/incremental-alter-configs-response.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import type { LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { parseLinkSettings } from '../../../src/link/settings/link-settings.ts';
import { Events } from '../../../src/observe/events.ts';
import { ConfigSync } from '../../../src/tasks/configs.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  shellId,
  sourceId,
  topicInfo,
} from '../link/fakes.ts';

const topicConfig = 1;

class Configured extends FakeCluster {
  retentionMs = '1000';
  alterations = 0;
  onDescribe: () => void = () => undefined;

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ) {
    if (api.name === 'Metadata') return super.send(target, api, request);
    if (api.name === 'IncrementalAlterConfigs') {
      this.alterations++;
      const response = createAlterConfigsResourceResponse({ resourceName: 't' });
      return createIncrementalAlterConfigsResponse({ responses: [response] }) as Response;
    }
    assert.equal(api.name, 'DescribeConfigs');
    this.onDescribe();
    const config = createDescribeConfigsResourceResult({
      name: 'retention.ms',
      value: this.retentionMs,
      configSource: topicConfig,
    });
    const result = createDescribeConfigsResult({ resourceName: 't', configs: [config] });
    return createDescribeConfigsResponse({ results: [result] }) as Response;
  }
}

function stage() {
  const state = new FakeState();
  const source = new Configured();
  const destination = new Configured();
  const record = mirrorRecord({ name: 't', syncedConfigs: { 'retention.ms': '1000' } });
  state.topics.set('t', record);
  source.topics.set('t', topicInfo('t', sourceId, [0]));
  destination.topics.set('t', topicInfo('t', shellId, [0]));
  const events = new Events();
  const clock = { monotonicMs: () => 0, unixMs: () => 0 };
  const context = { state, destination, events, clock } as unknown as LinkContext;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const settings = parseLinkSettings({ 'bootstrap.servers': 'a:1' });
  const link = {
    name: 'dr',
    cluster: source,
    record: { sourceClusterId: 'fake-cluster' },
    settings,
    sourceTopic: () => undefined,
  };
  const task = new ConfigSync({ context, link: link as unknown as LinkRuntime, changes });
  return { state, source, destination, record, task };
}

test('a config that the source has changed is taken over', async () => {
  const { source, destination, task } = stage();
  source.retentionMs = '2000';
  await task.round();
  assert.equal(destination.alterations, 1);
});

test('R16: a topic that is switched while its source is asked keeps its configs', async () => {
  const { state, source, destination, record, task } = stage();
  source.retentionMs = '2000';
  source.onDescribe = () => state.topics.set('t', { ...record, state: 'STOPPED' });
  await task.round();
  assert.equal(destination.alterations, 0);
});

test('R9, R16: nothing is taken over from a source topic that was made again under its name', async () => {
  const { state, source, destination, task } = stage();
  source.retentionMs = '2000';
  source.onDescribe = () => source.topics.set('t', topicInfo('t', shellId, [0]));
  await task.round();
  assert.equal(destination.alterations, 0);
  assert.deepEqual(state.topics.get('t')?.syncedConfigs, { 'retention.ms': '1000' });
  source.onDescribe = () => undefined;
  source.topics.delete('t');
  await task.round();
  assert.equal(destination.alterations, 0);
});
