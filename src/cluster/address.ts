// Host and port as text and back, and the address map from advertised to reachable addresses. Pure.
// Refuses to resolve names. Invariant: an address that is not in the map is reached as it is.
import { ClusterError } from './cluster.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
  /** What the broker's certificate is for, when it is not `host`; for TLS only. */
  readonly advertisedHost?: string;
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

/** Tells connections apart: behind one address there can be several names. */
export function addressKey(address: Address): string {
  const { advertisedHost } = address;
  const where = formatAddress(address);
  return advertisedHost === undefined ? where : `${where}|${advertisedHost}`;
}

export class AddressMap {
  readonly #reachable = new Map<string, Address>();
  readonly #keepsNames: boolean;

  constructor(
    entries: Readonly<Record<string, string>>,
    { keepsNames = false }: { keepsNames?: boolean } = {},
  ) {
    this.#keepsNames = keepsNames;
    for (const [advertised, reachable] of Object.entries(entries)) {
      this.#reachable.set(formatAddress(parseAddress(advertised)), parseAddress(reachable));
    }
  }

  reach(address: Address): Address {
    const reachable = this.#reachable.get(formatAddress(address));
    if (reachable === undefined) return address;
    return this.#keepsNames ? { ...reachable, advertisedHost: address.host } : reachable;
  }
}
