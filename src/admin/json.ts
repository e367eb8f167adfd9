// How values become JSON at the admin API. Offsets are bigint inside; REST expects int64 as a JSON
// number, which most readers hold exactly only up to 2^53 - 1: numbers up to there, strings of
// digits beyond.

function replace(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, replace, indent);
}
