// Promotions over a scripted source: what blocks them, sets that go all or none, the deadline,
// cancelling, and what a restart finds.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { blockingCodes, withRemedy } from '../../../src/link/switch/blocking.ts';
import { Promotions } from '../../../src/link/switch/promote.ts';
import type { PendingStop, TopicRecord } from '../../../src/state/records.ts';
import { type Disk, nodeDisk } from '../../../storage/index.ts';
import { rootDirectory } from '../../helpers/repository.ts';
import { until } from '../../helpers/wait.ts';
import {
  batch,
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  testContext,
  topicInfo,
} from './fakes.ts';

const ids = ['AAAAAAAAAAAAAAAAAAAAAQ', 'AAAAAAAAAAAAAAAAAAAAAg', 'AAAAAAAAAAAAAAAAAAAAAw'];

function pending(index: number, atomic?: PendingStop['atomic'], deadlineMs = 60_000): TopicRecord {
  return mirrorRecord({
    name: `t${index}`,
    topicId: ids[index] ?? '',
    sourceTopicId: ids[index] ?? '',
    state: 'PENDING_STOPPED',
    stopping: {
      command: 'promote',
      actor: 'test',
      deadlineTimeMs: Date.now() + deadlineMs,
      cuts: [],
      ...(atomic === undefined ? {} : { atomic }),
    },
  });
}

/** Topics t0, t1 ... with two records each, here and at the source. */
async function scene(
  t: TestContext,
  records: readonly TopicRecord[],
  options: {
    quietMs?: number;
    switchMaxMs?: number;
    /** What stands in the way in a final round. */
    finalGroups?: () => Promise<readonly { code: string; message: string }[]>;
    disk?: Disk;
  } = {},
) {
  const state = new FakeState();
  const { storage } = await openTestStorage(t, options.disk);
  const source = new FakeCluster();
  const destination = new FakeCluster();
  for (const record of records) {
    state.topics.set(record.name, record);
    const log = await storage.create({ topicId: record.topicId ?? '', partition: 0 }, 0n);
    await log.append(batch({ base: 0n, count: 2 }));
    await log.flush();
    for (const cluster of [source, destination]) {
      cluster.topics.set(record.name, topicInfo(record.name, record.topicId ?? '', [0]));
    }
    source.ends.set(`${record.name}/0`, 2n);
  }
  const whole = testContext({ state, storage, destination, source });
  const switchMaxMs = options.switchMaxMs ?? whole.limits.switchMaxMs;
  const context = { ...whole, limits: { ...whole.limits, switchMaxMs } };
  const topics = new MirrorTopics(context);
  await topics.start();
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: (name) => topics.touch(name) });
  const held: string[] = [];
  /** Until it is over, what is being appended yet has not ended. */
  const appending = { ended: Promise.resolve() };
  const link = {
    cluster: source,
    settings: { promoteQuietMs: options.quietMs ?? 0 },
    feeds: {
      hold: async (name: string) => {
        held.push(name);
        await appending.ended;
      },
      lag: () => new LagTracker(2n, 0),
    },
    release: () => undefined,
  } as unknown as LinkRuntime;
  const promotions = new Promotions({
    context,
    topics,
    changes,
    link: () => link,
    finalGroups: options.finalGroups ?? (async () => []),
    fence: { raise: async () => [] },
    receiptId: () => 'r1',
    receipts: { clock, lag: () => undefined, groups: () => [], groupsReadMs: () => -1 },
  });
  t.after(() => promotions.close());
  const stateOf = (name: string) => state.topics.get(name)?.state;
  const codes = (name: string) => promotions.blocking(name).map(({ code }) => code);
  const world = { state, source, topics, promotions, events, held, stateOf, codes, storage };
  return { ...world, appending };
}

test('a set is switched by one state transaction, with one receipt', async (t) => {
  const atomic = { id: 'set', count: 2 };
  const { state, promotions, stateOf } = await scene(t, [pending(0, atomic), pending(1, atomic)]);
  promotions.resume();
  await until('both', () => stateOf('t0') === 'STOPPED' && stateOf('t1') === 'STOPPED');
  assert.equal(state.commits.length, 1);
  const receipt = state.receipts.get('r1');
  assert.deepEqual(
    receipt?.topics.map(({ topic }) => topic),
    ['t0', 't1'],
  );
  const line = receipt?.topics[0]?.partitions[0];
  assert.deepEqual(
    [line?.sourceEnd, line?.lostRecords, line?.lostSeconds, line?.found],
    [2n, 0n, 0, { sourceEnd: 2n, lostRecords: 0n }],
  );
});

