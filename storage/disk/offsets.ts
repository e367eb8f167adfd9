// The smaller and the larger of two offsets: Math.min and Math.max do not take bigints.
//
// Owns: nothing else. Invariant: sentinels (negative values) are the caller's to keep out.

export function smaller(a: bigint, b: bigint): bigint {
  return a - b < 0n ? a : b;
}

export function larger(a: bigint, b: bigint): bigint {
  return a - b > 0n ? a : b;
}
