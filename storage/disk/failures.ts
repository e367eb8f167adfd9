// From what a disk says to what storage says.
//
// Owns: the mapping of DiskError to StorageError. Invariant: an error of the disk never becomes an
// absence; NOT_FOUND of a file that a log relies on, or records that do not parse, are CORRUPT.

import { ProtocolError } from '../../protocol/errors.ts';
import { StorageError, type StorageErrorCode } from '../errors.ts';
import { DiskError, type DiskErrorCode } from './device.ts';

const codes: Readonly<Record<DiskErrorCode, StorageErrorCode>> = {
  NOT_FOUND: 'CORRUPT',
  EXISTS: 'IO',
  FULL: 'DISK_FULL',
  READ_ONLY: 'READ_ONLY',
  NO_HANDLE: 'IO',
  IO: 'IO',
};

/** A file could not be opened for now: what was asked of it can be asked again. */
export function hasDoneNothing(error: unknown): boolean {
  return error instanceof DiskError && error.code === 'NO_HANDLE';
}

export function storageError(error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const message = error instanceof Error ? error.message : String(error);
  let code: StorageErrorCode = 'IO';
  if (error instanceof DiskError) code = codes[error.code];
  else if (error instanceof ProtocolError) code = 'CORRUPT';
  return new StorageError(code, message, { cause: error });
}
