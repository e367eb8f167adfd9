// EndTxn: nobody ends a transaction of the state.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createEndTxnRequest,
  endTxnRequestCodec,
} from '../../../protocol/generated/end-txn-request.ts';
import {
  createEndTxnResponse,
  endTxnResponseCodec,
} from '../../../protocol/generated/end-txn-response.ts';
import { createEndTxnHandler } from '../../../src/gateway/handlers/end-txn.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { exchange, FakeSession } from './read-fixtures.ts';

const codecs = { request: endTxnRequestCodec, response: endTxnResponseCodec };
const handler = createEndTxnHandler(new OwnTopics('__causeway', '__other_'));

async function end(transactionalId: string, version: number) {
  const session = new FakeSession({ kind: 'bootstrap' });
  session.broker.serve(codecs.request, codecs.response, () => createEndTxnResponse());
  const request = createEndTxnRequest({ transactionalId, producerId: 7n, committed: true });
  const { response } = await exchange(session, handler, codecs, version, request);
  return { errorCode: response.errorCode, asked: session.broker.seen.length };
}

test('R12: a client that knows the producer id of the state ends none of its transactions', async () => {
  for (let version = 0; version <= 5; version++) {
    for (const transactionalId of ['__causeway_state', '__other_state']) {
      assert.deepEqual(await end(transactionalId, version), { errorCode: 53, asked: 0 });
    }
  }
});

test('transactions of others are ended by the destination', async () => {
  for (const transactionalId of ['mine', 'causeway']) {
    assert.deepEqual(await end(transactionalId, 5), { errorCode: 0, asked: 1 });
  }
});