test('one that is not ready holds all of its set, and each says why', async (t) => {
  const atomic = { id: 'set', count: 2 };
  const world = await scene(t, [pending(0, atomic), pending(1, atomic)]);
  const { state, source, promotions, stateOf, codes } = world;
  source.ends.set('t1/0', 5n);
  promotions.resume();
  await until('the lag', () => codes('t1').includes('MIRROR_LAG'));
  assert.deepEqual(codes('t0'), ['ATOMIC_WAITING']);
  assert.match(promotions.blocking('t0')[0]?.message ?? '', /\(t1\)/);
  assert.match(promotions.blocking('t1')[0]?.message ?? '', /partition 0 has 3 offsets to go/);
  assert.equal(state.commits.length, 0);
  source.ends.set('t1/0', 2n);
  await until('both', () => stateOf('t0') === 'STOPPED' && stateOf('t1') === 'STOPPED');
});

test('R9: equal ends of a topic that was made again under the name promote nothing', async (t) => {
  const { state, source, promotions, stateOf, codes } = await scene(t, [pending(0)]);
  source.topics.set('t0', topicInfo('t0', ids[2] ?? '', [0]));
  promotions.resume();
  await until('the doubt', () => codes('t0').includes('SOURCE_TOPIC_UNCONFIRMED'));
  assert.match(promotions.blocking('t0')[0]?.message ?? '', /'t0' was recreated/);
  assert.equal(state.commits.length, 0);
  source.topics.set('t0', topicInfo('t0', ids[0] ?? '', [0]));
  await until('promoted', () => stateOf('t0') === 'STOPPED');
});

test('cancelling one of a set takes all of it back', async (t) => {
  const atomic = { id: 'set', count: 2 };
  const world = await scene(t, [pending(0, atomic), pending(1, atomic)]);
  world.source.ends.set('t1/0', 5n);
  world.promotions.resume();
  await world.promotions.cancel('t0', { actor: 'test', why: 'changed my mind' });
  assert.deepEqual([world.stateOf('t0'), world.stateOf('t1')], ['ACTIVE', 'ACTIVE']);
  assert.equal(world.state.topics.get('t0')?.stopping, undefined);
  assert.equal(world.state.commits.length, 1);
});

test('a set that lost a member goes back as a whole, also after a restart', async (t) => {
  const atomic = { id: 'set', count: 3 };
  const world = await scene(t, [pending(0, atomic), pending(1, atomic)]);
  world.promotions.resume();
  await until('back', () => world.stateOf('t0') === 'ACTIVE' && world.stateOf('t1') === 'ACTIVE');
  const told = world.events.since(0).find(({ event }) => event === 'mirror_state_changed');
  assert.match(told?.message ?? '', /1 of the 3 topics that go together have left/);
});

test('a set that was taken back and asked for again with more topics goes by its own count', async (t) => {
  const world = await scene(
    t,
    [0, 1, 2].map((index) => pending(index, { id: 'all', count: 3 })),
  );
  const again = [0, 1, 2].flatMap((index) => world.state.topics.get(`t${index}`) ?? []);
  const two = { id: 'two', count: 2 };
  world.state.apply([{ put: pending(0, two) }, { put: pending(1, two) }]);
  world.source.ends.set('t1/0', 5n);
  world.promotions.start('t0');
  await until('the lag', () => world.codes('t1').includes('MIRROR_LAG'));
  // Taken back, and asked for again before the run of the first attempt has looked once more.
  await world.promotions.cancel('t0', { actor: 'test', why: 'one was left out' });
  const cancelled = world.state.commits.length;
  world.source.ends.set('t1/0', 2n);
  world.state.apply(again.map((put) => ({ put })));
  for (const name of ['t0', 't1']) world.promotions.start(name);
  await until('an end', () => world.state.commits.length > cancelled);
  const states = ['t0', 't1', 't2'].map((name) => world.stateOf(name));
  assert.deepEqual(states, ['STOPPED', 'STOPPED', 'STOPPED'], 'by one transaction');
});

