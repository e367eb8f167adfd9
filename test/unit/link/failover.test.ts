// Failover when something goes wrong on the way: the state refuses, its answer is lost, a log is
// unusable, the process ends between the ABORT batches and the commit. The outcome is one of two,
// and nothing is in between.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { LinkLimits } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { Failover } from '../../../src/link/switch/failover.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror, openNativeExtent } from '../../../src/timeline/timeline.ts';
import type { MirrorStorage } from '../../../storage/mirror-log.ts';
import {
  batch,
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
  topicInfo,
} from './fakes.ts';

function activeRecord(parts: Partial<TopicRecord> = {}): TopicRecord {
  return mirrorRecord({
    partitions: [newMirror(virtualOffset(0n)), newMirror(virtualOffset(0n))],
    ...parts,
  });
}

/** Partition 0: [0, 3) of epoch 4 with a transaction open from 2 on; partition 1 is empty. */
async function scene(t: TestContext, parts: { record?: TopicRecord; epoch?: number } = {}) {
  const state = new FakeState();
  const { storage, reopen } = await openTestStorage(t);
  const record = parts.record ?? activeRecord();
  state.topics.set(record.name, record);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n, count: 2, epoch: 4 }));
  await log.append(batch({ base: 2n, epoch: 4, producerId: 77n }));
  await log.flush();
  await storage.create({ topicId: shellId, partition: 1 }, 0n);
  const destination = new FakeCluster();
  destination.topics.set('orders', topicInfo('orders', shellId, [9, 0]));
  const world = { state, storage, reopen, destination, log };
  return { ...world, ...(await start(world)) };
}

/** The link layer over what there is, as at the start of a process. */
async function start(
  world: { state: FakeState; storage: MirrorStorage; destination: FakeCluster },
  limits: Partial<LinkLimits> = {},
  link?: LinkRuntime,
) {
  const whole = testContext({ ...world, source: new FakeCluster() });
  const context = { ...whole, limits: { ...whole.limits, ...limits } };
  const topics = new MirrorTopics(context);
  await topics.start();
  const { state, events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: (name) => topics.touch(name) });
  const receipts = { clock, lag: () => undefined, groups: () => [], groupsReadMs: () => -1 };
  const failover = new Failover({ context, topics, changes, link: () => link, receipts });
  const run = (isDryRun = false, acceptLoss = false) =>
    failover.run({ topics: ['orders'], actor: 'test', receiptId: 'r1', isDryRun, acceptLoss });
  return { topics, failover, run, events, changes };
}

/** The process died with the intent committed and the ABORT batches durable; the next has begun. */
async function interrupted(t: TestContext) {
  const world = await scene(t);
  const commit = world.state.commit.bind(world.state);
  let calls = 0;
  world.state.commit = async (changes) => {
    if (++calls === 2) return new Promise<void>(() => undefined);
    return commit(changes);
  };
  const dying = world.run();
  void dying;
  while (calls < 2) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(world.log.end, 4n);
  assert.notEqual(world.state.topics.get('orders')?.stopping, undefined);
  world.state.commit = commit;
  world.topics.close();
  return { world, next: await start({ ...world, storage: await world.reopen() }) };
}

