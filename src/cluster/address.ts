// Host and port as text and back, and the address map from advertised to reachable addresses. Pure.
// Refuses to resolve names. Invariant: an address that is not in the map is reached as it is.
import { ClusterError } from './cluster.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

const addressPattern = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^[\]:\s/]+)):(\d{1,5})$/;

/** @throws ClusterError UNSUPPORTED */
export function parseAddress(text: string): Address {
  const match = addressPattern.exec(text.trim());
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port >= 1 && port <= 65_535)) {
    throw new ClusterError('UNSUPPORTED', `not an address of the form host:port: "${text}"`, {
      maybeSent: false,
    });
  }
  return { host, port };
}

export function formatAddress(address: Address): string {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}

export class AddressMap {
  readonly #reachable = new Map<string, Address>();

  constructor(entries: Readonly<Record<string, string>>) {
    for (const [advertised, reachable] of Object.entries(entries)) {
      this.#reachable.set(formatAddress(parseAddress(advertised)), parseAddress(reachable));
    }
  }

  reach(address: Address): Address {
    return this.#reachable.get(formatAddress(address)) ?? address;
  }
}
