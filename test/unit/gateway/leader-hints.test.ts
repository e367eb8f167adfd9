// Hints at who leads a partition now (KIP-951), in every answer that is read or made here: each
// leader that one names has its endpoint in the same answer, or is not named. A hint without was
// one that no client could follow.
//
// Owns: a broker that hints at nodes 1 and 2, of which 2 may have no port of ours. Refuses to know
// answers that pass unread: those name leaders as the broker does, and no endpoint.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCodec } from '../../../protocol/codec.ts';
import * as fetchRequest from '../../../protocol/generated/fetch-request.ts';
import * as fetchResponse from '../../../protocol/generated/fetch-response.ts';
import * as produceRequest from '../../../protocol/generated/produce-request.ts';
import * as produceResponse from '../../../protocol/generated/produce-response.ts';
import * as acknowledgeRequest from '../../../protocol/generated/share-acknowledge-request.ts';
import * as acknowledgeResponse from '../../../protocol/generated/share-acknowledge-response.ts';
import * as shareFetchRequest from '../../../protocol/generated/share-fetch-request.ts';
import * as shareFetchResponse from '../../../protocol/generated/share-fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { createHandlers } from '../../../src/gateway/handler-table.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import {
  exchange,
  FakeSession,
  linkNodeId,
  ordersId,
  otherId,
  promotedAt100,
} from './read-fixtures.ts';

const mirroredId = 'DAAAAAAAAAAAAAAAAAAAAA';
const ids = [ordersId, mirroredId, otherId];
const errorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER;
const endpoints = [1, 2].map((nodeId) => ({ nodeId, host: `real-${nodeId}`, port: 9092 }));
/** By partition. */
const hints = [2, 1].map((leaderId) => ({ leaderId, leaderEpoch: 4 }));

interface Case {
  readonly what: string;
  readonly request: MessageCodec<object>;
  readonly response: MessageCodec<object>;
  readonly versions: readonly number[];
  readonly role: FakeSession['role'];
  /** Who is hinted at while node 2 has a port. */
  readonly named: readonly number[];
  ask(version: number): object;
  /** The broker's, to whatever reaches it. */
  answer(version: number, asked: readonly string[]): object;
  /** Topics of a request that reached the broker. */
  topicsOf(request: object): string[];
}

type Messages<Request, Response> = Omit<
  Case,
  'what' | 'request' | 'response' | 'ask' | 'answer' | 'topicsOf'
> & {
  ask(version: number): Request;
  answer(version: number, asked: readonly string[]): Response;
  topicsOf(request: Request): string[];
};

function oneOf<Request extends object, Response extends object>(
  what: string,
  codecs: { readonly request: MessageCodec<Request>; readonly response: MessageCodec<Response> },
  messages: Messages<Request, Response>,
): Case {
  return { what, ...codecs, ...messages } as unknown as Case;
}

const broker = { kind: 'broker', nodeId: 1 } as const;
const link = { kind: 'link' } as const;

const produceCodecs = {
  request: produceRequest.produceRequestCodec,
  response: produceResponse.produceResponseCodec,
};
const partitionData = [0, 1].map((index) =>
  produceRequest.createPartitionProduceData({ index, records: Buffer.alloc(1) }),
);
const writes = {
  versions: [13],
  ask: () =>
    produceRequest.createProduceRequest({
      acks: -1,
      topicData: ids.map((topicId) =>
        produceRequest.createTopicProduceData({ topicId, partitionData }),
      ),
    }),
  topicsOf: ({ topicData }: produceRequest.ProduceRequest) =>
    topicData.map(({ topicId }) => topicId),
  answer: (_version: number, asked: readonly string[]) =>
    produceResponse.createProduceResponse({
      nodeEndpoints: endpoints.map(produceResponse.createNodeEndpoint),
      responses: asked.map((topicId) =>
        produceResponse.createTopicProduceResponse({
          topicId,
          partitionResponses: hints.map((hint, index) =>
            produceResponse.createPartitionProduceResponse({
              index,
              errorCode,
              baseOffset: -1n,
              currentLeader: produceResponse.createLeaderIdAndEpoch(hint),
            }),
          ),
        }),
      ),
    }),
};

