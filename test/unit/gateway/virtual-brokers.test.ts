// Ports of virtual brokers: durable, bound before they are named, distinct, and a clear error when
// they run out.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { after, type TestContext, test } from 'node:test';
import type { BrokerInfo } from '../../../src/cluster/cluster.ts';
import { GatewayError } from '../../../src/gateway/gateway-error.ts';
import type { ListenerRole } from '../../../src/gateway/handler.ts';
import { Listener } from '../../../src/gateway/listener.ts';
import { type NodePorts, VirtualBrokers } from '../../../src/gateway/virtual-brokers.ts';
import { Events } from '../../../src/observe/events.ts';
import { releasePorts, reservePorts } from '../../helpers/ports.ts';
import { until } from '../../helpers/wait.ts';

const linkNodeId = 1_000_000;
const reserved = await reservePorts(6, { isConsecutive: true });
const [bootstrapPort = 0, first = 0] = reserved;
after(() => releasePorts(reserved));

class Ports implements NodePorts {
  ports: Readonly<Record<string, number>>;
  readonly saved: Readonly<Record<string, number>>[] = [];
  failure: Error | null = null;

  constructor(ports: Readonly<Record<string, number>> = {}) {
    this.ports = ports;
  }
  load(): Readonly<Record<string, number>> {
    return this.ports;
  }
  save(ports: Readonly<Record<string, number>>): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    this.ports = ports;
    this.saved.push(ports);
    return Promise.resolve();
  }
}

function broker(nodeId: number, host = `real-${nodeId}`): BrokerInfo {
  return { nodeId, host, port: 9092, rack: null };
}

function brokersOn(ports: NodePorts, count = 5) {
  const roles: ListenerRole[] = [];
  const events = new Events();
  const brokers = new VirtualBrokers({
    config: {
      bind: '127.0.0.1',
      advertise: 'proxy.example',
      bootstrapPort,
      brokerPorts: { first, last: first + count - 1 },
      linkNodeId,
    },
    ports,
    events,
    admit: () => null,
    onDropped: () => undefined,
    onSocket: (role, socket) => {
      roles.push(role);
      socket.destroy();
    },
  });
  return { brokers, roles, events };
}

async function roleAt(port: number, roles: ListenerRole[]): Promise<ListenerRole | undefined> {
  const before = roles.length;
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => socket.destroy());
  await until('the connection', () => roles.length > before);
  socket.destroy();
  return roles.at(-1);
}

test('ids keep their ports over restarts, sparse and vanished ones too', async () => {
  const ports = new Ports();
  const one = brokersOn(ports);
  await one.brokers.start([broker(5), broker(0)]);
  const before = one.brokers.endpoints();
  assert.deepEqual(
    before.map(({ nodeId, port }) => [nodeId, port]),
    [
      [0, first],
      [5, first + 1],
      [linkNodeId, first + 2],
    ],
  );
  assert.deepEqual(await roleAt(first + 1, one.roles), { kind: 'broker', nodeId: 5 });
  assert.deepEqual(await roleAt(first + 2, one.roles), { kind: 'link' });
  assert.deepEqual(await roleAt(bootstrapPort, one.roles), { kind: 'bootstrap' });
  one.brokers.close();

  const two = brokersOn(ports);
  await two.brokers.start([broker(3), broker(5)]);
  const after = new Map(two.brokers.endpoints().map(({ nodeId, port }) => [nodeId, port]));
  assert.equal(after.get(5), first + 1);
  assert.equal(after.get(0), first, 'the port of a broker that is gone stays bound');
  assert.equal(after.get(3), first + 3);
  assert.equal(two.brokers.broker(0), undefined);
  assert.equal(new Set(after.values()).size, after.size);
  two.brokers.close();
});

test('a new broker is bound and recorded before it can be named', async () => {
  const ports = new Ports();
  const { brokers, roles } = brokersOn(ports);
  await brokers.start([broker(1)]);
  assert.equal(brokers.endpoint(2), undefined);
  ports.failure = new Error('the state does not answer');
  await assert.rejects(brokers.ensure([broker(1), broker(2)]), /does not answer/);
  assert.equal(brokers.endpoint(2), undefined, 'not recorded, so not named');
  ports.failure = null;
  await Promise.all([brokers.ensure([broker(2)]), brokers.ensure([broker(2), broker(3)])]);
  assert.equal(brokers.endpoint(2)?.port, first + 2);
  assert.equal(brokers.endpoint(3)?.port, first + 3);
  assert.equal(ports.ports['3'], first + 3);
  assert.deepEqual(await roleAt(first + 2, roles), { kind: 'broker', nodeId: 2 });
  brokers.close();
});

/** From now on, and until it is taken back, that port cannot be bound for want of a right. */
function forbidPort(context: TestContext, forbidden: number): () => void {
  const { bind } = Listener;
  const mocked = context.mock.method(Listener, 'bind', (...[address, options]: BindArguments) => {
    if (address.port !== forbidden) return bind(address, options);
    return Promise.reject(Object.assign(new Error('permission denied'), { code: 'EACCES' }));
  });
  return () => mocked.mock.restore();
}

