// The addresses under which the destination's brokers see what comes through a proxy: this
// machine's own, those that connections to the brokers were made from, and what the operator names
// (other proxies; an address that is translated on the way). Refuses to know groups. Invariant: an
// address is compared as a number, never as text: brokers and Node write IPv6 differently.
import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';

/** An address (`10.0.0.7`, `::1`) or a network (`10.0.0.0/24`). */
export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

export function parseAddressRange(text: string): AddressRange {
  const [address = '', prefixText, ...rest] = text.split('/');
  const version = isIP(address);
  const family = version === 6 ? 'ipv6' : 'ipv4';
  const bits = family === 'ipv6' ? 128 : 32;
  const prefix = prefixText === undefined ? bits : Number(prefixText);
  const isPrefix = Number.isInteger(prefix) && prefix >= 0 && prefix <= bits && prefixText !== '';
  if (version === 0 || rest.length > 0 || !isPrefix) {
    throw new Error(`"${text}" is neither an address nor a network like 10.0.0.0/24`);
  }
  return { address, prefix, family };
}

export class UpstreamAddresses {
  readonly #known = new BlockList();

  constructor(named: readonly string[] = []) {
    for (const text of named) {
      const { address, prefix, family } = parseAddressRange(text);
      this.#known.addSubnet(address, prefix, family);
    }
    for (const addresses of Object.values(networkInterfaces())) {
      for (const { address } of addresses ?? []) this.note(address);
    }
  }

  /** Where a connection to a broker came from. */
  note(address: string | undefined): void {
    const version = isIP(address ?? '');
    if (address === undefined || version === 0 || this.has(address)) return;
    this.#known.addAddress(address, version === 6 ? 'ipv6' : 'ipv4');
  }

  /** Of a member's host as brokers tell it: `/10.0.0.7`, sometimes with a name in front. */
  has(host: string): boolean {
    const address = host.slice(host.lastIndexOf('/') + 1);
    const version = isIP(address);
    return version !== 0 && this.#known.check(address, version === 6 ? 'ipv6' : 'ipv4');
  }
}
