// What was heard of a link's source, kept over restarts: last contact, its ends, and since when
// which mirrors are not complete, or lack partitions. When a source dies with its data centre and
// the proxy starts again, nobody else can tell. Owns when it is written; refuses to know how it is
// shown. Invariants: it is written only when this process has heard more than is written; what
// comes out of it is as old as it was when it went in; what does not go into it is told.
import {
  type LinkRecord,
  logTopicIdOf,
  type SeenGrowth,
  type SeenTopic,
  type SourceSeenRecord,
} from '../state/records.ts';
import { StateError } from '../state/state.ts';
import type { LinkContext } from './context.ts';
import { neverSeen, type SeenPartition } from './fetch/lag.ts';
import type { LinkFeeds } from './fetch/link-feeds.ts';
import type { LinkHealth } from './link-health.ts';
import type { MirrorGrowth } from './mirror/mirror-growth.ts';
import type { MirrorTopic } from './mirror/mirror-topics.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import { Loop, messageOf } from './signal.ts';

/** Of a link so much is in the record: a record has a largest size, of which this is half. */
const bytesMax = 4 * 1024 * 1024;
/** At most, as it is written. */
const topicBytes = 240;
const partitionBytes = 64;
/** How often it is seen whether something is to be written. */
const lookMs = 1_000;
/** Of a source that is lost: sooner than a minute, also where the last attempt has failed. */
const lostSpacingMs = 5_000;

interface SeenLink {
  readonly name: string;
  readonly record: LinkRecord;
  readonly health: LinkHealth;
  readonly feeds: LinkFeeds;
  readonly growth: MirrorGrowth;
}

/** What was written before a restart; another link that had the name is none of it. */
export function seenBefore(
  { state }: Pick<LinkContext, 'state'>,
  link: { readonly name: string; readonly linkId: string },
): SourceSeenRecord | undefined {
  const record = state.view.sourcesSeen.get(link.name);
  return record?.linkId === link.linkId ? record : undefined;
}

/** Of a mirror before a restart, its partitions by number; none when nothing of it was written. */
export function seenOf(
  found: SeenTopic | undefined,
  { record }: Pick<MirrorTopic, 'record'>,
): { readonly partitions: readonly SeenPartition[]; readonly growth: SeenGrowth | undefined } {
  if (found === undefined || found.logTopicId !== logTopicIdOf(record)) {
    return { partitions: [], growth: undefined };
  }
  const partitions = found.sourceEnds.map((sourceEnd, partition) => ({
    sourceEnd,
    contactTimeMs: found.contactTimesMs[partition] ?? -1,
    completeTimeMs: found.completeTimesMs[partition] ?? -1,
  }));
  return { partitions, growth: found.growth };
}

export class SourceSeen {
  readonly #context: LinkContext;
  readonly #changes: TopicChanges;
  readonly #link: SeenLink;
  readonly #topics: () => readonly MirrorTopic[];
  readonly #loop = new Loop(() => this.#turn());
  #triedAtMs: number;
  #writtenContactMs: number;
  #isCutOff = false;

  constructor(parts: {
    context: LinkContext;
    changes: TopicChanges;
    link: SeenLink;
    /** The link's mirrors. */
    topics: () => readonly MirrorTopic[];
  }) {
    this.#context = parts.context;
    this.#changes = parts.changes;
    this.#link = parts.link;
    this.#topics = parts.topics;
    this.#triedAtMs = parts.context.clock.monotonicMs();
    this.#writtenContactMs = parts.link.health.contactUnixMs;
  }

  start(): void {
    this.#loop.start(lookMs);
  }

  async close(): Promise<void> {
    await this.#loop.close();
  }

