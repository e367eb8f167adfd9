// Which partitions of a link are read in parallel ranges: those far behind over a long line, a few
// at a time. Owns how many; refuses to know how ranges are read. Invariant: a partition is read in
// ranges or by its fetcher, never by both.
import type { LinkClock } from '../context.ts';
import type { ByteThrottle } from './byte-throttle.ts';
import { type AnswerSizes, rangeBytes, rangeReadersMax } from './limits.ts';
import type { PartitionFeed } from './partition-feed.ts';
import { RangeReader, type RangeSettings } from './range-reader.ts';
import { endOfEpoch } from './range-requests.ts';
import type { FeedLink } from './source-link.ts';

/** A way there and back that takes so long is worth not to be waited for. */
const roundTripMsMin = 15;
/** A measured line is believed for so long. */
const roundTripAgeMaxMs = 30_000;
const probes = 3;
/** Less backlog than so many answers is not worth it. */
const answersMin = 4;

/** One full answer of a partition, and what it says of the backlog. */
export interface FullAnswer {
  readonly bytes: number;
  readonly offsets: bigint;
  readonly end: bigint;
  readonly highWatermark: bigint;
}

/** What a fetcher's answers are limited to. */
export interface AnswerLimits extends AnswerSizes {
  /** Of the whole link; null does not limit. */
  readonly bytesPerSecond: number | null;
}

export class RangeReaders {
  readonly #parts: {
    readonly link: FeedLink;
    readonly clock: LinkClock;
    readonly settings: () => AnswerLimits;
    readonly throttle: ByteThrottle;
    readonly mayFetch: () => boolean;
  };
  readonly #lanes = Array.from({ length: rangeReadersMax }, (_, index) => index);
  /** By broker: the shortest way there and back of late; 0 while it is being measured. */
  readonly #lines = new Map<number, { readonly roundTripMs: number; readonly atMs: number }>();

  constructor(parts: {
    link: FeedLink;
    clock: LinkClock;
    settings: () => AnswerLimits;
    throttle: ByteThrottle;
    mayFetch: () => boolean;
  }) {
    this.#parts = parts;
  }

  /** After an answer has been given to the feed to append. */
  consider(feed: PartitionFeed, answer: FullAnswer): void {
    const { bytes, offsets, end, highWatermark } = answer;
    if (offsets <= 0n || feed.leaderEpoch < 0 || feed.isReadNear) return;
    if (feed.isSuspended || !feed.isProved) return;
    const bytesPerOffset = bytes / Number(offsets);
    const backlogBytes = Number(highWatermark - end) * bytesPerOffset;
    const { chunkBytes } = this.#settings();
    if (bytes < chunkBytes / 2 || backlogBytes < answersMin * chunkBytes) return;
    if (!this.#isFar(feed)) return;
    const lane = this.#lanes.pop();
    if (lane === undefined) return;
    const { link } = this.#parts;
    feed.isSuspended = true;
    link.inBackground(async () => {
      try {
        await feed.settled();
        await this.#reader(feed, { lane, highWatermark, bytesPerOffset }).run();
      } finally {
        feed.isSuspended = false;
        this.#lanes.push(lane);
        link.reassign(feed);
      }
    });
  }

  #settings(): RangeSettings {
    const limits = this.#parts.settings();
    const { bytesMax, bytesPerSecond } = limits;
    return { chunkBytes: rangeBytes(limits), windowBytes: bytesMax, bytesPerSecond };
  }

  #isFar(feed: PartitionFeed): boolean {
    const { clock, link } = this.#parts;
    const known = this.#lines.get(feed.leaderId);
    const nowMs = clock.monotonicMs();
    if (known !== undefined && nowMs - known.atMs < roundTripAgeMaxMs) {
      return known.roundTripMs >= roundTripMsMin;
    }
    // Not far until it is measured; full answers go on to come until then.
    this.#lines.set(feed.leaderId, { roundTripMs: 0, atMs: nowMs });
    link.inBackground(() => this.#measure(feed));
    return false;
  }

  async #measure(feed: PartitionFeed): Promise<void> {
    const { clock, link } = this.#parts;
    const { leaderId, leaderEpoch } = feed;
    let roundTripMs = Number.POSITIVE_INFINITY;
    for (let probe = 0; probe < probes; probe++) {
      const askedAtMs = clock.monotonicMs();
      await endOfEpoch(link.cluster, feed, leaderEpoch);
      roundTripMs = Math.min(roundTripMs, clock.monotonicMs() - askedAtMs);
    }
    this.#lines.set(leaderId, { roundTripMs, atMs: clock.monotonicMs() });
  }

  #reader(
    feed: PartitionFeed,
    at: { lane: number; highWatermark: bigint; bytesPerOffset: number },
  ): RangeReader {
    const { highWatermark, bytesPerOffset } = at;
    return new RangeReader({
      ...this.#parts,
      settings: () => this.#settings(),
      feed,
      lane: `ranges-${this.#parts.link.name}-${at.lane}`,
      highWatermark,
      bytesPerOffset,
    });
  }
}
