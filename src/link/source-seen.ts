// What was heard of a link's source, kept over restarts: last contact, its ends, and since when
// which mirrors are not complete. When a source dies with its data centre and the proxy starts
// again, nobody else can tell. Owns when it is written; refuses to know how it is shown.
// Invariants: it is written only when this process has heard more than is written; what comes out
// of it is as old as it was when it went in.
import {
  type LinkRecord,
  logTopicIdOf,
  type SeenTopic,
  type SourceSeenRecord,
} from '../state/records.ts';
import type { LinkContext } from './context.ts';
import { neverSeen, type SeenPartition } from './fetch/lag.ts';
import type { LinkFeeds } from './fetch/link-feeds.ts';
import type { LinkHealth } from './link-health.ts';
import type { MirrorTopic } from './mirror/mirror-topics.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import { Loop, messageOf } from './signal.ts';

/** Of a link so much is in the record: a record has a largest size, of which this is half. */
const bytesMax = 4 * 1024 * 1024;
/** At most, as it is written. */
const topicBytes = 160;
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
}

/** What was written before a restart; another link that had the name is none of it. */
export function seenBefore(
  { state }: Pick<LinkContext, 'state'>,
  link: { readonly name: string; readonly linkId: string },
): SourceSeenRecord | undefined {
  const record = state.view.sourcesSeen.get(link.name);
  return record?.linkId === link.linkId ? record : undefined;
}

/** Of a mirror before a restart, by partition; empty when nothing of it was written. */
export function seenOf(
  found: SeenTopic | undefined,
  { record }: Pick<MirrorTopic, 'record'>,
): readonly SeenPartition[] {
  if (found === undefined || found.logTopicId !== logTopicIdOf(record)) return [];
  return found.sourceEnds.map((sourceEnd, partition) => ({
    sourceEnd,
    contactTimeMs: found.contactTimesMs[partition] ?? -1,
    completeTimeMs: found.completeTimesMs[partition] ?? -1,
  }));
}

export class SourceSeen {
  readonly #context: LinkContext;
  readonly #changes: TopicChanges;
  readonly #link: SeenLink;
  readonly #topics: () => readonly MirrorTopic[];
  readonly #loop = new Loop(() => this.#turn());
  #triedAtMs: number;
  #writtenContactMs: number;

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
      this.#context.events.warn('source_seen_not_kept', message + messageOf(error), {
        link: name,
      });
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
    let leftBytes = bytesMax;
    const topics = this.#topics().flatMap((topic) => {
      leftBytes -= topicBytes + topic.name.length + topic.partitions.length * partitionBytes;
      return leftBytes < 0 ? [] : this.#seenTopic(topic, now);
    });
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
    if (seen.every(({ sourceEnd }) => sourceEnd < 0n)) return [];
    return [
      {
        topic: name,
        logTopicId,
        sourceEnds: seen.map(({ sourceEnd }) => sourceEnd),
        contactTimesMs: seen.map(({ contactTimeMs }) => contactTimeMs),
        completeTimesMs: seen.map(({ completeTimeMs }) => completeTimeMs),
      },
    ];
  }
}