test('the deadline takes a set back and says what was in the way', async (t) => {
  const atomic = { id: 'set', count: 2 };
  const world = await scene(t, [pending(0, atomic, 700), pending(1, atomic, 700)]);
  world.source.ends.set('t1/0', 5n);
  world.promotions.resume();
  await until('back', () => world.stateOf('t0') === 'ACTIVE' && world.stateOf('t1') === 'ACTIVE');
  const told = world.events.since(0).find(({ event }) => event === 'mirror_state_changed');
  assert.match(told?.message ?? '', /deadline: MIRROR_LAG \(t1: partition 0 has 3 offsets/);
});

test('a source that is written to is not quiet, and blocks until it is', async (t) => {
  const world = await scene(t, [pending(0)], { quietMs: 1_500 });
  world.promotions.resume();
  await until('the reason', () => world.codes('t0').includes('PRODUCERS_WRITING'));
  assert.match(world.promotions.blocking('t0')[0]?.message ?? '', /1500 ms \(partition 0\)/);
  assert.equal(world.stateOf('t0'), 'PENDING_STOPPED');
  await until('quiet', () => world.stateOf('t0') === 'STOPPED');
});

test('what stood in the way in a final round was not shown until the next one', async (t) => {
  let rounds = 0;
  let seen: string[] = [];
  const finalGroups = async () => {
    rounds += 1;
    seen = [...seen, world.codes('t0').join()];
    return rounds < 4 ? [{ code: 'SHARE_GROUP_BEHIND', message: '3 records of g' }] : [];
  };
  const world = await scene(t, [pending(0)], { finalGroups });
  world.promotions.resume();
  await until('the switch', () => world.stateOf('t0') === 'STOPPED');
  assert.deepEqual(seen, ['', 'SHARE_GROUP_BEHIND', 'SHARE_GROUP_BEHIND', 'SHARE_GROUP_BEHIND']);
});

test('an open transaction is a phase and a reason of its own', async (t) => {
  const world = await scene(t, [pending(0)]);
  const log = await world.storage.open({ topicId: ids[0] ?? '', partition: 0 });
  await log.append(batch({ base: 2n, producerId: 77n }));
  await log.flush();
  world.source.ends.set('t0/0', 3n);
  world.promotions.resume();
  await until('the phase', () => world.topics.byName('t0')?.phase === 'OPEN_TRANSACTIONS');
  assert.deepEqual(world.codes('t0'), ['TRANSACTION_OPEN']);
  assert.match(
    world.promotions.blocking('t0')[0]?.message ?? '',
    /producer 77 open since offset 2/,
  );
});

test('a source that does not answer blocks, with its remedy', async (t) => {
  const world = await scene(t, [pending(0)]);
  world.source.isDead = true;
  world.promotions.resume();
  await until('the reason', () => world.codes('t0').includes('SOURCE_UNREACHABLE'));
  assert.match(world.promotions.blocking('t0')[0]?.remedy ?? '', /fail over/);
});

test('a switch that is not committed leaves the promotion as it was, and goes on', async (t) => {
  const world = await scene(t, [pending(0)]);
  world.state.fates = ['UNAVAILABLE', 'doubt-lost'];
  world.promotions.resume();
  await until('done', () => world.stateOf('t0') === 'STOPPED');
  assert.equal(world.state.commits.length, 3);
});

test('R14: a promotion that a full disk keeps from going on names it; without lag it goes on', async (t) => {
  const space = { freeBytes: 1_000_000, totalBytes: 1_000_000 };
  const disk: Disk = { ...nodeDisk, space: async () => ({ ...space }) };
  const world = await scene(t, [pending(0)], { disk });
  const { storage, source, promotions, stateOf, codes } = world;
  source.ends.set('t0/0', 5n);
  promotions.resume();
  await until('the lag', () => codes('t0').join() === 'MIRROR_LAG');
  space.freeBytes = 0;
  await until('the cause', () => codes('t0').join() === 'DISK_FULL,MIRROR_LAG');
  assert.match(promotions.blocking('t0')[0]?.remedy ?? '', /minFreeBytes/);
  source.ends.set('t0/0', 2n);
  await until('promoted', () => stateOf('t0') === 'STOPPED');
  assert.ok(storage.isFull);
});

test('every code of ours has a remedy and is documented, a foreign one has none', () => {
  const document = readFileSync(path.join(rootDirectory, 'docs/switching.md'), 'utf8');
  for (const code of blockingCodes) {
    assert.ok(document.includes(`| \`${code}\` |`), `docs/switching.md says nothing of ${code}`);
    assert.ok((withRemedy({ code, message: '' }).remedy ?? '').length > 10, code);
  }
  assert.equal(withRemedy({ code: 'INTERNAL_ERROR', message: 'x' }).remedy, null);
});

test('writers are held no longer than a switch may take, however long its commit does', async (t) => {
  const world = await scene(t, [pending(0)], { switchMaxMs: 50 });
  const { state, topics, promotions, stateOf } = world;
  const modes: (string | undefined)[] = [];
  topics.onChange(() => modes.push(topics.byName('t0')?.mode));
  const commit = state.commit.bind(state);
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  state.commit = async (changes) => {
    await promise;
    await commit(changes);
  };
  promotions.resume();
  await until(
    'the end of the hold',
    () => modes.includes('switching') && modes.at(-1) === 'mirror',
  );
  assert.equal(stateOf('t0'), 'PENDING_STOPPED');
  assert.deepEqual(world.held, ['t0'], 'nothing is fetched before the outcome is known');
  resolve();
  await until('the switch', () => stateOf('t0') === 'STOPPED');
  assert.equal(topics.byName('t0')?.mode, 'promoted');
});

test('writers were held for as long as an append took that had begun before the switch', async (t) => {
  const world = await scene(t, [pending(0)], { switchMaxMs: 50 });
  const { topics, promotions, appending, stateOf } = world;
  const modes: (string | undefined)[] = [];
  topics.onChange(() => modes.push(topics.byName('t0')?.mode));
  let resolve: () => void = () => undefined;
  appending.ended = new Promise((done) => {
    resolve = done;
  });
  promotions.resume();
  await until(
    'the end of the hold',
    () => modes.includes('switching') && modes.at(-1) === 'mirror',
  );
  assert.deepEqual([world.held, stateOf('t0')], [['t0'], 'PENDING_STOPPED']);
  resolve();
  await until('the switch', () => stateOf('t0') === 'STOPPED');
});

test('a topic was promoted after the deadline by which it was to be ACTIVE again', async (t) => {
  const record = pending(0, undefined, 600);
  const deadlineMs = record.stopping?.deadlineTimeMs ?? 0;
  const finalGroups = async () => {
    await until('the deadline', () => Date.now() >= deadlineMs);
    return [];
  };
  const world = await scene(t, [record], { finalGroups });
  world.promotions.resume();
  await until('an end', () => world.stateOf('t0') !== 'PENDING_STOPPED');
  assert.equal(world.stateOf('t0'), 'ACTIVE');
  const told = world.events.since(0).find(({ event }) => event === 'mirror_state_changed');
  assert.match(told?.message ?? '', /SWITCH_TIMEOUT \(the deadline came before the switch\)/);
});

for (const [error, expected] of [
  [new ClusterError('TIMEOUT', 'no word', { maybeSent: true }), 'warn TIMEOUT: no word'],
  [new TypeError('not a function'), 'error not a function'],
] as const) {
  test(`why a switch was not confirmed in time was dropped: ${error.message}`, async (t) => {
    const world = await scene(t, [pending(0)], { switchMaxMs: 30 });
    const { source, topics, promotions, events, codes, stateOf } = world;
    const metadata = source.metadata.bind(source);
    const fail: (() => void)[] = [];
    const hang = (): ReturnType<typeof metadata> => {
      source.metadata = metadata;
      return new Promise((_, reject) => fail.push(() => reject(error)));
    };
    topics.onChange(() => {
      if (topics.byName('t0')?.phase === 'SWITCHING') source.metadata = hang;
    });
    promotions.resume();
    await until('the time is over', () => codes('t0').includes('SWITCH_TIMEOUT'));
    const late = () => events.since(0).filter(({ event }) => event.startsWith('promotion_'));
    assert.deepEqual(late(), []);
    fail[0]?.();
    await until('it is told', () => late().length > 0);
    const [told] = late();
    const since = /'t0' was given up.*has failed since: (.*)$/.exec(told?.message ?? '');
    assert.equal(`${told?.level} ${since?.[1]}`, expected);
    await until('it is shown', () => {
      const [reason] = promotions.blocking('t0');
      return reason?.message.includes(`the one before: ${since?.[1]}`) === true;
    });
    assert.equal(stateOf('t0'), 'PENDING_STOPPED');
  });
}
