// Detaching with everything that can go wrong on the way: the process ends at any request or
// commit, before it was carried out or after; a group comes to life, or moves. Afterwards either
// every group stands at native offsets and the timeline is gone, or nothing has changed.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { type Api, ClusterError } from '../../../src/cluster/cluster.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import { LogRemovals } from '../../../src/link/mirror/log-removals.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import type { MirrorStatuses } from '../../../src/link/mirror-statuses.ts';
import { Detach } from '../../../src/link/switch/detach.ts';
import { type StateChange, StateError } from '../../../src/state/state.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import { newMirror, splice } from '../../../src/timeline/timeline.ts';
import type { MirrorStorage } from '../../../storage/mirror-log.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  testContext,
  topicInfo,
} from './fakes.ts';

const unknownMember = 25;

/** Requests and commits, counted; the process ends at one of them. */
class Steps {
  count = 0;
  endsAt = Number.POSITIVE_INFINITY;
  isCarriedOut = false;
  hasEnded = false;

  async take<Result>(work: () => Promise<Result>, dead: () => Error): Promise<Result> {
    if (this.hasEnded) throw dead();
    this.hasEnded = this.count++ === this.endsAt;
    if (!this.hasEnded) return work();
    if (this.isCarriedOut) await work();
    throw dead();
  }
}

class CountedState extends FakeState {
  readonly #steps: Steps;

  constructor(steps: Steps) {
    super();
    this.#steps = steps;
  }

  override commit(changes: readonly StateChange[]): Promise<void> {
    return this.#steps.take(
      () => super.commit(changes),
      () => new StateError('UNAVAILABLE', 'the process has ended'),
    );
  }
}

interface Group {
  readonly offsets: Map<number, bigint>;
  state: string;
}

/** A destination with groups. */
class GroupCluster extends FakeCluster {
  readonly groups = new Map<string, Group>();
  readonly commits: string[] = [];
  /** Called before a commit is looked at. */
  onCommit: (group: string) => void = () => undefined;
  readonly #steps: Steps;

  constructor(steps: Steps) {
    super();
    this.#steps = steps;
  }

  override send<Request, Response>(target: unknown, api: Api<Request, Response>, value: unknown) {
    return this.#steps.take(
      async () => this.#answer(target, api, value),
      () => new ClusterError('CLOSED', 'the process has ended', { maybeSent: false }),
    );
  }

  // biome-ignore lint/suspicious/noExplicitAny: requests are taken as they come, by the API's name
  async #answer(target: unknown, api: Api<any, any>, value: any) {
    if (api.name === 'ListGroups') {
      const groups = [...this.groups].map(([groupId, { state }]) => ({
        groupId,
        groupType: 'classic',
        groupState: state,
      }));
      return { errorCode: 0, groups };
    }
    if (api.name === 'FindCoordinator') return { errorCode: 0, nodeId: 1 };
    if (api.name === 'DescribeConfigs') {
      const configs = [
        { name: 'cleanup.policy', value: 'delete' },
        { name: 'delete.retention.ms', value: '86400000' },
      ];
      return { results: [{ resourceName: 'orders', errorCode: 0, configs }] };
    }
    if (api.name === 'OffsetFetch') return this.#offsets(value.groupId);
    if (api.name === 'OffsetCommit') return this.#commit(value);
    return super.send(target, api, value);
  }

  #offsets(groupId: string) {
    const partitions = [...(this.groups.get(groupId)?.offsets ?? [])].map(
      ([partitionIndex, committedOffset]) => ({
        partitionIndex,
        committedOffset,
        metadata: 'kept',
        errorCode: 0,
      }),
    );
    return { errorCode: 0, topics: [{ name: 'orders', partitions }] };
  }

  #commit(value: {
    groupId: string;
    topics: {
      partitions: { partitionIndex: number; committedOffset: bigint; committedMetadata: string }[];
    }[];
  }) {
    this.onCommit(value.groupId);
    const group = this.groups.get(value.groupId);
    const errorCode = group?.state === 'Empty' ? 0 : unknownMember;
    const partitions = value.topics.flatMap((topic) => topic.partitions);
    for (const { partitionIndex, committedOffset, committedMetadata } of partitions) {
      assert.equal(committedMetadata, 'kept');
      if (errorCode !== 0) continue;
      group?.offsets.set(partitionIndex, committedOffset);
      this.commits.push(`${value.groupId}/${partitionIndex}=${committedOffset}`);
    }
    const answers = partitions.map(({ partitionIndex }) => ({ partitionIndex, errorCode }));
    return { topics: [{ name: 'orders', partitions: answers }] };
  }
}

