// The state topic on a real broker: commits and replays, fencing and leases, doubts, loss and
// restoration. Two instances are two clients of one broker; a killed instance is one whose
// connections are cut off and that is never closed. The relay stands between a client and the
// broker and drops answers to EndTxn.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
} from '../../protocol/generated/delete-topics-request.ts';
import {
  createAlterableConfig,
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
} from '../../protocol/generated/incremental-alter-configs-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import { ErrorCode } from '../../protocol/index.ts';
import {
  createTopicsApi,
  deleteTopicsApi,
  incrementalAlterConfigsApi,
  initProducerIdApi,
} from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { readTopicConfigs } from '../../src/cluster/config-requests.ts';
import { Events } from '../../src/observe/events.ts';
import { openState } from '../../src/state/open-state.ts';
import type { OpenedState, StateOptions } from '../../src/state/options.ts';
import type { State } from '../../src/state/state.ts';
import { stateTopicName } from '../../src/state/state-topic.ts';
import { TransactionWriter } from '../../src/state/transaction-writer.ts';
import { exportState, importState } from '../../src/state/transfer.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { EndTxnRelay, endTxnKey } from './end-txn-relay.ts';
import { isStateError, topicRecord } from './state-records.ts';

const clock = { now: () => performance.now(), wallMs: () => Date.now() };

/** Resolves when the instance may act. */
function owned(state: State): Promise<unknown> {
  return until('ownership', () => state.lease.isValid(), { deadlineMs: 15_000, intervalMs: 5 });
}

