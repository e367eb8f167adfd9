// The state at every point where a request, an answer or the whole process can be lost, and after a
// stop of the clock: a commit is there once or not at all, and its caller was told so (R11, R12).
// The destination is a model in memory; the same against a real broker is in
// test/kafka/state.test.ts.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Events } from '../../../src/observe/events.ts';
import { openState } from '../../../src/state/open-state.ts';
import type { OpenedState, StateOptions } from '../../../src/state/options.ts';
import type { StateChange } from '../../../src/state/state.ts';
import { StateError } from '../../../src/state/state.ts';
import { until } from '../../helpers/wait.ts';
import { FakeStateCluster, type Fault } from './fake-state-cluster.ts';

// No renewal comes between: each request is one of the commit that is looked at.
const limits = { leaseMs: 600_000, renewMs: 200_000, commitTimeoutMs: 400, tailMs: 20 };

let directory: string;
const opened: OpenedState[] = [];

before(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-crash-points-'));
});

after(async () => {
  await Promise.all(opened.map((state) => state.close()));
  await rm(directory, { recursive: true, force: true });
});

async function open(
  cluster: FakeStateCluster,
  options: Partial<StateOptions> = {},
): Promise<OpenedState> {
  const state = await openState({
    name: 'causeway',
    cluster,
    clock: { now: () => performance.now(), wallMs: () => 1_700_000_000_000 },
    events: new Events(),
    snapshotDirectory: path.join(directory, String(opened.length)),
    mirrorStorageExists: false,
    limits,
    ...options,
  });
  opened.push(state);
  return state;
}

function ports(port: number): StateChange {
  return { put: { kind: 'node-ports', ports: { 1: port } } };
}

function storage(directoryId: string): StateChange {
  return { put: { kind: 'storage', directoryId } };
}

/** What a fresh reader of the topic finds: the two records that every commit here writes. */
async function found(cluster: FakeStateCluster): Promise<string> {
  cluster.fault = () => 'none';
  const { view } = await open(cluster);
  return `${view.nodePorts?.ports[1]} ${view.storage?.directoryId}`;
}

function codeOf(error: unknown): string {
  assert.ok(error instanceof StateError, String(error));
  return error.code;
}

/** Commits `1 one`, then `2 two` with faults as given; tells how the second one ended. */
async function commitTwice(
  cluster: FakeStateCluster,
  fault: (requestNumber: number) => Fault,
): Promise<{ state: OpenedState; outcome: string; requestsCount: number }> {
  const state = await open(cluster);
  await state.commit([ports(1), storage('one')]);
  let requestsCount = 0;
  cluster.fault = () => fault(++requestsCount);
  const outcome = await state.commit([ports(2), storage('two')]).then(() => 'committed', codeOf);
  return { state, outcome, requestsCount };
}

test('R11: one lost request or answer anywhere in a commit costs nothing', async () => {
  for (const kind of ['lost request', 'lost answer'] as const) {
    for (let at = 1; at <= 4; at++) {
      const cluster = new FakeStateCluster();
      const { state, outcome } = await commitTwice(cluster, (number) =>
        number === at ? kind : 'none',
      );
      assert.equal(outcome, 'committed', `${kind} at request ${at}`);
      assert.ok(state.isSettled);
      assert.equal(await found(cluster), '2 two');
    }
  }
});

test('R11: a process that dies anywhere in a commit leaves all of it or nothing', async () => {
  const ends = new Set<string>();
  for (const kind of ['lost request', 'lost answer'] as const) {
    for (let from = 1; from <= 4; from++) {
      const cluster = new FakeStateCluster();
      // The one request at `from` may still take effect; after it nothing leaves the process.
      const { outcome } = await commitTwice(cluster, (number) => {
        if (number < from) return 'none';
        return number === from ? kind : 'lost request';
      });
      const end = await found(cluster);
      assert.ok(['1 one', '2 two'].includes(end), `${kind} at ${from}: half a commit: ${end}`);
      if (outcome === 'committed') assert.equal(end, '2 two');
      if (outcome === 'UNAVAILABLE') assert.equal(end, '1 one', `${kind} at ${from}`);
      ends.add(`${outcome}: ${end}`);
    }
  }
  // Both ends of a doubt were reached, or this test would show nothing.
  assert.ok(ends.has('IN_DOUBT: 1 one') && ends.has('IN_DOUBT: 2 two'), [...ends].join(', '));
  assert.ok(ends.has('UNAVAILABLE: 1 one'));
});

