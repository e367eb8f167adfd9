// The directory: what clients are told of a topic's epoch and mode as logs grow, are cut, fail to
// open, and as the state changes behind it.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { Events } from '../../../src/observe/events.ts';
import { StorageError } from '../../../storage/errors.ts';
import { batch, FakeState, mirrorRecord, openTestStorage, shellId } from './fakes.ts';

async function scene(t: TestContext) {
  const state = new FakeState();
  const { storage } = await openTestStorage(t);
  const events = new Events();
  const topics = new MirrorTopics({ state, storage, events });
  return { state, storage, events, topics };
}

test('R8: the advertised epoch comes from visible batches and never goes back', async (t) => {
  const { state, storage, topics } = await scene(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  state.topics.set('orders', mirrorRecord());
  await topics.start();
  const epoch = () => topics.byName('orders')?.partition(0)?.advertisedEpoch;
  assert.equal(epoch(), 0);
  await log.append(batch({ base: 0n, epoch: 3 }));
  await log.flush();
  assert.equal(epoch(), 3);
  log.hold(1n);
  await log.append(batch({ base: 1n, epoch: 7 }));
  await log.flush();
  assert.equal(epoch(), 3, 'held batches do not count');
  log.hold(null);
  assert.equal(epoch(), 7);
  await log.truncate(1n);
  assert.equal(epoch(), 7);
  // A change of the record makes new views; the epoch lives on.
  await state.commit([{ put: mirrorRecord({ state: 'PAUSED' }) }]);
  assert.equal(epoch(), 7);
});

test('after a truncation clients are sent away until the new epoch is durable', async (t) => {
  const { state, storage, topics } = await scene(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  state.topics.set('orders', mirrorRecord());
  await topics.start();
  const partition = () => topics.byName('orders')?.partition(0);
  await log.append(batch({ base: 0n, count: 2, epoch: 3 }));
  await log.flush();
  assert.equal(partition()?.isTruncating, false);
  const told: string[] = [];
  topics.onChange((name) => told.push(name));
  topics.noteTruncation('orders', 0);
  await log.truncate(0n);
  assert.deepEqual(told, ['orders']);
  assert.equal(partition()?.isTruncating, true);
  await state.commit([{ put: mirrorRecord({ stateTimeMs: 1 }) }]);
  assert.equal(partition()?.isTruncating, true);
  await log.append(batch({ base: 0n, epoch: 4 }));
  await log.flush();
  assert.equal(partition()?.isTruncating, false);
});

test('R8: a restart in the middle of a truncation told clients a lower epoch, and served them', async (t) => {
  const state = new FakeState();
  const { storage, reopen } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  state.topics.set('orders', mirrorRecord());
  const before = new MirrorTopics({ state, storage, events: new Events() });
  await before.start();
  await log.append(batch({ base: 0n, epoch: 3 }));
  await log.append(batch({ base: 1n, epoch: 7 }));
  await log.flush();
  before.noteTruncation('orders', 0);
  await log.truncate(1n);
  const said = (topics: MirrorTopics) => {
    const { advertisedEpoch, isTruncating } = topics.byName('orders')?.partition(0) ?? {};
    return [advertisedEpoch, isTruncating];
  };
  assert.deepEqual(said(before), [7, true]);
  before.close();
  const after = new MirrorTopics({ state, storage: await reopen(), events: new Events() });
  await after.start();
  assert.deepEqual(said(after), [7, true]);
  const again = after.byName('orders')?.partition(0)?.log;
  await again?.append(batch({ base: 1n, epoch: 8 }));
  await again?.flush();
  assert.deepEqual(said(after), [8, false]);
});

test('who waits for some topics hears of these only, until it waits no more', async (t) => {
  const { state, topics } = await scene(t);
  await topics.start();
  const heard = { orders: 0, both: 0 };
  const change = (name: string, stateTimeMs: number) =>
    state.commit([{ put: mirrorRecord({ name, topicId: null, partitions: [], stateTimeMs }) }]);
  const leave = topics.onChangeOf(['orders'], () => heard.orders++);
  topics.onChangeOf(new Set(['orders', 'payments']), () => heard.both++);
  await change('orders', 1);
  await change('payments', 1);
  await change('others', 1);
  assert.deepEqual(heard, { orders: 1, both: 2 });
  leave();
  await change('orders', 2);
  assert.deepEqual(heard, { orders: 1, both: 3 });
});

test('R19: a log that cannot be opened is null and an event, the topic is there', async (t) => {
  const { state, events, topics } = await scene(t);
  state.topics.set('orders', mirrorRecord());
  assert.equal(topics.isSettled, false);
  await topics.start();
  assert.equal(topics.isSettled, true);
  const view = topics.byName('orders');
  assert.equal(view?.mode, 'mirror');
  assert.equal(view?.partition(0)?.log, null);
  const [event] = events.since(0);
  assert.equal(event?.event, 'mirror_log_unreadable');
  assert.match(event?.message ?? '', /orders-0/);
});

test('modes, ids and counts follow the state', async (t) => {
  const { state, topics } = await scene(t);
  await topics.start();
  const told: string[] = [];
  topics.onChange((name) => told.push(`${name} ${topics.byName(name)?.mode}`));
  const intent = mirrorRecord({ state: 'PENDING_MIRROR', topicId: null, partitions: [] });
  await state.commit([{ put: intent }]);
  assert.equal(topics.byName('orders')?.mode, 'mirror');
  assert.equal(topics.byId(shellId), undefined);
  assert.deepEqual([topics.hasMirrors, topics.hasPromoted], [true, false]);
  await topics.createLog({ topicId: shellId, partition: 0 }, 0n);
  await state.commit([{ put: mirrorRecord() }]);
  assert.equal(topics.byId(shellId)?.name, 'orders');
  assert.notEqual(topics.byName('orders')?.partition(0)?.log, null);
  topics.setPhase('orders', 'SWITCHING');
  assert.equal(topics.byName('orders')?.mode, 'switching');
  await state.commit([{ put: mirrorRecord({ state: 'STOPPED', stoppedBy: 'promote' }) }]);
  assert.deepEqual([topics.hasMirrors, topics.hasPromoted], [false, true]);
  await state.commit([{ delete: 'topic/orders' }]);
  assert.equal(topics.byId(shellId), undefined);
  assert.deepEqual([topics.hasMirrors, topics.hasPromoted], [false, false]);
  assert.deepEqual(told, [
    'orders mirror',
    'orders mirror',
    'orders switching',
    'orders promoted',
    'orders undefined',
  ]);
});

test('a log that cannot be deleted keeps none of the others', async (t) => {
  const { storage, topics } = await scene(t);
  for (const partition of [0, 1, 2]) await storage.create({ topicId: shellId, partition }, 0n);
  const remove = storage.delete.bind(storage);
  storage.delete = async (id) => {
    if (id.partition === 0) throw new StorageError('IO', 'scripted');
    await remove(id);
  };
  await assert.rejects(topics.deleteLogs(shellId), { name: 'StorageError', message: 'scripted' });
  assert.deepEqual(
    (await storage.list()).map(({ partition }) => partition),
    [0],
  );
});
