// What fetching over one link may hold at most, from the sizes of its answers: for each connection
// that a fetcher has, and for what is read beside the fetchers. Owns how many answers that is;
// refuses to know who asks for them. Not in it: a single batch above the largest answer, which
// comes whole.
import { frameBufferBytesMax } from '../../cluster/frame-buffer.ts';
import { clusterLimitsDefault } from '../../cluster/limits.ts';

/** What a link's settings may say: a broker's answer has to fit a frame with all that is in it. */
export const answerBytesMax = clusterLimitsDefault.frameBytesMax / 2;

/** Of one fetcher: one answer is received while the other is appended. */
export const framesMax = 2;
/** When both have waited long for some partition, the others get one more. */
const spareFrames = 1;

/** Smaller than a fetcher's answers may be: a window of few large ranges does not fill a line. */
const rangeBytesMax = 1024 * 1024;
/** Partitions of a link that are read in ranges; each has a window as large as an answer. */
export const rangeReadersMax = 4;

/** Damaged ranges of a link that are fetched again at a time. */
export const repairsMax = 2;

export interface AnswerSizes {
  /** Largest Fetch answer. */
  readonly bytesMax: number;
  /** Largest share of one partition in it. */
  readonly partitionBytesMax: number;
}

/** Of one answer of a window, without the batches that lie across its ends. */
export function rangeBytes({ partitionBytesMax }: AnswerSizes): number {
  return Math.min(partitionBytesMax, rangeBytesMax);
}

/** Answers of one window, but for one more of the range that all others wait for. */
export function rangesMax(chunkBytes: number, windowBytes: number): number {
  return Math.max(2, Math.floor(windowBytes / chunkBytes));
}

/** With the batches that lie across its ends, as far as they are no larger than it. */
export function rangeAnswerBytesMax(chunkBytes: number): number {
  return 3 * chunkBytes;
}

export function fetcherBytesMax({ bytesMax }: AnswerSizes): number {
  return (framesMax + spareFrames) * frameBufferBytesMax(bytesMax);
}

/**
 * Ranges; a copy that is built anew: an answer of each of two readings of it; and of each repair an
 * answer, the records of the damaged range, and what the disk has there.
 */
export function besideFetchersBytesMax(sizes: AnswerSizes): number {
  const chunkBytes = rangeBytes(sizes);
  const ranges = rangesMax(chunkBytes, sizes.bytesMax) + 1;
  const readerBytes = ranges * frameBufferBytesMax(rangeAnswerBytesMax(chunkBytes));
  const ofOneBytes = (2 + 3 * repairsMax) * sizes.partitionBytesMax;
  return rangeReadersMax * readerBytes + ofOneBytes;
}
