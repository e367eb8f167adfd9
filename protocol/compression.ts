/**
 * Opens compressed record data. Each format is loaded on first use; only time look-ups, tools and
 * tests come here, never the mirror path. The output is capped, and whatever the bytes are, the
 * outcome is the plain bytes or a ProtocolError.
 */
import type { Compression } from './record-batch.ts';

export async function decompress(
  format: Compression,
  source: Buffer,
  bytesMax: number,
): Promise<Buffer> {
  switch (format) {
    case 'none':
      return source;
    case 'gzip':
      return (await import('./compression/gzip.ts')).gzipDecompress(source, bytesMax);
    case 'snappy':
      return (await import('./compression/snappy.ts')).snappyDecompress(source, bytesMax);
    case 'lz4':
      return (await import('./compression/lz4.ts')).lz4Decompress(source, bytesMax);
    case 'zstd':
      return (await import('./compression/zstd.ts')).zstdDecompress(source, bytesMax);
  }
}
