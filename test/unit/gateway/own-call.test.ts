// A request of our own on a client's connection: an answer that cannot be decoded is the broker's
// doing, anything else that goes wrong with it is ours, and callers can tell them apart.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtocolError } from '../../../protocol/index.ts';
import { metadataApi } from '../../../src/cluster/apis.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { metadataRequest } from '../../../src/cluster/metadata.ts';
import { sendOwnCall } from '../../../src/gateway/own-call.ts';
import type { Expectation, Upstream } from '../../../src/gateway/upstream.ts';

/** An upstream that answers at once with so few bytes. */
function answering(frame: Buffer): Upstream {
  const send = (_: readonly Buffer[], expected: Expectation): void => {
    assert.ok(expected.kind === 'own');
    expected.deliver(frame);
  };
  return { send } as unknown as Upstream;
}

function ask(frame: Buffer, decode = metadataApi.decode) {
  return sendOwnCall(answering(frame), {
    ...{ api: { ...metadataApi, decode }, request: metadataRequest([]), versionMax: 8 },
    ...{ upstreamVersions: new Map([[metadataApi.key, { min: 0, max: 13 }]]) },
    ...{ correlationId: 7, clientId: null },
  });
}

test('an answer that ends too early is the failure of a broker', async () => {
  const tooShort = Buffer.from([0, 0, 0, 7, 0, 0]);
  await assert.rejects(ask(tooShort), (error) => {
    assert.ok(error instanceof ClusterError && error.cause instanceof ProtocolError);
    assert.equal(error.code, 'PROTOCOL');
    return true;
  });
});

test('a fault of ours in decoding was taken for no answer, and passed over', async () => {
  const decode = (): never => {
    throw new TypeError('not a function');
  };
  await assert.rejects(ask(Buffer.from([0, 0, 0, 7]), decode), TypeError);
});
