// Bytes of which each tells its place in a stream, so that no two pieces can be taken for each
// other. Owns nothing.

/** Bytes `position` to `position + length` of the stream. */
export function pieceAt(position: number, length: number): Buffer {
  const piece = Buffer.allocUnsafe(length);
  for (let index = 0; index < length; index++) piece[index] = ((position + index) * 7) % 251;
  return piece;
}
