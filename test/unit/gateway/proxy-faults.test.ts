// Faults that other proxies had (docs/proxy-faults.md), where nothing else here shows that they
// cannot happen; and that the page names tests that exist.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  encodeProduceRequest,
} from '../../../protocol/generated/produce-request.ts';
import {
  ApiKey,
  decodeRequestHeader,
  encodeRequestFrame,
  Reader,
} from '../../../protocol/index.ts';
import { type Cluster, ClusterError, type ClusterMetadata } from '../../../src/cluster/cluster.ts';
import { type GatewayOptions, startGateway } from '../../../src/gateway/gateway.ts';
import { createHandlers } from '../../../src/gateway/handler-table.ts';
import { silentMsMax } from '../../../src/gateway/limits.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { Router } from '../../../src/gateway/router.ts';
import { Events } from '../../../src/observe/events.ts';
import { releasePorts, reservePorts } from '../../helpers/ports.ts';
import { rootDirectory } from '../../helpers/repository.ts';
import { until } from '../../helpers/wait.ts';
import { FakeDirectory, FakeSession } from './read-fixtures.ts';

test('fault 2: acks=0 is seen whatever the lengths of the names before it', () => {
  const handler = createHandlers(new OwnTopics('__causeway')).get(ApiKey.Produce);
  assert.ok(handler);
  const names = [null, '', 'n', 'x'.repeat(127), 'y'.repeat(128), 'ü'.repeat(10_000)];
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  session.upstreamVersions.set(ApiKey.Produce, { min: 0, max: 13 });
  for (let apiVersion = 3; apiVersion <= 13; apiVersion++) {
    for (const clientId of names) {
      for (const transactionalId of names) {
        for (const acks of [0, 1, -1]) {
          const header = { apiKey: ApiKey.Produce, apiVersion, correlationId: 1, clientId };
          const topicData = [
            createTopicProduceData({
              ...(apiVersion < 13 ? { name: 't' } : {}),
              partitionData: [createPartitionProduceData({ records: Buffer.alloc(0) })],
            }),
          ];
          const request = createProduceRequest({ transactionalId, acks, topicData });
          const frame = Buffer.concat(
            encodeRequestFrame(header, (writer) =>
              encodeProduceRequest(writer, request, apiVersion),
            ),
          ).subarray(4);
          const reader = new Reader(frame);
          const read = decodeRequestHeader(reader);
          const disposition = handler({ session, header: read, frame, bodyOffset: reader.offset });
          const what = `version ${apiVersion}, acks ${acks}`;
          assert.ok(disposition.kind === 'forward', what);
          assert.equal(disposition.hasResponse !== false, acks !== 0, what);
        }
      }
    }
  }
});

test('fault 21: SASL handshake v0, whose raw frames have no header, is refused by name', () => {
  const router = new Router(createHandlers(new OwnTopics('__causeway')));
  const versions = new Map([[ApiKey.SaslHandshake as number, { min: 0, max: 1 }]]);
  const header = { apiKey: ApiKey.SaslHandshake, apiVersion: 0, correlationId: 1, clientId: null };
  const route = router.route(header, versions);
  assert.ok(route.kind === 'refused');
  assert.match(route.reason, /SaslHandshake version 0 is not served here, only 1/);
});

function clusterNamed(answer: () => string): Cluster {
  const metadata = (): Promise<ClusterMetadata> =>
    Promise.resolve({ clusterId: answer(), controllerId: 1, brokers: [], topics: new Map() });
  const bootstrap = [{ host: '127.0.0.1', port: 1 }];
  return { metadata, brokers: [], bootstrap } as unknown as Cluster;
}

type OverOptions = Partial<GatewayOptions> & { readonly connectionsPerAddressMax?: number };

async function gatewayOver(
  clusterId: () => string,
  { connectionsPerAddressMax, ...options }: OverOptions = {},
) {
  const ports = await reservePorts(3, { isConsecutive: true });
  const [bootstrapPort = 0, first = 0, last = 0] = ports;
  const events = new Events();
  const gateway = await startGateway({
    config: {
      bind: '127.0.0.1',
      advertise: '127.0.0.1',
      bootstrapPort,
      brokerPorts: { first, last },
      linkNodeId: 1_000_000,
      connectionsPerAddressMax,
    },
    cluster: clusterNamed(clusterId),
    directory: new FakeDirectory(),
    ports: { load: () => ({}), save: () => Promise.resolve() },
    events,
    refreshIntervalMs: 5,
    ...options,
  });
  const close = async (): Promise<void> => {
    await gateway.close({ drainMs: 0 });
    releasePorts(ports);
  };
  return { gateway, bootstrapPort, events, close };
}

