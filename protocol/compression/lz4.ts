/**
 * LZ4 frames, decoding only. Blocks may be independent or linked. Checksums are not verified: the
 * batch's CRC-32C covers the same bytes.
 *
 *   frame: magic | FLG | BD | content size? (8) | dictionary id? (4) | HC | blocks | 0 | checksum?
 *   block: size uint32 LE (high bit: stored) | data | checksum? (4)
 */
import { corrupt, Output } from './output.ts';

const format = 'lz4';
const frameMagic = 0x184d2204;
const storedBit = 0x80000000;
const matchBytesMin = 4;

export function lz4Decompress(source: Buffer, bytesMax: number): Buffer {
  const output = new Output(format, bytesMax, source.length * 4);
  let position = 0;
  do {
    position = readFrame(source, position, output);
  } while (position < source.length);
  return output.toBuffer();
}

function readFrame(source: Buffer, start: number, output: Output): number {
  if (source.length - start < 7) throw corrupt(format, 'frame header is cut');
  if (source.readUInt32LE(start) !== frameMagic) throw corrupt(format, 'no frame begins here');
  const flags = source.readUInt8(start + 4);
  if (flags >> 6 !== 1) throw corrupt(format, `frame version ${flags >> 6}`);
  const hasBlockChecksums = (flags & 0x10) !== 0;
  const hasContentSize = (flags & 0x08) !== 0;
  const hasContentChecksum = (flags & 0x04) !== 0;
  const hasDictionary = (flags & 0x01) !== 0;
  let position = start + 7 + (hasContentSize ? 8 : 0) + (hasDictionary ? 4 : 0);
  for (;;) {
    if (source.length - position < 4) throw corrupt(format, 'frame has no end mark');
    const word = source.readUInt32LE(position);
    position += 4;
    if (word === 0) break;
    const end = position + (word & ~storedBit);
    if (end > source.length) throw corrupt(format, 'block beyond the end');
    if (word >= storedBit) output.append(source, position, end);
    else readBlock(source, position, end, output);
    position = end + (hasBlockChecksums ? 4 : 0);
  }
  const end = position + (hasContentChecksum ? 4 : 0);
  if (end > source.length) throw corrupt(format, 'content checksum is cut');
  return end;
}

/** Sequences of token | more length? | literals | distance uint16 LE | more length?. */
function readBlock(source: Buffer, start: number, end: number, output: Output): void {
  let position = start;
  const byteAt = (at: number): number => {
    if (at >= end) throw corrupt(format, 'block is cut');
    return source[at] ?? 0;
  };
  /** A length of 15 goes on in the following bytes. */
  const extend = (nibble: number): number => {
    let length = nibble;
    if (nibble !== 15) return length;
    for (;;) {
      const byte = byteAt(position++);
      length += byte;
      if (byte !== 255) return length;
    }
  };
  while (position < end) {
    const token = byteAt(position++);
    const literals = extend(token >> 4);
    if (position + literals > end) throw corrupt(format, 'literals beyond the block');
    output.append(source, position, position + literals);
    position += literals;
    if (position === end) return; // the last sequence has literals only
    const distance = byteAt(position) | (byteAt(position + 1) << 8);
    position += 2;
    output.repeat(distance, extend(token & 0x0f) + matchBytesMin);
  }
}
