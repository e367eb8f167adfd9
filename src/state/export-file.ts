// The state as a file: one JSON object per line, first a head with the number of records, then key
// and value of each record as they stand in the state topic. Used for local snapshots, `causeway
// state export` and `import`. Secrets of links are in the records as references only, so they are
// here too. Behind the records of a snapshot follow the commits since, each a line with the number
// of its changes, then key and value of each, null where a record was deleted.
// Invariants: a file whose records were cut anywhere is refused; of the commits behind them only
// the last one may be cut, as by a crash, and it counts whole or not at all.

import type { KeyValue } from './partition-writer.ts';
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
  /** The last commit was cut, and is left out. */
  readonly isCut: boolean;
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
  const lines = records.map((record) =>
    formatLine({ key: stateKey(record), value: encodeRecord(record) }),
  );
  return `${[JSON.stringify(whole), ...lines].join('\n')}\n`;
}

/** What follows the records: one commit, as it was written to the state topic. */
export function formatCommit(records: readonly KeyValue[]): string {
  const lines = records.map(formatLine);
  return `${[JSON.stringify({ changesCount: records.length }), ...lines].join('\n')}\n`;
}

function formatLine({ key, value }: KeyValue): string {
  return `{"key":${JSON.stringify(key)},"value":${value ?? 'null'}}`;
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

/** A file's lines, one after the other, each with its number. */
class Lines {
  readonly #lines: readonly string[];
  /** What stands behind the last end of a line: nothing, unless the file was cut. */
  readonly rest: string;
  #next = 0;

  constructor(text: string) {
    const lines = text.split('\n');
    this.rest = lines.pop() ?? '';
    this.#lines = lines;
  }

  get number(): number {
    return this.#next;
  }

  get leftCount(): number {
    return this.#lines.length - this.#next;
  }

  take(): string {
    return this.#lines[this.#next++] ?? '';
  }
}

function takeRecord(lines: Lines): readonly [string, StateRecord | null] {
  const line = lines.take();
  const { key, value } = parseLine(line, lines.number);
  if (typeof key !== 'string') throw new StateError('CORRUPT', `line ${lines.number}: no key`);
  return [key, value === null ? null : decodeRecord(key, JSON.stringify(value))];
}

/** Applies the commits that are there whole. Returns whether the last one is not. */
function applyCommits(lines: Lines, records: Map<string, StateRecord>): boolean {
  while (lines.leftCount > 0) {
    const line = lines.take();
    const { changesCount } = parseLine(line, lines.number);
    if (typeof changesCount !== 'number') {
      throw new StateError('CORRUPT', `line ${lines.number}: no commit begins here`);
    }
    if (lines.leftCount < changesCount) return true;
    for (let count = 0; count < changesCount; count++) {
      const [key, record] = takeRecord(lines);
      if (record === null) records.delete(key);
      else records.set(key, record);
    }
  }
  return lines.rest !== '';
}

/** @throws StateError CORRUPT, naming the line */
export function parseExport(text: string): StateExport {
  const lines = new Lines(text);
  const head = parseHead(lines.leftCount > 0 ? lines.take() : lines.rest);
  if (lines.number === 0 || lines.leftCount < head.recordsCount) {
    const message = `cut off: ${lines.leftCount} of ${head.recordsCount} records`;
    throw new StateError('CORRUPT', message);
  }
  const records = new Map<string, StateRecord>();
  for (let count = 0; count < head.recordsCount; count++) {
    const [key, record] = takeRecord(lines);
    if (record === null) throw new StateError('CORRUPT', `line ${lines.number}: no value`);
    records.set(key, record);
  }
  const isCut = applyCommits(lines, records);
  return { head, records: [...records.values()], isCut };
}
