// Our Kafka client against brokers that misbehave: versions, order, time-outs, coordinators that
// move, addresses, lanes. Real sockets on the loopback, answers made by the test.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import {
  createApiVersion,
  createApiVersionsResponse,
  encodeApiVersionsResponse,
} from '../../../protocol/generated/api-versions-response.ts';
import { createEndTxnRequest } from '../../../protocol/generated/end-txn-request.ts';
import {
  createEndTxnResponse,
  encodeEndTxnResponse,
} from '../../../protocol/generated/end-txn-response.ts';
import { createFetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  encodeFetchResponse,
} from '../../../protocol/generated/fetch-response.ts';
import {
  createCoordinator,
  createFindCoordinatorResponse,
  encodeFindCoordinatorResponse,
} from '../../../protocol/generated/find-coordinator-response.ts';
import { createListGroupsRequest } from '../../../protocol/generated/list-groups-request.ts';
import {
  createListGroupsResponse,
  encodeListGroupsResponse,
} from '../../../protocol/generated/list-groups-response.ts';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  encodeMetadataResponse,
} from '../../../protocol/generated/metadata-response.ts';
import { endTxnApi, fetchApi, listGroupsApi } from '../../../src/cluster/apis.ts';
import { type Cluster, ClusterError, type ClusterErrorCode } from '../../../src/cluster/cluster.ts';
import { type ClusterOptions, connectCluster } from '../../../src/cluster/cluster-client.ts';
import { FrameBuffer } from '../../../src/cluster/frame-buffer.ts';
import { until } from '../../helpers/wait.ts';
import { FakeBroker, type FakeHandler } from './fake-broker.ts';

const fetchKey = 1;
const metadataKey = 3;
const findCoordinatorKey = 10;
const listGroupsKey = 16;
const apiVersionsKey = 18;
const endTxnKey = 26;

const versions = {
  [fetchKey]: [4, 12],
  [metadataKey]: [0, 12],
  [findCoordinatorKey]: [0, 4],
  [listGroupsKey]: [0, 4],
  [endTxnKey]: [0, 3],
} as const;

const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

/** Brokers 1 to n that name each other, by advertised names that cannot be resolved. */
async function startBrokers(count = 1): Promise<FakeBroker[]> {
  const brokers: FakeBroker[] = [];
  for (let id = 1; id <= count; id++) {
    const broker = new FakeBroker(versions);
    open.push(broker);
    await broker.listen();
    broker.handlers.set(metadataKey, metadataOf(brokers));
    brokers.push(broker);
  }
  return brokers;
}

function metadataOf(brokers: readonly FakeBroker[], clusterId = 'c'): FakeHandler {
  return ({ header }) => {
    const known = brokers.map((_, index) =>
      createMetadataResponseBroker({
        nodeId: index + 1,
        host: `b${index + 1}.invalid`,
        port: 9092,
      }),
    );
    const response = createMetadataResponse({ brokers: known, controllerId: 1, clusterId });
    return (writer) => encodeMetadataResponse(writer, response, header.apiVersion);
  };
}

function connect(brokers: readonly FakeBroker[], options: Partial<ClusterOptions> = {}): Cluster {
  const cluster = connectCluster({
    bootstrapServers: brokers.map((broker) => broker.address),
    addressMap: Object.fromEntries(
      brokers.map((broker, index) => [`b${index + 1}.invalid:9092`, broker.address]),
    ),
    ...options,
    limits: { requestTimeoutMs: 3_000, tickMs: 10, ...options.limits },
  });
  open.push(cluster);
  return cluster;
}

function isClusterError(code: ClusterErrorCode, maybeSent: boolean, pattern = /./) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof ClusterError, String(error));
    assert.equal(error.code, code, error.message);
    assert.equal(error.maybeSent, maybeSent, error.message);
    assert.match(error.message, pattern);
    return true;
  };
}

const listGroups = createListGroupsRequest();

const noGroups: FakeHandler =
  ({ header }) =>
  (writer) =>
    encodeListGroupsResponse(writer, createListGroupsResponse(), header.apiVersion);

test('the highest version that both have is used, per broker', async () => {
  const brokers = await startBrokers();
  brokers[0]?.handlers.set(listGroupsKey, noGroups);
  const cluster = connect(brokers);
  await cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  await cluster.send({ kind: 'any' }, listGroupsApi, listGroups, { versionMax: 2 });
  await assert.rejects(
    cluster.send({ kind: 'any' }, { ...listGroupsApi, versionMin: 5 }, listGroups),
    isClusterError('UNSUPPORTED', false, /ListGroups: broker has 0 to 4, needed 5 to 5/),
  );
  assert.deepEqual(brokers[0]?.seen, ['18 v4', '16 v4', '16 v2']);
});

