// Share groups on topics of ours, handler by handler: mirrors are refused, offsets of promoted
// topics (S = 100, n = 8, V0 = 6) are native at the broker and virtual at the client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AlterShareGroupOffsetsRequest,
  alterShareGroupOffsetsRequestCodec,
  createAlterShareGroupOffsetsRequest,
  createAlterShareGroupOffsetsRequestPartition,
  createAlterShareGroupOffsetsRequestTopic,
} from '../../../protocol/generated/alter-share-group-offsets-request.ts';
import {
  alterShareGroupOffsetsResponseCodec,
  createAlterShareGroupOffsetsResponse,
} from '../../../protocol/generated/alter-share-group-offsets-response.ts';
import {
  createDescribeShareGroupOffsetsRequest,
  describeShareGroupOffsetsRequestCodec,
} from '../../../protocol/generated/describe-share-group-offsets-request.ts';
import {
  createDescribeShareGroupOffsetsResponse,
  createDescribeShareGroupOffsetsResponseGroup,
  createDescribeShareGroupOffsetsResponsePartition,
  createDescribeShareGroupOffsetsResponseTopic,
  describeShareGroupOffsetsResponseCodec,
} from '../../../protocol/generated/describe-share-group-offsets-response.ts';
import {
  createAcknowledgementBatch as createAcknowledged,
  createAcknowledgePartition,
  createAcknowledgeTopic,
  createShareAcknowledgeRequest,
  type ShareAcknowledgeRequest,
  shareAcknowledgeRequestCodec,
} from '../../../protocol/generated/share-acknowledge-request.ts';
import {
  createShareAcknowledgeResponse,
  shareAcknowledgeResponseCodec,
} from '../../../protocol/generated/share-acknowledge-response.ts';
import {
  createAcknowledgementBatch,
  createFetchPartition,
  createFetchTopic,
  createShareFetchRequest,
  type ShareFetchRequest,
  shareFetchRequestCodec,
} from '../../../protocol/generated/share-fetch-request.ts';
import {
  createAcquiredRecords,
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionData,
  createShareFetchableTopicResponse,
  createShareFetchResponse,
  shareFetchResponseCodec,
} from '../../../protocol/generated/share-fetch-response.ts';
import { alterShareGroupOffsetsHandler } from '../../../src/gateway/handlers/alter-share-group-offsets.ts';
import { describeShareGroupOffsetsHandler } from '../../../src/gateway/handlers/describe-share-group-offsets.ts';
import { shareAcknowledgeHandler } from '../../../src/gateway/handlers/share-acknowledge.ts';
import { shareFetchHandler } from '../../../src/gateway/handlers/share-fetch.ts';
import { batch } from './memory-mirror-log.ts';
import {
  batchesOf,
  exchange,
  FakeSession,
  mirror,
  ordersId,
  otherId,
  promoted,
  type TopicFixture,
} from './read-fixtures.ts';

const fetchCodecs = { request: shareFetchRequestCodec, response: shareFetchResponseCodec };
const ackCodecs = {
  request: shareAcknowledgeRequestCodec,
  response: shareAcknowledgeResponseCodec,
};
const describeCodecs = {
  request: describeShareGroupOffsetsRequestCodec,
  response: describeShareGroupOffsetsResponseCodec,
};
const alterCodecs = {
  request: alterShareGroupOffsetsRequestCodec,
  response: alterShareGroupOffsetsResponseCodec,
};

function sessionWith(topic: TopicFixture, role: 'broker' | 'link' = 'broker'): FakeSession {
  const session = new FakeSession(role === 'broker' ? { kind: role, nodeId: 1 } : { kind: role });
  session.directory.put(topic);
  return session;
}

/** Of both topics; partition 0 acknowledges [101, 103]. */
function shareFetch(shareSessionEpoch = 0): ShareFetchRequest {
  const acknowledgementBatches = [
    createAcknowledgementBatch({ firstOffset: 101n, lastOffset: 103n, acknowledgeTypes: [1] }),
  ];
  const partitions = [createFetchPartition({ partitionIndex: 0, acknowledgementBatches })];
  return createShareFetchRequest({
    groupId: 's',
    memberId: 'm',
    shareSessionEpoch,
    topics: [ordersId, otherId].map((topicId) => createFetchTopic({ topicId, partitions })),
  });
}

test('ShareFetch: a mirror is taken out and refused, the rest goes on, endpoints are ours', async () => {
  const session = sessionWith(mirror);
  session.broker.serve(fetchCodecs.request, fetchCodecs.response, () =>
    createShareFetchResponse({
      nodeEndpoints: [createNodeEndpoint({ nodeId: 2, host: 'real-2', port: 9092 })],
    }),
  );
  const { response, frame } = await exchange(
    session,
    shareFetchHandler,
    fetchCodecs,
    2,
    shareFetch(),
  );
  assert.equal(frame.includes('real-'), false);
  const [refused] = response.responses;
  assert.equal(refused?.topicId, ordersId);
  assert.equal(refused?.partitions[0]?.errorCode, 29);
  assert.match(refused?.partitions[0]?.errorMessage ?? '', /mirror over link dr/);
  assert.equal(refused?.partitions[0]?.acknowledgeErrorCode, 29);
  assert.equal(refused?.partitions[0]?.currentLeader.leaderId, -1);
  const sent = session.broker.seen.at(-1)?.message as ShareFetchRequest;
  assert.deepEqual(
    sent.topics.map(({ topicId }) => topicId),
    [otherId],
  );
});

