// Produce on every node: nothing reaches a mirror's shell (R3), writers of promoted topics see
// virtual offsets (R4), and no answer leaks an address (R2).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  type ProduceRequest,
  produceRequestCodec,
} from '../../../protocol/generated/produce-request.ts';
import {
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionProduceResponse,
  createProduceResponse,
  createTopicProduceResponse,
  type ProduceResponse,
  produceResponseCodec,
} from '../../../protocol/generated/produce-response.ts';
import { decodeRequestHeader, encodeRequestFrame, Reader } from '../../../protocol/index.ts';
import { AdvertisedEpochs } from '../../../src/gateway/advertised-epochs.ts';
import type { Disposition } from '../../../src/gateway/handler.ts';
import {
  createProduceHandler,
  createProduceInspect,
} from '../../../src/gateway/handlers/produce.ts';
import { presentLeaders } from '../../../src/gateway/leader-presentation.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import {
  exchange,
  FakeSession,
  mirror,
  ordersId,
  otherId,
  promoted,
  READ,
  type TopicFixture,
} from './read-fixtures.ts';

const codecs = { request: produceRequestCodec, response: produceResponseCodec };
const records = Buffer.from('not looked into');

const ids: Record<string, string> = { orders: ordersId, plain: otherId };

interface Writing {
  version?: number;
  role?: FakeSession['role'];
  acks?: number;
}

function requestOf(names: readonly string[], { version = 13, acks = -1 }: Writing): ProduceRequest {
  return createProduceRequest({
    acks,
    timeoutMs: 1000,
    topicData: names.map((name) =>
      createTopicProduceData({
        ...(version >= 13 && ids[name] ? { topicId: ids[name] } : { name }),
        partitionData: [createPartitionProduceData({ index: 0, records })],
      }),
    ),
  });
}

function sessionWith(topics: readonly TopicFixture[], writing: Writing = {}): FakeSession {
  const session = new FakeSession(writing.role ?? { kind: 'broker', nodeId: 1 });
  for (const topic of topics) session.directory.put(topic);
  session.broker.serve(codecs.request, codecs.response, (request, version) =>
    createProduceResponse({
      responses: request.topicData.map(({ name, topicId }) =>
        createTopicProduceResponse({
          name,
          topicId,
          partitionResponses: [
            createPartitionProduceResponse({ index: 0, baseOffset: 11n, logStartOffset: 9n }),
          ],
        }),
      ),
      throttleTimeMs: version,
    }),
  );
  return session;
}

const handler = createProduceHandler(new OwnTopics('__causeway'));

async function produce(
  session: FakeSession,
  names: readonly string[],
  writing: Writing = {},
): Promise<ProduceResponse> {
  const version = writing.version ?? 13;
  const request = requestOf(names, { ...writing, version });
  return (await exchange(session, handler, codecs, version, request)).response;
}

function firstOf(response: ProduceResponse, topic = 0) {
  const partition = response.responses[topic]?.partitionResponses[0];
  assert.ok(partition);
  return partition;
}

function produced(session: FakeSession): ProduceRequest[] {
  return session.broker.seen
    .filter(({ apiKey }) => apiKey === 0)
    .map(({ message }) => message as ProduceRequest);
}

test('R3: a mirror is read-only at every node and version, and the sentence says why', async () => {
  const roles = [{ kind: 'bootstrap' }, { kind: 'broker', nodeId: 1 }, { kind: 'link' }] as const;
  for (let version = 3; version <= 13; version++) {
    for (const role of roles) {
      const session = sessionWith([mirror], { role });
      const partition = firstOf(await produce(session, ['orders'], { version, role }));
      assert.equal(partition.errorCode, 44);
      assert.equal(partition.baseOffset, -1n);
      if (version >= 8) assert.match(partition.errorMessage ?? '', /orders .*mirror over link dr/);
      assert.deepEqual(produced(session), []);
    }
  }
});

test('R3: a mirror being made is refused by the id that metadata told before it was committed', async () => {
  const epochs = new AdvertisedEpochs();
  const intent: TopicFixture = { ...mirror, topicId: null };
  const session = sessionWith([intent]);
  const told = { name: 'orders', topicId: ordersId, partitions: [] };
  presentLeaders(session.services, epochs, told);
  assert.equal(firstOf(await produce(session, ['orders'])).errorCode, 44);
  assert.deepEqual(produced(session), []);
  const ordinary = { name: 'plain', topicId: otherId, partitions: [] };
  presentLeaders(session.services, epochs, ordinary);
  assert.equal(firstOf(await produce(session, ['plain'])).baseOffset, 11n);
  // Made at last, but under another id: the one that was told is somebody else's topic.
  session.directory.put({ ...mirror, topicId: 'AAAAAAAAAAAAAAAAAAAABw' });
  assert.equal(firstOf(await produce(session, ['orders'])).baseOffset, 11n);
});