test('a broker that does not know our ApiVersions is asked again in its own version', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  const answer = broker?.handlers.get(apiVersionsKey);
  broker?.handlers.set(apiVersionsKey, (request) => {
    if (request.header.apiVersion <= 2) return answer?.(request) ?? 'hang up';
    const apiKeys = [createApiVersion({ apiKey: apiVersionsKey, minVersion: 0, maxVersion: 2 })];
    const refusal = createApiVersionsResponse({ errorCode: 35, apiKeys });
    return (writer) => encodeApiVersionsResponse(writer, refusal, 0);
  });
  broker?.handlers.set(listGroupsKey, noGroups);
  await connect(brokers).send({ kind: 'any' }, listGroupsApi, listGroups);
  assert.deepEqual(broker?.seen, ['18 v4', '18 v2', '16 v4']);
});

test('answers are put together from any split of the stream', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  if (broker) broker.isDribbling = true;
  const metadata = await connect(brokers).metadata([]);
  assert.deepEqual(
    metadata.brokers.map(({ host, port }) => `${host}:${port}`),
    ['b1.invalid:9092'],
  );
});

test('large answers are received into memory that is used again, small ones are not', async () => {
  const brokers = await startBrokers();
  const sizes = [300_000, 5, 200_000, 1_000_000];
  const sent: Buffer[] = [];
  brokers[0]?.handlers.set(fetchKey, ({ header }) => {
    const records = Buffer.alloc(sizes[sent.length] ?? 0, sent.length + 1);
    sent.push(records);
    const partitions = [createPartitionData({ records })];
    const responses = [createFetchableTopicResponse({ topic: 't', partitions })];
    const response = createFetchResponse({ responses });
    return (writer) => encodeFetchResponse(writer, response, header.apiVersion);
  });
  const cluster = connect(brokers);
  const into = new FrameBuffer();
  const memory: (ArrayBufferLike | undefined)[] = [];
  for (const [index] of sizes.entries()) {
    const request = createFetchRequest();
    const { responses } = await cluster.send({ kind: 'any' }, fetchApi, request, { into });
    const records = responses[0]?.partitions[0]?.records;
    assert.ok(records);
    assert.ok(records.equals(sent[index] ?? Buffer.alloc(0)), `answer ${index}`);
    memory.push(records.buffer);
  }
  const [first, small, again, grown] = memory;
  assert.equal(again, first);
  assert.notEqual(small, first);
  assert.notEqual(grown, first);
  assert.ok(into.sizeInBytes >= 1_000_000);
  for (let round = 0; round < 32; round++) into.claim(100);
  assert.equal(into.sizeInBytes, 0, 'given back after small answers only');
});

test('an answer out of turn ends the connection with everything on it', async () => {
  const brokers = await startBrokers();
  brokers[0]?.handlers.set(listGroupsKey, ({ header }) => ({
    correlationId: header.correlationId + 1,
    encode: (writer) =>
      encodeListGroupsResponse(writer, createListGroupsResponse(), header.apiVersion),
  }));
  const cluster = connect(brokers);
  const calls = [1, 2].map(() => cluster.send({ kind: 'any' }, listGroupsApi, listGroups));
  for (const call of calls) {
    await assert.rejects(call, isClusterError('PROTOCOL', true, /answer 3, but expected 2/));
  }
});

test('R18: an answer that cannot be decoded, or is too large, is an error', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  const cluster = connect(brokers, { limits: { frameBytesMax: 1_000 } });
  const garbage = Buffer.alloc(12, 0xff);
  garbage.writeInt32BE(8, 0);
  broker?.handlers.set(listGroupsKey, ({ header }) => {
    garbage.writeInt32BE(header.correlationId, 4);
    return { raw: garbage };
  });
  const send = (): Promise<unknown> => cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  await assert.rejects(send(), isClusterError('PROTOCOL', true));
  const huge = Buffer.alloc(4);
  huge.writeInt32BE(1_001, 0);
  broker?.handlers.set(listGroupsKey, () => ({ raw: huge }));
  await assert.rejects(
    send(),
    isClusterError('PROTOCOL', true, /1001 bytes, allowed are 4 to 1000/),
  );
  broker?.handlers.set(listGroupsKey, noGroups);
  await send();
});

