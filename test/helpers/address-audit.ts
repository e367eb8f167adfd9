// Looks through answers for broker addresses: every host and port that is told, and the raw bytes.
//
// Owns: what counts as a leak, and what has been seen. Knows nothing of particular APIs: any object
// with a host and a port is an address. Invariant: an answer passes only if every address in it is
// one of our listeners.

import assert from 'node:assert/strict';
import type { RawAnswer } from './raw-connection.ts';

export class AddressAudit {
  readonly #hosts: readonly string[];
  /** `127.0.0.1` and a real port as they stand next to each other in every answer. */
  readonly #pairs: readonly { readonly port: number; readonly bytes: Buffer }[];
  readonly #allowed: ReadonlySet<number>;
  readonly #seen = new Map<string, number>();

  constructor(
    hidden: { readonly hosts: readonly string[]; readonly ports: readonly number[] },
    listenerPorts: readonly number[],
  ) {
    this.#hosts = hidden.hosts;
    this.#pairs = hidden.ports.map((port) => {
      const bytes = Buffer.concat([Buffer.from('127.0.0.1'), Buffer.alloc(4)]);
      bytes.writeInt32BE(port, 9);
      return { port, bytes };
    });
    this.#allowed = new Set(listenerPorts);
  }

  check(answer: RawAnswer, listenerPort: number): void {
    const { apiName, version, frame, response } = answer;
    const where = `${apiName} v${version} at port ${listenerPort}`;
    for (const host of this.#hosts) {
      assert.ok(!frame.includes(host), `${where} tells the advertised name ${host}`);
    }
    for (const { port, bytes } of this.#pairs) {
      assert.ok(!frame.includes(bytes), `${where} tells the real port ${port}`);
    }
    this.#walk(response, where, apiName);
  }

  /** A check that met no address proves nothing. */
  assertSeen(apiNames: readonly string[]): void {
    for (const name of apiNames) {
      assert.ok((this.#seen.get(name) ?? 0) > 0, `no answer to ${name} told any address`);
    }
  }

  #walk(value: unknown, where: string, apiName: string): void {
    if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return;
    if ('host' in value && 'port' in value) this.#address(value, where, apiName);
    for (const inner of Object.values(value)) this.#walk(inner, where, apiName);
  }

  #address(address: { host: unknown; port: unknown }, where: string, apiName: string): void {
    // An answer with an error, and FindCoordinator from version 4 on, tell that there is none.
    if (address.host === '' && (address.port === -1 || address.port === 0)) return;
    this.#seen.set(apiName, (this.#seen.get(apiName) ?? 0) + 1);
    const isOurs = address.host === '127.0.0.1' && this.#allowed.has(Number(address.port));
    assert.ok(isOurs, `${where} tells ${address.host}:${address.port}`);
  }
}
