// One link at work over a source that answers from a table: what is told of work beside its
// fetching that was broken off.
//
// Owns: a link without mirrors. Invariant: nothing of it outlives its test.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ProtocolError } from '../../../protocol/index.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { LinkRuntime } from '../../../src/link/link.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import type { LinkRecord } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';
import { StorageError } from '../../../storage/errors.ts';
import { FakeCluster, FakeState, openTestStorage, sourceId, testContext } from './fakes.ts';

const record: LinkRecord = {
  ...{ kind: 'link', name: 'dr', linkId: sourceId, sourceClusterId: 'fake-cluster' },
  ...{ configs: { 'bootstrap.servers': 'source:9092' }, paused: false, createdTimeMs: 1 },
};

async function scene(t: TestContext) {
  const state = new FakeState();
  state.links.set('dr', record);
  const { storage } = await openTestStorage(t);
  const [source, destination] = [new FakeCluster(), new FakeCluster()];
  const context = testContext({ state, storage, destination, source });
  const topics = new MirrorTopics(context);
  await topics.start();
  const changes = new TopicChanges({ ...context, touch: () => undefined });
  const link = new LinkRuntime({ context, topics, changes, record });
  t.after(async () => {
    await link.close();
    topics.close();
  });
  return { link, events: context.events };
}

test('a fault of ours beside fetching was told as work that the source had broken off', async (t) => {
  const { link, events } = await scene(t);
  const passing = [
    new ClusterError('TIMEOUT', 'scripted', { maybeSent: true }),
    new LinkError('SOURCE_UNREACHABLE', 'scripted'),
    new StateError('UNAVAILABLE', 'scripted'),
    new StorageError('DISK_FULL', 'scripted'),
    new ProtocolError('CORRUPT_RECORDS', 'scripted'),
  ];
  for (const error of [...passing, new TypeError('not a function')]) {
    link.inBackground(() => Promise.reject(error));
  }
  await link.close();
  const told = events
    .since(0)
    .filter(({ event }) => event.startsWith('link_'))
    .map(({ level, event }) => `${level} ${event}`);
  const expected = passing.map(() => 'warn link_work_failed');
  assert.deepEqual(told, [...expected, 'error link_fault']);
  assert.match(events.since(0).at(-1)?.message ?? '', /Link 'dr': not a function/);
});
