// Addresses out of text, and the map from advertised to reachable ones. Pure. Refuses to resolve
// names. Invariant: an address that is not in the map is reached as it is.
import { type Address, formatAddress } from './address.ts';
import { ClusterError } from './cluster.ts';

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