const fetchCodecs = {
  request: fetchRequest.fetchRequestCodec,
  response: fetchResponse.fetchResponseCodec,
};

function reads(topics: readonly (readonly [string, string])[]) {
  return (version: number) =>
    fetchRequest.createFetchRequest({
      topics: topics.map(([topic, topicId]) =>
        fetchRequest.createFetchTopic({
          ...(version >= 13 ? { topicId } : { topic }),
          partitions: [0, 1].map((partition) =>
            // Below V0, so that it is fenced here where the topic is promoted.
            fetchRequest.createFetchPartition({ partition, currentLeaderEpoch: 1 }),
          ),
        }),
      ),
    });
}

const fetched = {
  topicsOf: ({ topics }: fetchRequest.FetchRequest) =>
    topics.map(({ topic, topicId }) => topic || topicId),
  answer: (version: number, asked: readonly string[]) =>
    fetchResponse.createFetchResponse({
      nodeEndpoints: version >= 16 ? endpoints.map(fetchResponse.createNodeEndpoint) : [],
      responses: asked.map((topic) =>
        fetchResponse.createFetchableTopicResponse({
          ...(version >= 13 ? { topicId: topic } : { topic }),
          partitions: hints.map((hint, partitionIndex) =>
            fetchResponse.createPartitionData({
              partitionIndex,
              errorCode,
              highWatermark: -1n,
              records: Buffer.alloc(0),
              currentLeader: fetchResponse.createLeaderIdAndEpoch(hint),
            }),
          ),
        }),
      ),
    }),
};

const cases: readonly Case[] = [
  oneOf('Produce, answered in part', produceCodecs, { ...writes, role: broker, named: [1, 2] }),
  oneOf('Produce, passed', produceCodecs, {
    ...writes,
    ask: () => {
      const request = writes.ask();
      return { ...request, topicData: request.topicData.slice(2) };
    },
    role: broker,
    named: [1, 2],
  }),
  oneOf('Produce at the link node', produceCodecs, { ...writes, role: link, named: [2] }),
  oneOf('Fetch at the link node', fetchCodecs, {
    ...fetched,
    ask: reads([
      ['orders', ordersId],
      ['mirrored', mirroredId],
    ]),
    versions: [12, 15, 16, 18],
    role: link,
    named: [2, linkNodeId],
  }),
  oneOf('Fetch, merged', fetchCodecs, {
    ...fetched,
    ask: reads([
      ['orders', ordersId],
      ['mirrored', mirroredId],
      ['plain', otherId],
    ]),
    versions: [12, 15, 16, 18],
    role: broker,
    named: [1, 2, linkNodeId],
  }),
  oneOf('Fetch, of a broker without version 15', fetchCodecs, {
    ...fetched,
    ask: reads([['plain', otherId]]),
    versions: [16, 18],
    role: broker,
    named: [1, 2],
  }),
  oneOf(
    'ShareFetch',
    {
      request: shareFetchRequest.shareFetchRequestCodec,
      response: shareFetchResponse.shareFetchResponseCodec,
    },
    {
      versions: [1, 2],
      role: broker,
      named: [1, 2],
      ask: () =>
        shareFetchRequest.createShareFetchRequest({
          groupId: 's',
          memberId: 'm',
          topics: ids.map((topicId) =>
            shareFetchRequest.createFetchTopic({
              topicId,
              partitions: [0, 1].map((partitionIndex) =>
                shareFetchRequest.createFetchPartition({ partitionIndex }),
              ),
            }),
          ),
        }),
      topicsOf: ({ topics }) => topics.map(({ topicId }) => topicId),
      answer: (_version, asked) =>
        shareFetchResponse.createShareFetchResponse({
          nodeEndpoints: endpoints.map(shareFetchResponse.createNodeEndpoint),
          responses: asked.map((topicId) =>
            shareFetchResponse.createShareFetchableTopicResponse({
              topicId,
              partitions: hints.map((hint, partitionIndex) =>
                shareFetchResponse.createPartitionData({
                  partitionIndex,
                  errorCode,
                  records: Buffer.alloc(0),
                  currentLeader: shareFetchResponse.createLeaderIdAndEpoch(hint),
                }),
              ),
            }),
          ),
        }),
    },
  ),
  oneOf(
    'ShareAcknowledge',
    {
      request: acknowledgeRequest.shareAcknowledgeRequestCodec,
      response: acknowledgeResponse.shareAcknowledgeResponseCodec,
    },
    {
      versions: [1, 2],
      role: broker,
      named: [1, 2],
      ask: () =>
        acknowledgeRequest.createShareAcknowledgeRequest({
          groupId: 's',
          memberId: 'm',
          shareSessionEpoch: 1,
          topics: ids.map((topicId) =>
            acknowledgeRequest.createAcknowledgeTopic({
              topicId,
              partitions: [0, 1].map((partitionIndex) =>
                acknowledgeRequest.createAcknowledgePartition({ partitionIndex }),
              ),
            }),
          ),
        }),
      topicsOf: ({ topics }) => topics.map(({ topicId }) => topicId),
      answer: (_version, asked) =>
        acknowledgeResponse.createShareAcknowledgeResponse({
          nodeEndpoints: endpoints.map(acknowledgeResponse.createNodeEndpoint),
          responses: asked.map((topicId) =>
            acknowledgeResponse.createShareAcknowledgeTopicResponse({
              topicId,
              partitions: hints.map((hint, partitionIndex) =>
                acknowledgeResponse.createPartitionData({
                  partitionIndex,
                  errorCode,
                  currentLeader: acknowledgeResponse.createLeaderIdAndEpoch(hint),
                }),
              ),
            }),
          ),
        }),
    },
  ),
];