const splicedAt = (end: bigint, nativeEnd: bigint) =>
  splice(newMirror(virtualOffset(0n)), {
    virtualEnd: virtualOffset(end),
    nativeEnd: nativeOffset(nativeEnd),
    nativeEpoch: nativeEpoch(0),
    lastVirtualEpoch: virtualEpoch(4),
  });

/** Shifts: 100 and 0. What lies below 100 of partition 0 was never copied. */
const promotedRecord = mirrorRecord({
  state: 'STOPPED',
  partitions: [splicedAt(100n, 0n), splicedAt(0n, 0n)],
  stoppedBy: 'promote',
});

const before = { near: [150n, 7n], far: [1_000n], below: [40n], other: [1n] };
/** `near` lies, after the move, where `far` could have been: no value tells by itself. */
const after = { near: [50n, 7n], far: [900n], below: [0n], other: [1n] };

function start(world: { state: FakeState; storage: MirrorStorage; destination: FakeCluster }) {
  const context = testContext({ ...world, source: new FakeCluster() });
  const topics = new MirrorTopics(context);
  const { state, events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: (name) => topics.touch(name) });
  const topic = (name: string) => {
    const found = topics.byName(name);
    if (found === undefined) throw new LinkError('MIRROR_NOT_FOUND', name);
    return found;
  };
  const statuses = { topic } as MirrorStatuses;
  const removals = new LogRemovals({ context, topics, changes });
  const detach = new Detach({ context, changes, statuses, removals });
  const run = () =>
    detach.run({ topic: 'orders', dropHistory: true, validateOnly: false, actor: 'test' });
  return { topics, detach, run, events };
}

async function scene(t: TestContext) {
  const steps = new Steps();
  const state = new CountedState(steps);
  const { storage } = await openTestStorage(t);
  state.topics.set('orders', promotedRecord);
  await storage.create({ topicId: shellId, partition: 0 }, 100n);
  await storage.create({ topicId: shellId, partition: 1 }, 0n);
  const destination = new GroupCluster(steps);
  destination.topics.set('orders', topicInfo('orders', shellId, [9, 0]));
  for (const [group, offsets] of Object.entries(before)) {
    // `other` has committed in a partition that came after the promotion.
    const first = group === 'other' ? 2 : 0;
    const entries = offsets.map((offset, index) => [first + index, offset] as const);
    destination.groups.set(group, { offsets: new Map(entries), state: 'Empty' });
  }
  const world = { steps, state, storage, destination };
  return { ...world, offsets: () => offsetsOf(destination) };
}

function offsetsOf(cluster: GroupCluster): Record<string, bigint[]> {
  return Object.fromEntries(
    [...cluster.groups].map(([group, { offsets }]) => [group, [...offsets.values()]]),
  );
}

