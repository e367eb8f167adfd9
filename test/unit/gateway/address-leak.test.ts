// Every answer that can name a broker, in every version that we advertise, filled with a broker's
// real address: what goes on to the client never has it. The audit (api-table.test.ts) says which
// answers those are; this is the same by experiment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCodec } from '../../../protocol/codec.ts';
import { addressFacts } from '../../../protocol/field-audit.ts';
import * as describeClusterRequest from '../../../protocol/generated/describe-cluster-request.ts';
import * as describeClusterResponse from '../../../protocol/generated/describe-cluster-response.ts';
import * as describeQuorumRequest from '../../../protocol/generated/describe-quorum-request.ts';
import * as describeQuorumResponse from '../../../protocol/generated/describe-quorum-response.ts';
import * as fetchRequest from '../../../protocol/generated/fetch-request.ts';
import * as fetchResponse from '../../../protocol/generated/fetch-response.ts';
import * as findCoordinatorRequest from '../../../protocol/generated/find-coordinator-request.ts';
import * as findCoordinatorResponse from '../../../protocol/generated/find-coordinator-response.ts';
import * as metadataRequest from '../../../protocol/generated/metadata-request.ts';
import * as metadataResponse from '../../../protocol/generated/metadata-response.ts';
import * as produceRequest from '../../../protocol/generated/produce-request.ts';
import * as produceResponse from '../../../protocol/generated/produce-response.ts';
import * as shareAcknowledgeRequest from '../../../protocol/generated/share-acknowledge-request.ts';
import * as shareAcknowledgeResponse from '../../../protocol/generated/share-acknowledge-response.ts';
import * as shareFetchRequest from '../../../protocol/generated/share-fetch-request.ts';
import * as shareFetchResponse from '../../../protocol/generated/share-fetch-response.ts';
import { apis } from '../../../protocol/index.ts';
import { apiTable } from '../../../src/gateway/api-table.ts';
import { createHandlers } from '../../../src/gateway/handler-table.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { exchange, FakeSession } from './read-fixtures.ts';

const real = { host: 'real-broker.invalid', port: 19_092 };
const endpoint = { nodeId: 2, ...real, rack: null };
const listener = describeQuorumResponse.createListener({ name: 'CONTROLLER', ...real });
const controller = { nodeId: 2, listeners: [listener] };

interface Case {
  readonly request: MessageCodec<object>;
  readonly response: MessageCodec<object>;
  ask(version: number): object;
  answer(version: number): object;
}

function oneOf<Request extends object, Response extends object>(
  request: MessageCodec<Request>,
  response: MessageCodec<Response>,
  messages: { ask(version: number): Request; answer(version: number): Response },
): Case {
  return { request, response, ...messages } as unknown as Case;
}

