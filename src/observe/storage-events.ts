// Storage's reports as events: what was cut, repaired, refused or lost is said once, by a stable
// name.
import type { LogId, StorageReport } from '../../storage/index.ts';
import type { EventFields, Events } from './events.ts';

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function logFields(id: LogId): EventFields {
  return { topicId: id.topicId, partition: id.partition };
}

function logName(id: LogId): string {
  return `the mirror log of topic id ${id.topicId}, partition ${id.partition}`;
}

interface Saying {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: string;
  readonly message: string;
  readonly fields: EventFields;
}

function said(
  level: Saying['level'],
  event: string,
  message: string,
  fields: EventFields = {},
): Saying {
  return { level, event, message, fields };
}

function describe(report: StorageReport): Saying {
  switch (report.kind) {
    case 'tail-cut':
      return said(
        'warn',
        'storage_tail_cut',
        `${report.bytes} bytes were cut from ${logName(report.id)}: ${report.reason}.`,
        { ...logFields(report.id), end: String(report.end), bytes: report.bytes },
      );
    case 'log-corrupt':
      return said(
        'error',
        'storage_log_corrupt',
        `${logName(report.id)} cannot be read: ${report.reason}.`,
        logFields(report.id),
      );
    case 'loss-accepted':
      return said(
        'warn',
        'storage_loss_accepted',
        `Loss was accepted: ${logName(report.id)} goes on at ${report.end}: ${report.reason}.`,
        { ...logFields(report.id), logStart: String(report.logStart), end: String(report.end) },
      );
    case 'index-rebuilt':
    case 'index-unwritten':
    case 'damage-found':
    case 'damage-repaired':
    case 'generation-left':
      return describeRepair(report);
    case 'log-failed':
      return said(
        'error',
        'storage_log_failed',
        `Writing ${logName(report.id)} failed: ${report.error.message}.`,
        logFields(report.id),
      );
    case 'flush-postponed':
      return said(
        'error',
        'storage_flush_postponed',
        `${logName(report.id)} is not durable yet: ${report.error.message}.`,
        logFields(report.id),
      );
    case 'listener-failed':
      return said(
        'error',
        'storage_listener_failed',
        `A reader of ${logName(report.id)} failed: ${reason(report.error)}.`,
        logFields(report.id),
      );
    case 'file-close-failed':
      return said(
        'warn',
        'storage_file_close_failed',
        `${report.path} could not be closed: ${reason(report.error)}.`,
      );
    case 'disk-full':
      return describeSpace(report);
    case 'space-unknown':
      return said(
        'warn',
        'storage_space_unknown',
        `The free space of the storage cannot be read: ${reason(report.error)}.`,
      );
    case 'directory-created':
    case 'directory-adopted':
    case 'directory-refused':
    case 'lock-taken-over':
      return describeDirectory(report);
  }
}

type DirectoryKind =
  | 'directory-created'
  | 'directory-adopted'
  | 'directory-refused'
  | 'lock-taken-over';

function describeDirectory(report: Extract<StorageReport, { kind: DirectoryKind }>): Saying {
  switch (report.kind) {
    case 'directory-created':
      return said('info', 'storage_created', `The storage directory ${report.directory} is new.`, {
        directoryId: report.directoryId,
      });
    case 'directory-adopted':
      return said(
        'warn',
        'storage_adopted',
        `${report.directory} was adopted, what it lacks is lost by request: ${report.reason}.`,
      );
    case 'directory-refused':
      return said(
        'error',
        'storage_foreign',
        `Mirrored records are unavailable: ${report.error.message}. ` +
          'Put the right directory in place, or give up what is lost with serve --accept-loss.',
        { directory: report.directory, code: report.error.code },
      );
    case 'lock-taken-over':
      return said(
        'warn',
        'storage_lock_taken_over',
        `The lock of ${report.directory} was left by a dead process: ${report.reason}.`,
      );
  }
}

type RepairKind =
  | 'index-rebuilt'
  | 'index-unwritten'
  | 'damage-found'
  | 'damage-repaired'
  | 'generation-left';

/** What was wrong in a log's files, and what became of it. */
function describeRepair(report: Extract<StorageReport, { kind: RepairKind }>): Saying {
  switch (report.kind) {
    case 'index-rebuilt':
      return said(
        'warn',
        'storage_index_rebuilt',
        `An index of ${logName(report.id)} was made again: ${report.reason}.`,
        logFields(report.id),
      );
    case 'index-unwritten':
      return said(
        'warn',
        'storage_index_unwritten',
        `Index files of ${logName(report.id)} were not written: ${reason(report.error)}. ` +
          'The log goes on; its next start takes longer.',
        logFields(report.id),
      );
    case 'generation-left':
      return said(
        'warn',
        'storage_generation_left',
        `Files that a rebuild of ${logName(report.id)} has replaced could not be removed: ` +
          `${reason(report.error)}. The next start does it.`,
        logFields(report.id),
      );
    case 'damage-found':
      return said(
        'error',
        'storage_damage_found',
        `${logName(report.id)} is damaged at offsets [${report.from}, ${report.to}), ` +
          `which are not served: ${report.reason}.`,
        { ...logFields(report.id), from: String(report.from), to: String(report.to) },
      );
    case 'damage-repaired':
      return said(
        'info',
        'storage_damage_repaired',
        `${logName(report.id)} is whole again at offsets [${report.from}, ${report.to}).`,
        { ...logFields(report.id), from: String(report.from), to: String(report.to) },
      );
  }
}

function describeSpace(report: StorageReport & { kind: 'disk-full' }): Saying {
  const { freeBytes, minFreeBytes } = report;
  if (report.full) {
    const message = `Fetching stops: ${freeBytes} bytes are free, ${minFreeBytes} must be.`;
    return said('error', 'storage_full', message, { freeBytes, minFreeBytes });
  }
  const message = 'There is enough free space again: fetching goes on.';
  return said('info', 'storage_has_space', message, { freeBytes, minFreeBytes });
}

export function emitStorageReport(events: Events, report: StorageReport): void {
  const { level, event, message, fields } = describe(report);
  events.emit(level, event, message, fields);
}
