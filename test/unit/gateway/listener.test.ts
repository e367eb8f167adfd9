// A plain listener: what it does with errors, before and after its port is bound.
import assert from 'node:assert/strict';
import { connect, Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { Listener, type ListenerOptions } from '../../../src/gateway/listener.ts';
import { until } from '../../helpers/wait.ts';

function options(
  parts: { sockets?: Socket[]; names?: string[]; faults?: Error[] } = {},
): ListenerOptions {
  const { sockets = [], names = [], faults = [] } = parts;
  return {
    admit: () => null,
    onDropped: () => assert.fail('was handed on'),
    onSocket: (socket, { name }) => {
      sockets.push(socket);
      names.push(name);
    },
    onRefused: (client) => assert.fail(`${client} was refused`),
    onFault: (error) => faults.push(error),
  };
}

test('a connection that the system cannot accept ends neither the port nor the process', async () => {
  const sockets: Socket[] = [];
  const names: string[] = [];
  const faults: Error[] = [];
  const address = { host: '127.0.0.1', port: 0 };
  const listener = await Listener.bind(address, options({ sockets, names, faults }));
  const clients = [connect(listener.port, address.host)];
  await until('a connection', () => sockets.length === 1);
  // Node keeps the server at each socket that it accepted.
  const server: unknown = Reflect.get(sockets[0] ?? {}, 'server');
  assert.ok(server instanceof Server);
  for (let count = 1; count <= 2; count++) {
    server.emit('error', Object.assign(new Error('accept ENFILE'), { code: 'ENFILE' }));
    assert.equal(faults.length, count);
  }
  clients.push(connect(listener.port, address.host));
  await until('another connection', () => sockets.length === 2);
  assert.deepEqual(
    names,
    clients.map(({ localPort }) => `127.0.0.1:${localPort}`),
  );
  for (const socket of [...clients, ...sockets]) socket.destroy();
  await assert.rejects(Listener.bind({ ...address, port: listener.port }, options()), /EADDRINUSE/);
  listener.close();
});

test('a connection that is not admitted is ended unread, and the port serves others', async () => {
  const sockets: Socket[] = [];
  const refusals: string[] = [];
  let isFull = true;
  const listener = await Listener.bind(
    { host: '127.0.0.1', port: 0 },
    {
      ...options({ sockets }),
      admit: ({ host }) => (isFull ? `enough of ${host}` : null),
      onRefused: (client, reason) => refusals.push(`${client}: ${reason}`),
    },
  );
  const refused = connect(listener.port, '127.0.0.1');
  refused.on('error', () => refused.destroy());
  refused.resume();
  await until('the refusal', () => refusals.length === 1);
  assert.match(refusals[0] ?? '', /^127\.0\.0\.1:\d+: enough of 127\.0\.0\.1$/);
  await until('the end', () => refused.destroyed || refused.readableEnded);
  isFull = false;
  const admitted = connect(listener.port, '127.0.0.1');
  await until('a connection', () => sockets.length === 1);
  for (const socket of [refused, admitted, ...sockets]) socket.destroy();
  listener.close();
});