describe('failover', () => {
  test('splices each partition at its own end, ABORT batches before S', async (t) => {
    const { run, state, topics, log } = await scene(t);
    const { errors, receipts } = await run();
    assert.deepEqual([...errors], []);
    const record = state.topics.get('orders');
    assert.equal(record?.state, 'STOPPED');
    assert.equal(record?.stopping, undefined);
    const view = topics.byName('orders');
    assert.equal(view?.mode, 'promoted');
    const first = view?.partition(0);
    const extent = first === undefined ? null : openNativeExtent(first.timeline);
    assert.deepEqual(
      [extent?.start, extent?.offsetShift, extent?.firstEpoch, extent?.epochShift],
      [4n, 4n, 5, -4],
    );
    assert.equal(log.visibleEnd, 4n);
    assert.equal(log.lastStableOffset, 4n);
    assert.equal(receipts[0]?.topics[0]?.partitions[0]?.abortedTransactions, 1);
    // Intent with the cuts, then the switch: never more than two transactions.
    assert.equal(state.commits.length, 2);
  });

  test('without open transactions takes one state transaction', async (t) => {
    const { run, state, log } = await scene(t);
    await log.truncate(2n);
    await run();
    assert.equal(state.topics.get('orders')?.state, 'STOPPED');
    assert.equal(state.commits.length, 1);
  });

  test('readers never see an ABORT batch before the commit', async (t) => {
    const { run, state, log } = await scene(t);
    const seen: bigint[] = [];
    const commit = state.commit.bind(state);
    state.commit = async (changes) => {
      seen.push(log.visibleEnd, log.lastStableOffset, log.end);
      await commit(changes);
    };
    await run();
    assert.deepEqual(seen, [3n, 2n, 3n, 3n, 2n, 4n]);
  });

  for (const code of ['NOT_OWNER', 'UNAVAILABLE'] as const) {
    test(`is NOT done when the switch is refused with ${code}, and leaves no trace`, async (t) => {
      const { run, state, log, topics } = await scene(t);
      state.fates = ['done', code];
      const before = state.topics.get('orders');
      const { errors, receipts } = await run();
      assert.match(errors.get('orders')?.message ?? '', /^NOT FAILED OVER/);
      assert.deepEqual(receipts, []);
      assert.deepEqual(state.topics.get('orders'), before);
      assert.equal(log.end, 3n);
      assert.equal(log.visibleEnd, 3n);
      assert.equal(log.visibleEpoch, 4);
      assert.equal(topics.byName('orders')?.mode, 'mirror');
      const again = await run();
      assert.deepEqual([...again.errors], []);
      assert.equal(state.topics.get('orders')?.state, 'STOPPED');
    });
  }

  test('is not refused because the renewal of the lease is late, as on a busy machine', async (t) => {
    const { run, state } = await scene(t);
    state.isLate = true;
    assert.deepEqual([...(await run()).errors], []);
    assert.equal(state.topics.get('orders')?.state, 'STOPPED');
  });

  test('waited for a mirror of the same call that was being made from a source that is dead', async (t) => {
    const world = await scene(t);
    world.topics.close();
    const pending = {
      name: 'new',
      state: 'PENDING_MIRROR',
      topicId: null,
      partitions: [],
    } as const;
    world.state.topics.set('new', mirrorRecord(pending));
    const { failover, changes } = await start(world);
    void changes.locks.run('new', () => new Promise(() => undefined));
    const request = { actor: 'test', receiptId: 'r1', isDryRun: false };
    const { errors } = await failover.run({ ...request, topics: ['new', 'orders'] });
    assert.deepEqual([...errors.keys()], ['new']);
    assert.equal(errors.get('new')?.code, 'ILLEGAL_STATE');
    assert.equal(world.state.topics.get('orders')?.state, 'STOPPED');
  });

  test('R12: is refused to an instance that is not the owner any more', async (t) => {
    const { run, state } = await scene(t);
    state.isOwner = false;
    assert.equal((await run()).errors.get('orders')?.code, 'NOT_OWNER');
    assert.equal(state.commits.length, 0);
  });

  test('is not begun when the intent is refused', async (t) => {
    const { run, state, log } = await scene(t);
    state.fates = ['UNAVAILABLE'];
    const { errors } = await run();
    assert.equal(errors.get('orders')?.code, 'STATE_UNAVAILABLE');
    assert.equal(log.end, 3n);
    assert.equal(state.commits.length, 1);
  });

  test('whose answer was lost is what the state says after it was read again', async (t) => {
    const done = await scene(t);
    done.state.fates = ['done', 'doubt-done'];
    assert.deepEqual([...(await done.run()).errors], []);
    assert.equal(done.topics.byName('orders')?.mode, 'promoted');
    assert.equal(done.log.visibleEnd, 4n);

    const lost = await scene(t);
    lost.state.fates = ['doubt-done', 'doubt-lost'];
    assert.match((await lost.run()).errors.get('orders')?.message ?? '', /NOT FAILED OVER/);
    assert.equal(lost.topics.byName('orders')?.mode, 'mirror');
    assert.equal(lost.log.end, 3n);
  });

  test('in doubt is unavailable to clients, and holds the ABORT batches back', async (t) => {
    const { run, state, topics, log } = await scene(t);
    state.fates = ['done', 'doubt-done'];
    const modes: string[] = [];
    topics.onChange(() => {
      modes.push(`${topics.byName('orders')?.mode} ${log.visibleEnd}`);
    });
    await run();
    assert.ok(modes.includes('unavailable 3'), modes.join());
    assert.equal(modes.at(-1), 'promoted 4');
  });

  test('R11: a crash before the commit is undone at the next start', async (t) => {
    const { world, next } = await interrupted(t);
    const log = next.topics.byName('orders')?.partition(0)?.log;
    assert.equal(log?.end, 4n);
    assert.equal(log.visibleEnd, 3n, 'hidden from the first moment on');
    assert.equal(next.topics.byName('orders')?.mode, 'mirror');
    await next.failover.undoInterrupted();
    assert.equal(log.end, 3n);
    assert.equal(world.state.topics.get('orders')?.stopping, undefined);
    assert.equal(world.state.topics.get('orders')?.state, 'ACTIVE');
    assert.ok(next.events.since(0).some(({ event }) => event === 'failover_undone'));
    assert.deepEqual([...(await next.run()).errors], []);
    assert.equal(log.visibleEnd, 4n);
  });

  test('R11: one given before an interrupted one was undone counts no ABORT batch of that as mirrored', async (t) => {
    const { world, next } = await interrupted(t);
    assert.deepEqual([...(await next.run()).errors], []);
    const puts = world.state.commits
      .flat()
      .flatMap((change) => ('put' in change ? [change.put] : []));
    const receipt = puts.find((record) => record.kind === 'receipt');
    const [partition] = receipt?.topics[0]?.partitions ?? [];
    assert.deepEqual([partition?.mirroredEnd, partition?.virtualEnd], [3n, 4n]);
    assert.equal(partition?.abortedTransactions, 1);
    assert.equal(next.topics.byName('orders')?.partition(0)?.log?.end, 4n);
  });

  test('a dry run within an interrupted one counts no ABORT batch of that as mirrored', async (t) => {
    const { world, next } = await interrupted(t);
    const commits = world.state.commits.length;
    const { receipts, errors } = await next.run(true);
    assert.deepEqual([...errors], []);
    const [line] = receipts[0]?.topics[0]?.partitions ?? [];
    assert.deepEqual([line?.mirroredEnd, line?.virtualEnd, line?.firstEpoch], [3n, 4n, 5]);
    assert.equal(line?.abortedTransactions, 1);
    assert.equal(next.topics.byName('orders')?.partition(0)?.log?.end, 4n, 'nothing is undone');
    assert.equal(world.state.commits.length, commits);
    await next.run();
    const [done] = [...world.state.receipts.values()][0]?.topics[0]?.partitions ?? [];
    assert.deepEqual(done, line);
  });

  test('R11: what happens to a topic before its interrupted one is undone forgets no cut', async (t) => {
    for (const event of ['pause', 'fail'] as const) {
      const { world, next } = await interrupted(t);
      const log = next.topics.byName('orders')?.partition(0)?.log;
      await next.changes.apply('orders', event, { actor: 'test', why: event });
      assert.equal(log?.visibleEnd, 3n);
      await next.failover.undoInterrupted();
      assert.deepEqual([log?.end, log?.visibleEnd, log?.heldFrom], [3n, 3n, null], event);
      const record = world.state.topics.get('orders');
      assert.equal(record?.state, event === 'pause' ? 'PAUSED' : 'FAILED');
      assert.equal(record?.stopping, undefined);
    }
  });

  test('R11: a promotion does not begin on what an interrupted one has left', async (t) => {
    const { world, next } = await interrupted(t);
    const record = world.state.topics.get('orders');
    assert.ok(record);
    assert.throws(() => next.changes.next(record, 'promote'), /failover that is not undone yet/);
    await next.failover.undo('orders');
    const log = next.topics.byName('orders')?.partition(0)?.log;
    assert.deepEqual([log?.end, log?.visibleEnd, log?.heldFrom], [3n, 3n, null]);
    const undone = world.state.topics.get('orders');
    assert.ok(undone);
    assert.equal(next.changes.next(undone, 'promote').state, 'PENDING_STOPPED');
  });

  test('R11: in doubt while the process stops is never undone: S could lie above the cut', async (t) => {
    const { run, state, topics, log, changes, failover, events } = await scene(t);
    state.fates = ['done', 'doubt-stays'];
    topics.onChange(() => {
      if (topics.byName('orders')?.mode === 'unavailable') changes.close();
    });
    const { errors } = await run();
    assert.equal(errors.get('orders')?.code, 'IN_DOUBT');
    await failover.undoInterrupted();
    const told = events.since(0).filter(({ event }) => event === 'failover_undo_pending');
    assert.equal(told.length, 1, 'said once');
    assert.match(told[0]?.message ?? '', /whether it was failed over is not known yet/);
    assert.equal(log.end, 4n, 'nothing was cut');
    assert.equal(log.visibleEnd, 3n, 'nor shown');
    assert.equal(state.commits.length, 2);
  });

  test('R12: fenced while it was being committed is left to the next owner', async (t) => {
    const world = await scene(t);
    world.state.fates = ['done', 'doubt-fenced'];
    assert.match((await world.run()).errors.get('orders')?.message ?? '', /^NOT FAILED OVER/);
    await world.failover.undoInterrupted();
    assert.equal(world.log.end, 4n, 'nothing was cut');
    assert.equal(world.state.commits.length, 2);
    // The successor finds that it was committed: what was held back is part of the log.
    const [, switched = []] = world.state.commits;
    world.topics.close();
    world.state.apply(switched);
    const next = await start({ ...world, storage: await world.reopen() });
    const log = next.topics.byName('orders')?.partition(0)?.log;
    assert.deepEqual([log?.end, log?.visibleEnd, log?.heldFrom], [4n, 4n, null]);
  });

  test('undone, but for the hold, is finished at the next start', async (t) => {
    const world = await scene(t);
    world.log.hold(3n);
    await world.log.append(batch({ base: 3n, epoch: 5 }));
    await world.log.flush();
    const next = await start({ ...world, storage: await world.reopen() });
    const log = next.topics.byName('orders')?.partition(0)?.log;
    assert.deepEqual([log?.end, log?.visibleEnd, log?.heldFrom], [3n, 3n, null]);
  });

  test('keeps the state that a failed topic was in when it is undone', async (t) => {
    const error = { code: 'LOST_HISTORY', message: 'x' } as const;
    const record = activeRecord({ state: 'FAILED', error });
    const { run, state } = await scene(t, { record });
    state.fates = ['done', 'UNAVAILABLE'];
    await run();
    assert.deepEqual(state.topics.get('orders'), record);
    await run();
    assert.equal(state.topics.get('orders')?.state, 'STOPPED');
  });

  test('R11: is not done at an end that moved after it was measured', async (t) => {
    const { run, state, storage } = await scene(t);
    const log = await storage.open({ topicId: shellId, partition: 1 });
    const commit = state.commit.bind(state);
    // The last answer of a link that was deleted a moment ago is appended behind the measure.
    let isLate = true;
    state.commit = async (changes) => {
      if (isLate) await log.append(batch({ base: 0n, count: 3 }));
      isLate = false;
      await commit(changes);
    };
    const { errors } = await run();
    assert.match(
      errors.get('orders')?.message ?? '',
      /NOT FAILED OVER: the copy of 'orders' moved/,
    );
    assert.equal(state.topics.get('orders')?.state, 'ACTIVE');
    assert.deepEqual([...(await run()).errors], []);
    assert.equal(state.topics.get('orders')?.state, 'STOPPED');
  });

  test('names what stands in its way', async (t) => {
    const { run, state, destination, topics } = await scene(t);
    state.isOwner = false;
    assert.equal((await run()).errors.get('orders')?.code, 'NOT_OWNER');
    state.isOwner = true;
    destination.isDead = true;
    assert.match((await run()).errors.get('orders')?.message ?? '', /destination does not answer/);
    destination.isDead = false;
    destination.topics.set('orders', topicInfo('orders', sourceId, [9, 0]));
    assert.match((await run()).errors.get('orders')?.message ?? '', /id has changed/);
    assert.equal(topics.byName('orders')?.mode, 'mirror');
    assert.equal(state.commits.length, 0);
  });

  test('refuses a topic whose log is unusable, since its end is not known', async (t) => {
    const three = [0n, 0n, 0n].map((start) => newMirror(virtualOffset(start)));
    const { run, state, topics } = await scene(t, { record: activeRecord({ partitions: three }) });
    assert.equal(topics.byName('orders')?.partition(2)?.log, null);
    const error = (await run()).errors.get('orders');
    assert.equal(error?.code, 'STORAGE_ERROR');
    assert.match(error?.message ?? '', /orders-2/);
    assert.equal(state.commits.length, 0);
  });

  test('gives up an unusable log when it is told to, and goes on above what is known', async (t) => {
    const three = [0n, 0n, 0n].map((start) => newMirror(virtualOffset(start)));
    const world = await scene(t, { record: activeRecord({ partitions: three }) });
    const { run, state, topics, destination, events } = world;
    destination.topics.set('orders', topicInfo('orders', shellId, [9, 0, 3]));
    // A group has got as far as 77 of the partition whose copy is lost.
    const send = destination.send.bind(destination);
    const partitions = [{ partitionIndex: 2, committedOffset: 77n, metadata: '', errorCode: 0 }];
    const answers: Readonly<Record<string, object>> = {
      ListGroups: { errorCode: 0, groups: [{ groupId: 'app', groupType: '', protocolType: '' }] },
      OffsetFetch: { errorCode: 0, topics: [{ name: 'orders', partitions }] },
    };
    destination.send = (async (target, api, request) =>
      answers[api.name] ?? send(target, api, request)) as typeof destination.send;
    const dry = (await run(true, true)).receipts[0]?.topics[0]?.partitions[2];
    assert.equal(topics.byName('orders')?.partition(2)?.log, null, 'a dry run changes nothing');
    const { errors, receipts } = await run(false, true);
    assert.deepEqual([...errors], []);
    const line = receipts[0]?.topics[0]?.partitions[2];
    assert.deepEqual(line, dry);
    assert.deepEqual([line?.virtualEnd, line?.mirroredEnd, line?.lostRecords], [77n, 0n, -1n]);
    const timeline = state.topics.get('orders')?.partitions[2];
    assert.ok(timeline);
    const native = openNativeExtent(timeline);
    assert.deepEqual([native?.start, native?.offsetShift], [77n, 77n]);
    assert.ok((native?.firstEpoch ?? 0) > 1_000_000, 'above any epoch that a client may have seen');
    const log = topics.byName('orders')?.partition(2)?.log;
    assert.deepEqual([log?.logStart, log?.end], [77n, 77n], 'nothing is below S');
    assert.equal(topics.byName('orders')?.partition(0)?.log?.end, 4n, 'the others keep theirs');
    assert.ok(events.since(0).some(({ event }) => event === 'accepted_loss_given_up'));
  });

  test('of a mirror that lacks partitions of its source says what it leaves out', async (t) => {
    const world = await scene(t);
    const growth = { of: () => ({ sourcePartitions: 5, sinceTimeMs: 0, cause: null }) };
    const feeds = { hold: async () => undefined };
    const link = { growth, feeds, release: () => undefined } as unknown as LinkRuntime;
    world.topics.close();
    const { run, events } = await start(world, {}, link);
    assert.equal((await run()).errors.size, 0);
    const [told] = events.since(0).filter(({ level }) => level === 'error');
    assert.equal(told?.event, 'failover_partitions_left_out');
    assert.match(told?.message ?? '', /with 2 of the 5 partitions/);
  });

  test('as a dry run says what it would do and changes nothing', async (t) => {
    const { run, state, log } = await scene(t);
    const { receipts, errors } = await run(true);
    assert.deepEqual([...errors], []);
    const line = receipts[0]?.topics[0]?.partitions[0];
    assert.deepEqual([line?.virtualEnd, line?.firstEpoch, line?.abortedTransactions], [4n, 5, 1]);
    assert.equal(log.end, 3n);
    assert.equal(state.commits.length, 0);
  });

  test('of many topics has each in its batch, and a batch that fails stops no other', async (t) => {
    const state = new FakeState();
    const { storage } = await openTestStorage(t);
    const destination = new FakeCluster();
    const names = Array.from({ length: 7 }, (_, index) => `t${index}`);
    for (const [index, name] of names.entries()) {
      const topicId = `${shellId.slice(0, -2)}${index}Q`;
      const partitions = [newMirror(virtualOffset(0n))];
      state.topics.set(name, activeRecord({ name, topicId, partitions }));
      await storage.create({ topicId, partition: 0 }, 0n);
      destination.topics.set(name, topicInfo(name, topicId, [0]));
    }
    const { failover } = await start({ state, storage, destination }, { switchBatchTopics: 2 });
    const commit = state.commit.bind(state);
    state.commit = async (changes) => {
      const isOurs = (name: string) => (change: (typeof changes)[number]) =>
        'put' in change && change.put.kind === 'topic' && change.put.name === name;
      if (changes.some(isOurs('t2'))) throw new StateError('UNAVAILABLE', 'scripted');
      await commit(changes);
    };
    const { errors, receipts } = await failover.run({
      ...{ topics: names, actor: 'test', receiptId: 'r1', isDryRun: false },
    });
    assert.deepEqual([...errors.keys()], ['t2', 't3']);
    assert.deepEqual(
      receipts.map(({ id, topics }) => [id, topics.map(({ topic }) => topic).join()]),
      [
        ['r1', 't0,t1'],
        ['r1.3', 't4,t5'],
        ['r1.4', 't6'],
      ],
    );
    const states = names.map((name) => state.topics.get(name)?.state);
    assert.deepEqual(
      states,
      names.map((name) => (errors.has(name) ? 'ACTIVE' : 'STOPPED')),
    );
  });
});
