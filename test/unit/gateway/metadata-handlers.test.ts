// Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator and OffsetFetch: addresses
// (R2), leaders and epochs (R8), as clients see them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDescribeClusterRequest,
  describeClusterRequestCodec,
} from '../../../protocol/generated/describe-cluster-request.ts';
import {
  createDescribeClusterBroker,
  createDescribeClusterResponse,
  describeClusterResponseCodec,
} from '../../../protocol/generated/describe-cluster-response.ts';
import {
  createDescribeTopicPartitionsRequest,
  describeTopicPartitionsRequestCodec,
} from '../../../protocol/generated/describe-topic-partitions-request.ts';
import {
  createDescribeTopicPartitionsResponse,
  createDescribeTopicPartitionsResponsePartition,
  createDescribeTopicPartitionsResponseTopic,
  describeTopicPartitionsResponseCodec,
} from '../../../protocol/generated/describe-topic-partitions-response.ts';
import {
  createFindCoordinatorRequest,
  findCoordinatorRequestCodec,
} from '../../../protocol/generated/find-coordinator-request.ts';
import {
  createCoordinator,
  createFindCoordinatorResponse,
  findCoordinatorResponseCodec,
} from '../../../protocol/generated/find-coordinator-response.ts';
import {
  createMetadataRequest,
  createMetadataRequestTopic,
  type MetadataRequest,
  metadataRequestCodec,
} from '../../../protocol/generated/metadata-request.ts';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  createMetadataResponsePartition,
  createMetadataResponseTopic,
  metadataResponseCodec,
} from '../../../protocol/generated/metadata-response.ts';
import {
  createOffsetFetchRequest,
  createOffsetFetchRequestGroup,
  offsetFetchRequestCodec,
} from '../../../protocol/generated/offset-fetch-request.ts';
import {
  createOffsetFetchResponse,
  createOffsetFetchResponseGroup,
  createOffsetFetchResponsePartition,
  createOffsetFetchResponsePartitions,
  createOffsetFetchResponseTopic,
  createOffsetFetchResponseTopics,
  offsetFetchResponseCodec,
} from '../../../protocol/generated/offset-fetch-response.ts';
import { AdvertisedEpochs } from '../../../src/gateway/advertised-epochs.ts';
import { describeClusterHandler } from '../../../src/gateway/handlers/describe-cluster.ts';
import { createDescribeTopicPartitionsHandler } from '../../../src/gateway/handlers/describe-topic-partitions.ts';
import { findCoordinatorHandler } from '../../../src/gateway/handlers/find-coordinator.ts';
import { createMetadataHandler } from '../../../src/gateway/handlers/metadata.ts';
import { createOffsetFetchHandler } from '../../../src/gateway/handlers/offset-fetch.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import { newMirror, splice } from '../../../src/timeline/timeline.ts';
import {
  exchange,
  FakeSession,
  linkNodeId,
  ordersId,
  otherId,
  promotedAt100,
  type TopicFixture,
} from './read-fixtures.ts';

const metadata = { request: metadataRequestCodec, response: metadataResponseCodec };

const mirror: TopicFixture = { name: 'orders', mode: 'mirror', log: null, advertisedEpoch: 5 };
const promoted: TopicFixture = {
  name: 'orders',
  mode: 'promoted',
  log: null,
  timeline: promotedAt100(),
};

function sessionWith(...topics: TopicFixture[]): FakeSession {
  const session = new FakeSession({ kind: 'bootstrap' });
  for (const topic of topics) session.directory.put(topic);
  session.broker.serve(metadataRequestCodec, metadataResponseCodec, (request) =>
    createMetadataResponse({
      clusterId: 'destination',
      controllerId: 2,
      brokers: [1, 2].map((nodeId) =>
        createMetadataResponseBroker({ nodeId, host: `real-${nodeId}`, port: 9092 }),
      ),
      topics: (request.topics ?? []).map(({ name }) =>
        createMetadataResponseTopic({
          name,
          topicId: name === 'orders' ? ordersId : otherId,
          partitions: [
            createMetadataResponsePartition({
              errorCode: 5,
              partitionIndex: 0,
              leaderId: 2,
              leaderEpoch: 3,
              replicaNodes: [1, 2],
              isrNodes: [2],
              offlineReplicas: [1],
            }),
          ],
        }),
      ),
    }),
  );
  return session;
}

function handlers() {
  const parts = { epochs: new AdvertisedEpochs(), ownTopics: new OwnTopics('__causeway') };
  return { ...parts, metadata: createMetadataHandler(parts) };
}

