// Passes every byte through a relay, but cuts all writes at random sizes and lets the receiver run
// in between, so that no reader can rely on how bytes arrive. Both directions. Seeded.

import type { PassBytes } from '../helpers/relay.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';

/** Small pieces often, large ones sometimes: a frame of megabytes must not take minutes. */
function pieceSize(random: SeededRandom, left: number): number {
  const limits = [7, 61, 1_500, 65_536];
  const limit = random.pick(limits);
  return Math.min(left, 1 + random.below(limit));
}

export function chopped(random: SeededRandom): PassBytes {
  return (from, to) => {
    let isUnderWay = false;
    // Sockets tell their end although they are paused.
    let hasEnded = false;
    from.once('end', () => {
      hasEnded = true;
      if (!isUnderWay) to.end();
    });
    from.on('data', (chunk: Buffer) => {
      from.pause();
      isUnderWay = true;
      let position = 0;
      const next = (): void => {
        if (to.destroyed) return;
        if (position === chunk.length) {
          isUnderWay = false;
          if (hasEnded) to.end();
          else from.resume();
          return;
        }
        const size = pieceSize(random, chunk.length - position);
        const piece = chunk.subarray(position, position + size);
        position += size;
        to.write(piece, () => setImmediate(next));
      };
      next();
    });
  };
}
