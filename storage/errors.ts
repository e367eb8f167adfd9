// What can go wrong below the MirrorLog interface, as one closed set of codes.

export type StorageErrorCode =
  | 'CORRUPT_BATCH'
  | 'UNSUPPORTED_MAGIC'
  | 'OFFSET_OUT_OF_ORDER'
  | 'EPOCH_WENT_BACK'
  | 'OFFSET_OUT_OF_RANGE'
  | 'MISSING'
  | 'EXISTS'
  | 'CORRUPT'
  | 'FOREIGN_DIRECTORY'
  | 'LOCKED'
  | 'DISK_FULL'
  | 'READ_ONLY'
  | 'IO'
  | 'CLOSED';

export class StorageError extends Error {
  readonly code: StorageErrorCode;

  constructor(code: StorageErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StorageError';
    this.code = code;
  }
}
