// The upstream of a client with a certificate: logged in by a delegation token over the SCRAM that
// the listener has, tried again while the token is young, replaced when a broker does not know it,
// renewed in time; and nothing of the client goes out meanwhile.
import assert from 'node:assert/strict';
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { decodeSaslAuthenticateRequest } from '../../../protocol/generated/sasl-authenticate-request.ts';
import {
  createSaslAuthenticateResponse,
  encodeSaslAuthenticateResponse,
} from '../../../protocol/generated/sasl-authenticate-response.ts';
import {
  decodeSaslHandshakeRequest,
  saslHandshakeRequestCodec,
} from '../../../protocol/generated/sasl-handshake-request.ts';
import {
  createSaslHandshakeResponse,
  encodeSaslHandshakeResponse,
  saslHandshakeResponseCodec,
} from '../../../protocol/generated/sasl-handshake-response.ts';
import { ApiKey, ErrorCode } from '../../../protocol/index.ts';
import { saslHandshakeApi } from '../../../src/cluster/apis.ts';
import type { ClusterError } from '../../../src/cluster/cluster.ts';
import type { DelegationToken, DelegationTokens } from '../../../src/gateway/delegation-tokens.ts';
import { saslHandshakeHandler } from '../../../src/gateway/handlers/sasl-handshake.ts';
import { exchangeOn } from '../../../src/gateway/socket-exchange.ts';
import { type UpstreamIdentity, UpstreamLogins } from '../../../src/gateway/upstream-identity.ts';
import { until } from '../../helpers/wait.ts';
import { FakeBroker } from '../cluster/fake-broker.ts';
import { exchange, FakeSession } from './read-fixtures.ts';
import { sessionBetween } from './session-fixtures.ts';
import { int32, requestFrame } from './wire-fixtures.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

/** SCRAM's server side for tokens (RFC 5802), with one password for all. */
class TokenBroker extends FakeBroker {
  /** Logins that are refused, as if the token were not known yet. */
  refusals = 0;
  sessionLifetimeMs = 0n;
  readonly handshakes: string[] = [];
  readonly ids: string[] = [];
  readonly #hash: 'sha256' | 'sha512';
  #first = '';
  #serverFirst = '';