test('R4: writes to a topic that was deleted and made again were told offsets of the old one', async () => {
  const epochs = new AdvertisedEpochs();
  const session = sessionWith([promoted]);
  const tell = (topicId: string): void => {
    presentLeaders(session.services, epochs, { name: 'orders', topicId, partitions: [] });
  };
  const written = async (version: number) =>
    firstOf(await produce(session, ['orders'], { version })).errorCode;
  tell(otherId);
  assert.equal(await written(12), 6, 'by name it may be either');
  assert.deepEqual(produced(session), []);
  assert.equal(await written(13), 0, 'by id it is the old one');
  // That answer came from a broker that was behind.
  tell(ordersId);
  assert.equal(await written(12), 0);
  tell(otherId);
  session.directory.topics.delete('orders');
  assert.equal(await written(12), 0, 'nothing is left of the old one');
});

test('who may not write is told that, not that it is a mirror', async () => {
  const session = sessionWith([mirror]);
  session.broker.operations.set('orders', READ);
  assert.equal(firstOf(await produce(session, ['orders'])).errorCode, 29);
});

test('a switching mirror, and what is not settled, answers late and retriably', async () => {
  const doubtful = { ...mirror, mode: 'unavailable' } as const;
  const switching = { ...mirror, mode: 'switching' } as const;
  for (const topics of [[switching], [doubtful], []]) {
    const session = sessionWith(topics);
    session.directory.isSettled = topics.length > 0;
    const startedAt = performance.now();
    assert.equal(firstOf(await produce(session, ['orders'])).errorCode, 6);
    assert.ok(performance.now() - startedAt > 150);
    assert.deepEqual(produced(session), []);
  }
});

test('an ordinary topic passes byte for byte', async () => {
  for (const version of [3, 9, 10, 13]) {
    const session = sessionWith([mirror]);
    const response = await produce(session, ['plain'], { version });
    assert.equal(firstOf(response).baseOffset, 11n);
    assert.equal(response.throttleTimeMs, version);
    assert.deepEqual(produced(session)[0]?.topicData[0]?.partitionData[0]?.records, records);
  }
});

test('R4: a promoted topic takes writes at virtual offsets', async () => {
  for (const version of [5, 9, 13]) {
    const session = sessionWith([promoted]);
    const partition = firstOf(await produce(session, ['orders'], { version }));
    // S = 100, n = 8: native 11 is virtual 103; native start 9 is 101, above S.
    assert.equal(partition.baseOffset, 103n);
    assert.equal(partition.logStartOffset, 101n);
  }
  const kept = sessionWith([{ ...promoted, log: new MemoryMirrorLog(40n, batch(40n, 60)) }]);
  const { logStartOffset } = firstOf(await produce(kept, ['orders']));
  assert.equal(logStartOffset, 101n, 'a record after the copy is deleted, so the copy is too');
});

test('sentinels of a failed write are not shifted', async () => {
  const session = sessionWith([promoted]);
  session.broker.serve(codecs.request, codecs.response, () =>
    createProduceResponse({
      responses: [
        createTopicProduceResponse({
          topicId: ordersId,
          partitionResponses: [
            createPartitionProduceResponse({ errorCode: 87, baseOffset: -1n, logStartOffset: -1n }),
          ],
        }),
      ],
    }),
  );
  const partition = firstOf(await produce(session, ['orders']));
  assert.deepEqual([partition.errorCode, partition.baseOffset], [87, -1n]);
  assert.equal(partition.logStartOffset, -1n);
});

test('R2, R8: hints of the broker are shifted, and lead to our addresses', async () => {
  const session = sessionWith([promoted]);
  session.broker.serve(codecs.request, codecs.response, () =>
    createProduceResponse({
      responses: [
        createTopicProduceResponse({
          topicId: ordersId,
          partitionResponses: [
            createPartitionProduceResponse({
              errorCode: 6,
              baseOffset: -1n,
              currentLeader: createLeaderIdAndEpoch({ leaderId: 2, leaderEpoch: 4 }),
            }),
          ],
        }),
      ],
      nodeEndpoints: [createNodeEndpoint({ nodeId: 2, host: 'real-2', port: 9092 })],
    }),
  );
  const response = await produce(session, ['orders']);
  assert.deepEqual(
    { ...firstOf(response).currentLeader, unknownTags: 0 },
    {
      leaderId: 2,
      leaderEpoch: 8,
      unknownTags: 0,
    },
  );
  assert.deepEqual(
    response.nodeEndpoints.map(({ nodeId, host, port }) => [nodeId, host, port]),
    [[2, 'proxy', 10_002]],
  );
});

