// WriteTxnMarkers from clients: what `kafka-transactions abort` sends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createWritableTxnMarker,
  createWriteTxnMarkersRequest,
  type WriteTxnMarkersRequest,
  writeTxnMarkersRequestCodec,
} from '../../../protocol/generated/write-txn-markers-request.ts';
import {
  createWritableTxnMarkerPartitionResult,
  createWritableTxnMarkerResult,
  createWritableTxnMarkerTopicResult,
  createWriteTxnMarkersResponse,
  writeTxnMarkersResponseCodec,
} from '../../../protocol/generated/write-txn-markers-response.ts';
import type { ListenerRole } from '../../../src/gateway/handler.ts';
import { createWriteTxnMarkersHandler } from '../../../src/gateway/handlers/write-txn-markers.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { MemoryMirrorLog } from './memory-mirror-log.ts';
import { exchange, FakeSession, otherId, promotedAt100, READ } from './read-fixtures.ts';

const codecs = { request: writeTxnMarkersRequestCodec, response: writeTxnMarkersResponseCodec };
const handler = createWriteTxnMarkersHandler(new OwnTopics('__causeway'));
const atBroker: ListenerRole = { kind: 'broker', nodeId: 1 };

/** `orders` is a mirror, `moved` promoted; the broker writes every marker that it is given. */
function session(role: ListenerRole = atBroker) {
  const made = new FakeSession(role);
  const asked: WriteTxnMarkersRequest[] = [];
  made.directory.put({ name: 'orders', mode: 'mirror', log: new MemoryMirrorLog(0n) });
  const timeline = promotedAt100(40n);
  made.directory.put({ name: 'moved', mode: 'promoted', topicId: otherId, log: null, timeline });
  made.broker.serve(codecs.request, codecs.response, (request) => {
    asked.push(request);
    return createWriteTxnMarkersResponse({
      markers: request.markers.map(({ producerId, topics }) =>
        createWritableTxnMarkerResult({
          producerId,
          topics: topics.map(({ name, partitionIndexes }) =>
            createWritableTxnMarkerTopicResult({
              name,
              partitions: partitionIndexes.map((partitionIndex) =>
                createWritableTxnMarkerPartitionResult({ partitionIndex }),
              ),
            }),
          ),
        }),
      ),
    });
  });
  return { session: made, asked };
}

type Markers = Readonly<Record<string, readonly string[]>>;

/** Topics by producer id; the answer is `producer topic-partition error` for each. */
async function write(to: FakeSession, markers: Markers, version = 2): Promise<string[]> {
  const request = createWriteTxnMarkersRequest({
    markers: Object.entries(markers).map(([producerId, names]) =>
      createWritableTxnMarker({
        producerId: BigInt(producerId),
        topics: names.map((name) => ({ name, partitionIndexes: [0, 1], unknownTags: undefined })),
      }),
    ),
  });
  const { response } = await exchange(to, handler, codecs, version, request);
  return response.markers.flatMap(({ producerId, topics }) =>
    topics.flatMap(({ name, partitions }) =>
      partitions.map((one) => `${producerId} ${name}-${one.partitionIndex} ${one.errorCode}`),
    ),
  );
}

test('a hanging transaction could not be aborted through us: ordinary and promoted topics', async () => {
  for (const version of [1, 2]) {
    const { session: made, asked } = session();
    const answers = await write(made, { 7: ['plain', 'moved'] }, version);
    assert.deepEqual(answers, ['7 plain-0 0', '7 plain-1 0', '7 moved-0 0', '7 moved-1 0']);
    assert.equal(asked.length, 1);
  }
});

test('R3, R12: no marker of a client gets into a mirror or into the state', async () => {
  const { session: made, asked } = session();
  const refused = await write(made, { 7: ['orders'], 8: ['__causeway_state'] });
  assert.deepEqual(refused, [
    ...['7 orders-0 44', '7 orders-1 44'],
    ...['8 __causeway_state-0 44', '8 __causeway_state-1 44'],
  ]);
  assert.equal(asked.length, 0);

  const mixed = await write(made, { 7: ['orders', 'plain'], 8: ['orders'], 9: ['plain'] });
  assert.deepEqual(mixed.sort(), [
    ...['7 orders-0 44', '7 orders-1 44', '7 plain-0 0', '7 plain-1 0'],
    ...['8 orders-0 44', '8 orders-1 44', '9 plain-0 0', '9 plain-1 0'],
  ]);
  const sent = asked[0]?.markers.map(({ producerId, topics }) => [
    producerId,
    topics.map(({ name }) => name),
  ]);
  assert.deepEqual(sent, [
    [7n, ['plain']],
    [9n, ['plain']],
  ]);
});

test('who may not write to a mirror is told so, and not what it is', async () => {
  const { session: made } = session();
  made.broker.operations.set('orders', READ);
  assert.deepEqual(await write(made, { 7: ['orders'] }), ['7 orders-0 31', '7 orders-1 31']);
});

test('markers for topics that are not settled, or at the link node, go to the leader', async () => {
  const { session: made } = session();
  made.directory.isSettled = false;
  assert.deepEqual(await write(made, { 7: ['plain'] }), ['7 plain-0 6', '7 plain-1 6']);
  const { session: link } = session({ kind: 'link' });
  const answers = await write(link, { 7: ['moved', 'plain'] });
  assert.deepEqual(answers, ['7 moved-0 6', '7 moved-1 6', '7 plain-0 6', '7 plain-1 6']);
});
