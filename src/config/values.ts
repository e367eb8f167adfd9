// Reads the small languages inside configuration values: host:port lists, port ranges, sizes. Pure.
// Each returns the value, or throws an Error whose message completes the sentence `path: ...`.

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

const protocol = /^(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL):\/\//i;

/** Without the `PLAINTEXT://` and so on with which Kafka's own tools print addresses. */
export function withoutProtocol(address: string): string {
  return address.replace(protocol, '');
}

/** `host:port`, also `[::1]:9092`; a security protocol in front is accepted and means nothing. */
export function parseHostPort(text: string): HostPort {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:,/[\]]+)):(\d{1,5})$/.exec(
    withoutProtocol(text.trim()),
  );
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port >= 1 && port <= 65_535)) {
    throw new Error(`"${text.trim()}" is not of the form host:port`);
  }
  return { host, port };
}

/** Comma-separated `host:port`; at least one. Returned in the same form, trimmed. */
export function parseServers(text: string): string[] {
  const servers = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  if (servers.length === 0) throw new Error('names no server');
  for (const server of servers) parseHostPort(server);
  return servers.map((server) => withoutProtocol(server));
}

/** `first-last`, both inclusive; at least two ports (one broker and the link node). */
export function parsePortRange(text: string): { first: number; last: number } {
  const match = /^\s*(\d{1,5})\s*-\s*(\d{1,5})\s*$/.exec(text);
  const first = Number(match?.[1]);
  const last = Number(match?.[2]);
  if (match === null) throw new Error('must be of the form FIRST-LAST, such as 9093-9192');
  if (first < 1 || last > 65_535) throw new Error('ports are between 1 and 65535');
  if (last <= first) {
    throw new Error('needs at least two ports: one for each broker and one for the link node');
  }
  return { first, last };
}

const unitBytes: Readonly<Record<string, number>> = {
  '': 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

export type FreeBytes =
  | { readonly kind: 'bytes'; readonly value: number }
  | { readonly kind: 'percent'; readonly value: number };

/** A number of bytes, `512MiB`, or a share of the file system such as `5%`. */
export function parseFreeBytes(value: unknown): FreeBytes {
  const text = typeof value === 'number' ? String(value) : value;
  const match =
    typeof text === 'string' ? /^\s*(\d+(?:\.\d+)?)\s*(%|[KMGT]iB|)\s*$/.exec(text) : null;
  if (match === null) {
    throw new Error('must be a number of bytes, a size such as 10GiB, or a share such as 5%');
  }
  const number = Number(match[1]);
  const unit = match[2] ?? '';
  if (unit === '%') {
    if (number >= 100) throw new Error('must be below 100%');
    return { kind: 'percent', value: number };
  }
  const bytes = number * (unitBytes[unit] ?? 1);
  if (!Number.isSafeInteger(bytes)) throw new Error('must be a whole number of bytes');
  return { kind: 'bytes', value: bytes };
}