test('fault 41: another cluster at the same addresses is not served, until ours is back', async () => {
  let clusterId = 'ours';
  const { gateway, bootstrapPort, events, close } = await gatewayOver(() => clusterId);
  const told = (event: string) => events.since(0).filter((entry) => entry.event === event);
  try {
    const before = connect(bootstrapPort, '127.0.0.1');
    before.on('error', () => before.destroy());
    await until('a session', () => gateway.stats.connections === 1);
    clusterId = 'theirs';
    await until('the end of the session', () => gateway.stats.connections === 0);
    assert.equal(gateway.isReady, false);
    assert.match(told('destination_changed')[0]?.message ?? '', /is cluster theirs now, not ours/);
    const late = connect(bootstrapPort, '127.0.0.1');
    late.on('error', () => late.destroy());
    await until('the refusal', () => told('connection_refused').length > 0);
    clusterId = 'ours';
    await until('ours again', () => gateway.isReady);
    assert.equal(told('destination_changed').length, 1, 'told once');
    const again = connect(bootstrapPort, '127.0.0.1');
    again.on('error', () => again.destroy());
    await until('a session again', () => gateway.stats.connections === 1);
    for (const socket of [before, late, again]) socket.destroy();
  } finally {
    await close();
  }
});

test('R14: a client that connects and sends no request is ended', async () => {
  let nowMs = 0;
  const reasons: unknown[] = [];
  const { gateway, bootstrapPort, close } = await gatewayOver(() => 'ours', {
    now: () => nowMs,
    onConnection: (phase, { reason = null }) => {
      if (phase === 'closed') reasons.push(reason);
    },
  });
  try {
    const silent = connect(bootstrapPort, '127.0.0.1');
    silent.on('error', () => silent.destroy());
    // Half a request is none.
    silent.write(Buffer.from([0, 0, 1, 0, 0, 18]));
    await until('a session', () => gateway.stats.connections === 1);
    nowMs = silentMsMax - 1;
    await until('the bytes', () => gateway.stats.bytesFromClientsTotal === 6);
    assert.equal(gateway.stats.connections, 1);
    nowMs = silentMsMax;
    await until('its end', () => gateway.stats.connections === 0);
    assert.deepEqual(reasons, [`no request within ${silentMsMax} ms`]);
    assert.equal(gateway.stats.vanishedTotal, 1);
    await until('the FIN', () => silent.readableEnded || silent.destroyed);
  } finally {
    await close();
  }
});

test('R14: who was ended and kept its side open was no connection, as often as it liked', async () => {
  const { bootstrapPort, events, close } = await gatewayOver(() => 'ours', {
    connectionsPerAddressMax: 1,
  });
  const reasons = (): unknown[] =>
    events
      .since(0)
      .flatMap(({ event, fields }) => (event === 'connection_refused' ? fields.reason : []));
  const dialled = () => {
    const socket = connect({ host: '127.0.0.1', port: bootstrapPort, allowHalfOpen: true });
    socket.on('error', () => socket.destroy());
    socket.resume();
    return socket;
  };
  const open = dialled();
  try {
    open.write('GET / HTTP/1.1\r\n\r\n');
    await until('the end of our side', () => open.readableEnded);
    const second = dialled();
    await until('the end of the second', () => second.readableEnded || second.destroyed);
    second.destroy();
    assert.match(String(reasons().at(-1)), /there are 1 connections of .* already/);
    open.destroy();
    await until('room for one', async () => {
      const told = reasons().length;
      const next = dialled();
      next.write('GET / HTTP/1.1\r\n\r\n');
      await until('its end', () => next.readableEnded || next.destroyed);
      next.destroy();
      return reasons().length > told && /an HTTP request/.test(String(reasons().at(-1)));
    });
  } finally {
    open.destroy();
    await close();
  }
});

test('a fault of ours while the list of brokers is renewed was told as an unreachable destination', async () => {
  let fault: Error | null = null;
  const clusterId = (): string => {
    if (fault !== null) throw fault;
    return 'ours';
  };
  const { gateway, events, close } = await gatewayOver(clusterId);
  const told = () => new Set(events.since(0).map(({ level, event }) => `${level} ${event}`));
  try {
    fault = new TypeError('not a function');
    await until('the fault', () => told().has('error gateway_fault'));
    assert.deepEqual([gateway.isReady, told().has('warn destination_unreachable')], [false, false]);
    fault = null;
    await until('its end', () => gateway.isReady);
    fault = new ClusterError('UNREACHABLE', 'gone', { maybeSent: false });
    await until('another cause', () => told().has('warn destination_unreachable'));
  } finally {
    await close();
  }
});

const page = readFileSync(path.join(rootDirectory, 'docs/proxy-faults.md'), 'utf8');
const rows = [...page.matchAll(/^\| (\d+) \| ([^|]+) \| ([^|]+) \|$/gm)];

test('docs/proxy-faults.md has each of the 44 faults once', () => {
  assert.deepEqual(
    rows.map(([, number]) => Number(number)),
    Array.from({ length: 44 }, (_, index) => index + 1),
  );
});

test('docs/proxy-faults.md names tests that exist, or says why none is needed', () => {
  for (const [, number, , here = ''] of rows) {
    const tests = [...here.matchAll(/`(test\/[^`]+)`: ((?:“[^”]+”(?:, )?)+)/g)];
    if (tests.length === 0) assert.match(here, /^Cannot: .{20,}/, `fault ${number}`);
    for (const [, file = '', titles = ''] of tests) {
      const text = readFileSync(path.join(rootDirectory, file), 'utf8').replaceAll('\\', '');
      for (const [, title = ''] of titles.matchAll(/“([^”]+)”/g)) {
        assert.ok(text.includes(title), `fault ${number}: ${file} has no test “${title}”`);
      }
    }
  }
});