test('ShareFetch: a promoted topic is native at the broker and virtual at the client', async () => {
  const session = sessionWith(promoted);
  session.broker.serve(fetchCodecs.request, fetchCodecs.response, () => {
    const partition = (partitionIndex: number) =>
      createPartitionData({
        partitionIndex,
        currentLeader: createLeaderIdAndEpoch({ leaderId: 1, leaderEpoch: 2 }),
        records: batch(8n, 4, { epoch: 2 }),
        acquiredRecords: [createAcquiredRecords({ firstOffset: 8n, lastOffset: 11n })],
      });
    return createShareFetchResponse({
      responses: [ordersId, otherId].map((topicId) =>
        createShareFetchableTopicResponse({ topicId, partitions: [partition(0), partition(1)] }),
      ),
    });
  });
  const { response } = await exchange(session, shareFetchHandler, fetchCodecs, 2, shareFetch());
  const sent = session.broker.seen.at(-1)?.message as ShareFetchRequest;
  assert.deepEqual(
    sent.topics.map(({ partitions }) => partitions[0]?.acknowledgementBatches[0]?.firstOffset),
    [9n, 101n],
  );
  assert.equal(sent.topics[0]?.partitions[0]?.acknowledgementBatches[0]?.lastOffset, 11n);
  const [ours, other] = response.responses.map(({ partitions }) => partitions);
  assert.deepEqual(batchesOf(ours?.[0]?.records ?? null), [{ base: 100n, epoch: 6 }]);
  assert.equal(ours?.[0]?.acquiredRecords[0]?.firstOffset, 100n);
  assert.equal(ours?.[0]?.acquiredRecords[0]?.lastOffset, 103n);
  assert.equal(ours?.[0]?.currentLeader.leaderEpoch, 6);
  // Added after the promotion, and another topic: the broker's own.
  for (const plain of [ours?.[1], other?.[0]]) {
    assert.deepEqual(batchesOf(plain?.records ?? null), [{ base: 8n, epoch: 2 }]);
    assert.equal(plain?.acquiredRecords[0]?.firstOffset, 8n);
    assert.equal(plain?.currentLeader.leaderEpoch, 2);
  }
});

test('ShareFetch: what we cannot place ends the share session and gives no native offset', async () => {
  const session = sessionWith(promoted);
  session.broker.serve(fetchCodecs.request, fetchCodecs.response, () => {
    // The answer comes when the topic can no longer be placed: only the session named it.
    session.directory.put({ ...promoted, mode: 'unavailable' });
    const data = createPartitionData({
      records: batch(8n, 4),
      acquiredRecords: [createAcquiredRecords({ firstOffset: 8n, lastOffset: 11n })],
    });
    const topic = createShareFetchableTopicResponse({ topicId: ordersId, partitions: [data] });
    return createShareFetchResponse({ responses: [topic] });
  });
  const bare = createShareFetchRequest({ groupId: 's', memberId: 'm', shareSessionEpoch: 4 });
  const first = await exchange(session, shareFetchHandler, fetchCodecs, 2, bare);
  const data = first.response.responses[0]?.partitions[0];
  assert.equal(data?.errorCode, 6);
  assert.deepEqual([data?.records?.length, data?.acquiredRecords], [0, []]);
  const asked = session.broker.seen.length;
  const second = await exchange(session, shareFetchHandler, fetchCodecs, 2, shareFetch(5));
  assert.equal(second.response.errorCode, 122);
  assert.equal(session.broker.seen.length, asked, 'the broker is not asked');
});

test('the link node answers share requests itself: it has no share sessions', async () => {
  const session = sessionWith(mirror, 'link');
  const full = await exchange(session, shareFetchHandler, fetchCodecs, 2, shareFetch());
  assert.deepEqual(
    full.response.responses.map(({ partitions }) => partitions[0]?.errorCode),
    [29, 6],
  );
  const incremental = await exchange(session, shareFetchHandler, fetchCodecs, 2, shareFetch(1));
  assert.equal(incremental.response.errorCode, 122);
  const request = createShareAcknowledgeRequest({ groupId: 's', memberId: 'm' });
  const acknowledged = await exchange(session, shareAcknowledgeHandler, ackCodecs, 2, request);
  assert.equal(acknowledged.response.errorCode, 122);
  assert.deepEqual(session.broker.seen, []);
});