const cases: readonly Case[] = [
  oneOf(metadataRequest.metadataRequestCodec, metadataResponse.metadataResponseCodec, {
    ask: () => metadataRequest.createMetadataRequest({ topics: [] }),
    answer: () =>
      metadataResponse.createMetadataResponse({
        brokers: [metadataResponse.createMetadataResponseBroker(endpoint)],
      }),
  }),
  oneOf(
    findCoordinatorRequest.findCoordinatorRequestCodec,
    findCoordinatorResponse.findCoordinatorResponseCodec,
    {
      ask: (version) =>
        findCoordinatorRequest.createFindCoordinatorRequest(
          version < 4 ? { key: 'group' } : { coordinatorKeys: ['group'] },
        ),
      answer: (version) =>
        findCoordinatorResponse.createFindCoordinatorResponse(
          version < 4
            ? { nodeId: 2, ...real }
            : {
                coordinators: [
                  findCoordinatorResponse.createCoordinator({ key: 'group', nodeId: 2, ...real }),
                ],
              },
        ),
    },
  ),
  oneOf(
    describeClusterRequest.describeClusterRequestCodec,
    describeClusterResponse.describeClusterResponseCodec,
    {
      ask: () => describeClusterRequest.createDescribeClusterRequest(),
      answer: () =>
        describeClusterResponse.createDescribeClusterResponse({
          brokers: [describeClusterResponse.createDescribeClusterBroker({ brokerId: 2, ...real })],
        }),
    },
  ),
  oneOf(
    describeQuorumRequest.describeQuorumRequestCodec,
    describeQuorumResponse.describeQuorumResponseCodec,
    {
      ask: () => describeQuorumRequest.createDescribeQuorumRequest(),
      answer: (version) =>
        describeQuorumResponse.createDescribeQuorumResponse(
          version < 2 ? {} : { nodes: [describeQuorumResponse.createNode(controller)] },
        ),
    },
  ),
  oneOf(produceRequest.produceRequestCodec, produceResponse.produceResponseCodec, {
    ask: () => produceRequest.createProduceRequest({ acks: -1 }),
    answer: (version) =>
      produceResponse.createProduceResponse(
        version < 10 ? {} : { nodeEndpoints: [produceResponse.createNodeEndpoint(endpoint)] },
      ),
  }),
  oneOf(fetchRequest.fetchRequestCodec, fetchResponse.fetchResponseCodec, {
    ask: () => fetchRequest.createFetchRequest(),
    answer: (version) =>
      fetchResponse.createFetchResponse(
        version < 16 ? {} : { nodeEndpoints: [fetchResponse.createNodeEndpoint(endpoint)] },
      ),
  }),
  oneOf(shareFetchRequest.shareFetchRequestCodec, shareFetchResponse.shareFetchResponseCodec, {
    ask: () => shareFetchRequest.createShareFetchRequest({ groupId: 'g', memberId: 'm' }),
    answer: () =>
      shareFetchResponse.createShareFetchResponse({
        nodeEndpoints: [shareFetchResponse.createNodeEndpoint(endpoint)],
      }),
  }),
  oneOf(
    shareAcknowledgeRequest.shareAcknowledgeRequestCodec,
    shareAcknowledgeResponse.shareAcknowledgeResponseCodec,
    {
      ask: () =>
        shareAcknowledgeRequest.createShareAcknowledgeRequest({ groupId: 'g', memberId: 'm' }),
      answer: () =>
        shareAcknowledgeResponse.createShareAcknowledgeResponse({
          nodeEndpoints: [shareAcknowledgeResponse.createNodeEndpoint(endpoint)],
        }),
    },
  ),
];

test('R2: these are all answers with an address that clients can get', () => {
  const found = new Set<string>();
  for (const { message, parent, versions } of addressFacts()) {
    const api = apis.find(({ name }) => `${name}Response` === message);
    const reviewed = api && apiTable.get(api.key);
    if (reviewed === undefined || reviewed.handling === 'hidden') continue;
    if (Number.parseInt(versions, 10) > reviewed.versionMax) continue;
    // The endpoint of an application, not of a broker.
    if (!/userEndpoint/i.test(parent)) found.add(message);
  }
  assert.deepEqual([...found].sort(), cases.map(({ response }) => response.name).sort());
});

for (const { request, response, ask, answer } of cases) {
  const key = request.apiKey ?? -1;
  const reviewed = apiTable.get(key);
  const versionMin = Math.max(reviewed?.versionMin ?? 0, request.versionMin);
  const versionMax = reviewed?.versionMax ?? -1;
  const versions = `${versionMin} to ${versionMax}`;
  test(`R2: ${response.name} never leads past us, versions ${versions}`, async () => {
    assert.ok(versionMax >= versionMin);
    const handler = createHandlers(new OwnTopics('__causeway')).get(key);
    assert.ok(handler);
    for (let version = versionMin; version <= versionMax; version++) {
      const session = new FakeSession({ kind: 'broker', nodeId: 1 });
      const ranges = new Map(
        [...apiTable.values()].map((api) => [
          api.key,
          { min: api.versionMin, max: api.versionMax },
        ]),
      );
      for (const [api, range] of ranges) session.upstreamVersions.set(api, range);
      session.broker.serve(request, response, (_, asked) => answer(asked));
      const answered: { frame: Buffer } = await exchange(
        session,
        handler,
        { request, response },
        version,
        ask(version),
      );
      assert.equal(answered.frame.indexOf(real.host), -1, `version ${version}`);
    }
  });
}
