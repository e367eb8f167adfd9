// How bytes get to a broker: opens a stream to an address, plain or with TLS, as the cluster's
// security says. Refuses to know what is sent.
// Invariant: over TLS nothing is sent before the broker's certificate has been verified.
import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { type Address, formatAddress } from './address.ts';
import { ClusterError } from './cluster.ts';
import type { ClusterSecurity } from './security.ts';

export interface TransportHandlers {
  onOpen(): void;
  /** The chunk may be a view of a buffer that is reused: valid during the call only. */
  onData(chunk: Buffer): void;
  /**
   * Where the next bytes should be read to, asked before each read of a plain socket; undefined:
   * they come by `onData`.
   */
  readTarget?(): Buffer | undefined;
  /** So many bytes were read to what `readTarget` gave. */
  onReadToTarget?(bytesCount: number): void;
  /** Called once, after everything else; without an error when the peer ended it. */
  onClose(error: Error | undefined): void;
}

export interface TransportStream {
  write(chunks: readonly Buffer[]): void;
  destroy(): void;
}

export interface Transport {
  open(address: Address, handlers: TransportHandlers): TransportStream;
}

/** One read of a socket: what begins an answer; the rest of a large one goes to its own place. */
const readBytes = 64 * 1024;

const keptAlive = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 } as const;

function writeTo(socket: Socket, chunks: readonly Buffer[]): void {
  socket.cork();
  for (const chunk of chunks) socket.write(chunk);
  socket.uncork();
}

/** Passes the end of a socket on, once, with what went wrong. */
function watchEnd(socket: Socket, onClose: (error: Error | undefined) => void): void {
  let failure: Error | undefined;
  socket.on('error', (error) => {
    failure = error;
  });
  socket.once('end', () => socket.destroy());
  socket.once('close', () => onClose(failure));
}

class PlaintextTransport implements Transport {
  open(address: Address, handlers: TransportHandlers): TransportStream {
    const ring = Buffer.allocUnsafeSlow(readBytes);
    const socket: Socket = connect({
      host: address.host,
      port: address.port,
      ...keptAlive,
      onread: {
        buffer: () => handlers.readTarget?.() ?? ring,
        callback: (bytesCount: number, buffer: Uint8Array): boolean => {
          if (buffer === ring) handlers.onData(ring.subarray(0, bytesCount));
          else handlers.onReadToTarget?.(bytesCount);
          return true;
        },
      },
    });
    socket.once('connect', () => handlers.onOpen());
    watchEnd(socket, handlers.onClose);
    return {
      write: (chunks) => writeTo(socket, chunks),
      destroy: () => socket.destroy(),
    };
  }
}

class TlsTransport implements Transport {
  readonly #security: ClusterSecurity;

  constructor(security: ClusterSecurity) {
    this.#security = security;
  }

  open(address: Address, handlers: TransportHandlers): TransportStream {
    const stream = new TlsStream(handlers);
    this.#security.tlsOptions(address, 'own').then(
      (options) => stream.connect({ ...options, ...keptAlive }),
      (error) => stream.fail(error instanceof Error ? error : new Error(String(error))),
    );
    return stream;
  }
}

/** Exists before its socket does: certificates are read first. */
class TlsStream implements TransportStream {
  readonly #handlers: TransportHandlers;
  #socket: TLSSocket | undefined;
  #isOver = false;

  constructor(handlers: TransportHandlers) {
    this.#handlers = handlers;
  }

  connect(options: ConnectionOptions): void {
    if (this.#isOver) return;
    const socket = connectTls(options);
    this.#socket = socket;
    socket.once('secureConnect', () => this.#handlers.onOpen());
    socket.on('data', (chunk: Buffer) => this.#handlers.onData(chunk));
    watchEnd(socket, this.#handlers.onClose);
  }

  fail(error: Error | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#handlers.onClose(error);
  }

  write(chunks: readonly Buffer[]): void {
    if (this.#socket) writeTo(this.#socket, chunks);
  }

  destroy(): void {
    if (this.#socket) this.#socket.destroy();
    else this.fail(undefined);
  }
}

export function transportFor(security: ClusterSecurity): Transport {
  return security.usesTls ? new TlsTransport(security) : new PlaintextTransport();
}

const certificateFault =
  /CERT|SELF_SIGNED|LEAF_SIGNATURE|ISSUER|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE)/;

function codeOf(error: Error): string {
  return 'code' in error ? String(error.code) : '';
}

/** TLS said no, as a sentence; null when the fault is another. */
export function tlsFault(error: Error): string | null {
  const code = codeOf(error);
  if (/^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/.test(code)) {
    return 'it does not speak TLS: its listener may be PLAINTEXT or SASL_PLAINTEXT';
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) return `the TLS handshake was refused by the broker (${code})`;
  if (/^ERR_(SSL|TLS)_/.test(code) && code !== 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `the TLS handshake failed (${code})`;
  }
  if (!certificateFault.test(code)) return null;
  return `the broker's certificate is not accepted: ${error.message} (${code})`;
}

/** Why an address could not be used. `maybeSent` is the caller's to know. */
export function connectionError(
  address: Address,
  error: Error | undefined,
  options: { maybeSent: boolean },
): ClusterError {
  const where = formatAddress(address);
  const { maybeSent } = options;
  if (error instanceof ClusterError) {
    return new ClusterError(error.code, `${where}: ${error.message}`, { cause: error, maybeSent });
  }
  const refusal = error && tlsFault(error);
  if (refusal) {
    return new ClusterError('AUTHENTICATION', `${where}: ${refusal}`, { cause: error, maybeSent });
  }
  const isInHandshake = error !== undefined && /before secure TLS/.test(error.message);
  const hint = isInHandshake ? ': its listener may not want TLS' : '';
  const words = error === undefined ? 'closed by the broker' : error.message || error.name;
  const reason = `${words}${hint}`;
  return new ClusterError('UNREACHABLE', `${where}: ${reason}`, { cause: error, maybeSent });
}