  constructor(mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512', known: (id: string) => string) {
    super({ 17: [0, 1], 36: [0, 2] });
    this.#hash = mechanism === 'SCRAM-SHA-256' ? 'sha256' : 'sha512';
    this.handlers.set(17, ({ header, reader }) => {
      const asked = decodeSaslHandshakeRequest(reader, header.apiVersion).mechanism;
      this.handshakes.push(asked);
      const errorCode = asked === mechanism ? 0 : ErrorCode.UNSUPPORTED_SASL_MECHANISM;
      const response = createSaslHandshakeResponse({ errorCode, mechanisms: [mechanism] });
      return (writer) => encodeSaslHandshakeResponse(writer, response, header.apiVersion);
    });
    this.handlers.set(36, ({ header, reader }) => {
      const said = decodeSaslAuthenticateRequest(reader, header.apiVersion).authBytes.toString();
      const response = createSaslAuthenticateResponse(this.#answer(said, known));
      return (writer) => encodeSaslAuthenticateResponse(writer, response, header.apiVersion);
    });
  }

  #answer(said: string, known: (id: string) => string) {
    const first = /^n,,(n=([^,]*),r=([^,]*),tokenauth=true)$/.exec(said);
    if (first) {
      const [, bare = '', id = '', nonce = ''] = first;
      this.ids.push(id);
      if (this.refusals > 0) {
        this.refusals--;
        return { errorCode: 58, errorMessage: 'invalid credentials' };
      }
      this.#first = bare;
      this.#serverFirst = `r=${nonce}server,s=${Buffer.from('salt').toString('base64')},i=4096`;
      return { authBytes: Buffer.from(this.#serverFirst) };
    }
    const [withoutProof = ''] = said.split(',p=');
    const bytes = createHash(this.#hash).digest().length;
    const password = known(this.ids.at(-1) ?? '');
    const salted = pbkdf2Sync(password, 'salt', 4096, bytes, this.#hash);
    const serverKey = createHmac(this.#hash, salted).update('Server Key').digest();
    const message = [this.#first, this.#serverFirst, withoutProof].join(',');
    const signature = createHmac(this.#hash, serverKey).update(message).digest('base64');
    const { sessionLifetimeMs } = this;
    return { authBytes: Buffer.from(`v=${signature}`), sessionLifetimeMs };
  }
}

class World {
  nowMs = 100_000;
  /** Of tokens that are handed out from now on. */
  madeAtMs = 0;
  readonly dropped: string[] = [];
  readonly broker: TokenBroker;
  readonly logins: UpstreamLogins;
  #made = 1;

  constructor(mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-512' = 'SCRAM-SHA-512') {
    this.broker = new TokenBroker(mechanism, (id) => `hmac of ${id}`);
    open.push(this.broker);
    const tokens = {
      tokenFor: () => Promise.resolve(this.token()),
      drop: (_: string, token: DelegationToken) => {
        this.dropped.push(token.id);
        this.#made++;
      },
    } as unknown as DelegationTokens;
    this.logins = new UpstreamLogins({ tokens, now: () => this.nowMs });
  }

  token(): DelegationToken {
    const id = `token-${this.#made}`;
    return { id, hmac: `hmac of ${id}`, madeAtMs: this.madeAtMs, lifeMs: 1_000_000 };
  }

  async connect(identity: UpstreamIdentity): Promise<Socket> {
    if (this.broker.port === 0) await this.broker.listen();
    const dial = (): Promise<Socket> =>
      new Promise((resolve) => {
        const socket = connect(this.broker.port, '127.0.0.1', () => resolve(socket));
      });
    const socket = await identity.connect(dial);
    open.push({ close: async () => void socket.destroy() });
    return socket;
  }
}

async function deadSocket(): Promise<{ socket: Socket }> {
  const broker = new FakeBroker({});
  open.push(broker);
  await broker.listen();
  const socket = connect(broker.port, '127.0.0.1');
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  socket.destroy();
  await until('its end', () => socket.closed);
  return { socket };
}

describe('the upstream of a client with a certificate', () => {
  test('is logged in by its token, and nothing is left unread', async () => {
    const world = new World();
    const socket = await world.connect(world.logins.identity('app'));
    assert.deepEqual(world.broker.ids, ['token-1']);
    assert.ok(socket.isPaused());
    assert.equal(socket.listenerCount('data') + socket.listenerCount('error'), 0);
  });

  test('a broker that hangs up in the middle is an error, not the end of the process', async () => {
    const world = new World();
    world.broker.handlers.set(36, () => 'hang up');
    await assert.rejects(world.connect(world.logins.identity('app')), /ended the connection/);
    const { socket } = await deadSocket();
    const say = exchangeOn(socket, 'test');
    await assert.rejects(say(saslHandshakeApi, { mechanism: 'PLAIN' }), /ended the connection/);
  });

  test('takes the other SCRAM where the listener has that, and remembers it', async () => {
    const world = new World('SCRAM-SHA-256');
    await world.connect(world.logins.identity('app'));
    await world.connect(world.logins.identity('other'));
    const tried = ['SCRAM-SHA-512', 'SCRAM-SHA-256', 'SCRAM-SHA-256'];
    assert.deepEqual(world.broker.handshakes, tried);
  });

  test('tries again while the token is young: not every broker has heard of it', async () => {
    const world = new World();
    world.madeAtMs = world.nowMs - 1_000;
    world.broker.refusals = 2;
    await world.connect(world.logins.identity('app'));
    assert.deepEqual(world.broker.ids, ['token-1', 'token-1', 'token-1']);
    assert.equal(world.broker.connectionsCount, 3);
  });

  test('takes a new token, once, when a broker does not know one that it should', async () => {
    const world = new World();
    world.broker.refusals = 1;
    await world.connect(world.logins.identity('app'));
    assert.deepEqual(world.broker.ids, ['token-1', 'token-2']);
    world.broker.refusals = 2;
    await assert.rejects(world.connect(world.logins.identity('app')), /token-3 was refused/);
    assert.deepEqual(world.dropped, ['token-1', 'token-2']);
  });

  test('is renewed when most of its session is over; a refusal is told', async () => {
    const world = new World();
    world.broker.sessionLifetimeMs = 60_000n;
    const identity = world.logins.identity('app');
    const socket = await world.connect(identity);
    const told: string[] = [];
    const session = {
      exchange: exchangeOn(socket, 'test'),
      onRenewed: () => told.push('renewed'),
      onFailed: ({ code, message }: ClusterError) => told.push(`${code}: ${message}`),
    };
    world.nowMs += 47_000;
    assert.equal(identity.renewal(session), undefined);
    world.nowMs += 2_000;
    const renewal = identity.renewal(session);
    assert.ok(renewal !== undefined);
    assert.equal(identity.renewal(session), renewal, 'one at a time');
    await renewal;
    await until('the word', () => told.length === 1);
    assert.equal(identity.renewal(session), undefined);
    world.nowMs += 50_000;
    world.broker.refusals = 1;
    await assert.rejects(identity.renewal(session) ?? Promise.resolve(), /could not be renewed/);
    await until('the word', () => told.length === 2);
    assert.match(told.join(), /^renewed,CLOSED: the session of User:app could not be renewed: /);
  });
});

const heartbeat = (correlationId: number): Buffer =>
  requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId });

test('R13: while a session is renewed nothing else goes upstream, and a failure ends it', async () => {
  const settling: { onRenewed(): void; onFailed(error: Error): void }[] = [];
  let pending: Promise<void> | undefined;
  let isDue = false;
  const identity = {
    principal: 'User:app',
    renewal: (session: (typeof settling)[number]) => {
      if (!isDue) return undefined;
      settling.push(session);
      pending ??= new Promise(() => undefined);
      return pending;
    },
  } as unknown as UpstreamIdentity;
  const fixture = await sessionBetween({ identity });
  const { broker, client, summaries } = fixture;
  broker.script = ({ reply }) => reply(int32(0));
  try {
    client.socket.write(heartbeat(1));
    await until('the first answer', () => client.frames.length === 1);
    isDue = true;
    client.socket.write(heartbeat(2));
    await until('the renewal', () => settling.length > 0);
    const seen = broker.seen.length;
    isDue = false;
    settling.at(-1)?.onRenewed();
    await until('the second answer', () => client.frames.length === 2);
    assert.equal(broker.seen.length, seen + 1, 'the request had waited');
    isDue = true;
    settling.length = 0;
    client.socket.write(heartbeat(3));
    await until('another renewal', () => settling.length > 0);
    settling.at(-1)?.onFailed(new Error('the session of User:app could not be renewed: no'));
    await until('the end', () => summaries.length === 1);
    assert.match(summaries[0]?.reason ?? '', /could not be renewed/);
    assert.equal(summaries[0]?.isFault, true);
    assert.equal(summaries[0]?.principal, 'User:app');
  } finally {
    fixture.close();
  }
});

test('a client with a certificate that wants SASL as well is refused, any other is passed on', async () => {
  const codecs = { request: saslHandshakeRequestCodec, response: saslHandshakeResponseCodec };
  const session = new FakeSession({ kind: 'bootstrap' });
  session.broker.serve(codecs.request, codecs.response, () => createSaslHandshakeResponse());
  const ask = { mechanism: 'PLAIN' };
  const passed = await exchange(session, saslHandshakeHandler, codecs, 1, ask);
  assert.equal(passed.disposition, 'forward');
  session.principal = 'User:app';
  const refused = await exchange(session, saslHandshakeHandler, codecs, 1, ask);
  assert.equal(refused.response.errorCode, ErrorCode.ILLEGAL_SASL_STATE);
  assert.equal(session.broker.seen.length, 1);
});
