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
  const format = (line: readonly string[]): string =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return `${lines.map(format).join('\n')}\n`;
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

/** The largest of lags, or `unknown` as soon as one is not known. */
export function largestLag(lags: readonly (Int64 | null)[]): string {
  let largest = 0n;
  for (const lag of lags) {
    if (lag === null) return 'unknown';
    const value = BigInt(lag);
    if (value > largest) largest = value;
  }
  return String(largest);
}
