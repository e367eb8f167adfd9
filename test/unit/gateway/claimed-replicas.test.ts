// A client that claims to be a replica: the destination's own never come this way, and one that is
// believed moves the high watermark and the ISR of whom it claims to be.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createReplicaState } from '../../../protocol/generated/fetch-request.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { answered } from './fetch-fixtures.ts';
import { copy, fetch, fetchesSeen, virtualBroker } from './promoted-fixtures.ts';
import { FakeSession, otherId } from './read-fixtures.ts';

const ordinary = { name: 'ordinary', id: otherId, fetchOffset: 5n };

for (const version of [4, 7, 12, 14, 15, 16, 18]) {
  test(`version ${version}: a Fetch of a claimed replica went to the broker`, async () => {
    const claim =
      version < 15
        ? { replicaId: 2 }
        : { replicaState: createReplicaState({ replicaId: 2, replicaEpoch: 1n }) };
    const session = virtualBroker();
    for (const asks of [[ordinary], [{ fetchOffset: 103n }, ordinary], [{ fetchOffset: 60n }]]) {
      const { disposition, response } = await fetch(session, asks, claim, version);
      assert.equal(disposition, 'answer');
      for (const [index] of asks.entries()) {
        const { errorCode, highWatermark, records } = answered(response, index);
        assert.equal(errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 'as without CLUSTER_ACTION');
        assert.deepEqual([highWatermark, records?.length ?? 0], [-1n, 0]);
      }
      assert.equal(response.sessionId, 0);
    }
    if (version >= 7) {
      const goesOn = { ...claim, sessionId: 77, sessionEpoch: 2 };
      const { response } = await fetch(session, [], goesOn, version);
      assert.equal(response.errorCode, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 'begun as a consumer');
    }
    assert.deepEqual(fetchesSeen(session), []);
  });
}

test('the link node reads nothing to a claimed replica either', async () => {
  const session = new FakeSession({ kind: 'link' });
  session.directory.put({ name: 'orders', mode: 'mirror', log: copy() });
  const { response } = await fetch(session, [{ fetchOffset: 60n }], { replicaId: 2 }, 12);
  assert.equal(answered(response).errorCode, ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  const reads = await fetch(session, [{ fetchOffset: 60n }], { replicaId: -2 }, 12);
  assert.equal(answered(reads.response).errorCode, ErrorCode.NONE, 'a tool that only looks');
});