describe('a detach', () => {
  test('moves each offset by its partition’s shift, then forgets the topic', async (t) => {
    const world = await scene(t);
    const { topics, run } = start(world);
    await topics.start();
    const report = await run();
    assert.equal(report.isDone, true);
    assert.deepEqual(world.offsets(), after);
    assert.equal(world.state.topics.has('orders'), false);
    assert.deepEqual(await world.storage.list(), [], 'the copy is gone');
  });

  test('R11: that ends anywhere is gone on from or undone, and moves nothing twice', async (t) => {
    const whole = await scene(t);
    const first = start(whole);
    await first.topics.start();
    await first.run();
    const stepsCount = whole.steps.count;
    assert.ok(stepsCount > 15, `${stepsCount} places`);
    let undone = 0;
    for (let endsAt = 0; endsAt < stepsCount; endsAt++) {
      for (const isCarriedOut of [false, true]) {
        const where = `ended at step ${endsAt}, carried out: ${isCarriedOut}`;
        const world = await scene(t);
        Object.assign(world.steps, { endsAt, isCarriedOut });
        const ended = start(world);
        await ended.topics.start();
        await assert.rejects(ended.run(), where);
        Object.assign(world.steps, { hasEnded: false, endsAt: Number.POSITIVE_INFINITY });
        const next = start(world);
        await next.topics.start();
        await next.detach.resume();
        if (world.state.topics.has('orders')) {
          undone++;
          assert.equal(world.state.topics.get('orders')?.detaching, undefined, where);
          assert.deepEqual(world.offsets(), before, where);
          assert.equal(next.topics.byName('orders')?.mode, 'promoted', where);
          await next.run();
        }
        assert.deepEqual(world.offsets(), after, where);
        const { commits } = world.destination;
        assert.equal(new Set(commits).size, commits.length, `${where}: written twice`);
      }
    }
    assert.ok(undone > 0 && undone < stepsCount * 2, `${undone} undone`);
  });

  test('of a topic whose group comes to life is taken back, all of it', async (t) => {
    const world = await scene(t);
    const { topics, run, events } = start(world);
    await topics.start();
    let isGated = false;
    world.destination.onCommit = (group) => {
      isGated ||= topics.byName('orders')?.mode === 'unavailable';
      const live = world.destination.groups.get('near');
      if (group === 'far' && live) live.state = 'Stable';
    };
    await assert.rejects(run(), /NOT detached: group 'near' has members/);
    assert.equal(isGated, true, 'nobody could read meanwhile');
    assert.deepEqual(world.offsets(), before);
    assert.equal(topics.byName('orders')?.mode, 'promoted');
    assert.ok(events.since(0).some(({ event }) => event === 'detach_undone'));
    await assert.rejects(run(), /GROUP_NOT_EMPTY: group 'near' has members/);
    assert.deepEqual(world.offsets(), before);
  });

  test('leaves what a client has committed meanwhile', async (t) => {
    const world = await scene(t);
    const { topics, run } = start(world);
    await topics.start();
    world.destination.onCommit = (group) => {
      if (group === 'below') world.destination.groups.get('far')?.offsets.set(0, 1_234n);
    };
    await assert.rejects(run(), /group 'far' has committed 1234 of partition 0 meanwhile/);
    assert.deepEqual(world.offsets(), { ...before, far: [1_234n] });
    await run();
    assert.deepEqual(world.offsets(), { ...after, far: [1_134n] });
  });

  test('that cannot be undone at once waits, and the topic with it', async (t) => {
    const world = await scene(t);
    const { topics, run, detach } = start(world);
    await topics.start();
    const group = (name: string) => {
      const found = world.destination.groups.get(name);
      assert.ok(found);
      return found;
    };
    world.destination.onCommit = (name) => {
      if (name !== 'near') return;
      group('below').state = 'Stable';
      group('near').state = 'Stable';
    };
    await assert.rejects(run(), /not all offsets are back yet: group 'below' has members/);
    assert.equal(topics.byName('orders')?.mode, 'unavailable');
    await detach.resume();
    assert.equal(topics.byName('orders')?.mode, 'unavailable');
    group('below').state = 'Empty';
    await detach.resume();
    assert.equal(topics.byName('orders')?.mode, 'promoted');
    assert.deepEqual(world.offsets(), before);
  });
});
