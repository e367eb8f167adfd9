// ApiVersions over a whole session: the intersection, the fallback for versions that do not exist
// yet, and KIP-1242's check against the identity of the listener.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ApiVersionsRequest,
  createApiVersionsRequest,
  encodeApiVersionsRequest,
} from '../../../protocol/generated/api-versions-request.ts';
import {
  type ApiVersionsResponse,
  decodeApiVersionsResponse,
} from '../../../protocol/generated/api-versions-response.ts';
import { ApiKey, encodeRequestFrame, Reader } from '../../../protocol/index.ts';
import { apiTable } from '../../../src/gateway/api-table.ts';
import type { ListenerRole } from '../../../src/gateway/handler.ts';
import { until } from '../../helpers/wait.ts';
import { linkNodeId } from './read-fixtures.ts';
import { type SessionUnderTest, sessionBetween } from './session-fixtures.ts';
import { int32, requestFrame } from './wire-fixtures.ts';

async function ask(
  fixture: SessionUnderTest,
  apiVersion: number,
  fields: Partial<ApiVersionsRequest> = {},
): Promise<ApiVersionsResponse> {
  const { client } = fixture;
  const answered = client.frames.length;
  const header = { apiKey: ApiKey.ApiVersions, apiVersion, correlationId: 9, clientId: 'c' };
  const request = createApiVersionsRequest({
    ...(apiVersion >= 3 ? { clientSoftwareName: 'soft', clientSoftwareVersion: '1.2' } : {}),
    ...fields,
  });
  const chunks = encodeRequestFrame(header, (writer) =>
    encodeApiVersionsRequest(writer, request, apiVersion),
  );
  client.socket.write(Buffer.concat(chunks));
  await until('the answer', () => client.frames.length > answered, { intervalMs: 1 });
  const frame = client.frames.at(-1) ?? Buffer.alloc(0);
  assert.equal(frame.readInt32BE(0), 9);
  return decodeAny(frame, apiVersion);
}

function decodeAny(frame: Buffer, apiVersion: number): ApiVersionsResponse {
  const isFallback = frame.readInt16BE(4) === 35;
  const reader = new Reader(frame, 4);
  const response = decodeApiVersionsResponse(reader, isFallback ? 0 : apiVersion);
  assert.equal(reader.remaining, 0);
  return response;
}

test('what is not reviewed or hidden is not advertised, at any version', async () => {
  for (let version = 0; version <= 5; version++) {
    const fixture = await sessionBetween({});
    try {
      const response = await ask(fixture, version);
      assert.equal(response.errorCode, 0);
      const keys = response.apiKeys.map(({ apiKey }) => apiKey);
      const expected = [...apiTable.values()].filter(({ handling }) => handling !== 'hidden');
      assert.deepEqual(
        keys.sort((a, b) => a - b),
        expected.map(({ key }) => key).sort((a, b) => a - b),
      );
      const produce = response.apiKeys.find(({ apiKey }) => apiKey === ApiKey.Produce);
      assert.deepEqual([produce?.minVersion, produce?.maxVersion], [0, 13]);
      const quorum = response.apiKeys.find(({ apiKey }) => apiKey === ApiKey.DescribeQuorum);
      assert.equal(quorum?.maxVersion, 2);
    } finally {
      fixture.close();
    }
  }
});

test('a version that does not exist yet gets 35 in a version 0 body, and nothing is asked', async () => {
  const fixture = await sessionBetween({});
  try {
    const { client, broker } = fixture;
    // A body that nobody can read: header of a version to come.
    const frame = requestFrame(
      { apiKey: ApiKey.ApiVersions, apiVersion: 77, correlationId: 5, clientId: null },
      Buffer.from([0xff, 0xff, 0xff]),
    );
    client.socket.write(frame);
    await until('the answer', () => client.frames.length === 1);
    const response = decodeAny(client.frames[0] ?? Buffer.alloc(0), 77);
    assert.equal(response.errorCode, 35);
    assert.deepEqual(
      response.apiKeys.map(({ apiKey, minVersion, maxVersion }) => [
        apiKey,
        minVersion,
        maxVersion,
      ]),
      [[ApiKey.ApiVersions, 0, 5]],
    );
    assert.equal(broker.sockets.size, 0, 'no upstream was opened for it');
    assert.equal((await ask(fixture, 3)).errorCode, 0);
  } finally {
    fixture.close();
  }
});

const roles: readonly [ListenerRole, number][] = [
  [{ kind: 'broker', nodeId: 1 }, 1],
  [{ kind: 'link' }, linkNodeId],
];

for (const [role, own] of roles) {
  test(`KIP-1242 is checked against the ${role.kind} listener`, async () => {
    const clusterId = 'destination';
    const cases: readonly [Partial<ApiVersionsRequest>, number][] = [
      [{}, 0],
      [{ clusterId, nodeId: own }, 0],
      [{ clusterId, nodeId: own + 1 }, 129],
      [{ clusterId: 'another', nodeId: own }, 129],
      [{ clusterId }, 42],
      [{ nodeId: own }, 42],
    ];
    for (const [identity, errorCode] of cases) {
      const fixture = await sessionBetween({ role });
      try {
        const response = await ask(fixture, 5, identity);
        assert.equal(response.errorCode, errorCode, JSON.stringify(identity));
        assert.equal(response.apiKeys.length > 0, errorCode === 0);
      } finally {
        fixture.close();
      }
    }
  });
}

test('the summary of a connection names client and software', async () => {
  const fixture = await sessionBetween({});
  try {
    await ask(fixture, 3);
    fixture.client.socket.end();
    await until('the summary', () => fixture.summaries.length === 1);
    const [summary] = fixture.summaries;
    assert.equal(summary?.clientId, 'c');
    assert.equal(summary?.software, 'soft/1.2');
    assert.ok((summary?.bytesFromClient ?? 0) > 0 && (summary?.bytesToClient ?? 0) > 100);
    assert.ok((summary?.upstreamLocalPort ?? 0) > 0);
    assert.equal(summary?.client ?? '', 'client:1', 'as it was accepted');
  } finally {
    fixture.close();
  }
});

test('R14: of a long name of its software a connection keeps the beginning', async () => {
  const fixture = await sessionBetween({});
  try {
    const clientSoftwareName = 's'.repeat(32_000);
    await ask(fixture, 3, { clientSoftwareName, clientSoftwareVersion: '1' });
    fixture.client.socket.end();
    await until('the summary', () => fixture.summaries.length === 1);
    assert.match(fixture.summaries[0]?.software ?? '', /^s{99}…\/1$/);
  } finally {
    fixture.close();
  }
});

test('a client that does not ask is served all the same, and the broker is asked once', async () => {
  const fixture = await sessionBetween({});
  try {
    const { client, broker, session } = fixture;
    broker.script = ({ reply }) => reply(Buffer.from('ok'));
    const request = (correlationId: number): Buffer =>
      requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId });
    client.socket.write(Buffer.concat([request(1), request(2)]));
    await until('both answers', () => client.frames.length === 2);
    assert.deepEqual(client.frames, [
      Buffer.concat([int32(1), Buffer.from('ok')]),
      Buffer.concat([int32(2), Buffer.from('ok')]),
    ]);
    assert.ok(session.upstreamVersions.size > 50);
  } finally {
    fixture.close();
  }
});
