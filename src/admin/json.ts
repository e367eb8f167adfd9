// How values become JSON at the admin API. Offsets are bigint inside; REST expects int64 as a JSON number,
// which most readers hold exactly only up to 2^53 - 1: numbers up to there, strings of digits beyond.

function replace(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, replace, indent);
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/**
 * Field names from camelCase to snake_case, all the way down. For our own records with fixed field names
 * only: never for a map whose keys are names of topics, groups or settings.
 */
export function withSnakeCaseNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSnakeCaseNames);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [snakeCase(name), withSnakeCaseNames(inner)]),
  );
}