test('R11: what a failed commit left open is aborted before the next one', async () => {
  for (const lost of [['AddPartitionsToTxn'], ['Produce'], ['Produce', 'EndTxn']]) {
    const cluster = new FakeStateCluster();
    const state = await open(cluster);
    await state.commit([ports(1), storage('one')]);
    cluster.fault = (name) => (lost.includes(name) ? 'lost answer' : 'none');
    const outcome = await state.commit([ports(2), storage('two')]).then(() => 'committed', codeOf);
    assert.equal(outcome, 'UNAVAILABLE', lost.join());
    cluster.fault = () => 'none';
    await state.commit([ports(3)]);
    assert.equal(state.view.storage?.directoryId, 'one');
    assert.equal(await found(cluster), '3 one');
  }
});

test('R12: after a stop of the process the lease is void at once', async () => {
  const cluster = new FakeStateCluster();
  let stoppedMs = 0;
  const clock = { now: () => performance.now() + stoppedMs, wallMs: () => 1_700_000_000_000 };
  const events = new Events();
  const first = await open(cluster, { clock, events });
  await first.commit([ports(1), storage('one')]);
  assert.ok(first.lease.isValid());
  stoppedMs = 10 * 60_000;
  assert.equal(first.lease.isValid(), false);
  await first.commit([ports(2)]);
  assert.ok(first.lease.isValid(), 'nobody took over: it may go on once renewed');

  const second = await open(cluster);
  stoppedMs *= 2;
  const requestsBefore = cluster.seen.length;
  const outcome = await first.commit([ports(3)]).then(() => 'committed', codeOf);
  assert.equal(outcome, 'NOT_OWNER');
  assert.ok(!cluster.seen.slice(requestsBefore).includes('Produce'), 'it wrote after its fence');
  await until('lease_lost', () => events.since(0).some(({ event }) => event === 'lease_lost'));
  assert.equal(second.view.nodePorts?.ports[1], 2);
});

test('R12: an instance that cleans up after itself never fences back', async () => {
  const cluster = new FakeStateCluster();
  const first = await open(cluster);
  await first.commit([ports(1), storage('one')]);
  cluster.fault = (name) => (name === 'Produce' ? 'lost answer' : 'none');
  assert.equal(await first.commit([ports(2)]).then(() => 'committed', codeOf), 'UNAVAILABLE');
  cluster.fault = () => 'none';
  const second = await open(cluster, { limits: { ...limits, leaseMs: 1_000, renewMs: 300 } });
  assert.equal(await first.commit([ports(3)]).then(() => 'committed', codeOf), 'NOT_OWNER');
  await second.commit([ports(4)]);
  assert.equal(await found(cluster), '4 one');
});

test('R12: nor does it when the fence comes between its own abort and its new epoch', async () => {
  const cluster = new FakeStateCluster();
  const first = await open(cluster);
  await first.commit([ports(1), storage('one')]);
  cluster.fault = (name) => (name === 'Produce' ? 'lost answer' : 'none');
  assert.equal(await first.commit([ports(2)]).then(() => 'committed', codeOf), 'UNAVAILABLE');
  cluster.fault = (name) => {
    if (name === 'InitProducerId') cluster.fenceByAnother();
    return 'none';
  };
  assert.equal(await first.commit([ports(3)]).then(() => 'committed', codeOf), 'NOT_OWNER');
  assert.equal(await found(cluster), '1 one');
});

/** Commits `1 one` and `2 two`, with `abort` when the request before the named one is answered. */
async function commitAborted(
  lost: { readonly name: string; readonly fault: Fault },
  abort: (cluster: FakeStateCluster) => void,
) {
  const cluster = new FakeStateCluster();
  const events = new Events();
  const state = await open(cluster, { events });
  await state.commit([ports(1), storage('one')]);
  let isDone = false;
  cluster.fault = (name) => {
    if (isDone || name !== lost.name) return 'none';
    isDone = true;
    if (lost.fault === 'none') abort(cluster);
    else setImmediate(() => abort(cluster));
    return lost.fault;
  };
  const outcome = await state.commit([ports(2), storage('two')]).then(() => 'committed', codeOf);
  return { cluster, state, events, outcome };
}

test('R12: a transaction that the destination aborted itself is no successor', async () => {
  for (const name of ['Produce', 'EndTxn']) {
    for (const fault of ['none', 'lost request'] as const) {
      const what = `${fault} at ${name}`;
      const { cluster, state, events, outcome } = await commitAborted({ name, fault }, (fake) =>
        assert.ok(fake.abortOpen(), `nothing was open: ${what}`),
      );
      assert.equal(outcome, 'UNAVAILABLE', what);
      assert.ok(state.lease.isValid(), what);
      await state.commit([ports(3)]);
      assert.ok(state.isSettled, what);
      const said = events.since(0).map(({ event }) => event);
      assert.ok(said.includes('state_transaction_aborted') && !said.includes('lease_lost'), what);
      assert.equal(await found(cluster), '3 one', what);
    }
  }
});

