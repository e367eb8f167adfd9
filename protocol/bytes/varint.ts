/**
 * Variable-length integers as Kafka (and protocol buffers) write them: seven bits a byte, lowest
 * first. Signed ones are zigzag-coded. Sizes only; reading and writing live in the cursors, where
 * the bounds are known.
 */

export function uvarintBytes(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x200000) return 3;
  if (value < 0x10000000) return 4;
  return 5;
}

/** 32-bit zigzag: 0, -1, 1, -2 become 0, 1, 2, 3. The result is unsigned. */
export function zigzag32(value: number): number {
  return ((value << 1) ^ (value >> 31)) >>> 0;
}

export function unzigzag32(value: number): number {
  return (value >>> 1) ^ -(value & 1);
}

export function zigzag64(value: bigint): bigint {
  return BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
}

export function unzigzag64(value: bigint): bigint {
  return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
}
