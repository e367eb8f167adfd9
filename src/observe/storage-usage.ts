// What mirror logs take and what is free, for metrics and status. Owns the one line about a storage
// that cannot be asked; refuses to know who asks. Invariant: that is unknown (null) and told once,
// and takes nothing else away from whoever asks: an operator needs the rest the more then.
import { type OpenedStorage, StorageError } from '../../storage/index.ts';
import type { StorageUsage } from '../../storage/mirror-log.ts';
import type { Events } from './events.ts';

export class StorageUsageReader {
  readonly #storage: Pick<OpenedStorage, 'refusal' | 'usage'>;
  readonly #events: Events;
  #told = '';

  constructor(storage: Pick<OpenedStorage, 'refusal' | 'usage'>, events: Events) {
    this.#storage = storage;
    this.#events = events;
  }

  async read(): Promise<StorageUsage | null> {
    if (this.#storage.refusal !== null) return null;
    try {
      const usage = await this.#storage.usage();
      this.#told = '';
      return usage;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.#tell(error.message);
      return null;
    }
  }

  #tell(reason: string): void {
    if (reason === this.#told) return;
    this.#told = reason;
    const message = `What mirror logs take and leave free cannot be read: ${reason}.`;
    this.#events.error('storage_usage_unknown', message);
  }
}
