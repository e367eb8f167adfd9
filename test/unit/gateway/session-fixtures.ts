// One client session between a raw client and a scripted broker, with handlers that the test gives,
// and a client of it that reads late.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { ClientSession } from '../../../src/gateway/client-session.ts';
import type { Handler, ListenerRole } from '../../../src/gateway/handler.ts';
import type { HeldBytes } from '../../../src/gateway/held-bytes.ts';
import { ReceiveBlocks } from '../../../src/gateway/receive-blocks.ts';
import { IntakeBudget } from '../../../src/gateway/request-intake.ts';
import type { Route, Router } from '../../../src/gateway/router.ts';
import type { SessionSummary } from '../../../src/gateway/session-options.ts';
import type { TopicDirectory } from '../../../src/gateway/topic-directory.ts';
import type { UpstreamIdentity } from '../../../src/gateway/upstream-identity.ts';
import { stalls, until } from '../../helpers/wait.ts';
import { FakeSession } from './read-fixtures.ts';
import { RawClient, ScriptedBroker, type SeenRequest } from './wire-fixtures.ts';

export interface SessionUnderTest {
  readonly broker: ScriptedBroker;
  readonly client: RawClient;
  readonly session: ClientSession;
  /** Set when the session is over. */
  readonly summaries: readonly SessionSummary[];
  close(): void;
}

/** Writes one piece after the other as the other side takes them; null is the end. */
function writePieces(socket: Socket, next: () => Buffer | null): void {
  for (let piece = next(); piece !== null; piece = next()) {
    if (socket.write(piece)) continue;
    socket.once('drain', () => writePieces(socket, next));
    return;
  }
}

/**
 * An answer of many pieces to a client that does not read: only a small part of it is taken from
 * the broker until the client reads, and all of it is read then.
 */
export async function answersLateReader(
  { broker, client }: SessionUnderTest,
  exchange: {
    readonly request: Buffer;
    readonly answerBytes: number;
    /** What the broker says next, of what it has said so many bytes of. */
    piece(sentBytes: number, request: SeenRequest): Buffer;
  },
): Promise<void> {
  const { answerBytes } = exchange;
  let sent = 0;
  broker.script = (request) =>
    writePieces(request.socket, () => {
      if (sent >= answerBytes) return null;
      const piece = exchange.piece(sent, request);
      sent += piece.length;
      return piece;
    });
  client.socket.pause();
  client.socket.write(exchange.request);
  await stalls(() => sent);
  assert.ok(sent < 32 * 1024 * 1024, `${sent} bytes were taken for a client that does not read`);
  client.socket.resume();
  await until('the whole answer', () => client.receivedBytes === answerBytes, {
    describe: () => `${client.receivedBytes} of ${answerBytes} bytes`,
  });
}

export async function sessionBetween(options: {
  handler?: Handler;
  route?: (apiKey: number) => Route;
  router?: Pick<Router, 'route'>;
  role?: ListenerRole;
  keepsFrames?: boolean;
  requestBytesMax?: number;
  intakeBudget?: IntakeBudget;
  memory?: { readonly blocks: ReceiveBlocks; readonly held: HeldBytes };
  identity?: UpstreamIdentity;
  directory?: TopicDirectory;
}): Promise<SessionUnderTest> {
  const role = options.role ?? { kind: 'broker', nodeId: 1 };
  const handler = options.handler ?? (() => ({ kind: 'forward' }));
  const broker = await ScriptedBroker.start();
  const summaries: SessionSummary[] = [];
  let session: ClientSession | undefined;
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    session = new ClientSession(socket, {
      client: 'client:1',
      role,
      services: {
        ...new FakeSession(role).services,
        ...(options.directory && { directory: options.directory }),
        ...(options.memory && { held: options.memory.held }),
      },
      router: options.router ?? {
        route: ({ apiKey }) => options.route?.(apiKey) ?? { kind: 'handler', handler },
      },
      connect: () => broker.connect(),
      identity: options.identity,
      onClosed: (summary) => summaries.push(summary),
      onGone: () => undefined,
      intakeBudget: options.intakeBudget ?? new IntakeBudget(1 << 30),
      blocks: options.memory?.blocks ?? new ReceiveBlocks(),
      ...(options.requestBytesMax === undefined
        ? {}
        : { requestBytesMax: options.requestBytesMax }),
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, 'connection');
  const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true });
  const client = new RawClient(socket, { keepsFrames: options.keepsFrames ?? true });
  await accepted;
  if (session === undefined) throw new Error('no session was made');
  return {
    broker,
    client,
    session,
    summaries,
    close: () => {
      socket.destroy();
      broker.close();
      server.close();
    },
  };
}