interface Hinted {
  readonly leaderId: number;
  readonly leaderEpoch: number;
}

/** What all partitions of an answer say of their leaders, wherever they are in it. */
function hintsIn(value: unknown): Hinted[] {
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return [];
  if ('currentLeader' in value) return [value.currentLeader as Hinted];
  return Object.values(value).flatMap(hintsIn);
}

function sessionOf({ role, request, response, answer, topicsOf, what }: Case): FakeSession {
  const session = new FakeSession(role);
  session.directory.put({
    name: 'orders',
    mode: 'promoted',
    log: null,
    timeline: promotedAt100(),
  });
  session.directory.put({ name: 'mirrored', topicId: mirroredId, mode: 'mirror', log: null });
  for (const name of ['mirrored', 'plain']) {
    session.broker.operations.set(name, session.broker.operations.get('orders') ?? 0);
  }
  if (what.includes('without version 15')) session.upstreamVersions.set(1, { min: 16, max: 18 });
  session.broker.serve(request, response, (asked, version) => answer(version, topicsOf(asked)));
  return session;
}

const handlers = createHandlers(new OwnTopics('__causeway'));

for (const one of cases) {
  for (const version of one.versions) {
    for (const isServed of [true, false]) {
      const given = isServed ? 'all have ports' : 'node 2 has no port';
      test(`fault 16: a hint came without its endpoint: ${one.what}, version ${version}, ${given}`, async () => {
        const session = sessionOf(one);
        if (!isServed) session.unserved.add(2);
        const handler = handlers.get(one.request.apiKey ?? -1);
        assert.ok(handler !== undefined);
        const { response } = await exchange(session, handler, one, version, one.ask(version));
        const found = hintsIn(response);
        const told = found.filter(({ leaderId }) => leaderId >= 0);
        const named = [...new Set(told.map(({ leaderId }) => leaderId))].sort((a, b) => a - b);
        assert.deepEqual(named, isServed ? one.named : one.named.filter((id) => id !== 2));
        for (const { leaderId, leaderEpoch } of found) {
          if (leaderId < 0) assert.equal(leaderEpoch, -1, 'an epoch without its leader');
        }
        assert.ok('nodeEndpoints' in response && Array.isArray(response.nodeEndpoints));
        const there = response.nodeEndpoints.map(({ nodeId }) => nodeId as number);
        const hasNone = 'sessionId' in response && version < 16;
        for (const nodeId of hasNone ? [] : named) assert.ok(there.includes(nodeId), `${nodeId}`);
      });
    }
  }
}
