// Source topics of which a broker says that another topic has their name now. Owns when that is
// believed; refuses to know what follows for the mirror. Invariants: no mirror is FAILED for what
// one broker says while most say otherwise: a broker that was left behind tells the topic that was
// there before a mirror's own; and until it is known nothing is appended that was asked for by
// name. What nobody can tell for long is believed, too.
import type { Cluster, ClusterMetadata, TopicInfo } from '../cluster/cluster.ts';
import type { LinkRecord, MirrorError, TopicRecord } from '../state/records.ts';
import type { LinkClock } from './context.ts';
import { metadataOfMost } from './every-broker.ts';
import type { PartitionFeed } from './fetch/partition-feed.ts';
import { isFetching } from './mirror/mirror-state.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import { examine, Lasting } from './source-watch.ts';

const lane = 'successors';

interface SuspectLink {
  readonly record: LinkRecord;
  readonly cluster: Cluster;
  readonly settings: { readonly retryTimeoutMs: number };
  readonly feeds: { feeds(topic: string): readonly PartitionFeed[] };
  failTopic(name: string, error: MirrorError): void;
  inBackground(work: () => Promise<void>): void;
}

interface Suspect {
  readonly record: TopicRecord;
  readonly error: MirrorError;
}

export class SuccessorWatch {
  readonly #clock: LinkClock;
  readonly #changes: TopicChanges;
  readonly #link: SuspectLink;
  readonly #onConfirmed: (record: TopicRecord, info: TopicInfo, askedAtMs: number) => void;
  /** Of the look that is under way, by name. */
  readonly #suspects = new Map<string, Suspect>();
  readonly #lasting = new Lasting();
  #isAsking = false;

  constructor(parts: {
    clock: LinkClock;
    changes: TopicChanges;
    link: SuspectLink;
    /** Most brokers have the mirrored topic still: what one of them says of it. */
    onConfirmed: (record: TopicRecord, info: TopicInfo, askedAtMs: number) => void;
  }) {
    this.#clock = parts.clock;
    this.#changes = parts.changes;
    this.#link = parts.link;
    this.#onConfirmed = parts.onConfirmed;
  }

  /** A broker says that it is another topic. */
  suspect(record: TopicRecord, error: MirrorError): void {
    this.#suspects.set(record.name, { record, error });
    for (const feed of this.#link.feeds.feeds(record.name)) feed.unprove();
  }

  /** It is not, as it was seen last. */
  clear(name: string): void {
    this.#suspects.delete(name);
    this.#lasting.clear(name);
  }

  keep(isWatched: (name: string) => boolean): void {
    this.#lasting.keep(isWatched);
  }

  /** Has every broker asked of what the look has found; one question at a time. */
  tend(): void {
    if (this.#isAsking || this.#suspects.size === 0) return;
    const suspects = [...this.#suspects.values()];
    this.#suspects.clear();
    this.#isAsking = true;
    this.#link.inBackground(async () => {
      try {
        await this.#ask(suspects);
      } finally {
        this.#isAsking = false;
      }
    });
  }

  async #ask(suspects: readonly Suspect[]): Promise<void> {
    const { cluster, record: link, settings } = this.#link;
    const names = [...new Set(suspects.map(({ record }) => record.sourceTopic))];
    const askedAtMs = this.#clock.monotonicMs();
    const told = await metadataOfMost(cluster, names, lane);
    // Another cluster has other topics.
    const seen = (told ?? []).filter(({ clusterId }) => clusterId === link.sourceClusterId);
    const least = cluster.brokers.length / 2;
    for (const { record, error } of suspects) {
      // It may be stopped, or made anew of the successor, meanwhile.
      const now = this.#changes.record(record.name);
      if (now === undefined || !isFetching(now.state)) continue;
      if (now.sourceTopicId !== record.sourceTopicId) continue;
      const { others, own } = countOf(now, seen);
      const [info] = own;
      if (others > least) this.#link.failTopic(now.name, error);
      else if (info !== undefined && own.length > least) this.#onConfirmed(now, info, askedAtMs);
      else if (this.#lasting.note(now.name, askedAtMs, settings.retryTimeoutMs)) {
        this.#link.failTopic(now.name, error);
      }
    }
  }
}

/** How many brokers have another topic of the name, and what those say that have the mirrored. */
function countOf(
  record: TopicRecord,
  seen: readonly ClusterMetadata[],
): { readonly others: number; readonly own: readonly TopicInfo[] } {
  let others = 0;
  const own: TopicInfo[] = [];
  for (const { topics } of seen) {
    const info = topics.get(record.sourceTopic);
    const { kind } = examine(record, info);
    if (kind === 'other') others++;
    else if (info !== undefined && (kind === 'as-is' || kind === 'grown')) own.push(info);
  }
  return { others, own };
}
