// The mirror logs of topics that have left the state: deleted also by the process after a crash,
// and left alone where the state does not know them at all.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LogRemovals, logRemoval } from '../../../src/link/mirror/log-removals.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogId } from '../../../storage/mirror-log.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
} from './fakes.ts';

const record = mirrorRecord({
  partitions: [newMirror(virtualOffset(0n)), newMirror(virtualOffset(0n))],
});

async function scene(t: TestContext) {
  const state = new FakeState();
  const { storage } = await openTestStorage(t);
  state.topics.set('orders', record);
  for (const partition of [0, 1]) await storage.create({ topicId: shellId, partition }, 0n);
  const clusters = { destination: new FakeCluster(), source: new FakeCluster() };
  const context = testContext({ state, storage, ...clusters });
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const newProcess = () => new LogRemovals({ context, topics, changes });
  const told = () => events.since(0).map(({ event }) => event);
  return { state, storage, changes, removals: newProcess(), newProcess, told };
}

test('R11: a crash between the end of a topic and the end of its logs leaves none', async (t) => {
  const { state, storage, changes, newProcess, told } = await scene(t);
  await changes.commit([{ delete: 'topic/orders' }, ...logRemoval(shellId)]);
  assert.equal((await storage.list()).length, 2);
  const next = newProcess();
  await next.resume();
  assert.deepEqual(await storage.list(), []);
  assert.equal(state.logRemovals.size, 0);
  await next.resume();
  assert.deepEqual(told(), ['mirror_logs_removed']);
});

test('R12: an instance that is not the owner deletes no log', async (t) => {
  const { state, storage, changes, removals } = await scene(t);
  await changes.commit([{ delete: 'topic/orders' }, ...logRemoval(shellId)]);
  state.isOwner = false;
  await assert.rejects(removals.carryOut(shellId), { code: 'NOT_OWNER' });
  await removals.resume();
  assert.equal((await storage.list()).length, 2);
});

test('logs that cannot be deleted are told once and tried again', async (t) => {
  const { state, storage, changes, removals, told } = await scene(t);
  const remove = storage.delete.bind(storage);
  let isStuck = true;
  storage.delete = async (id: LogId) => {
    if (isStuck) throw new StorageError('IO', 'scripted');
    await remove(id);
  };
  await changes.commit([{ delete: 'topic/orders' }, ...logRemoval(shellId)]);
  await assert.rejects(removals.carryOut(shellId), StorageError);
  await removals.resume();
  await removals.resume();
  assert.deepEqual(told(), ['mirror_logs_left']);
  assert.equal(state.logRemovals.size, 1);
  isStuck = false;
  await removals.resume();
  assert.deepEqual(await storage.list(), []);
  assert.equal(state.logRemovals.size, 0);
});

test('R20: logs of which the state knows nothing are named, and never deleted', async (t) => {
  const { state, storage, removals, told } = await scene(t);
  // Its shell is just being made: its logs are there before the state knows its id.
  await storage.create({ topicId: sourceId, partition: 0 }, 0n);
  state.topics.set('new', { ...record, name: 'new', topicId: null, state: 'PENDING_MIRROR' });
  await removals.resume();
  assert.deepEqual(told(), []);
  state.topics.delete('new');
  await removals.resume();
  await removals.resume();
  assert.deepEqual(told(), ['mirror_logs_unowned']);
  assert.equal((await storage.list()).length, 3);
});

test('whoever comes second finds nothing left to do', async (t) => {
  const { state, storage, changes, removals, told } = await scene(t);
  await changes.commit([{ delete: 'topic/orders' }, ...logRemoval(shellId)]);
  const both = Promise.all([removals.carryOut(shellId), removals.resume()]);
  assert.equal((await both)[0], true);
  assert.deepEqual(await storage.list(), []);
  assert.equal(state.commits.length, 2);
  assert.deepEqual(told(), []);
});
