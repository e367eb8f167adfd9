// The public surface of the storage package: the mirror log's contract and its implementations.
//
// Everything above storage imports from here and knows no files. Invariant: what is not exported
// here may change without notice.

export type { Clock } from './clock.ts';
export type { Disk, DiskFile, DiskSpace } from './disk/device.ts';
export { nodeClock, nodeDisk } from './disk/device-node.ts';
export {
  type DiskStorageOptions,
  indexBytesMaxDefault,
  type OpenedStorage,
  openDiskStorage,
} from './disk/open-storage.ts';
export type { OnReport, StorageReport } from './disk/reports.ts';
export type { MinFree } from './disk/space-guard.ts';
export { StorageError, type StorageErrorCode } from './errors.ts';
export type {
  AbortedTransaction,
  AppendResult,
  EpochEnd,
  LogDamage,
  LogId,
  LogRebuild,
  MirrorLog,
  MirrorStorage,
  OpenTransaction,
  ReadOptions,
  ReadResult,
  RetentionRules,
  StorageUsage,
  TimestampOffset,
} from './mirror-log.ts';
