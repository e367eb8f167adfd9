// How bytes get to a broker: opens a stream to an address as the client's security settings say.
// Today plain TCP only; TLS and SASL will be further transports made here. Refuses to know what is
// sent.
// Invariant: a security setting that this version cannot honour is refused by name, never ignored.
import { connect, type Socket } from 'node:net';
import type { KafkaClientSettings } from '../config/config.ts';
import { type Address, formatAddress } from './address.ts';
import { ClusterError } from './cluster.ts';

export interface TransportHandlers {
  onOpen(): void;
  /** The chunk is a view of a buffer that is reused: valid during the call only. */
  onData(chunk: Buffer): void;
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

/** One read of a socket; large enough that a big Fetch answer takes few callbacks. */
const readBytes = 256 * 1024;

class PlaintextTransport implements Transport {
  open(address: Address, handlers: TransportHandlers): TransportStream {
    const ring = Buffer.allocUnsafeSlow(readBytes);
    const socket: Socket = connect({
      host: address.host,
      port: address.port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      onread: {
        buffer: ring,
        callback: (bytesCount: number): boolean => {
          handlers.onData(ring.subarray(0, bytesCount));
          return true;
        },
      },
    });
    let failure: Error | undefined;
    socket.once('connect', () => handlers.onOpen());
    socket.on('error', (error) => {
      failure = error;
    });
    socket.once('end', () => socket.destroy());
    socket.once('close', () => handlers.onClose(failure));
    return {
      write: (chunks) => {
        socket.cork();
        for (const chunk of chunks) socket.write(chunk);
        socket.uncork();
      },
      destroy: () => socket.destroy(),
    };
  }
}

function refused(setting: string, reason: string): ClusterError {
  const message = `${setting}: ${reason}; this version connects with PLAINTEXT only`;
  return new ClusterError('UNSUPPORTED', message, { maybeSent: false });
}

/** @throws ClusterError UNSUPPORTED, naming the setting */
export function transportFromSettings(settings: KafkaClientSettings): Transport {
  const protocol = settings['security.protocol'];
  if (protocol !== undefined && protocol !== 'PLAINTEXT') {
    throw refused('security.protocol', `${protocol} is not supported`);
  }
  const secured = Object.keys(settings).find(
    (setting) => setting.startsWith('sasl.') || setting.startsWith('ssl.'),
  );
  if (secured !== undefined) throw refused(secured, 'not supported');
  return new PlaintextTransport();
}

/** A sentence about why an address could not be used. */
export function connectionFault(address: Address, error: Error | undefined): string {
  const reason = error === undefined ? 'closed by the broker' : error.message || error.name;
  return `${formatAddress(address)}: ${reason}`;
}