function asking(...names: string[]): MetadataRequest {
  return createMetadataRequest({
    topics: names.map((name) => createMetadataRequestTopic({ name })),
  });
}

test('R2: no version of Metadata shows a real address', async () => {
  for (let version = 0; version <= metadataRequestCodec.versionMax; version++) {
    const session = sessionWith(mirror);
    const { frame, response } = await exchange(
      session,
      handlers().metadata,
      metadata,
      version,
      asking('orders', 'plain'),
    );
    assert.equal(frame.includes('real-'), false, `version ${version}`);
    assert.deepEqual(
      response.brokers.map(({ nodeId, host, port }) => [nodeId, host, port]),
      [
        [1, 'proxy', 10_001],
        [2, 'proxy', 10_002],
        [linkNodeId, 'proxy', 10_000],
      ],
    );
    if (version >= 1) assert.equal(response.controllerId, 2);
  }
});

test('a broker for which no port is left took the whole Metadata answer with it', async () => {
  for (const version of [0, 5, 6, 13]) {
    const session = sessionWith();
    session.unserved.add(2);
    const { response, frame } = await exchange(
      session,
      handlers().metadata,
      metadata,
      version,
      asking('plain'),
    );
    assert.equal(frame.includes('real-'), false);
    assert.deepEqual(
      response.brokers.map(({ nodeId }) => nodeId),
      [1],
    );
    const [partition] = response.topics[0]?.partitions ?? [];
    const noLeader = version >= 6 ? 72 : 5;
    assert.deepEqual([partition?.leaderId, partition?.errorCode], [-1, noLeader]);
    assert.deepEqual(partition?.isrNodes, [2]);
  }
});

test('the link node is listed only while something is mirrored', async () => {
  for (const topics of [[], [promoted]]) {
    const { response } = await exchange(
      sessionWith(...topics),
      handlers().metadata,
      metadata,
      12,
      asking('orders'),
    );
    assert.deepEqual(
      response.brokers.map(({ nodeId }) => nodeId),
      [1, 2],
    );
  }
});

test('a mirror is led by the link node at its own epoch, whatever its shell does', async () => {
  for (const mode of ['mirror', 'switching'] as const) {
    const session = sessionWith({ ...mirror, mode });
    const { response } = await exchange(
      session,
      handlers().metadata,
      metadata,
      12,
      asking('orders', 'plain'),
    );
    const [orders, plain] = response.topics.map(({ partitions }) => partitions[0]);
    assert.ok(orders && plain);
    assert.equal(orders.leaderId, linkNodeId);
    assert.equal(orders.leaderEpoch, 5);
    assert.equal(orders.errorCode, 0);
    assert.deepEqual(orders.replicaNodes, [1, 2]);
    assert.deepEqual(orders.isrNodes, [2]);
    assert.deepEqual(orders.offlineReplicas, [1]);
    assert.deepEqual([plain.leaderId, plain.leaderEpoch, plain.errorCode], [2, 3, 5]);
  }
});

test('an intent alone makes a mirror, and forbids to create it by asking', async () => {
  const session = sessionWith({ ...mirror, topicId: null, advertisedEpoch: -1 });
  const { response } = await exchange(
    session,
    handlers().metadata,
    metadata,
    9,
    asking('orders', 'plain'),
  );
  const [orders] = response.topics[0]?.partitions ?? [];
  assert.deepEqual([orders?.leaderId, orders?.leaderEpoch], [linkNodeId, 0]);
  const sent = session.broker.seen.at(-1)?.message as MetadataRequest;
  assert.equal(sent.allowAutoTopicCreation, false);
  await exchange(session, handlers().metadata, metadata, 9, asking('plain'));
  const next = session.broker.seen.at(-1)?.message as MetadataRequest;
  assert.equal(next.allowAutoTopicCreation, true);
});

for (const version of [0, 1, 2, 3]) {
  test(`R3: version ${version}, which cannot say it, does not create a mirror either`, async () => {
    const session = sessionWith({ ...mirror, topicId: null, advertisedEpoch: -1 });
    const request = asking('orders', 'plain');
    const { response } = await exchange(session, handlers().metadata, metadata, version, request);
    assert.deepEqual(
      response.topics.map(({ name, partitions }) => [name, partitions[0]?.leaderId]),
      [
        ['orders', linkNodeId],
        ['plain', 2],
      ],
    );
    const sent = session.broker.seen.at(-1);
    assert.equal(sent?.version, 4);
    assert.equal((sent.message as MetadataRequest).allowAutoTopicCreation, false);
    await exchange(session, handlers().metadata, metadata, version, asking('plain'));
    assert.equal(session.broker.seen.at(-1)?.version, version);
  });
}