test('the link node sends writers of a promoted topic to its leader', async () => {
  const role = { kind: 'link' } as const;
  for (const version of [9, 10, 13]) {
    const session = sessionWith([promoted], { role });
    const response = await produce(session, ['orders'], { version, role });
    const partition = firstOf(response);
    assert.equal(partition.errorCode, 6);
    assert.deepEqual(produced(session), []);
    const { leaderId, leaderEpoch } = partition.currentLeader;
    assert.deepEqual([leaderId, leaderEpoch], version >= 10 ? [2, 7] : [-1, -1]);
    const ports = response.nodeEndpoints.map(({ port }) => port);
    assert.deepEqual(ports, version >= 10 ? [10_002] : []);
  }
});

test('the link node does so without hints when nobody answers', async () => {
  const role = { kind: 'link' } as const;
  const session = sessionWith([promoted], { role });
  session.broker.isGone = true;
  const response = await produce(session, ['orders'], { role });
  assert.equal(firstOf(response).errorCode, 6);
  assert.deepEqual(response.nodeEndpoints, []);
});

test('of a mixed request the allowed part is written, and answers keep the request order', async () => {
  const session = sessionWith([mirror]);
  const names = ['__causeway_state', 'plain', 'orders', 'another'];
  const response = await produce(session, names, { version: 12 });
  assert.deepEqual(
    response.responses.map(({ name }) => name),
    names,
  );
  assert.deepEqual(
    names.map((_, index) => firstOf(response, index).errorCode),
    [44, 0, 44, 0],
  );
  assert.deepEqual(
    produced(session).map(({ topicData }) => topicData.map(({ name }) => name)),
    [['plain', 'another']],
  );
});

function dispositionOf(session: FakeSession, names: readonly string[]): Disposition {
  const header = { apiKey: 0, apiVersion: 12, correlationId: 1, clientId: 'c' };
  const request = requestOf(names, { version: 12, acks: 0 });
  const frame = Buffer.concat(
    encodeRequestFrame(header, (writer) => produceRequestCodec.encode(writer, request, 12)),
  ).subarray(4);
  const reader = new Reader(frame);
  decodeRequestHeader(reader);
  return handler({ session, header, frame, bodyOffset: reader.offset });
}

test('acks=0: no slot, refused parts dropped, and the connection closed so that it is heard', () => {
  const session = sessionWith([mirror]);
  assert.deepEqual(dispositionOf(session, ['plain']), { kind: 'forward', hasResponse: false });
  const mixed = dispositionOf(session, ['orders', 'plain']);
  assert.ok(mixed.kind === 'forward' && mixed.request !== undefined);
  assert.equal(mixed.hasResponse, false);
  assert.match(mixed.thenEnds ?? '', /refused here/);
  const sent = new Reader(Buffer.concat(mixed.request), 4);
  assert.equal(decodeRequestHeader(sent).correlationId, 1);
  assert.deepEqual(
    produceRequestCodec.decode(sent, 12).topicData.map(({ name }) => name),
    ['plain'],
  );
  assert.equal(dispositionOf(session, ['orders']).kind, 'close');
});

test('our own topics are refused by an id that was seen, too', async () => {
  const own = new OwnTopics('__causeway');
  own.learn('__causeway_state', otherId);
  const session = sessionWith([]);
  const request = requestOf(['plain'], {});
  const { response } = await exchange(session, createProduceHandler(own), codecs, 13, request);
  assert.equal(firstOf(response).errorCode, 44);
  assert.deepEqual(produced(session), []);
});

test('R12: a Produce could put any partition into a transaction of the state', async () => {
  const ownTopics = new OwnTopics('__causeway');
  for (const version of [3, 12, 13]) {
    const session = sessionWith([]);
    const request = { ...requestOf(['plain'], { version }), transactionalId: '__causeway_state' };
    const handlerOfOwn = createProduceHandler(ownTopics);
    const { response } = await exchange(session, handlerOfOwn, codecs, version, request);
    assert.equal(firstOf(response).errorCode, 53);
    const header = { apiKey: 0, apiVersion: version, correlationId: 1, clientId: null };
    const frame = encodeRequestFrame(header, (writer) =>
      produceRequestCodec.encode(writer, request, version),
    );
    const bytes = Buffer.concat(frame).subarray(4);
    const reader = new Reader(bytes);
    decodeRequestHeader(reader);
    const inspection = createProduceInspect(ownTopics)(session, header, reader.offset);
    assert.equal(inspection.push(bytes), 'whole', 'it passed while it came in');
    assert.deepEqual(produced(session), []);
  }
});
