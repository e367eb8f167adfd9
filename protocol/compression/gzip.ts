/** Gzip, decoding only: Node's own zlib, in its thread pool, capped. */
import { gunzip } from 'node:zlib';
import { corrupt, tooLarge } from './output.ts';

const format = 'gzip';

export function gzipDecompress(source: Buffer, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gunzip(source, { maxOutputLength: bytesMax }, (error, plain) => {
      if (error === null) resolve(plain);
      else if ('code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') {
        reject(tooLarge(format, bytesMax));
      } else reject(corrupt(format, error.message, error));
    });
  });
}