test('R12: a successor that found a transaction open is not fenced back', async () => {
  for (const name of ['Produce', 'EndTxn']) {
    for (const fault of ['none', 'lost request', 'lost answer'] as const) {
      if (name === 'Produce' && fault === 'lost answer') continue;
      const what = `${fault} at ${name}`;
      let epoch = -1;
      const { cluster, state, outcome } = await commitAborted({ name, fault }, (fake) => {
        fake.fenceByAnother();
        epoch = fake.epoch;
      });
      assert.ok(['NOT_OWNER', 'IN_DOUBT'].includes(outcome), `${what}: ${outcome}`);
      assert.equal(await state.commit([ports(3)]).then(() => 'committed', codeOf), 'NOT_OWNER');
      assert.equal(cluster.epoch, epoch, `${what}: the epoch was raised`);
      assert.equal(state.lease.isValid(), false, what);
    }
  }
});

test('commits are serialized in the order of their calls', async () => {
  const cluster = new FakeStateCluster();
  const state = await open(cluster);
  const seen: number[] = [];
  state.onChange(() => seen.push(state.view.nodePorts?.ports[1] ?? -1));
  const numbers = Array.from({ length: 20 }, (_, index) => index + 1);
  await Promise.all(numbers.map((number) => state.commit([ports(number)])));
  assert.deepEqual(seen, numbers);
});

function topic(name: string): StateChange {
  const put = {
    ...({ kind: 'topic', name, topicId: null, link: 'dr', sourceTopic: name } as const),
    ...({ sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAQ', state: 'PENDING_MIRROR' } as const),
    ...{ stateTimeMs: 0, error: null, partitions: [], stoppedBy: null },
  };
  return { put };
}

test('commits that wait together are one transaction, and have one outcome', async () => {
  const names = Array.from({ length: 50 }, (_, index) => `topic-${index}`);
  for (const fault of ['none', 'lost request'] as const) {
    const cluster = new FakeStateCluster();
    const state = await open(cluster);
    await state.commit([ports(1)]);
    const requestsBefore = cluster.seen.length;
    cluster.fault = (name) => (name === 'Produce' ? fault : 'none');
    const outcomes = await Promise.all(
      names.map((name) => state.commit([topic(name)]).then(() => 'committed', codeOf)),
    );
    const expected = fault === 'none' ? 'committed' : 'UNAVAILABLE';
    assert.deepEqual(new Set(outcomes), new Set([expected]));
    assert.equal(state.view.topics.size, fault === 'none' ? names.length : 0);
    const ends = cluster.seen.slice(requestsBefore).filter((name) => name === 'EndTxn');
    assert.equal(ends.length, fault === 'none' ? 1 : 0);
    cluster.fault = () => 'none';
    await state.commit([topic('later')]);
    assert.ok(state.view.topics.has('later'));
  }
});

test('a listener that throws is reported and does not fail the commit', async () => {
  const events = new Events();
  const state = await open(new FakeStateCluster(), { events });
  state.onChange(() => {
    throw new Error('of the listener');
  });
  await state.commit([ports(1)]);
  assert.equal(state.view.nodePorts?.ports[1], 1);
  const reported = events.since(0).find(({ event }) => event === 'state_listener_failed');
  assert.match(reported?.message ?? '', /of the listener/);
});

test('unreadable records and leases of a caller are refused unsent', async () => {
  const cluster = new FakeStateCluster();
  const state = await open(cluster);
  await state.commit([ports(1)]);
  const requestsBefore = cluster.seen.length;
  await assert.rejects(state.commit([{ delete: 'lease' }]), StateError);
  await assert.rejects(state.commit([ports(1.5)]), /"1" is not an integer/);
  assert.equal(cluster.seen.length, requestsBefore);
});

test('a lease whose renewal is late is renewed for who asks, and a lost one is not', async () => {
  const cluster = new FakeStateCluster();
  let lateMs = 0;
  const clock = { now: () => performance.now() + lateMs, wallMs: () => 1_700_000_000_000 };
  const state = await open(cluster, { clock });
  await state.owned();
  lateMs += 2 * limits.leaseMs;
  assert.equal(state.lease.isValid(), false);
  await state.owned();
  assert.equal(state.lease.isValid(), true);
  await open(cluster, { takeOver: true });
  lateMs += 2 * limits.leaseMs;
  await assert.rejects(state.owned(), (error) => {
    return error instanceof StateError && error.code === 'NOT_OWNER';
  });
});