test('a request without an answer ends by its time, the next one reconnects', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  const cluster = connect(brokers);
  // Its time is for the answer: on a busy machine it could be over before there is a connection.
  broker?.handlers.set(listGroupsKey, noGroups);
  await cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  broker?.handlers.set(listGroupsKey, () => 'silence');
  const late = cluster.send({ kind: 'any' }, listGroupsApi, listGroups, { timeoutMs: 100 });
  await assert.rejects(late, isClusterError('TIMEOUT', true, /no answer to ListGroups within/));
  broker?.handlers.set(listGroupsKey, noGroups);
  await cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  assert.equal(broker?.connectionsCount, 2);
});

test('a closed connection says whether the request may have been carried out', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  broker?.handlers.set(listGroupsKey, () => 'hang up');
  const cluster = connect(brokers);
  const sent = cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  await assert.rejects(sent, isClusterError('UNREACHABLE', true, /closed by the broker/));
  await broker?.close();
  const unsent = cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  await assert.rejects(unsent, isClusterError('UNREACHABLE', false, /ECONNREFUSED/));
});

test('bootstrap goes on to the next address, and reconnecting waits after failures', async () => {
  const brokers = await startBrokers(2);
  const [first, second] = brokers;
  await first?.close();
  const cluster = connect(brokers, { random: () => 0.5 });
  const metadata = await cluster.metadata([]);
  assert.equal(metadata.brokers.length, 2);
  assert.ok((second?.connectionsCount ?? 0) > 0);
  const startedMs = performance.now();
  const node = { kind: 'node', nodeId: 1 } as const;
  for (let attempt = 0; attempt < 4; attempt++) {
    await assert.rejects(
      cluster.send(node, listGroupsApi, listGroups),
      isClusterError('UNREACHABLE', false),
    );
  }
  assert.ok(performance.now() - startedMs > 300, 'four failures in a row without a pause');
});

test('a node that is not in the metadata is UNKNOWN_NODE', async () => {
  const cluster = connect(await startBrokers());
  await assert.rejects(
    cluster.send({ kind: 'node', nodeId: 7 }, listGroupsApi, listGroups),
    isClusterError('UNKNOWN_NODE', false, /no broker 7/),
  );
});

test('requests with different lanes never share a connection', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  broker?.handlers.set(listGroupsKey, noGroups);
  const cluster = connect(brokers);
  for (const lane of ['a', 'b', 'a', undefined]) {
    await cluster.send({ kind: 'any' }, listGroupsApi, listGroups, lane ? { lane } : {});
  }
  assert.equal(broker?.connectionsCount, 3);
});

test('R9: nothing is fetched from a broker of another cluster at a known address', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  const records = Buffer.alloc(10, 7);
  broker?.handlers.set(fetchKey, ({ header }) => {
    const responses = [
      createFetchableTopicResponse({ partitions: [createPartitionData({ records })] }),
    ];
    const response = createFetchResponse({ responses });
    return (writer) => encodeFetchResponse(writer, response, header.apiVersion);
  });
  const cluster = connect(brokers, { clusterId: 'c' });
  const fetch = () => cluster.send({ kind: 'node', nodeId: 1 }, fetchApi, createFetchRequest());
  await fetch();
  await fetch();
  const asked = broker?.seen.filter((one) => one.startsWith(`${metadataKey} `)).length;
  assert.equal(asked, 2, 'once for where broker 1 is, once for what it is');
  broker?.handlers.set(metadataKey, metadataOf(brokers, 'other'));
  broker?.dropConnections();
  const fetches = () => broker?.seen.filter((one) => one.startsWith(`${fetchKey} `)).length;
  await until('a connection to the other cluster', async () => {
    await assert.rejects(fetch(), (error) => {
      assert.ok(error instanceof ClusterError);
      return error.code !== 'PROTOCOL' || /of cluster 'other', not of 'c'/.test(error.message);
    });
    return (broker?.connectionsCount ?? 0) > 1;
  });
  await assert.rejects(
    fetch(),
    isClusterError('PROTOCOL', false, /of cluster 'other', not of 'c'/),
  );
  assert.equal(fetches(), 2);
  broker?.handlers.set(metadataKey, metadataOf(brokers));
  await fetch();
  assert.equal(fetches(), 3);
});

