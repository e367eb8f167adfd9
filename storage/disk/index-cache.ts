// Index files that have been read lately, of all logs together, within a budget of bytes.
//
// Owns: which contents stay in memory. It knows no formats. Invariant: what is held never exceeds
// the budget, and two who ask for the same file at the same time cause one read.

import { LRUCache } from 'lru-cache';

/** What an entry costs besides its content. */
const entryOverheadBytes = 256;

export class IndexCache {
  readonly #entries: LRUCache<string, Promise<Buffer>>;

  constructor(options: { readonly bytesMax: number }) {
    this.#entries = new LRUCache({ maxSize: options.bytesMax });
  }

  /** `bytes` is what the content will take. A load that failed is tried again by the next one. */
  get(path: string, bytes: number, load: () => Promise<Buffer>): Promise<Buffer> {
    const known = this.#entries.get(path);
    if (known !== undefined) return known;
    const loading = load();
    this.#entries.set(path, loading, { size: bytes + entryOverheadBytes });
    loading.catch(() => {
      if (this.#entries.peek(path) === loading) this.#entries.delete(path);
    });
    return loading;
  }

  /** To be called when a path gets another content. */
  forget(path: string): void {
    this.#entries.delete(path);
  }
}
