/**
 * The version ranges of Kafka's message definitions ("0-3", "4+", "5", "none") and their algebra.
 * Invariant: every empty range is the one value `noVersions`.
 */

export interface Versions {
  readonly low: number;
  /** Infinity for an open range. */
  readonly high: number;
}

export const noVersions: Versions = { low: 0, high: -1 };

export function parseVersions(text: string): Versions {
  if (text === 'none') return noVersions;
  const match = /^(\d+)(?:(\+)|-(\d+))?$/.exec(text);
  if (match === null) throw new Error(`not a version range: "${text}"`);
  const low = Number(match[1]);
  const high = match[2] === '+' ? Number.POSITIVE_INFINITY : Number(match[3] ?? low);
  if (high < low) throw new Error(`version range ends before it begins: "${text}"`);
  return { low, high };
}

export function formatVersions(versions: Versions): string {
  if (isEmpty(versions)) return 'none';
  if (versions.high === Number.POSITIVE_INFINITY) return `${versions.low}+`;
  return versions.low === versions.high ? `${versions.low}` : `${versions.low}-${versions.high}`;
}

export function isEmpty(versions: Versions): boolean {
  return versions.high < versions.low;
}

export function includes(versions: Versions, version: number): boolean {
  return version >= versions.low && version <= versions.high;
}

export function intersect(a: Versions, b: Versions): Versions {
  const low = Math.max(a.low, b.low);
  const high = Math.min(a.high, b.high);
  return high < low || isEmpty(a) || isEmpty(b) ? noVersions : { low, high };
}

/** Whether every version of `inner` is in `outer`. */
export function covers(outer: Versions, inner: Versions): boolean {
  return isEmpty(inner) || (inner.low >= outer.low && inner.high <= outer.high);
}