test('ShareAcknowledge: promoted topics in native offsets, mirrors refused', async () => {
  const range = createAcknowledged({ firstOffset: 100n, lastOffset: 102n, acknowledgeTypes: [1] });
  const partition = createAcknowledgePartition({ acknowledgementBatches: [range] });
  const request = createShareAcknowledgeRequest({
    groupId: 's',
    memberId: 'm',
    shareSessionEpoch: 3,
    topics: [createAcknowledgeTopic({ topicId: ordersId, partitions: [partition] })],
  });
  for (const topic of [promoted, mirror]) {
    const session = sessionWith(topic);
    session.broker.serve(ackCodecs.request, ackCodecs.response, () =>
      createShareAcknowledgeResponse(),
    );
    const { response } = await exchange(session, shareAcknowledgeHandler, ackCodecs, 2, request);
    const sent = session.broker.seen.at(-1)?.message as ShareAcknowledgeRequest;
    const [batchSent] = sent.topics[0]?.partitions[0]?.acknowledgementBatches ?? [];
    const isPromoted = topic === promoted;
    assert.deepEqual(
      [batchSent?.firstOffset, batchSent?.lastOffset],
      isPromoted ? [8n, 10n] : [undefined, undefined],
    );
    const code = response.responses[0]?.partitions[0]?.errorCode;
    assert.equal(code, isPromoted ? undefined : 29);
  }
});

test('DescribeShareGroupOffsets: virtual offsets, hidden ones are S and no lag', async () => {
  const request = createDescribeShareGroupOffsetsRequest({ groups: [] });
  const describe = async (topic: TopicFixture, startOffset: bigint, lag: bigint) => {
    const session = sessionWith(topic);
    const partitions = [
      createDescribeShareGroupOffsetsResponsePartition({ startOffset, leaderEpoch: 2, lag }),
    ];
    session.broker.serve(describeCodecs.request, describeCodecs.response, () =>
      createDescribeShareGroupOffsetsResponse({
        groups: [
          createDescribeShareGroupOffsetsResponseGroup({
            groupId: 's',
            topics: [
              createDescribeShareGroupOffsetsResponseTopic({
                topicName: 'orders',
                topicId: ordersId,
                partitions,
              }),
            ],
          }),
        ],
      }),
    );
    const handler = describeShareGroupOffsetsHandler;
    const { response } = await exchange(session, handler, describeCodecs, 1, request);
    const [group] = response.groups;
    const found = group?.topics[0]?.partitions[0];
    return [group?.errorCode, found?.startOffset, found?.leaderEpoch, found?.lag];
  };
  assert.deepEqual(await describe(promoted, 10n, 2n), [0, 102n, 6, 2n]);
  assert.deepEqual(await describe(promoted, 0n, 12n), [0, 100n, 6, 4n]);
  assert.deepEqual(await describe(promoted, -1n, -1n), [0, -1n, 6, -1n]);
  assert.deepEqual(await describe(mirror, 0n, 12n), [0, -1n, 0, -1n]);
  const unavailable: TopicFixture = { ...promoted, mode: 'unavailable' };
  assert.deepEqual(await describe(unavailable, 10n, 2n), [14, undefined, undefined, undefined]);
});

test('AlterShareGroupOffsets: below S means S, mirrors are refused, 14 while unsettled', async () => {
  const request = createAlterShareGroupOffsetsRequest({
    groupId: 's',
    topics: ['orders', 'plain'].map((topicName) =>
      createAlterShareGroupOffsetsRequestTopic({
        topicName,
        partitions: [40n, 100n, 107n].map((startOffset) =>
          createAlterShareGroupOffsetsRequestPartition({ startOffset }),
        ),
      }),
    ),
  });
  const alter = async (topic: TopicFixture) => {
    const session = sessionWith(topic);
    session.broker.serve(alterCodecs.request, alterCodecs.response, () =>
      createAlterShareGroupOffsetsResponse(),
    );
    const handler = alterShareGroupOffsetsHandler;
    const { response } = await exchange(session, handler, alterCodecs, 0, request);
    const sent = session.broker.seen.at(-1)?.message as AlterShareGroupOffsetsRequest | undefined;
    const starts = sent?.topics.map(({ partitions }) => partitions.map((one) => one.startOffset));
    return { response, starts };
  };
  const plain = [40n, 100n, 107n];
  assert.deepEqual((await alter(promoted)).starts, [[8n, 8n, 15n], plain]);
  const refused = await alter(mirror);
  assert.deepEqual(refused.starts, [plain]);
  const [topic] = refused.response.responses;
  assert.deepEqual(
    topic?.partitions.map(({ errorCode }) => errorCode),
    [44, 44, 44],
  );
  assert.match(topic?.partitions[0]?.errorMessage ?? '', /share groups cannot read it/);
  const unsettled = await alter({ ...promoted, mode: 'unavailable' });
  assert.deepEqual([unsettled.response.errorCode, unsettled.starts], [14, undefined]);
});