test('a coordinator that moves is looked up again, one that loads is waited for', async () => {
  const brokers = await startBrokers(2);
  const [first, second] = brokers;
  let coordinator = 1;
  const find: FakeHandler = ({ header }) => {
    const found = createCoordinator({
      key: 'id',
      nodeId: coordinator,
      host: `b${coordinator}.invalid`,
      port: 9092,
    });
    const response = createFindCoordinatorResponse({ coordinators: [found] });
    return (writer) => encodeFindCoordinatorResponse(writer, response, header.apiVersion);
  };
  const answers: Record<string, number[]> = { first: [16], second: [14, 14, 0] };
  const end =
    (name: string): FakeHandler =>
    ({ header }) => {
      const errorCode = answers[name]?.shift() ?? -1;
      if (errorCode === 16) coordinator = 2;
      const response = createEndTxnResponse({ errorCode });
      return (writer) => encodeEndTxnResponse(writer, response, header.apiVersion);
    };
  for (const broker of brokers) broker.handlers.set(findCoordinatorKey, find);
  first?.handlers.set(endTxnKey, end('first'));
  second?.handlers.set(endTxnKey, end('second'));
  const cluster = connect(brokers);
  await cluster.metadata([]);
  const request = createEndTxnRequest({ transactionalId: 'id' });
  const target = { kind: 'transaction', transactionalId: 'id' } as const;
  const response = await cluster.send(target, endTxnApi, request);
  assert.equal(response.errorCode, 0);
  assert.deepEqual(answers, { first: [], second: [] });
});

test('a coordinator that never answers otherwise is the answer, by the deadline', async () => {
  const brokers = await startBrokers();
  const [broker] = brokers;
  const found = createCoordinator({ key: 'id', nodeId: 1, host: 'b1.invalid', port: 9092 });
  broker?.handlers.set(findCoordinatorKey, ({ header }) => {
    const response = createFindCoordinatorResponse({ coordinators: [found] });
    return (writer) => encodeFindCoordinatorResponse(writer, response, header.apiVersion);
  });
  broker?.handlers.set(endTxnKey, ({ header }) => {
    const response = createEndTxnResponse({ errorCode: 14 });
    return (writer) => encodeEndTxnResponse(writer, response, header.apiVersion);
  });
  const request = createEndTxnRequest({ transactionalId: 'id' });
  const target = { kind: 'transaction', transactionalId: 'id' } as const;
  const cluster = connect(brokers);
  const response = await cluster.send(target, endTxnApi, request, { timeoutMs: 500 });
  assert.equal(response.errorCode, 14);
  const asked = broker?.seen.filter((one) => one.startsWith(`${endTxnKey} `)).length ?? 0;
  assert.ok(asked >= 2 && asked < 20, `${asked} attempts in half a second`);
});

test('closing ends what is in flight, and nothing is sent afterwards', async () => {
  const brokers = await startBrokers();
  brokers[0]?.handlers.set(listGroupsKey, () => 'silence');
  const cluster = connect(brokers);
  const pending = cluster.send({ kind: 'any' }, listGroupsApi, listGroups);
  pending.catch(() => undefined);
  await until('the request', () => brokers[0]?.seen.includes('16 v4'));
  await cluster.close();
  await assert.rejects(pending, isClusterError('CLOSED', true));
  await assert.rejects(
    cluster.send({ kind: 'any' }, listGroupsApi, listGroups),
    isClusterError('CLOSED', false),
  );
});

test('security settings that are not supported are refused by name', () => {
  const cases: [Record<string, string>, RegExp][] = [
    [{ 'security.protocol': 'TLS' }, /^security\.protocol: must be one of/],
    [{ 'security.protocol': 'SSL', 'ssl.provider': 'x' }, /^ssl\.provider: is not supported/],
    [{ 'sasl.mechanism': 'PLAIN' }, /^sasl\.mechanism/],
    [{ 'ssl.truststore.location': '/x' }, /^ssl\.truststore\.location/],
  ];
  for (const [client, pattern] of cases) {
    const options = { bootstrapServers: ['127.0.0.1:1'], client };
    assert.throws(() => connectCluster(options), isClusterError('UNSUPPORTED', false, pattern));
  }
  for (const server of ['nowhere', 'host:0', 'host:70000', 'http://host:1']) {
    assert.throws(
      () => connectCluster({ bootstrapServers: [server] }),
      isClusterError('UNSUPPORTED', false, /host:port/),
    );
  }
});

test('the address map leads from advertised to reachable addresses, IPv6 included', () => {
  const cluster = connectCluster({
    bootstrapServers: ['kafka:9092', '[::1]:9093'],
    addressMap: { 'kafka:9092': '10.0.3.7:19092', '[fe80::1]:9092': '[::1]:1' },
    client: { 'security.protocol': 'PLAINTEXT' },
  });
  assert.deepEqual(cluster.bootstrap, [
    { host: '10.0.3.7', port: 19092 },
    { host: '::1', port: 9093 },
  ]);
  assert.deepEqual(cluster.reach('fe80::1', 9092), { host: '::1', port: 1 });
  assert.deepEqual(cluster.reach('kafka', 9093), { host: 'kafka', port: 9093 });
});