  async #turn(): Promise<number> {
    try {
      await this.keep();
    } catch (error) {
      const { name } = this.#link;
      const message = `What was heard of the source of link '${name}' is not on record: `;
      const level = error instanceof StateError ? 'warn' : 'error';
      const fields = { link: name };
      this.#context.events.emit(level, 'source_seen_not_kept', message + messageOf(error), fields);
    }
    return lookMs;
  }

  /** Writes down what there is, if it is time for it. @throws StateError */
  async keep(): Promise<void> {
    if (!this.#isDue()) return;
    const { name, record, health } = this.#link;
    const { clock } = this.#context;
    const now = { nowMs: clock.monotonicMs(), unixMs: clock.unixMs() };
    this.#triedAtMs = now.nowMs;
    const all = this.#topics().flatMap((topic) => this.#seenTopic(topic, now));
    const topics = whatFits(all);
    const seen: SourceSeenRecord = {
      kind: 'source-seen',
      link: name,
      linkId: record.linkId,
      timeMs: now.unixMs,
      contactTimeMs: health.contactUnixMs,
      topics,
    };
    await this.#changes.commit([{ put: seen }]);
    this.#writtenContactMs = seen.contactTimeMs;
    this.#tellCutOff({ all: all.length, kept: topics.length });
  }

  /** Once, until it is whole again. */
  #tellCutOff({ all, kept }: { readonly all: number; readonly kept: number }): void {
    const isNews = kept < all && !this.#isCutOff;
    this.#isCutOff = kept < all;
    if (!isNews) return;
    const { name } = this.#link;
    this.#context.events.warn(
      'source_seen_cut_off',
      `Of ${all - kept} of the ${all} mirrors of link '${name}' it is not on record what was ` +
        'heard of the source, since it does not fit: after a restart without the source their ' +
        'RPO and what they lack are unknown',
      { link: name, mirrors: all, leftOut: all - kept },
    );
  }

  /** From time to time, and once more when the source is lost: more may not come for long. */
  #isDue(): boolean {
    const { clock, limits, state } = this.#context;
    const { health } = this.#link;
    if (!health.hasContact || health.contactUnixMs === this.#writtenContactMs) return false;
    if (!state.lease.isValid()) return false;
    const spacingMs = health.isLost ? lostSpacingMs : limits.sourceSeenMs;
    return clock.monotonicMs() - this.#triedAtMs >= spacingMs;
  }

  /** A list of one, or none where nothing was ever seen. */
  #seenTopic(
    { name, record, partitions }: MirrorTopic,
    now: { readonly nowMs: number; readonly unixMs: number },
  ): SeenTopic[] {
    const logTopicId = logTopicIdOf(record);
    if (logTopicId === null || record.state === 'STOPPED') return [];
    const seen = partitions.map(
      ({ partition }) => this.#link.feeds.lag(name, partition)?.seen(now) ?? neverSeen,
    );
    const growth = this.#link.growth.of(name);
    if (growth === null && seen.every(({ sourceEnd }) => sourceEnd < 0n)) return [];
    return [
      {
        topic: name,
        logTopicId,
        sourceEnds: seen.map(({ sourceEnd }) => sourceEnd),
        contactTimesMs: seen.map(({ contactTimeMs }) => contactTimeMs),
        completeTimesMs: seen.map(({ completeTimeMs }) => completeTimeMs),
        ...(growth === null ? {} : { growth: grownSince(growth) }),
      },
    ];
  }
}

/** Why it does not grow is known anew after a restart, or not at all. */
function grownSince({ sourcePartitions, sinceTimeMs }: SeenGrowth): SeenGrowth {
  return { sourcePartitions, sinceTimeMs };
}

/** The first ones; one that is too large alone keeps none of the others out. */
function whatFits(topics: readonly SeenTopic[]): readonly SeenTopic[] {
  let leftBytes = bytesMax;
  return topics.filter(({ topic, sourceEnds }) => {
    const bytes = topicBytes + topic.length + sourceEnds.length * partitionBytes;
    if (bytes > leftBytes) return false;
    leftBytes -= bytes;
    return true;
  });
}
