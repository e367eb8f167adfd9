// Joining a group that is being handed over: every kind of member is told to try again, in every
// version; the destination does not hear of it. All other groups and members are not touched.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  consumerGroupHeartbeatRequestCodec,
  createConsumerGroupHeartbeatRequest,
} from '../../../protocol/generated/consumer-group-heartbeat-request.ts';
import {
  consumerGroupHeartbeatResponseCodec,
  createConsumerGroupHeartbeatResponse,
} from '../../../protocol/generated/consumer-group-heartbeat-response.ts';
import {
  createJoinGroupRequest,
  joinGroupRequestCodec,
} from '../../../protocol/generated/join-group-request.ts';
import {
  createJoinGroupResponse,
  joinGroupResponseCodec,
} from '../../../protocol/generated/join-group-response.ts';
import {
  createStreamsGroupHeartbeatRequest,
  streamsGroupHeartbeatRequestCodec,
} from '../../../protocol/generated/streams-group-heartbeat-request.ts';
import {
  createStreamsGroupHeartbeatResponse,
  streamsGroupHeartbeatResponseCodec,
} from '../../../protocol/generated/streams-group-heartbeat-response.ts';
import { consumerGroupHeartbeatHandler } from '../../../src/gateway/handlers/consumer-group-heartbeat.ts';
import {
  joinGroupHandler,
  streamsGroupHeartbeatHandler,
} from '../../../src/gateway/handlers/group-joins.ts';
import { exchange, FakeSession } from './read-fixtures.ts';

const loading = 14;

function session(): FakeSession {
  const made = new FakeSession({ kind: 'broker', nodeId: 1 });
  made.heldGroups.add('held');
  return made;
}

const join = { request: joinGroupRequestCodec, response: joinGroupResponseCodec };
const consumer = {
  request: consumerGroupHeartbeatRequestCodec,
  response: consumerGroupHeartbeatResponseCodec,
};
const streams = {
  request: streamsGroupHeartbeatRequestCodec,
  response: streamsGroupHeartbeatResponseCodec,
};

async function joins(groupId: string, version: number) {
  const asking = session();
  asking.broker.serve(join.request, join.response, () =>
    createJoinGroupResponse({ memberId: 'm', protocolName: 'range' }),
  );
  const request = createJoinGroupRequest({ groupId, protocolType: 'consumer' });
  const { response } = await exchange(asking, joinGroupHandler, join, version, request);
  return { code: response.errorCode, asked: asking.broker.seen.length };
}

async function heartbeats(kind: 'consumer' | 'streams', groupId: string, memberEpoch: number) {
  const asking = session();
  const fields = { groupId, memberId: 'm', memberEpoch };
  if (kind === 'consumer') {
    asking.broker.serve(consumer.request, consumer.response, () =>
      createConsumerGroupHeartbeatResponse(),
    );
    const request = createConsumerGroupHeartbeatRequest(fields);
    const handler = consumerGroupHeartbeatHandler;
    const { response } = await exchange(asking, handler, consumer, 1, request);
    return { code: response.errorCode, asked: asking.broker.seen.length };
  }
  asking.broker.serve(streams.request, streams.response, () =>
    createStreamsGroupHeartbeatResponse(),
  );
  const request = createStreamsGroupHeartbeatRequest(fields);
  const handler = streamsGroupHeartbeatHandler;
  const { response } = await exchange(asking, handler, streams, 0, request);
  return { code: response.errorCode, asked: asking.broker.seen.length };
}

test('a classic member that joins a held group waits, in every version', async () => {
  for (let version = 0; version <= 9; version++) {
    assert.deepEqual(await joins('held', version), { code: loading, asked: 0 });
    assert.deepEqual(await joins('free', version), { code: 0, asked: 1 });
  }
});

for (const kind of ['consumer', 'streams'] as const) {
  test(`a ${kind} member that joins a held group waits; one that is in it does not`, async () => {
    assert.deepEqual(await heartbeats(kind, 'held', 0), { code: loading, asked: 0 });
    assert.deepEqual(await heartbeats(kind, 'free', 0), { code: 0, asked: 1 });
    assert.deepEqual(await heartbeats(kind, 'held', 3), { code: 0, asked: 1 });
    assert.deepEqual(await heartbeats(kind, 'held', -1), { code: 0, asked: 1 });
  });
}
