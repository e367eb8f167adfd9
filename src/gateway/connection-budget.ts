// How many client connections there are, in all and from one address. Owns the counts; refuses to
// know sockets. Invariant: what is refused is not counted, and an address without connections takes
// no memory.
export class ConnectionBudget {
  readonly #connectionsMax: number;
  readonly #perAddressMax: number;
  readonly #byAddress = new Map<string, number>();
  #count = 0;

  constructor(limits: { connectionsMax: number; perAddressMax?: number | undefined }) {
    this.#connectionsMax = limits.connectionsMax;
    this.#perAddressMax = limits.perAddressMax ?? limits.connectionsMax;
  }

  /** Counts one more, or says in a sentence why there may be none. */
  take(address: string): string | null {
    if (this.#count >= this.#connectionsMax) {
      return `there are ${this.#connectionsMax} connections already`;
    }
    const ofAddress = this.#byAddress.get(address) ?? 0;
    if (ofAddress >= this.#perAddressMax) {
      return (
        `there are ${this.#perAddressMax} connections of ${address} already ` +
        '(gateway.connectionsPerAddressMax)'
      );
    }
    this.#count++;
    this.#byAddress.set(address, ofAddress + 1);
    return null;
  }

  release(address: string): void {
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left < 0) throw new Error(`a connection of ${address} ended twice`);
    this.#count--;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}