describe('the state topic', () => {
  let kafka: KafkaCluster;
  let directory: string;
  let admin: Cluster;
  const clusters: Cluster[] = [];
  const states: State[] = [];
  const relays: EndTxnRelay[] = [];

  before(async () => {
    kafka = await startKafkaCluster({ name: 'state' });
    directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-state-'));
    admin = newCluster();
  });

  after(async () => {
    await Promise.all(states.map((state) => state.close()));
    for (const relay of relays) relay.cut();
    await Promise.all(clusters.map((cluster) => cluster.close()));
    await kafka?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  function newCluster(port?: number): Cluster {
    const advertised = kafka.brokers[0]?.advertised ?? '';
    const reachable = port === undefined ? kafka.bootstrap : `127.0.0.1:${port}`;
    const cluster = connectCluster({
      bootstrapServers: [reachable],
      addressMap: { [advertised]: reachable },
      limits: { requestTimeoutMs: 30_000 },
    });
    clusters.push(cluster);
    return cluster;
  }

  async function newRelay(): Promise<{ relay: EndTxnRelay; cluster: Cluster }> {
    const relay = new EndTxnRelay(kafka.brokers[0]?.port ?? 0);
    relays.push(relay);
    return { relay, cluster: newCluster(await relay.listen()) };
  }

  async function open(
    options: Partial<StateOptions> & { name: string },
  ): Promise<OpenedState & { events: Events }> {
    const events = options.events ?? new Events();
    const state = await openState({
      cluster: admin,
      clock,
      events,
      snapshotDirectory: path.join(directory, uniqueName(options.name)),
      mirrorStorageExists: false,
      ...options,
    });
    states.push(state);
    return Object.assign(state, { events });
  }

  async function deleteStateTopic(name: string): Promise<void> {
    const topic = stateTopicName(name);
    const request = (version: number) =>
      version >= 6
        ? createDeleteTopicsRequest({
            topics: [createDeleteTopicState({ name: topic })],
            timeoutMs: 10_000,
          })
        : createDeleteTopicsRequest({ topicNames: [topic], timeoutMs: 10_000 });
    const response = await admin.send({ kind: 'controller' }, deleteTopicsApi, request);
    assert.equal(response.responses[0]?.errorCode, 0);
    await until('the topic to be gone', async () => {
      return (await admin.metadata([topic])).topics.get(topic)?.errorCode === 3;
    });
  }

  test('R11: what was committed is there after a restart, at once if released', async () => {
    const name = uniqueName('plain');
    const first = await open({ name });
    const keys: string[][] = [];
    first.onChange((changed) => keys.push([...changed]));
    await first.commit([
      { put: { kind: 'node-ports', ports: { 1: 9093 } } },
      { put: topicRecord('orders') },
    ]);
    await first.commit([{ put: topicRecord('payments') }, { delete: 'node-ports' }]);
    assert.deepEqual(keys, [
      ['node-ports', 'topic/orders'],
      ['topic/payments', 'node-ports'],
    ]);
    assert.ok(first.isSettled);
    await first.close();
    assert.equal(first.lease.isValid(), false);

    const startedMs = clock.now();
    const second = await open({ name });
    assert.deepEqual([...second.view.topics.keys()].sort(), ['orders', 'payments']);
    assert.deepEqual(second.view.topics.get('orders'), topicRecord('orders'));
    assert.equal(second.view.nodePorts, undefined);
    await owned(second);
    assert.ok(clock.now() - startedMs < 2_500, 'a released lease was waited for');
  });

  test('a thousand topics switch in one commit', async () => {
    const name = uniqueName('many');
    const first = await open({ name });
    const topics = Array.from({ length: 1_000 }, (_, index) => ({
      ...topicRecord(`topic-${index}`),
      partitions: Array.from(
        { length: 12 },
        () => topicRecord('x').partitions[0] ?? { extents: [] },
      ),
    }));
    await first.commit(topics.map((put) => ({ put })));
    const reader = await open({ name });
    assert.equal(reader.view.topics.size, 1_000);
    assert.deepEqual(reader.view.topics.get('topic-999'), topics[999]);
  });

  test('all settings of the topic are its own, and a wrong one is refused by name', async () => {
    const name = uniqueName('settings');
    const state = await open({ name });
    await state.close();
    const topic = stateTopicName(name);
    const described = (await readTopicConfigs(admin, [topic], null)).get(topic);
    const topicLevel = 1;
    const own = new Map(
      (described?.configs ?? [])
        .filter((config) => config.configSource === topicLevel)
        .map((config) => [config.name, config.value]),
    );
    assert.equal(own.get('cleanup.policy'), 'compact');
    assert.equal(own.get('min.insync.replicas'), '1');
    assert.equal(own.get('max.message.bytes'), String(8 * 1024 * 1024));
    assert.equal(own.get('unclean.leader.election.enable'), 'false');
    assert.equal(own.get('retention.ms'), '-1');

    const altered = await admin.send(
      { kind: 'any' },
      incrementalAlterConfigsApi,
      createIncrementalAlterConfigsRequest({
        resources: [
          createAlterConfigsResource({
            resourceType: 2,
            resourceName: topic,
            configs: [createAlterableConfig({ name: 'cleanup.policy', value: 'delete' })],
          }),
        ],
      }),
    );
    assert.equal(altered.responses[0]?.errorCode, 0);
    await until('refused', async () => {
      await assert.rejects(
        open({ name }),
        isStateError('CORRUPT', /cleanup\.policy is delete, needed is compact/),
      );
      return true;
    });
  });

  test('R12: a fenced instance loses its lease for good, says so, and only reads on', async () => {
    const name = uniqueName('fenced');
    const first = await open({ name });
    await first.commit([{ put: topicRecord('orders') }]);
    const ownership: boolean[] = [];
    first.onOwnership((isOwner) => ownership.push(isOwner));

    const second = await open({ name, cluster: newCluster(), instanceId: 'the-second' });
    assert.ok(!second.lease.isValid(), 'the second must wait for the lease of the first');
    await assert.rejects(first.commit([{ put: topicRecord('stale') }]), isStateError('NOT_OWNER'));
    assert.equal(first.lease.isValid(), false);
    assert.throws(() => first.lease.check(), isStateError('NOT_OWNER'));
    assert.deepEqual(ownership, [false]);

    await owned(second);
    await second.commit([{ put: topicRecord('fresh') }]);
    await until('the view of the first to follow', () => first.view.topics.has('fresh'));
    assert.equal(second.view.topics.has('stale'), false);
    assert.equal(first.view.topics.has('stale'), false);
    assert.equal(first.lease.isValid(), false);
    const lost = first.events.since(0).find((event) => event.event === 'lease_lost');
    assert.equal(lost?.level, 'error');
    assert.equal(lost?.fields.takenOverBy, 'the-second');
    await assert.rejects(first.commit([{ put: topicRecord('late') }]), isStateError('NOT_OWNER'));
  });

  test('R12: an idle owner finds out by its next renewal', async () => {
    const name = uniqueName('idle');
    const first = await open({ name });
    await owned(first);
    await open({ name, cluster: newCluster() });
    await until('lease_lost', () =>
      first.events.since(0).some((event) => event.event === 'lease_lost'),
    );
    assert.equal(first.lease.isValid(), false);
  });

  test('R12: the successor of a killed owner waits one lease before it acts', async () => {
    const name = uniqueName('killed');
    const { relay, cluster } = await newRelay();
    const first = await open({ name, cluster });
    await first.commit([{ put: topicRecord('orders') }]);
    relay.cut();
    const lastValidMs = { value: 0 };
    const watch = setInterval(() => {
      if (first.lease.isValid()) lastValidMs.value = clock.now();
    }, 5);
    const second = await open({ name, cluster: newCluster() });
    const ownerMs = new Promise<number>((resolve) => {
      second.onOwnership((isOwner) => {
        if (isOwner) resolve(clock.now());
      });
    });
    const fencedMs = clock.now();
    assert.throws(() => second.lease.check(), isStateError('NOT_OWNER', /waiting for the lease/));
    await second.commit([{ put: topicRecord('payments') }]);
    const actedMs = clock.now();
    clearInterval(watch);
    assert.ok((await ownerMs) - fencedMs > 2_500, `acted ${actedMs - fencedMs} ms after the fence`);
    assert.ok(actedMs > lastValidMs.value, 'two owners at the same time');
    assert.equal(first.lease.isValid(), false);
    assert.deepEqual([...second.view.topics.keys()].sort(), ['orders', 'payments']);
  });

  test('R11: a transaction that its writer left open is aborted by the next owner', async () => {
    const name = uniqueName('open');
    const first = await open({ name });
    await first.commit([{ put: topicRecord('orders') }]);
    await first.close();
    // Everything of a commit but its EndTxn, as a kill between two requests leaves it.
    const { cluster, relay } = await newRelay();
    const topic = stateTopicName(name);
    const isEnd = (api: { key: number }): boolean => api.key === endTxnKey;
    const halting: Cluster = {
      ...cluster,
      send: (target, api, request, options) =>
        isEnd(api) ? new Promise(() => undefined) : cluster.send(target, api, request, options),
      metadata: (topics) => cluster.metadata(topics),
    };
    const controller = new AbortController();
    const writer = new TransactionWriter({
      cluster: halting,
      topic,
      transactionalId: topic,
      ...clock,
      signal: controller.signal,
      onDoubt: () => undefined,
    });
    await writer.fence(30_000);
    const torn = writer.commit([{ key: 'topic/torn', value: 'never read' }], 30_000);
    await until('the record to be in the log', async () => (await exportedEnd(name)) !== null);
    torn.catch(() => undefined);

    const second = await open({ name, cluster: newCluster() });
    assert.deepEqual([...second.view.topics.keys()], ['orders']);
    await second.commit([{ put: topicRecord('payments') }]);
    relay.cut();
  });

  test('R12: an owner goes on after the destination aborted its transaction, not after a successor', async () => {
    const name = uniqueName('aborted');
    const transactionalId = stateTopicName(name);
    const request = createInitProducerIdRequest({ transactionalId, transactionTimeoutMs: 60_000 });
    const target = { kind: 'transaction', transactionalId } as const;
    /** The coordinator aborts what is open; only who asks again gets an epoch. */
    const abort = async () => (await admin.send(target, initProducerIdApi, request, {})).errorCode;
    let beforeEnd: (() => Promise<unknown>) | undefined;
    const cluster: Cluster = {
      ...admin,
      send: async (to, api, body, options) => {
        const work = api.key === endTxnKey ? beforeEnd : undefined;
        if (work !== undefined) {
          beforeEnd = undefined;
          await work();
        }
        return admin.send(to, api, body, options);
      },
      metadata: (topics) => admin.metadata(topics),
    };
    const limits = { leaseMs: 60_000, renewMs: 20_000 };
    const state = await open({ name, cluster, limits });
    await state.commit([{ put: topicRecord('orders') }]);
    beforeEnd = async () => assert.equal(await abort(), ErrorCode.CONCURRENT_TRANSACTIONS);
    const aborted = state.commit([{ put: topicRecord('aborted') }]);
    await assert.rejects(aborted, isStateError('UNAVAILABLE', /aborted the transaction/));
    await state.commit([{ put: topicRecord('payments') }]);
    assert.deepEqual([...state.view.topics.keys()].sort(), ['orders', 'payments']);

    beforeEnd = () => until('an epoch for another', async () => (await abort()) === 0);
    await assert.rejects(state.commit([{ put: topicRecord('late') }]), isStateError('NOT_OWNER'));
    assert.equal(state.lease.isValid(), false);
  });

  /** Not null once an open transaction holds the last stable offset back. */
  async function exportedEnd(name: string): Promise<bigint | null> {
    const topic = stateTopicName(name);
    const { fetchApi } = await import('../../src/cluster/apis.ts');
    const { createFetchPartition, createFetchRequest, createFetchTopic } = await import(
      '../../protocol/generated/fetch-request.ts'
    );
    const partition = createFetchPartition({ partition: 0, partitionMaxBytes: 1_000 });
    const request = createFetchRequest({
      isolationLevel: 1,
      topics: [createFetchTopic({ topic, partitions: [partition] })],
    });
    const node = { kind: 'node', nodeId: 1 } as const;
    const response = await admin.send(node, fetchApi, request, { versionMax: 12 });
    const data = response.responses[0]?.partitions[0];
    if (!data || data.lastStableOffset >= data.highWatermark) return null;
    return data.lastStableOffset;
  }

  test('R11: a lost answer to a commit is asked for again, and counts once', async () => {
    const name = uniqueName('lost');
    const { relay, cluster } = await newRelay();
    const state = await open({ name, cluster });
    await owned(state);
    const seen: boolean[] = [];
    const watch = setInterval(() => seen.push(state.isInDoubt('orders')), 1);
    relay.dropsLeft = 2;
    await state.commit([{ put: topicRecord('orders') }]);
    clearInterval(watch);
    assert.equal(relay.droppedCount, 2);
    assert.ok(seen.includes(true), 'the topic was never in doubt');
    assert.equal(state.isInDoubt('orders'), false);
    assert.ok(state.isSettled);
    assert.deepEqual(state.view.topics.get('orders'), topicRecord('orders'));
    assert.equal(state.isInDoubt('payments'), false);
    await state.commit([{ put: topicRecord('payments') }]);
  });

  test('R11: a commit of unknown outcome is IN_DOUBT until read again', async () => {
    const name = uniqueName('doubt');
    const { relay, cluster } = await newRelay();
    const limits = { commitTimeoutMs: 1_500 };
    const state = await open({ name, cluster, limits });
    await owned(state);
    relay.dropsLeft = Number.POSITIVE_INFINITY;
    await assert.rejects(state.commit([{ put: topicRecord('orders') }]), isStateError('IN_DOUBT'));
    assert.equal(state.isInDoubt('orders'), true);
    assert.equal(state.isSettled, false);
    assert.equal(state.view.topics.has('orders'), false);
    await assert.rejects(
      state.commit([{ put: topicRecord('payments') }]),
      isStateError('UNAVAILABLE', /earlier commit is in doubt/),
    );
    relay.dropsLeft = 0;
    await until('the doubt to end', () => state.isSettled);
    assert.equal(state.isInDoubt('orders'), false);
    assert.deepEqual(state.view.topics.get('orders'), topicRecord('orders'));
    assert.equal(state.view.topics.has('payments'), false);
    await state.commit([{ put: topicRecord('payments') }]);
    const names = state.events.since(0).map((event) => event.event);
    assert.ok(names.includes('state_commit_in_doubt') && names.includes('state_settled'));
  });

  test('R20: a missing topic beside mirror logs refuses the start, and is restored', async () => {
    const name = uniqueName('loss');
    const snapshotDirectory = path.join(directory, name);
    const first = await open({ name, snapshotDirectory });
    await first.commit([{ put: topicRecord('orders') }, { put: topicRecord('payments') }]);
    const file = path.join(directory, `${name}.jsonl`);
    const exported = await exportState({ name, cluster: admin, clock, file });
    assert.equal(exported.recordsCount, 2);
    await first.commit([{ put: topicRecord('later') }]);
    await assert.rejects(
      importState({ name, cluster: admin, clock, file }),
      isStateError('CORRUPT', /holds records/),
    );
    assert.ok(first.lease.isValid(), 'a refused import must not take over');
    await first.close();
    await deleteStateTopic(name);

    const options = { name, snapshotDirectory, mirrorStorageExists: true };
    await assert.rejects(open(options), (error: unknown) => {
      isStateError('MISSING', /does not exist/)(error);
      assert.ok(error instanceof Error);
      assert.match(error.message, /causeway state import .*state-snapshot\.jsonl/);
      return true;
    });
    const snapshot = path.join(snapshotDirectory, 'state-snapshot.jsonl');
    const imported = await importState({ name, cluster: admin, clock, file: snapshot });
    assert.equal(imported.recordsCount, 3);
    const second = await open(options);
    assert.deepEqual([...second.view.topics.keys()].sort(), ['later', 'orders', 'payments']);
    assert.deepEqual(second.view.topics.get('orders'), topicRecord('orders'));
    await second.commit([{ delete: 'topic/later' }]);
  });

  test('R20: an empty state topic beside mirror logs refuses the start', async () => {
    const name = uniqueName('empty');
    await (await open({ name })).close();
    await assert.rejects(
      open({ name, mirrorStorageExists: true }),
      isStateError('MISSING', /is empty.*causeway state import/),
    );
  });

  test('R20: an owner whose topic was deleted and made again stops', async () => {
    const name = uniqueName('replaced');
    const state = await open({ name });
    await state.commit([{ put: topicRecord('orders') }]);
    await deleteStateTopic(name);
    const topic = createCreatableTopic({
      name: stateTopicName(name),
      numPartitions: 1,
      replicationFactor: 1,
      configs: [createCreatableTopicConfig({ name: 'cleanup.policy', value: 'compact' })],
    });
    const request = createCreateTopicsRequest({ topics: [topic], timeoutMs: 10_000 });
    await admin.send({ kind: 'controller' }, createTopicsApi, request);
    await until('state_topic_replaced', () =>
      state.events.since(0).some((event) => event.event === 'state_topic_replaced'),
    );
    await assert.rejects(
      state.commit([{ put: topicRecord('payments') }]),
      isStateError('NOT_OWNER', /made again/),
    );
  });
});
