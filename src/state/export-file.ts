// The state as a file: one JSON object per line, first a head with the number of records, then key
// and value of each record as they stand in the state topic. Used for local snapshots, `causeway
// state export` and `import`. Secrets of links are in the records as references only, so they are
// here too.
// Invariant: a file that was cut anywhere is refused.
import { decodeRecord, encodeRecord } from './record-format.ts';
import { type StateRecord, stateKey } from './records.ts';
import { StateError } from './state.ts';

export interface ExportHead {
  readonly format: 'causeway-state';
  readonly formatVersion: 1;
  /** The instance's `name`. */
  readonly name: string;
  /** Of the destination; topic ids mean nothing elsewhere. */
  readonly clusterId: string | null;
  readonly writtenTimeMs: number;
  readonly recordsCount: number;
}

export interface StateExport {
  readonly head: ExportHead;
  readonly records: readonly StateRecord[];
}

export function formatExport(
  head: Omit<ExportHead, 'format' | 'formatVersion' | 'recordsCount'>,
  records: readonly StateRecord[],
): string {
  const whole: ExportHead = {
    format: 'causeway-state',
    formatVersion: 1,
    ...head,
    recordsCount: records.length,
  };
  const lines = records.map(
    (record) => `{"key":${JSON.stringify(stateKey(record))},"value":${encodeRecord(record)}}`,
  );
  return `${[JSON.stringify(whole), ...lines].join('\n')}\n`;
}

function parseLine(line: string, number: number): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch (error) {
    throw new StateError('CORRUPT', `line ${number}: not JSON`, { cause: error });
  }
  throw new StateError('CORRUPT', `line ${number}: not an object`);
}

function parseHead(line: string): ExportHead {
  const head = parseLine(line, 1);
  if (head.format !== 'causeway-state') {
    throw new StateError('CORRUPT', 'line 1: not a state export of causeway');
  }
  if (head.formatVersion !== 1) {
    const version = String(head.formatVersion);
    throw new StateError('CORRUPT', `line 1: format version ${version}, this version reads 1`);
  }
  const { name, clusterId, writtenTimeMs, recordsCount } = head;
  if (
    typeof name !== 'string' ||
    !(clusterId === null || typeof clusterId === 'string') ||
    typeof writtenTimeMs !== 'number' ||
    typeof recordsCount !== 'number'
  ) {
    throw new StateError('CORRUPT', 'line 1: the head is not complete');
  }
  return {
    format: 'causeway-state',
    formatVersion: 1,
    name,
    clusterId,
    writtenTimeMs,
    recordsCount,
  };
}

/** @throws StateError CORRUPT, naming the line */
export function parseExport(text: string): StateExport {
  const [first, ...rest] = text.split('\n');
  const head = parseHead(first ?? '');
  if (rest.pop() !== '' || rest.length !== head.recordsCount) {
    const message = `cut off: ${rest.length} of ${head.recordsCount} records`;
    throw new StateError('CORRUPT', message);
  }
  const records = rest.map((line, index) => {
    const { key, value } = parseLine(line, index + 2);
    if (typeof key !== 'string') throw new StateError('CORRUPT', `line ${index + 2}: no key`);
    return decodeRecord(key, JSON.stringify(value));
  });
  return { head, records };
}
