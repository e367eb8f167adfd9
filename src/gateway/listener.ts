// One listening port, plain or with TLS. Owns the server and the handshakes under way; hands each
// accepted socket on, or tells why it was refused. Invariants: sockets are half-open capable, so
// that a FIN from one side does not cut what the other still sends; over TLS nobody is handed on
// before the handshake is done and the client's certificate, where one is asked for, was verified;
// a handshake under way counts as a connection.
import { constants } from 'node:crypto';
import { createServer, type Server, Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { handshakeTimeoutMs } from './limits.ts';
import type { ListenerTls } from './listener-tls.ts';
import { socketOptions } from './socket-options.ts';

export interface ListenerAddress {
  readonly host: string;
  /** 0 asks the system for one. */
  readonly port: number;
}

/** As it was accepted: the system does not know any more who a peer was that has gone. */
export interface ClientAddress {
  readonly host: string;
  /** With its port, as it is told. */
  readonly name: string;
}

export interface ListenerOptions {
  readonly tls?: ListenerTls | undefined;
  /** Of TLS; `limits.ts` says how long when it is not given. */
  readonly handshakeMsMax?: number;
  /** Asked of each connection before anything of it is read; a sentence refuses it. */
  admit(client: ClientAddress): string | null;
  /** One that was admitted and has ended before it was handed on. */
  onDropped(client: ClientAddress): void;
  onSocket(socket: Socket, client: ClientAddress): void;
  /** Not admitted, or a TLS handshake that failed; not when a client only went away. */
  onRefused(client: string, reason: string): void;
  /** A connection that the system could not accept; the port goes on listening. */
  onFault(error: Error): void;
}

export class Listener {
  readonly #server: Server;
  readonly #release: () => void;
  readonly port: number;

  private constructor(server: Server, port: number, release: () => void) {
    this.#server = server;
    this.port = port;
    this.#release = release;
  }

  /** Rejects with the system's error (EADDRINUSE ...) when the port cannot be bound. */
  static bind(address: ListenerAddress, options: ListenerOptions): Promise<Listener> {
    const { tls, onSocket, onFault } = options;
    const { take, release } =
      tls === undefined
        ? { take: onSocket, release: () => undefined }
        : tlsHandshakes(tls, options);
    const server = createServer(socketOptions, (socket) => {
      const client = addressOf(socket);
      const refusal = options.admit(client);
      if (refusal === null) {
        take(socket, client);
        return;
      }
      socket.destroy();
      options.onRefused(client.name, refusal);
    });
    return new Promise((resolve, reject) => {
      const onUnbound = (error: Error): void => {
        release();
        reject(error);
      };
      server.once('error', onUnbound);
      server.listen({ host: address.host, port: address.port }, () => {
        // Without a listener an error of a later accept would end the process.
        server.off('error', onUnbound);
        server.on('error', onFault);
        const bound = server.address();
        const port = bound !== null && typeof bound === 'object' ? bound.port : address.port;
        resolve(new Listener(server, port, release));
      });
    });
  }

  /** Stops accepting. Connections that exist are their sessions' business. */
  close(): void {
    this.#server.close();
    this.#release();
  }
}

function addressOf(socket: Socket): ClientAddress {
  const { remoteAddress: host = '?', remotePort: port = 0 } = socket;
  return { host, name: `${host}:${port}` };
}

/** What was accepted, before TLS; Node names it nowhere else. */
function rawSocketOf(socket: TLSSocket): Socket | undefined {
  const raw: unknown = Reflect.get(socket, '_parent');
  return raw instanceof Socket ? raw : undefined;
}

interface Handshakes {
  take(socket: Socket, client: ClientAddress): void;
  /** Ends those under way. */
  release(): void;
}

function tlsHandshakes(tls: ListenerTls, options: ListenerOptions): Handshakes {
  const { onSocket, onRefused, onDropped, handshakeMsMax = handshakeTimeoutMs } = options;
  const asksClients = tls.clientAuth !== 'none';
  const secureContext = (): TlsOptions => ({
    ...tls.material,
    // A resumed session would skip the look at the client's certificate.
    ...(asksClients ? { secureOptions: constants.SSL_OP_NO_TICKET } : {}),
  });
  // It listens nowhere: it is given what was admitted.
  const server = createTlsServer({
    ...secureContext(),
    handshakeTimeout: handshakeMsMax,
    requestCert: asksClients,
    // Judged below, where the log can say why.
    rejectUnauthorized: false,
  });
  /** Raw sockets whose handshake is not done. */
  const shaking = new Set<Socket>();
  /** By raw socket. */
  const clients = new WeakMap<Socket, ClientAddress>();
  const clientOf = (socket: TLSSocket): ClientAddress => {
    const raw = rawSocketOf(socket);
    return (raw && clients.get(raw)) ?? addressOf(socket);
  };
  const take = (socket: Socket, client: ClientAddress): void => {
    clients.set(socket, client);
    shaking.add(socket);
    // A client that goes away does not get to the end of its handshake.
    socket.allowHalfOpen = false;
    socket.once('close', () => {
      if (shaking.delete(socket)) onDropped(client);
    });
    server.emit('connection', socket);
  };
  server.on('secureConnection', (socket: TLSSocket) => {
    const client = clientOf(socket);
    const refusal = asksClients ? clientRefusal(socket, tls.clientAuth) : null;
    if (refusal === null) {
      const raw = rawSocketOf(socket);
      if (raw !== undefined) {
        shaking.delete(raw);
        raw.allowHalfOpen = true;
      }
      socket.allowHalfOpen = true;
      onSocket(socket, client);
      return;
    }
    socket.on('error', () => socket.destroy());
    socket.destroy();
    onRefused(client.name, refusal);
  });
  server.on('tlsClientError', (error: Error, socket: TLSSocket) => {
    const { name } = clientOf(socket);
    socket.destroy();
    const reason = handshakeFault(error);
    if (reason !== null) onRefused(name, reason);
  });
  const stopFollowing = tls.onChange(() => server.setSecureContext(secureContext()));
  const release = (): void => {
    stopFollowing();
    for (const socket of shaking) socket.destroy();
  };
  return { take, release };
}

/** What is wrong with the certificate that a client showed, or did not show. */
function clientRefusal(socket: TLSSocket, clientAuth: 'requested' | 'required' | 'none') {
  if (socket.authorized) return null;
  const isShown = Object.keys(socket.getPeerCertificate()).length > 0;
  if (isShown) return `the client's certificate is not accepted (${socket.authorizationError})`;
  return clientAuth === 'required' ? 'the client showed no certificate' : null;
}

const plainCodes = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_RECORD_LAYER_FAILURE',
  'ERR_SSL_UNEXPECTED_MESSAGE',
]);

/** A handshake that failed, as a sentence; null when the client just went away. */
function handshakeFault(error: Error): string | null {
  const code = 'code' in error ? String(error.code) : '';
  if (code === 'ECONNRESET' || code === 'EPIPE') return null;
  if (/^ERR_SSL_HTTPS?_(PROXY_)?REQUEST$/.test(code)) {
    return 'an HTTP request came in, and this is a Kafka listener with TLS';
  }
  if (plainCodes.has(code)) {
    return 'plain bytes came in, and this listener is TLS: the client needs SSL or SASL_SSL';
  }
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'the TLS handshake took too long';
  if (/^ERR_SSL_.*ALERT/.test(code)) return `the client refused the TLS handshake (${code})`;
  return `the TLS handshake failed (${code || error.message})`;
}
