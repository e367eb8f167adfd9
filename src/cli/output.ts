// How answers look on a terminal: aligned tables, `name: value` blocks, times and sizes. Text from
// outside is stripped of control characters, so that a topic's or a message's bytes cannot drive
// the terminal.
import type { Int64 } from './answers.ts';

type Cell = string | number | boolean | null;

function text(cell: Cell): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what has to go
  return String(cell ?? '-').replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
}

export function table(headers: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [headers, ...rows.map((row) => row.map(text))];
  const widths = headers.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  return lines.map((line) => aligned(line, widths)).join('');
}

function aligned(line: readonly string[], widths: readonly number[]): string {
  const cells = line.map((cell, column) => cell.padEnd(widths[column] ?? 0));
  return `${cells.join('  ').trimEnd()}\n`;
}

/** A table, or one JSON list, that is written while its rows come. */
export class Listing<Row> {
  readonly #out: (text: string) => void;
  readonly #isJson: boolean;
  readonly #cells: (row: Row) => readonly Cell[];
  readonly #widths: number[];
  #rowsCount = 0;

  /** `likely`: cells as long as those to come, one set of them or several. */
  constructor(parts: {
    out: (text: string) => void;
    isJson: boolean;
    headers: readonly string[];
    likely: readonly (readonly Cell[])[];
    cells: (row: Row) => readonly Cell[];
  }) {
    this.#out = parts.out;
    this.#isJson = parts.isJson;
    this.#cells = parts.cells;
    const { headers, likely } = parts;
    this.#widths = headers.map(({ length }) => length);
    for (const line of likely) this.#widen(line.map(text));
    if (!parts.isJson) parts.out(aligned(headers, this.#widths));
  }

  /** `remark`: a line below the row; not part of JSON. */
  add(row: Row, remark: string | null): void {
    if (this.#isJson) {
      const lines = json(row).trimEnd().replaceAll('\n', '\n  ');
      this.#out(`${this.#rowsCount === 0 ? '[' : ','}\n  ${lines}`);
    } else {
      const line = this.#cells(row).map(text);
      this.#widen(line);
      this.#out(aligned(line, this.#widths) + (remark === null ? '' : `  ${text(remark)}\n`));
    }
    this.#rowsCount++;
  }

  /** JSON is whole only after it. */
  end(): void {
    if (this.#isJson) this.#out(this.#rowsCount === 0 ? '[]\n' : '\n]\n');
  }

  #widen(line: readonly string[]): void {
    for (const [column, { length }] of line.entries()) {
      this.#widths[column] = Math.max(this.#widths[column] ?? 0, length);
    }
  }
}

export function block(entries: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(...entries.map(([name]) => name.length)) + 1;
  return entries.map(([name, value]) => `${`${name}:`.padEnd(width)} ${text(value)}\n`).join('');
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

export function time(ms: number): string {
  return ms > 0 ? new Date(ms).toISOString() : 'never';
}

export function seconds(value: number | null): string {
  return value === null ? 'unknown' : `${value.toFixed(1)} s`;
}

export function bytes(value: number | null): string {
  if (value === null) return 'unknown';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  const scaled = value / 1024 ** power;
  return `${power === 0 ? scaled : scaled.toFixed(1)} ${units[power]}`;
}

interface PartitionLag {
  readonly lagRecords: Int64 | null;
  readonly lagRecordsMin: Int64 | null;
}

export function lagText({ lagRecords, lagRecordsMin }: PartitionLag): string {
  if (lagRecords !== null) return String(lagRecords);
  return lagRecordsMin === null ? 'unknown' : `unknown, at least ${lagRecordsMin}`;
}

/** The largest of lags; `unknown` as soon as one is not known, with what it is at least. */
export function largestLag(lags: readonly PartitionLag[]): string {
  let largest: bigint | null = null;
  for (const { lagRecords, lagRecordsMin } of lags) {
    const lag = lagRecords ?? lagRecordsMin;
    if (lag !== null && BigInt(lag) > (largest ?? -1n)) largest = BigInt(lag);
  }
  const isKnown = lags.every(({ lagRecords }) => lagRecords !== null);
  const lagRecordsMin = largest === null ? null : String(largest);
  return lagText({ lagRecords: isKnown ? (lagRecordsMin ?? 0) : null, lagRecordsMin });
}
