/**
 * Snappy, decoding only, in both forms that producers send: bare blocks, and blocks in the framing
 * of the Java library ("xerial"): 8 magic bytes, two int32 versions, then int32 length and block.
 *
 *   block: length of the plain bytes (uvarint) | elements
 *   element: literal (tag & 3 = 0), or copy with a distance of 1 + 3/8, 2 or 4 bytes
 */
import { corrupt, Output } from './output.ts';

const format = 'snappy';
const framingMagic = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const framingHeaderBytes = 16;
/** The best that a block can do is 64 bytes from a copy of three. */
const ratioMax = 22;

export function snappyDecompress(source: Buffer, bytesMax: number): Buffer {
  const framed = source.subarray(0, framingMagic.length).equals(framingMagic);
  const output = new Output(format, bytesMax, source.length * 2);
  if (!framed) {
    readBlock(source, output);
    return output.toBuffer();
  }
  let position = framingHeaderBytes;
  while (position < source.length) {
    if (source.length - position < 4) throw corrupt(format, 'chunk length is cut');
    const end = position + 4 + source.readInt32BE(position);
    if (end < position + 4 || end > source.length) throw corrupt(format, 'chunk beyond the end');
    readBlock(source.subarray(position + 4, end), output);
    position = end;
  }
  return output.toBuffer();
}

function readBlock(block: Buffer, output: Output): void {
  let position = 0;
  /** Little-endian, so that it also reads nothing at all. */
  const take = (bytes: number): number => {
    if (position + bytes > block.length) throw corrupt(format, 'block is cut');
    const value = bytes === 0 ? 0 : block.readUIntLE(position, bytes);
    position += bytes;
    return value;
  };
  const plainBytes = readPlainBytes(take);
  if (plainBytes > block.length * ratioMax) {
    throw corrupt(format, `${plainBytes} bytes cannot come out of ${block.length}`);
  }
  const start = output.sizeInBytes;
  while (position < block.length) {
    const tag = take(1);
    if ((tag & 3) === 0) {
      const short = tag >> 2;
      const length = (short < 60 ? short : take(short - 59)) + 1;
      output.append(block, position, position + length);
      position += length;
    } else {
      copy(tag, take, output, start);
    }
  }
  if (output.sizeInBytes - start !== plainBytes) {
    throw corrupt(format, `${output.sizeInBytes - start} bytes came out, not ${plainBytes}`);
  }
}

/** A copy reaches back within its own block only. */
function copy(tag: number, take: (bytes: number) => number, output: Output, start: number): void {
  const kind = tag & 3;
  const length = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
  const distance = kind === 1 ? ((tag >> 5) << 8) | take(1) : take(kind === 2 ? 2 : 4);
  if (distance > output.sizeInBytes - start) throw corrupt(format, 'copy from before the block');
  output.repeat(distance, length);
}

function readPlainBytes(take: (bytes: number) => number): number {
  let length = 0;
  for (let shift = 0; shift < 35; shift += 7) {
    const byte = take(1);
    length += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return length;
  }
  throw corrupt(format, 'length is no varint');
}
