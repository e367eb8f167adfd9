// Real brokers with addresses that cannot be reached, behind the gateway: whatever clients do
// works, so no answer that they act on held a real address (R2); and raw answers are searched for
// one.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import {
  createDescribeClusterRequest,
  describeClusterRequestCodec,
} from '../../protocol/generated/describe-cluster-request.ts';
import {
  createFindCoordinatorRequest,
  findCoordinatorRequestCodec,
} from '../../protocol/generated/find-coordinator-request.ts';
import {
  createMetadataRequest,
  createMetadataRequestTopic,
  metadataRequestCodec,
} from '../../protocol/generated/metadata-request.ts';
import { metadataResponseCodec } from '../../protocol/generated/metadata-response.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  produceRequestCodec,
} from '../../protocol/generated/produce-request.ts';
import { produceResponseCodec } from '../../protocol/generated/produce-response.ts';
import {
  buildBatch,
  decodeResponseHeader,
  encodeRequestFrame,
  type MessageCodec,
  Reader,
} from '../../protocol/index.ts';
import {
  consumerKinds,
  producerKinds,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { type JavaToolName, javaTool } from '../helpers/java-tools.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { assertEachOnceInOrder } from '../helpers/record-checks.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from './gateway-fixture.ts';

let cluster: KafkaCluster;
let proxy: GatewayUnderTest;

before(async () => {
  cluster = await startKafkaCluster({ name: 'passthrough', brokers: 2 });
  proxy = await gatewayFor(cluster);
});

after(async () => {
  await proxy?.close();
  await cluster?.stop();
});

function portOf(nodeId: number): number {
  const endpoint = proxy.gateway.endpoints().find((one) => one.nodeId === nodeId);
  assert.ok(endpoint, `node ${nodeId} is served`);
  return endpoint.port;
}

/** One request over a connection of its own; the raw answer without size prefix. */
async function ask<Request extends object>(
  port: number,
  codec: MessageCodec<Request>,
  apiVersion: number,
  request: Request,
): Promise<Buffer> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const header = { apiKey: codec.apiKey ?? -1, apiVersion, correlationId: 77, clientId: 'raw' };
  const chunks = encodeRequestFrame(header, (out) => codec.encode(out, request, apiVersion));
  socket.write(Buffer.concat(chunks));
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
  });
  try {
    await until('the whole answer', () => {
      if (socket.destroyed || socket.readableEnded) throw new Error('the connection ended');
      return received.length >= 4 && received.length >= 4 + received.readInt32BE(0);
    });
  } finally {
    socket.destroy();
  }
  return received.subarray(4);
}

function decoded<Message extends object>(
  frame: Buffer,
  codec: MessageCodec<Message>,
  version: number,
): Message {
  const reader = new Reader(frame);
  decodeResponseHeader(reader, codec.apiKey ?? -1, version);
  return codec.decode(reader, version);
}

function assertNoRealAddress(frame: Buffer, what: string): void {
  assert.equal(frame.includes('.invalid'), false, `${what} holds a real address`);
}

test('R2: no version of a request for addresses is answered with a real one', async () => {
  const topic = uniqueName('addresses');
  await createTopic(proxy, { topic, partitions: 2 });
  const ports = [proxy.gateway.bootstrapPort, portOf(1), portOf(2)];
  for (const port of ports) {
    for (let version = 0; version <= 13; version++) {
      const topics = [createMetadataRequestTopic({ name: topic })];
      const request = createMetadataRequest({ topics });
      const frame = await ask(port, metadataRequestCodec, version, request);
      assertNoRealAddress(frame, `Metadata ${version}`);
      const metadata = decoded(frame, metadataResponseCodec, version);
      assert.deepEqual(metadata.brokers.map((one) => [one.nodeId, one.host, one.port]).sort(), [
        [1, '127.0.0.1', portOf(1)],
        [2, '127.0.0.1', portOf(2)],
      ]);
    }
    for (let version = 0; version <= 6; version++) {
      const request = createFindCoordinatorRequest(
        version < 4 ? { key: 'g' } : { coordinatorKeys: ['g', 'h'] },
      );
      const frame = await ask(port, findCoordinatorRequestCodec, version, request);
      assertNoRealAddress(frame, `FindCoordinator ${version}`);
    }
    for (let version = 0; version <= 2; version++) {
      const request = createDescribeClusterRequest();
      const frame = await ask(port, describeClusterRequestCodec, version, request);
      assertNoRealAddress(frame, `DescribeCluster ${version}`);
    }
  }
});

test('R2: the hint of a broker that does not lead is our address of the one that does', async () => {
  const topic = uniqueName('hints');
  await createTopic(proxy, { topic });
  const topics = [createMetadataRequestTopic({ name: topic })];
  const asked = await ask(
    proxy.gateway.bootstrapPort,
    metadataRequestCodec,
    12,
    createMetadataRequest({ topics }),
  );
  const leaderId = decoded(asked, metadataResponseCodec, 12).topics[0]?.partitions[0]?.leaderId;
  assert.ok(leaderId === 1 || leaderId === 2);
  const records = buildBatch({
    baseOffset: 0n,
    records: [{ key: null, value: Buffer.from('v'), timestamp: 1n }],
  });
  for (const version of [10, 11, 12]) {
    const request = createProduceRequest({
      acks: -1,
      timeoutMs: 1000,
      topicData: [
        createTopicProduceData({
          name: topic,
          partitionData: [createPartitionProduceData({ index: 0, records })],
        }),
      ],
    });
    const frame: Buffer = await ask(portOf(3 - leaderId), produceRequestCodec, version, request);
    assertNoRealAddress(frame, `Produce ${version}`);
    const response = decoded(frame, produceResponseCodec, version);
    const [partition] = response.responses[0]?.partitionResponses ?? [];
    assert.equal(partition?.errorCode, 6);
    assert.equal(partition?.currentLeader.leaderId, leaderId);
    assert.deepEqual(
      response.nodeEndpoints.map((one) => [one.nodeId, one.host, one.port]),
      [[leaderId, '127.0.0.1', portOf(leaderId)]],
    );
  }
});