test('R8: a promoted topic has its shell leader at the shifted epoch', async () => {
  const { response } = await exchange(
    sessionWith(promoted),
    handlers().metadata,
    metadata,
    12,
    asking('orders'),
  );
  const [partition] = response.topics[0]?.partitions ?? [];
  // Native epoch 2 became V0 = 6 at the splice; the shell is at 3 now.
  assert.deepEqual([partition?.leaderId, partition?.leaderEpoch], [2, 7]);
});

test('R8: a broker that was behind at the splice told of an epoch before V0', async () => {
  const timeline = splice(newMirror(virtualOffset(0n)), {
    virtualEnd: virtualOffset(100n),
    nativeEnd: nativeOffset(8n),
    nativeEpoch: nativeEpoch(9),
    lastVirtualEpoch: virtualEpoch(4),
  });
  const session = sessionWith({ ...promoted, timeline });
  const { response } = await exchange(session, handlers().metadata, metadata, 12, asking('orders'));
  const [partition] = response.topics[0]?.partitions ?? [];
  // It says 3, which would be -1: no epoch at all.
  assert.deepEqual([partition?.leaderId, partition?.leaderEpoch], [2, 5]);
});

test('another topic id under the name of a mirror is an ordinary topic', async () => {
  const session = sessionWith({ ...mirror, topicId: otherId });
  const { response } = await exchange(session, handlers().metadata, metadata, 12, asking('orders'));
  assert.equal(response.topics[0]?.partitions[0]?.leaderId, 2);
});

test('what is not settled has no leader yet', async () => {
  const doubtful = sessionWith({ ...mirror, mode: 'unavailable' });
  const behind = sessionWith();
  behind.directory.isSettled = false;
  for (const session of [doubtful, behind]) {
    const { response } = await exchange(
      session,
      handlers().metadata,
      metadata,
      12,
      asking('orders'),
    );
    const [partition] = response.topics[0]?.partitions ?? [];
    assert.deepEqual(
      [partition?.errorCode, partition?.leaderId, partition?.leaderEpoch],
      [5, -1, -1],
    );
  }
});

test('DescribeTopicPartitions shows the same leaders', async () => {
  const codecs = {
    request: describeTopicPartitionsRequestCodec,
    response: describeTopicPartitionsResponseCodec,
  };
  for (const [topic, leader, epoch] of [
    [mirror, linkNodeId, 5],
    [promoted, 2, 7],
  ] as const) {
    const session = sessionWith(topic);
    session.broker.serve(codecs.request, codecs.response, () =>
      createDescribeTopicPartitionsResponse({
        topics: [
          createDescribeTopicPartitionsResponseTopic({
            name: 'orders',
            topicId: ordersId,
            partitions: [
              createDescribeTopicPartitionsResponsePartition({ leaderId: 2, leaderEpoch: 3 }),
            ],
          }),
        ],
      }),
    );
    const handler = createDescribeTopicPartitionsHandler(handlers());
    const { response } = await exchange(
      session,
      handler,
      codecs,
      0,
      createDescribeTopicPartitionsRequest(),
    );
    const [partition] = response.topics[0]?.partitions ?? [];
    assert.deepEqual([partition?.leaderId, partition?.leaderEpoch], [leader, epoch]);
  }
});

test('R2: DescribeCluster shows our addresses, and no controllers', async () => {
  const codecs = { request: describeClusterRequestCodec, response: describeClusterResponseCodec };
  for (let version = 0; version <= 2; version++) {
    const session = sessionWith(mirror);
    let endpointType = 1;
    session.broker.serve(codecs.request, codecs.response, () =>
      createDescribeClusterResponse({
        clusterId: 'destination',
        controllerId: 1,
        endpointType,
        brokers: [createDescribeClusterBroker({ brokerId: 1, host: 'real-1', port: 9092 })],
      }),
    );
    const ask = () =>
      exchange(session, describeClusterHandler, codecs, version, createDescribeClusterRequest());
    const { response, frame } = await ask();
    assert.equal(frame.includes('real-'), false);
    assert.deepEqual(
      response.brokers.map(({ brokerId, port }) => [brokerId, port]),
      [
        [1, 10_001],
        [linkNodeId, 10_000],
      ],
    );
    session.unserved.add(1);
    assert.deepEqual(
      (await ask()).response.brokers.map(({ brokerId }) => brokerId),
      [linkNodeId],
    );
    if (version === 0) continue;
    endpointType = 2;
    assert.deepEqual((await ask()).response.brokers, []);
  }
});

