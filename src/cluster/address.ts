// Where a broker is reached, and how that is written. Pure. Refuses to resolve names. Invariant:
// two addresses that may need different connections are written differently as keys.

export interface Address {
  readonly host: string;
  readonly port: number;
  /** What the broker's certificate is for, when it is not `host`; for TLS only. */
  readonly advertisedHost?: string;
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
