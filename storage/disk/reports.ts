// What storage tells whoever runs it: events that a person or a metric should see.
//
// Owns: the closed set of reports. Invariant: nothing that cost data, hid data or was repaired
// happens without one.

import type { StorageError } from '../errors.ts';
import type { LogId } from '../mirror-log.ts';

export type StorageReport =
  /**
   * A torn or unsound tail above the durable end was cut; the source will be asked for it again.
   */
  | {
      readonly kind: 'tail-cut';
      readonly id: LogId;
      readonly end: bigint;
      readonly bytes: number;
      readonly reason: string;
    }
  /** A log cannot vouch for what it must hold; its reads are errors until the loss is accepted. */
  | { readonly kind: 'log-corrupt'; readonly id: LogId; readonly reason: string }
  /** An operator accepted that a log is missing or shorter than it was. */
  | {
      readonly kind: 'loss-accepted';
      readonly id: LogId;
      readonly logStart: bigint;
      readonly end: bigint;
      readonly reason: string;
    }
  /** An index file was missing or damaged; it was made again from its segment. */
  | { readonly kind: 'index-rebuilt'; readonly id: LogId; readonly reason: string }
  /** Index files could not be written: memory holds them, and a restart reads the segment. */
  | { readonly kind: 'index-unwritten'; readonly id: LogId; readonly error: unknown }
  /** A read found bytes that are not what was written. They are not served. */
  | {
      readonly kind: 'damage-found';
      readonly id: LogId;
      readonly from: bigint;
      readonly to: bigint;
      readonly reason: string;
    }
  /** The damaged range holds again what it held. */
  | {
      readonly kind: 'damage-repaired';
      readonly id: LogId;
      readonly from: bigint;
      readonly to: bigint;
    }
  /** The files of a generation that was rebuilt could not be removed; the next start does it. */
  | { readonly kind: 'generation-left'; readonly id: LogId; readonly error: unknown }
  /** A write or sync failed: the log takes no more appends; what was durable is still read. */
  | { readonly kind: 'log-failed'; readonly id: LogId; readonly error: StorageError }
  /** Nothing could be opened to flush with; it is tried again, and told once until it succeeds. */
  | { readonly kind: 'flush-postponed'; readonly id: LogId; readonly error: StorageError }
  | { readonly kind: 'listener-failed'; readonly id: LogId; readonly error: unknown }
  | { readonly kind: 'file-close-failed'; readonly path: string; readonly error: unknown }
  /** Free space fell below the minimum, or rose above it again. */
  | {
      readonly kind: 'disk-full';
      readonly full: boolean;
      readonly freeBytes: number;
      readonly minFreeBytes: number;
    }
  | { readonly kind: 'space-unknown'; readonly error: unknown }
  | { readonly kind: 'directory-created'; readonly directory: string; readonly directoryId: string }
  | { readonly kind: 'directory-adopted'; readonly directory: string; readonly reason: string }
  | { readonly kind: 'directory-refused'; readonly directory: string; readonly error: StorageError }
  | { readonly kind: 'lock-taken-over'; readonly directory: string; readonly reason: string };

export type OnReport = (report: StorageReport) => void;
