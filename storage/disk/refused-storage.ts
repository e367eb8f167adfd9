// The storage of a directory that is not the one that the state names.
//
// Owns: nothing but the reason. The service starts with it all the same, so that native topics work
// and mirrors answer KAFKA_STORAGE_ERROR. Invariant: every use throws the reason; nothing is
// written.

import type { StorageError } from '../errors.ts';
import type { LogId, MirrorLog, MirrorStorage, StorageUsage } from '../mirror-log.ts';

export class RefusedStorage implements MirrorStorage {
  /** What the state says, not what lies in the directory. */
  readonly directoryId: string;
  readonly isNew = false;
  readonly refusal: StorageError;
  /** Nothing can be appended, so fetching has to stop. */
  readonly isFull = true;

  constructor(directoryId: string, refusal: StorageError) {
    this.directoryId = directoryId;
    this.refusal = refusal;
  }

  create(_id: LogId, _logStart: bigint): Promise<MirrorLog> {
    return Promise.reject(this.refusal);
  }

  open(_id: LogId): Promise<MirrorLog> {
    return Promise.reject(this.refusal);
  }

  delete(_id: LogId): Promise<void> {
    return Promise.reject(this.refusal);
  }

  list(): Promise<readonly LogId[]> {
    return Promise.reject(this.refusal);
  }

  usage(): Promise<StorageUsage> {
    return Promise.reject(this.refusal);
  }

  roomBytes(): Promise<number> {
    return Promise.reject(this.refusal);
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}