type BindArguments = Parameters<typeof Listener.bind>;

test('ports of an addition that failed half way stayed bound and taken for good', async (t) => {
  const ports = new Ports();
  const { brokers, roles } = brokersOn(ports);
  await brokers.start([broker(1)]);
  const allow = forbidPort(t, first + 3);
  await assert.rejects(brokers.ensure([broker(2), broker(3)]), {
    code: 'PORT_IN_USE',
    message: `port ${first + 3} for broker 3 cannot be bound: permission denied`,
  });
  assert.equal(brokers.endpoint(2), undefined);
  const other = createServer().listen(first + 2, '127.0.0.1');
  await once(other, 'listening');
  await new Promise((resolve) => other.close(resolve));
  allow();
  await brokers.ensure([broker(3), broker(2)]);
  assert.equal(brokers.endpoint(3)?.port, first + 2, 'the port was not free again');
  assert.equal(brokers.endpoint(2)?.port, first + 3);
  assert.deepEqual(await roleAt(first + 2, roles), { kind: 'broker', nodeId: 3 });
  assert.deepEqual(ports.ports, {
    1: first,
    [linkNodeId]: first + 1,
    3: first + 2,
    2: first + 3,
  });
  brokers.close();
});

test('a port that was taken over in an addition that failed was nobody’s for good', async (t) => {
  const ports = new Ports();
  const { brokers, roles } = brokersOn(ports, 4);
  await brokers.start([broker(1), broker(2)]);
  await brokers.follow([]);
  // Broker 7 gets the last free port, 8 that of 1, and 9 cannot be given that of 2.
  const allow = forbidPort(t, first + 1);
  await assert.rejects(brokers.follow([broker(7), broker(8), broker(9)]), /permission denied/);
  assert.deepEqual(
    [...brokers.endpoints()].map(({ nodeId }) => nodeId),
    [linkNodeId],
  );
  allow();
  await brokers.follow([broker(9), broker(8), broker(7)]);
  const served = [9, 8, 7].map((nodeId) => brokers.endpoint(nodeId)?.port);
  assert.deepEqual(served, [first, first + 1, first + 3]);
  assert.deepEqual(await roleAt(first, roles), { kind: 'broker', nodeId: 9 });
  assert.deepEqual(await roleAt(first + 3, roles), { kind: 'broker', nodeId: 7 });
  brokers.close();
});

test('a changed address is followed, a known rack kept', async () => {
  const { brokers } = brokersOn(new Ports());
  await brokers.start([{ ...broker(1), rack: 'a' }]);
  await brokers.ensure([broker(1, 'moved')]);
  assert.deepEqual(brokers.broker(1), { nodeId: 1, host: 'moved', port: 9092, rack: 'a' });
  assert.equal(brokers.endpoint(1)?.host, 'proxy.example');
  assert.equal(brokers.endpoint(1)?.rack, 'a');
  brokers.close();
});

function toldOf(events: Events, name: string): string[] {
  const told = events.since(0).filter(({ event }) => event === name);
  return told.map(({ message }) => message);
}

test('a used-up range is told of once, and those that have a port go on', async () => {
  const { brokers, events } = brokersOn(new Ports(), 2);
  await brokers.start([broker(1)]);
  await brokers.ensure([broker(1, 'moved'), broker(2)]);
  await brokers.follow([broker(1, 'moved'), broker(2)]);
  assert.deepEqual(toldOf(events, 'broker_ports_used_up').length, 1);
  assert.match(
    toldOf(events, 'broker_ports_used_up')[0] ?? '',
    /brokerPorts \d+-\d+ is used up: no client can reach node 2; make the range larger/,
  );
  assert.equal(brokers.endpoint(2), undefined);
  assert.equal(brokers.endpoint(1)?.port, first);
  assert.equal(brokers.broker(1)?.host, 'moved', 'a changed address was no longer followed');
  brokers.close();
});

test('a first start with too small a range is refused, a later one is not', async () => {
  const ports = new Ports();
  const tooSmall = brokersOn(ports, 2);
  await assert.rejects(tooSmall.brokers.start([broker(1), broker(2)]), (error) => {
    assert.ok(error instanceof GatewayError);
    assert.equal(error.code, 'PORTS_USED_UP');
    return true;
  });
  const before = brokersOn(new Ports(), 2);
  await before.brokers.start([broker(1)]);
  before.brokers.close();
  const again = brokersOn(new Ports({ '1': first, [String(linkNodeId)]: first + 1 }), 2);
  await again.brokers.start([broker(1), broker(2)]);
  assert.deepEqual([...again.brokers.endpoints()].map(({ nodeId }) => nodeId).sort(), [
    1,
    linkNodeId,
  ]);
  assert.equal(toldOf(again.events, 'broker_ports_used_up').length, 1);
  again.brokers.close();
});

