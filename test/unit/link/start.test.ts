// The link layer as a whole, over a destination that answers from a table: what the source of one
// link can hold up of what is looked at for all of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { startLinks } from '../../../src/link/start.ts';
import type { LinkRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
} from './fakes.ts';

const link: LinkRecord = {
  ...{ kind: 'link', name: 'dr', linkId: sourceId, sourceClusterId: 'fake-cluster' },
  ...{ configs: { 'bootstrap.servers': 'source:9092' }, paused: false, createdTimeMs: 1 },
};

test('R3: shells were not looked at while a mirror was being made from a source that is dead', async (t) => {
  const state = new FakeState();
  state.links.set('dr', link);
  const creating = { replicationFactor: -1, configs: {}, startOffset: 'earliest' };
  const begun = { topicId: null, partitions: [], state: 'PENDING_MIRROR', creating } as const;
  state.topics.set('new', mirrorRecord({ ...begun, name: 'new' }));
  state.topics.set('orders', mirrorRecord());
  const { storage } = await openTestStorage(t);
  await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const clusters = { destination: new FakeCluster(), source: new FakeCluster() };
  let giveUp = (_error: Error): void => undefined;
  const hanging = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  const context = testContext({ state, storage, ...clusters });
  const limits = { ...context.limits, shellWatchMs: 20 };
  const links = await startLinks({ ...context, limits, connectSource: () => hanging });
  t.after(async () => {
    giveUp(new ClusterError('TIMEOUT', 'scripted', { maybeSent: false }));
    await links.close();
  });
  // Its shell is not there.
  await until('it is FAILED', () => state.topics.get('orders')?.state === 'FAILED');
  assert.equal(state.topics.get('orders')?.error?.code, 'SHELL_TOPIC_DELETED');
  assert.equal(state.topics.get('new')?.state, 'PENDING_MIRROR');
});