test('R2: FindCoordinator shows our addresses, and errors as they are', async () => {
  const codecs = { request: findCoordinatorRequestCodec, response: findCoordinatorResponseCodec };
  for (let version = 0; version <= 6; version++) {
    const session = sessionWith();
    const isBatched = version >= 4;
    const found = { nodeId: 2, host: 'real-2', port: 9092 };
    const missing = { nodeId: -1, host: '', port: -1, errorCode: 15 };
    let isFound = true;
    session.broker.serve(codecs.request, codecs.response, () =>
      createFindCoordinatorResponse(
        isBatched
          ? { coordinators: [createCoordinator(found), createCoordinator(missing)] }
          : isFound
            ? found
            : missing,
      ),
    );
    const ask = () =>
      exchange(
        session,
        findCoordinatorHandler,
        codecs,
        version,
        createFindCoordinatorRequest(isBatched ? { coordinatorKeys: ['g', 'h'] } : { key: 'g' }),
      );
    const { response, frame } = await ask();
    assert.equal(frame.includes('real-'), false);
    const [first = response, second] = response.coordinators;
    assert.deepEqual([first.nodeId, first.host, first.port], [2, 'proxy', 10_002]);
    session.unserved.add(2);
    const unserved = (await ask()).response;
    const [one = unserved] = unserved.coordinators;
    assert.deepEqual([one.nodeId, one.host, one.port, one.errorCode], [-1, '', -1, 15]);
    isFound = false;
    const none = isBatched ? second : (await ask()).response;
    assert.deepEqual([none?.nodeId, none?.host, none?.port, none?.errorCode], [-1, '', -1, 15]);
  }
});

test('R8: OffsetFetch never gives an epoch above the advertised one', async () => {
  const codecs = { request: offsetFetchRequestCodec, response: offsetFetchResponseCodec };
  const { epochs, ownTopics } = handlers();
  const handler = createOffsetFetchHandler(epochs);
  const committed = [4, 5, 6, 7, 8];
  const fetched = async (session: FakeSession, version: number): Promise<number[]> => {
    session.broker.serve(codecs.request, codecs.response, () => {
      const partition = (committedLeaderEpoch: number) => ({
        partitionIndex: 0,
        committedOffset: 9n,
        committedLeaderEpoch,
      });
      return createOffsetFetchResponse(
        version < 8
          ? {
              topics: [
                createOffsetFetchResponseTopic({
                  name: 'orders',
                  partitions: committed.map((epoch) =>
                    createOffsetFetchResponsePartition(partition(epoch)),
                  ),
                }),
              ],
            }
          : {
              groups: [
                createOffsetFetchResponseGroup({
                  groupId: 'g',
                  topics: [
                    createOffsetFetchResponseTopics({
                      ...(version >= 10 ? { topicId: ordersId } : { name: 'orders' }),
                      partitions: committed.map((epoch) =>
                        createOffsetFetchResponsePartitions(partition(epoch)),
                      ),
                    }),
                  ],
                }),
              ],
            },
      );
    });
    const request = createOffsetFetchRequest(
      version < 8
        ? { groupId: 'g', topics: [] }
        : { groups: [createOffsetFetchRequestGroup({ groupId: 'g', topics: null })] },
    );
    const { response } = await exchange(session, handler, codecs, version, request);
    const topics = version < 8 ? response.topics : (response.groups[0]?.topics ?? []);
    return (topics[0]?.partitions ?? []).map((one) => {
      assert.equal(one.committedOffset, 9n);
      return one.committedLeaderEpoch;
    });
  };
  for (const version of [5, 7, 8, 9, 10]) {
    assert.deepEqual(await fetched(sessionWith(mirror), version), [4, 5, -1, -1, -1]);
    // V0 is 6, and nobody has asked for metadata since the start.
    const atFirst = new FakeSession({ kind: 'bootstrap' });
    atFirst.directory.put({ ...promoted, topicId: ordersId });
    if (version === 5) assert.deepEqual(await fetched(atFirst, 5), [4, 5, 6, -1, -1]);
    const session = sessionWith(promoted);
    await exchange(
      session,
      createMetadataHandler({ epochs, ownTopics }),
      metadata,
      12,
      asking('orders'),
    );
    assert.deepEqual(await fetched(session, version), [4, 5, 6, 7, -1]);
    const plain = sessionWith({ ...mirror, name: 'another', topicId: otherId });
    assert.deepEqual(await fetched(plain, version), committed);
    const unsettled = sessionWith();
    unsettled.directory.isSettled = false;
    assert.deepEqual(await fetched(unsettled, version), [-1, -1, -1, -1, -1]);
  }
});