test('brokers replaced under new ids used the range up for good', async () => {
  const ports = new Ports();
  const { brokers, roles, events } = brokersOn(ports, 3);
  await brokers.start([broker(1), broker(2)]);
  await brokers.follow([broker(2), broker(7)]);
  assert.equal(brokers.endpoint(1), undefined);
  assert.equal(brokers.endpoint(2)?.port, first + 1);
  assert.equal(brokers.endpoint(7)?.port, first);
  assert.deepEqual(await roleAt(first, roles), { kind: 'broker', nodeId: 7 });
  assert.equal(ports.ports['7'], first);
  assert.equal(ports.ports['1'], undefined);
  assert.equal(toldOf(events, 'node_port_taken_over').length, 1);
  // The one that was gone comes back, and another goes: the longest gone gives up its port.
  await brokers.follow([broker(2), broker(7), broker(1)]);
  assert.equal(brokers.endpoint(1), undefined);
  await brokers.follow([broker(7), broker(1)]);
  assert.equal(brokers.endpoint(1)?.port, first + 1);
  assert.deepEqual(await roleAt(first + 1, roles), { kind: 'broker', nodeId: 1 });
  brokers.close();
});

test('a fenced broker gets a port, and nobody is sent there who can go elsewhere', async () => {
  const { brokers } = brokersOn(new Ports());
  await brokers.start([broker(1)]);
  await brokers.ensure([broker(1), { ...broker(2), isFenced: true }]);
  assert.equal(brokers.endpoint(2)?.port, first + 2);
  assert.deepEqual(
    [...brokers.brokers()].map(({ nodeId }) => nodeId),
    [1],
  );
  brokers.close();
});

test('a fenced broker that never served kept its port for good', async () => {
  const { brokers } = brokersOn(new Ports(), 3);
  await brokers.start([broker(1)]);
  const fenced = { ...broker(2), isFenced: true };
  await brokers.ensure([broker(1), fenced]);
  await brokers.follow([broker(1)]);
  assert.equal(brokers.endpoint(2)?.port, first + 2, 'nobody else wants it');
  await brokers.follow([broker(1), broker(7)]);
  assert.equal(brokers.endpoint(7)?.port, first + 2);
  await brokers.ensure([broker(1), fenced]);
  assert.equal(brokers.endpoint(7)?.port, first + 2, 'it takes none from those that serve');
  brokers.close();
});

test('a port of another program was told of at every look for brokers', async () => {
  const held = createServer().listen(first + 1, '127.0.0.1');
  await once(held, 'listening');
  const { brokers, events } = brokersOn(new Ports(), 3);
  await brokers.start([broker(1)]);
  for (let look = 0; look < 3; look++) await brokers.follow([broker(1), broker(2)]);
  assert.equal(toldOf(events, 'port_in_use').length, 1);
  held.close();
  await brokers.follow([broker(1), broker(2)]);
  assert.equal(brokers.endpoint(2)?.port, first + 1);
  brokers.close();
});

test('a range that is 80 % used up is told of once, at a start too', async () => {
  const ports = new Ports();
  const isTold = (events: Events): number =>
    events.since(0).filter(({ event }) => event === 'broker_ports_low').length;
  const { brokers, events } = brokersOn(ports);
  await brokers.start([broker(1), broker(2)]);
  assert.equal(isTold(events), 0, 'three of five');
  await brokers.ensure([broker(3)]);
  assert.equal(isTold(events), 1, 'four of five');
  await brokers.ensure([broker(4)]);
  assert.equal(isTold(events), 1);
  brokers.close();
  const again = brokersOn(ports);
  await again.brokers.start([broker(1)]);
  assert.equal(isTold(again.events), 1);
  again.brokers.close();
});

test('a broker with the id of the link node is refused', async () => {
  const { brokers } = brokersOn(new Ports());
  const isRefused = (error: unknown): boolean =>
    error instanceof GatewayError && error.code === 'LINK_NODE_ID_TAKEN';
  await assert.rejects(brokers.start([broker(1), broker(linkNodeId)]), isRefused);
  await brokers.start([broker(1)]);
  await assert.rejects(brokers.ensure([broker(1), broker(linkNodeId)]), isRefused);
  assert.equal(brokers.broker(linkNodeId), undefined);
  brokers.close();
});

test('a recorded port that another program holds stops the start by name', async () => {
  const squatter = createServer();
  await new Promise<void>((resolve) => squatter.listen(first + 1, '127.0.0.1', resolve));
  try {
    const recorded = brokersOn(new Ports({ [String(linkNodeId)]: first, '1': first + 1 }));
    await assert.rejects(recorded.brokers.start([broker(1)]), (error) => {
      assert.ok(error instanceof GatewayError);
      assert.equal(error.code, 'PORT_IN_USE');
      assert.match(error.message, new RegExp(`port ${first + 1} for broker 1 cannot be bound`));
      return true;
    });
    // Everything that was bound on the way is free again; a new id passes the port over.
    const fresh = brokersOn(new Ports());
    await fresh.brokers.start([broker(1)]);
    assert.equal(fresh.brokers.endpoint(1)?.port, first);
    assert.equal(fresh.brokers.endpoint(linkNodeId)?.port, first + 2);
    fresh.brokers.close();
  } finally {
    squatter.close();
  }
});
