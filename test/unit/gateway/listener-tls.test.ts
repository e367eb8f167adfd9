// TLS at our listeners, without brokers: who gets through, what the log says of those who do not,
// and that certificates are replaced under way.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as connectPlain, type Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turnOver } from 'node:timers/promises';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { ConnectionBudget } from '../../../src/gateway/connection-budget.ts';
import { GatewayError } from '../../../src/gateway/gateway-error.ts';
import { Listener } from '../../../src/gateway/listener.ts';
import { ListenerTls } from '../../../src/gateway/listener-tls.ts';
import { Events } from '../../../src/observe/events.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
  withoutOpenssl,
} from '../../helpers/certificates.ts';
import { until } from '../../helpers/wait.ts';

const skip = await withoutOpenssl();

describe('a listener with TLS', { skip }, () => {
  let directory = '';
  let ca: CertificateAuthority;
  let server: Certificate;
  let client: Certificate;
  const files = () => ({
    certificate: path.join(directory, 'tls.crt'),
    key: path.join(directory, 'tls.key'),
  });

  async function install(certificate: Certificate): Promise<void> {
    await copyFile(certificate.certificateFile, files().certificate);
    await copyFile(certificate.keyFile, files().key);
  }

  before(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-listener-'));
    ca = await certificateAuthority();
    server = await ca.sign('server', 'DNS:localhost,IP:127.0.0.1');
    client = await ca.sign('client', 'DNS:client');
    await install(server);
  });

  after(async () => {
    await ca.remove();
    await rm(directory, { recursive: true, force: true });
  });

  async function listening(
    clientAuth: 'none' | 'requested' | 'required' = 'none',
    { connectionsMax = 10, ...options }: { handshakeMsMax?: number; connectionsMax?: number } = {},
  ) {
    const events = new Events();
    const clientCa = clientAuth === 'none' ? {} : { clientCa: ca.certificateFile };
    const config = { ...files(), ...clientCa, clientAuth };
    const tls = await ListenerTls.load({ config, events, checkIntervalMs: 3_600_000 });
    const budget = new ConnectionBudget({ connectionsMax });
    const accepted: Socket[] = [];
    const names: string[] = [];
    const refusals: string[] = [];
    const refused: string[] = [];
    const listener = await Listener.bind(
      { host: '127.0.0.1', port: 0 },
      {
        tls,
        ...options,
        admit: ({ host }) => budget.take(host),
        onDropped: ({ host }) => budget.release(host),
        onSocket: (socket, { host, name }) => {
          socket.once('close', () => budget.release(host));
          accepted.push(socket);
          names.push(name);
          socket.on('error', () => socket.destroy());
          socket.pipe(socket);
        },
        onRefused: (who, reason) => {
          refused.push(who);
          refusals.push(reason);
        },
        onFault: (error) => assert.fail(error),
      },
    );
    const close = (): void => {
      tls.close();
      listener.close();
      for (const socket of accepted) socket.destroy();
    };
    return { tls, port: listener.port, accepted, names, refusals, refused, events, close };
  }

  async function dial(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
    const socket = connect({ host: '127.0.0.1', port, ca: ca.certificate, ...options });
    await once(socket, 'secureConnect');
    return socket;
  }

  /** What the server does to somebody who is not let in. */
  async function ended(socket: Socket): Promise<void> {
    socket.on('error', () => socket.destroy());
    socket.resume();
    await until('the end of the connection', () => socket.destroyed || socket.readableEnded);
    socket.destroy();
  }

  test('lets TLS through, with the certificate of the files', async () => {
    const { tls, port, names, refusals, close } = await listening();
    const socket = await dial(port);
    socket.write('hello');
    const [echo] = await once(socket, 'data');
    assert.equal(String(echo), 'hello');
    assert.deepEqual(names, [`127.0.0.1:${socket.localPort}`]);
    assert.equal(tls.expiresTimeMs, Date.parse(socket.getPeerCertificate().valid_to));
    socket.destroy();
    assert.deepEqual(refusals, []);
    close();
  });

  const foreign: readonly [string, Buffer | string, RegExp][] = [
    ['a Kafka request', Buffer.from('0000002f001200040000000100046a617661', 'hex'), /plain bytes/],
    ['HTTP', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', /HTTP request/],
  ];
  for (const [what, bytes, pattern] of foreign) {
    test(`says in one line that ${what} came in without TLS`, async () => {
      const { port, accepted, refusals, close } = await listening();
      const socket = connectPlain(port, '127.0.0.1');
      socket.write(bytes);
      await ended(socket);
      await until('the refusal', () => refusals.length > 0);
      assert.equal(refusals.length, 1);
      assert.match(refusals[0] ?? '', pattern);
      assert.equal(accepted.length, 0);
      close();
    });
  }

  test('says nothing of who only knocks', async () => {
    const { port, refusals, close } = await listening();
    const knock = connectPlain(port, '127.0.0.1');
    await once(knock, 'connect');
    knock.destroy();
    const socket = await dial(port);
    socket.destroy();
    assert.deepEqual(refusals, []);
    close();
  });

  test('names a client that was gone when its handshake failed', async () => {
    const { port, refusals, refused, close } = await listening();
    const socket = connectPlain(port, '127.0.0.1');
    await once(socket, 'connect');
    const client = `127.0.0.1:${socket.localPort}`;
    // Both ends are in this process: some turns later the listener has accepted it. It reads what
    // came before the reset after that.
    for (let turn = 0; turn < 20; turn++) await turnOver();
    socket.write('not TLS', () => socket.resetAndDestroy());
    await until('the refusal', () => refusals.length > 0);
    assert.match(refusals[0] ?? '', /plain bytes/);
    assert.deepEqual(refused, [client]);
    close();
  });

  test('says that a handshake took too long', async () => {
    const { port, refusals, close } = await listening('none', { handshakeMsMax: 100 });
    const socket = connectPlain(port, '127.0.0.1');
    socket.write(Buffer.from([0x16, 0x03]));
    await ended(socket);
    await until('the refusal', () => refusals.length > 0);
    assert.deepEqual(refusals, ['the TLS handshake took too long']);
    close();
  });

  test('R14: handshakes under way, as many as anyone liked, were no connections', async () => {
    const { port, accepted, refusals, close } = await listening('none', { connectionsMax: 1 });
    const shaking = connectPlain(port, '127.0.0.1');
    await once(shaking, 'connect');
    const second = connectPlain(port, '127.0.0.1');
    await ended(second);
    assert.deepEqual(refusals, ['there are 1 connections already']);
    shaking.destroy();
    const admitted = async (): Promise<boolean> => {
      const socket = connect({ host: '127.0.0.1', port, ca: ca.certificate });
      socket.on('error', () => socket.destroy());
      await until('an outcome', () => accepted.length > 0 || socket.destroyed);
      return accepted.length > 0;
    };
    await until('a handshake that has ended is none any more', admitted);
    accepted[0]?.destroy();
    await until('neither is a client that has gone', async () => {
      const socket = connect({ host: '127.0.0.1', port, ca: ca.certificate });
      socket.on('error', () => socket.destroy());
      await until('an outcome', () => accepted.length > 1 || socket.destroyed);
      return accepted.length > 1;
    });
    close();
  });

  test('R14: clients whose certificate is refused are counted no more', async () => {
    const { port, refusals, close } = await listening('required', { connectionsMax: 1 });
    const lacks = /showed no certificate/;
    for (let count = 1; count <= 3; count++) {
      await until('room for one', async () => {
        const before = refusals.filter((reason) => lacks.test(reason)).length;
        const socket = connect({ host: '127.0.0.1', port, ca: ca.certificate });
        await ended(socket);
        return refusals.filter((reason) => lacks.test(reason)).length > before;
      });
    }
    close();
  });

  test('closing ends handshakes under way', async () => {
    const { port, close } = await listening();
    const waiting = connectPlain(port, '127.0.0.1');
    waiting.write(Buffer.from([0x16, 0x03]));
    const other = await dial(port);
    close();
    await ended(waiting);
    other.destroy();
  });

  test('wants a certificate of the client CA where it is required', async () => {
    const { port, accepted, refusals, close } = await listening('required');
    const good = await dial(port, { cert: client.certificate, key: client.key });
    await until('the client with a certificate', () => accepted.length === 1);
    good.destroy();
    await ended(await dial(port));
    await until('the first refusal', () => refusals.length === 1);
    assert.match(refusals[0] ?? '', /showed no certificate/);
    const other = await certificateAuthority('other');
    const stranger = await other.sign('stranger', 'DNS:client');
    await ended(await dial(port, { cert: stranger.certificate, key: stranger.key }));
    await until('the second refusal', () => refusals.length === 2);
    assert.match(refusals[1] ?? '', /certificate is not accepted/);
    assert.equal(accepted.length, 1);
    await other.remove();
    close();
  });

  test('takes clients without a certificate where it is only requested', async () => {
    const { port, accepted, refusals, close } = await listening('requested');
    const socket = await dial(port);
    await until('the client', () => accepted.length === 1);
    socket.destroy();
    assert.deepEqual(refusals, []);
    close();
  });

  test('takes a new certificate without a restart, and keeps the old one when it is broken', async () => {
    const { tls, port, events, close } = await listening();
    const serial = async (): Promise<string> => {
      const socket = await dial(port);
      const { serialNumber } = socket.getPeerCertificate();
      socket.destroy();
      return serialNumber;
    };
    const first = await serial();
    const staying = await dial(port);
    await writeFile(files().key, client.key);
    await tls.check();
    await tls.check();
    assert.equal(await serial(), first);
    const failures = events.since(0).filter(({ event }) => event === 'tls_reload_failed');
    assert.equal(failures.length, 1, 'told once');
    assert.match(failures[0]?.message ?? '', /old ones are kept/);
    assert.ok(!JSON.stringify(failures).includes('PRIVATE KEY'));
    const renewed = await ca.sign('renewed', 'DNS:localhost,IP:127.0.0.1');
    await install(renewed);
    await tls.check();
    assert.notEqual(await serial(), first);
    assert.equal(events.since(0).filter(({ event }) => event === 'tls_reloaded').length, 1);
    staying.write('still here');
    const [echo] = await once(staying, 'data');
    assert.equal(String(echo), 'still here');
    staying.destroy();
    await install(server);
    close();
  });

  test('a certificate once shown was enough for good after a reload: TLS resumed', async (t) => {
    const { tls, port, accepted, refusals, close } = await listening('required');
    t.after(close);
    await install(await ca.sign('renewed', 'DNS:localhost,IP:127.0.0.1'));
    await tls.check();
    const shown = { cert: client.certificate, key: client.key };
    const first = connect({ host: '127.0.0.1', port, ca: ca.certificate, ...shown });
    t.after(() => first.destroy());
    const [session] = (await once(first, 'session')) as [Buffer];
    const again = connect({ host: '127.0.0.1', port, ca: ca.certificate, session });
    t.after(() => again.destroy());
    again.on('error', () => again.destroy());
    await until('an outcome', () => refusals.length + accepted.length === 2);
    assert.deepEqual(refusals, ['the client showed no certificate']);
    await install(server);
  });

  test('files that cannot be used keep the gateway from starting, by name', async () => {
    const cases: readonly [Record<string, string>, RegExp][] = [
      [{ certificate: '/nowhere.crt' }, /\/nowhere\.crt cannot be read \(ENOENT\)/],
      [{ certificate: files().key }, /tls\.key holds no PEM certificate/],
      [{ key: files().certificate }, /tls\.crt holds no PEM private key/],
      [{ key: client.keyFile }, /cannot be used: .*mismatch/],
    ];
    for (const [changed, pattern] of cases) {
      const config = { ...files(), clientAuth: 'none' as const, ...changed };
      await assert.rejects(ListenerTls.load({ config, events: new Events() }), (error: unknown) => {
        assert.ok(error instanceof GatewayError, String(error));
        assert.equal(error.code, 'TLS_FILES');
        assert.match(error.message, pattern);
        return true;
      });
    }
  });
});
