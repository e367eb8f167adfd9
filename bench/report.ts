// How a benchmark tells its result: rows with a baseline measured in the same run, as a table or,
// with `--json`, as one object on the last line. Owns no measuring. A target is told as
// met or not, never asserted.

export interface BenchOptions {
  /** Less data and fewer cases: whether it works, and an impression. */
  readonly quick: boolean;
  /** One of the forms of a benchmark that has several; all of them without it. */
  readonly form?: string | undefined;
}

export interface BenchRow {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** The same figure of the baseline, measured in this run, or null for a baseline's own row. */
  readonly baseline: number | null;
  /** value / baseline, or the median of what it was in each round. */
  readonly ratio: number | null;
  readonly target: number | null;
  /** Of ratio or value to the target. */
  readonly bound: '>=' | '<=';
  /** Whether ratio or value meets the target; null without one. */
  readonly ok: boolean | null;
}

export interface BenchResult {
  readonly bench: string;
  readonly rows: readonly BenchRow[];
}

export interface RowLimit {
  /** The ratio's least. */
  readonly target?: number;
  /** The ratio's most. */
  readonly ratioAtMost?: number;
  /** The value's most. */
  readonly atMost?: number;
}

interface RowOptions extends RowLimit {
  readonly baseline?: number;
  /** Where it is more exact than value / baseline. */
  readonly ratio?: number;
}

export function row(what: string, value: number, unit: string, options: RowOptions = {}): BenchRow {
  const { baseline = null, target = null, ratioAtMost = null, atMost = null } = options;
  const ratio = options.ratio ?? (baseline === null ? null : value / baseline);
  const most = atMost ?? ratioAtMost;
  const judged = atMost === null ? ratio : value;
  const isMet = (limit: number): boolean | null =>
    judged === null ? null : most === null ? judged >= limit : judged <= limit;
  const limit = most ?? target;
  return {
    what,
    value,
    unit,
    baseline,
    ratio,
    target: limit,
    bound: most === null ? '>=' : '<=',
    ok: limit === null ? null : isMet(limit),
  };
}

/** The value that `share` (0 to 1) of all values do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const found = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  if (found === undefined) throw new Error('a percentile of nothing');
  return found;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) throw new Error('median of nothing');
  return middle;
}

/**
 * The medians of two that took turns, round by round, and the median of the rounds' ratios: what
 * slows a machine down for a while slows both of a round.
 */
export function comparedRow(
  what: string,
  unit: string,
  { values, baselines }: { values: readonly number[]; baselines: readonly number[] },
  limit: RowLimit = {},
): BenchRow {
  const ratio = median(values.map((value, round) => value / (baselines[round] ?? Number.NaN)));
  return row(what, median(values), unit, { baseline: median(baselines), ratio, ...limit });
}

/**
 * Who is measured when, in one round of several: over twice as many rounds as there are, each is in
 * each place equally often, and behind each neighbour as often as before it. What one leaves for
 * the next (dirty pages, a busy disk) then falls to all alike.
 */
export function turnOrder<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  const order = [...all.slice(first), ...all.slice(0, first)];
  return Math.floor(round / all.length) % 2 === 0 ? order : order.reverse();
}

function figure(value: number | null): string {
  if (value === null) return '-';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function targetOf({ target, bound }: BenchRow): string {
  return target === null ? '' : `${bound} ${figure(target)}`;
}

export function print(result: BenchResult, options: { json: boolean }): void {
  if (options.json) {
    process.stdout.write(`${JSON.stringify(result)}\n`);
    return;
  }
  process.stdout.write(`\n${result.bench}\n`);
  const cells = [
    ['what', 'value', 'unit', 'baseline', 'ratio', 'target', ''],
    ...result.rows.map((entry) => [
      entry.what,
      figure(entry.value),
      entry.unit,
      figure(entry.baseline),
      figure(entry.ratio),
      targetOf(entry),
      entry.ok === null ? '' : entry.ok ? 'met' : 'NOT MET',
    ]),
  ];
  const widths = [0, 1, 2, 3, 4, 5, 6].map((column) =>
    Math.max(...cells.map((line) => (line[column] ?? '').length)),
  );
  for (const line of cells) {
    const padded = line.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    process.stdout.write(`${padded.join('  ').trimEnd()}\n`);
  }
}
