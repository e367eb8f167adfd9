// The relay of tests: bytes in order, ends after what came before them, and another target at the
// same address.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { test } from 'node:test';
import { chopped } from '../../compat/chopped-passage.ts';
import { startRecordingRelay } from '../../helpers/recording-relay.ts';
import { Relay } from '../../helpers/relay.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';

/** Answers all that it got before the FIN, with its name in front. */
async function echo(name: string): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.write(name);
    socket.on('error', () => socket.destroy());
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function placeOf(server: Server): string {
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function ask(address: string, bytes: Buffer): Promise<string> {
  const [host = '', port] = address.split(':');
  const socket = connect({ host, port: Number(port), allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.end(bytes);
  await once(socket, 'end');
  return Buffer.concat(chunks).toString('latin1');
}

test('a relay passes all bytes and the FIN behind them, cut or whole, and records them', async () => {
  const random = new SeededRandom();
  const server = await echo('one');
  const bytes = Buffer.alloc(300_000, 'x');
  const cutting = await Relay.start({ target: placeOf(server), pass: chopped(random) });
  const { relay, connections } = await startRecordingRelay(placeOf(server));
  try {
    const expected = `one${bytes.toString('latin1')}`;
    assert.equal(await ask(cutting.address, bytes), expected, random.describe());
    assert.equal(await ask(relay.address, bytes), expected);
    const recorded = connections.map(({ toServer, toClient }) => [
      Buffer.concat(toServer).equals(bytes),
      Buffer.concat(toClient).toString('latin1') === expected,
    ]);
    assert.deepEqual(recorded, [[true, true]]);
  } finally {
    await cutting.stop();
    await relay.stop();
    server.close();
  }
});

test('a relay leads new connections elsewhere, and open ones only when they are cut', async () => {
  const [one, other] = [await echo('one'), await echo('other')];
  const relay = await Relay.start({ target: placeOf(one) });
  try {
    const [host = '', port] = relay.address.split(':');
    const open = connect({ host, port: Number(port) });
    const [greeting] = (await once(open, 'data')) as [Buffer];
    assert.equal(greeting.toString(), 'one');
    relay.pointTo(placeOf(other));
    assert.equal(await ask(relay.address, Buffer.alloc(0)), 'other');
    open.write('still');
    const [answer] = (await once(open, 'data')) as [Buffer];
    assert.equal(answer.toString(), 'still');
    relay.cut();
    await once(open, 'close');
  } finally {
    await relay.stop();
    one.close();
    other.close();
  }
});