test('what every producer writes, every consumer reads', async (context) => {
  const topic = uniqueName('all');
  await createTopic(proxy, { topic, partitions: 3 });
  const { bootstrap } = proxy;
  const count = 100;
  const written = new Set<string>();
  for (const kind of producerKinds) {
    const skip = await skipReason(kind);
    if (skip !== false) {
      context.diagnostic(skip);
      continue;
    }
    const producer = await startProducer(kind, { bootstrap, topic });
    try {
      const values = Array.from({ length: count }, (_, index) => `${kind}-${index}`);
      await producer.sendAll(values.map((value, index) => ({ key: `k${index % 7}`, value })));
      for (const value of values) written.add(value);
    } finally {
      await producer.stop();
    }
  }
  assert.ok(written.size >= 2 * count, 'at least Java and kafkajs can run');
  for (const kind of consumerKinds) {
    const skip = await skipReason(kind);
    if (skip !== false) {
      context.diagnostic(skip);
      continue;
    }
    const group = uniqueName('group');
    const consumer = await startConsumer(kind, { bootstrap, topic, group, reset: 'earliest' });
    try {
      await consumer.waitForCount(written.size, { deadlineMs: 60_000 });
      assertEachOnceInOrder(consumer.records);
      assert.deepEqual(new Set(consumer.records.map(({ value }) => value)), written, kind);
    } finally {
      await consumer.stop();
    }
  }
});

test('transactions pass, and aborted records are filtered by the client', async () => {
  const topic = uniqueName('transactions');
  await createTopic(proxy, { topic });
  const { bootstrap } = proxy;
  const transactionalId = uniqueName('tx');
  const producer = await startProducer('java', { bootstrap, topic, transactionalId });
  try {
    for (const [value, isCommitted] of [
      ['a', true],
      ['b', false],
      ['c', true],
    ] as const) {
      await producer.begin();
      await producer.send({ value });
      await (isCommitted ? producer.commit() : producer.abort());
    }
  } finally {
    await producer.stop();
  }
  const consumer = await startConsumer('java', {
    bootstrap,
    topic,
    group: uniqueName('group'),
    reset: 'earliest',
    isolation: 'read_committed',
  });
  try {
    await consumer.waitForCount(2);
    assert.deepEqual(
      consumer.records.map(({ value }) => value),
      ['a', 'c'],
    );
  } finally {
    await consumer.stop();
  }
});

const tools: readonly [JavaToolName, string[], RegExp][] = [
  ['kafka-topics', ['--describe'], /Leader: [12]/],
  ['kafka-broker-api-versions', [], /id: 2 [^\n]*->[\s\S]*Fetch\(1\): 4 to 18/],
  ['kafka-configs', ['--describe', '--entity-type', 'brokers', '--entity-name', '2'], /broker 2/],
  ['kafka-log-dirs', ['--describe'], /"broker":1[\s\S]*"broker":2|"broker":2[\s\S]*"broker":1/],
  ['kafka-consumer-groups', ['--list'], /^/],
  ['kafka-transactions', ['list'], /TransactionalId/],
  ['kafka-metadata-quorum', ['describe', '--replication'], /NodeId/],
  ['kafka-get-offsets', ['--time', '-1'], /^/],
];

for (const [name, args, expected] of tools) {
  test(`${name} works through the gateway`, async () => {
    const { stdout, stderr } = await javaTool(proxy, name, args);
    assert.match(stdout, expected, stderr);
    assert.equal(stdout.includes('.invalid'), false);
  });
}

test('a broker that dies and comes back is followed on the same ports', async () => {
  const topic = uniqueName('restart');
  await createTopic(proxy, { topic, partitions: 2 });
  const { bootstrap } = proxy;
  const before = proxy.gateway.endpoints();
  const producer = await startProducer('kafkajs', { bootstrap, topic });
  const consumer = await startConsumer('librdkafka', {
    bootstrap,
    topic,
    group: uniqueName('group'),
    reset: 'earliest',
  });
  try {
    await producer.send({ key: 'a', value: 'before' });
    await cluster.kill9(2);
    await cluster.restartBroker(2);
    await until('a write to both partitions', async () => {
      await producer.send({ partition: 0, value: 'after-0' });
      await producer.send({ partition: 1, value: 'after-1' });
      return true;
    });
    await consumer.waitFor('records of both partitions', (records) =>
      ['after-0', 'after-1'].every((wanted) => records.some(({ value }) => value === wanted)),
    );
    assert.deepEqual(proxy.gateway.endpoints(), before);
  } finally {
    await consumer.stop();
    await producer.stop();
  }
});

test('connections are counted, and none is left behind', async () => {
  await until('no connections', () => proxy.gateway.stats.connections === 0, {
    describe: () => `${proxy.gateway.stats.connections} connections`,
  });
  assert.ok(proxy.gateway.stats.bytesToClientsTotal > 10_000);
  const refused = proxy.events.since(0).filter(({ event }) => event === 'connection_refused');
  assert.deepEqual(refused, []);
});
