// InitProducerId: nobody takes over the transactional id that writes the state.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createInitProducerIdRequest,
  initProducerIdRequestCodec,
} from '../../../protocol/generated/init-producer-id-request.ts';
import {
  createInitProducerIdResponse,
  initProducerIdResponseCodec,
} from '../../../protocol/generated/init-producer-id-response.ts';
import { createInitProducerIdHandler } from '../../../src/gateway/handlers/init-producer-id.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { exchange, FakeSession } from './read-fixtures.ts';

const codecs = { request: initProducerIdRequestCodec, response: initProducerIdResponseCodec };
const handler = createInitProducerIdHandler(new OwnTopics('__causeway', '__other_'));

async function ask(transactionalId: string | null, version: number) {
  const session = new FakeSession({ kind: 'bootstrap' });
  session.broker.serve(codecs.request, codecs.response, () =>
    createInitProducerIdResponse({ producerId: 7n, producerEpoch: 3 }),
  );
  const request = createInitProducerIdRequest({ transactionalId, transactionTimeoutMs: 1000 });
  const { response } = await exchange(session, handler, codecs, version, request);
  return { response, asked: session.broker.seen.length };
}

test('R12: a client that asks for the id of the state does not fence the instance that owns it', async () => {
  for (let version = 0; version <= 5; version++) {
    for (const transactionalId of ['__causeway_state', '__other_state']) {
      const { response, asked } = await ask(transactionalId, version);
      assert.equal(response.errorCode, 53);
      assert.deepEqual([response.producerId, response.producerEpoch], [-1n, -1]);
      assert.equal(asked, 0, 'the destination heard of it');
    }
  }
});

test('all other producers get their ids from the destination', async () => {
  for (const transactionalId of [null, 'mine', 'causeway']) {
    const { response, asked } = await ask(transactionalId, 5);
    assert.deepEqual([response.errorCode, response.producerId, asked], [0, 7n, 1]);
  }
});
