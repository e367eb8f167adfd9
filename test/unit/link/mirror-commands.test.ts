// Operators' commands that meet with something else that happens to the mirror at the same time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { MirrorCommands, type MirrorCommandsParts } from '../../../src/link/mirror-commands.ts';
import type { MirrorState } from '../../../src/state/records.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  testContext,
} from './fakes.ts';

test('a promotion whose switch came before the cancel was said to be cancelled', async (t) => {
  const state = new FakeState();
  state.topics.set('orders', mirrorRecord({ state: 'PENDING_STOPPED' }));
  const { storage } = await openTestStorage(t);
  await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const clusters = { source: new FakeCluster(), destination: new FakeCluster() };
  const context = testContext({ state, storage, ...clusters });
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const becomes = { state: 'STOPPED' as MirrorState };
  const commands = new MirrorCommands({
    ...{ context, topics },
    changes: new TopicChanges({ ...context, touch: () => undefined }),
    statuses: {
      wrongName: () => null,
      topic: (name: string) => topics.byName(name),
      shown: ({ record }: MirrorTopic) => record.state,
      of: ({ record }: MirrorTopic) => ({ state: record.state, partitions: [] }),
    },
    promotions: {
      cancel: async () => state.apply([{ put: mirrorRecord({ state: becomes.state }) }]),
    },
  } as unknown as MirrorCommandsParts);
  const cancel = async () => {
    const request = { topics: ['orders'], link: null, actor: 'test', validateOnly: false };
    const { rows } = await commands.run({ ...request, command: 'cancel' });
    return rows.map((row) => [row.state, row.error?.message ?? null]);
  };
  const tooLate = "Topic 'orders' is STOPPED: the cancel came too late";
  assert.deepEqual(await cancel(), [['STOPPED', tooLate]]);
  state.apply([{ put: mirrorRecord({ state: 'PENDING_STOPPED' }) }]);
  becomes.state = 'ACTIVE';
  assert.deepEqual(await cancel(), [['ACTIVE', null]]);
});
