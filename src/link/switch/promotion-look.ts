// One look at what a promotion waits for: fresh ends of the source against the durable ends of the
// mirror, whether the source is quiet, which transactions are open. Owns what earlier looks saw;
// refuses to change anything. Invariant: what could not be asked blocks, it never counts as done.
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { LinkClock } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { latestTimestamp, listOffsets, type OffsetAnswers } from '../source-offsets.ts';
import { type Blocking, blocking } from './blocking.ts';
import { Together } from './together.ts';

const confirmTimeoutMs = 2_000;
const partitionsNamed = 3;
/** Each may be a whole set. */
const looksTogetherMax = 1_000;

interface SeenEnd {
  readonly offset: bigint;
  /** Monotonic ms since which the source has not moved. */
  readonly sinceMs: number;
}

/** What the looks at one topic remember from one to the next. */
export class SourceQuiet {
  readonly #ends = new Map<number, SeenEnd>();
  readonly #clock: LinkClock;

  constructor(clock: LinkClock) {
    this.#clock = clock;
  }

  /** `changedAtMs`: since when fetching has seen this end, when it has seen the same. */
  note(partition: number, offset: bigint, changedAtMs: number | null): void {
    if (this.#ends.get(partition)?.offset === offset) return;
    this.#ends.set(partition, { offset, sinceMs: changedAtMs ?? this.#clock.monotonicMs() });
  }

  /** Partitions that were written to within the last so many ms. */
  busy(quietMs: number): number[] {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#ends].flatMap(([partition, { sinceMs }]) =>
      nowMs - sinceMs < quietMs ? [partition] : [],
    );
  }
}

export type LookReasons = ReadonlyMap<string, readonly Blocking[]>;

interface Look {
  readonly topics: readonly MirrorTopic[];
  readonly quiet: ReadonlyMap<string, SourceQuiet>;
}

/** Looks at sources. Of many promotions that drain at a time, one request does for all. */
export class SourceLooks {
  readonly #clock: LinkClock;
  readonly #storage: { readonly isFull: boolean };
  readonly #link: (name: string) => LinkRuntime | undefined;
  readonly #byLink = new Map<string, Together<Look, LookReasons>>();

  constructor(parts: {
    readonly clock: LinkClock;
    readonly storage: { readonly isFull: boolean };
    readonly link: (name: string) => LinkRuntime | undefined;
  }) {
    this.#clock = parts.clock;
    this.#storage = parts.storage;
    this.#link = parts.link;
  }

  /** By topic; an empty list: no lag. @throws ClusterError */
  ask(
    topics: readonly MirrorTopic[],
    quiet: ReadonlyMap<string, SourceQuiet>,
  ): Promise<LookReasons> {
    return perLink(topics, (name, own) => this.#of(name).ask({ topics: own, quiet }));
  }

  /**
   * What a switch is made on. By itself, since there is no time for a leader that does not answer
   * for somebody else's topic.
   */
  last(
    topics: readonly MirrorTopic[],
    quiet: ReadonlyMap<string, SourceQuiet>,
  ): Promise<LookReasons> {
    return perLink(topics, async (name, own) => {
      const reasons = await this.#look(name, [{ topics: own, quiet }]);
      return this.#confirmed(name, own, reasons());
    });
  }

  /** Ends are read by name: those of a successor that are equal to ours say nothing. */
  async #confirmed(
    name: string,
    topics: readonly MirrorTopic[],
    reasons: LookReasons,
  ): Promise<LookReasons> {
    const link = this.#link(name);
    const clear = topics.filter((topic) => reasons.get(topic.name)?.length === 0);
    if (link === undefined) return reasons;
    const records = clear.map(({ record }) => record);
    const confirmed = new Map(reasons);
    for (const [topic, { cause }] of await unconfirmedSources(link, records)) {
      confirmed.set(topic, [blocking('SOURCE_TOPIC_UNCONFIRMED', cause)]);
    }
    return confirmed;
  }

  #of(name: string): Together<Look, LookReasons> {
    const known = this.#byLink.get(name);
    if (known !== undefined) return known;
    const looks = new Together<Look, LookReasons>((asked) => this.#look(name, asked), {
      questionsMax: looksTogetherMax,
    });
    this.#byLink.set(name, looks);
    return looks;
  }

  async #look(name: string, asked: readonly Look[]): Promise<() => LookReasons> {
    const link = this.#link(name);
    if (link === undefined) return () => new Map();
    const quiet = new Map(asked.flatMap((look) => [...look.quiet]));
    const quietOf = (topic: string) => quiet.get(topic) ?? new SourceQuiet(this.#clock);
    const topics = asked.flatMap((look) => look.topics);
    const reasons = await lagOf(topics, link, quietOf);
    const { isFull } = this.#storage;
    return () => (isFull ? withFullDisk(reasons) : reasons);
  }
}

/** Lag that does not shrink because nothing is fetched. */
function withFullDisk(reasons: LookReasons): LookReasons {
  const full = blocking('DISK_FULL', 'fetching has stopped for lack of space, with offsets to go');
  return new Map(
    [...reasons].map(([topic, own]) => {
      const isBehind = own.some(({ code }) => code === 'MIRROR_LAG');
      return [topic, isBehind ? [full, ...own] : own] as const;
    }),
  );
}

async function perLink(
  topics: readonly MirrorTopic[],
  look: (link: string, own: readonly MirrorTopic[]) => Promise<LookReasons>,
): Promise<LookReasons> {
  const reasons = new Map<string, readonly Blocking[]>();
  for (const name of new Set(topics.map(({ link }) => link))) {
    const own = topics.filter(({ link }) => link === name);
    const looked = await look(name, own);
    const missing = [blocking('LINK_NOT_FOUND', `link '${name}' is gone`)];
    for (const { name: topic } of own) reasons.set(topic, looked.get(topic) ?? missing);
  }
  return reasons;
}

/** The source's ends against ours, all topics of one link in one round. Empty lists: no lag. */
async function lagOf(
  topics: readonly MirrorTopic[],
  link: LinkRuntime,
  quiet: (topic: string) => SourceQuiet,
): Promise<LookReasons> {
  const { cluster } = link;
  const names = [...new Set(topics.map(({ record }) => record.sourceTopic))];
  const { topics: infos } = await cluster.metadata(names);
  const partitions = topics.flatMap(({ record, partitions: views }) =>
    views.map(({ partition }) => ({
      topic: record.sourceTopic,
      partition,
      leaderId:
        infos.get(record.sourceTopic)?.partitions.find((found) => found.partition === partition)
          ?.leaderId ?? -1,
    })),
  );
  const timeoutMs = confirmTimeoutMs;
  const ends = await listOffsets(cluster, partitions, { timestamp: latestTimestamp, timeoutMs });
  return new Map(
    topics.map((topic) => {
      const count = infos.get(topic.record.sourceTopic)?.partitions.length ?? 0;
      const isGrowing = count > topic.partitionCount;
      const reasons = isGrowing
        ? [blocking('PARTITIONS_GROWING', growing(topic, count, link))]
        : lagOfTopic(topic, link, { ends, quiet: quiet(topic.name) });
      return [topic.name, reasons] as const;
    }),
  );
}

function growing({ name, partitionCount }: MirrorTopic, count: number, link: LinkRuntime): string {
  const has = `the source has ${count} partitions, the mirror ${partitionCount}`;
  const cause = link.growth.of(name)?.cause ?? null;
  return cause === null ? has : `${has}: ${cause}`;
}

function lagOfTopic(
  topic: MirrorTopic,
  link: LinkRuntime,
  seen: { readonly ends: OffsetAnswers; readonly quiet: SourceQuiet },
): readonly Blocking[] {
  const reasons: Blocking[] = [];
  for (const { partition, log } of topic.partitions) {
    const end = seen.ends.get(partitionKey(topic.record.sourceTopic, partition));
    const place = `partition ${partition}`;
    if (log === null) {
      reasons.push(blocking('STORAGE_ERROR', `${place}: the mirror log is unusable`));
      continue;
    }
    if (end === undefined || end.errorCode !== ErrorCode.NONE) {
      const cause = errorName(end?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
      reasons.push(blocking('SOURCE_UNREACHABLE', `${place}: ${cause}`));
      continue;
    }
    const tracker = link.feeds.lag(topic.name, partition);
    const isSame = tracker?.sourceEnd === end.offset;
    seen.quiet.note(partition, end.offset, isSame ? tracker.changedAtMs : null);
    if (end.offset !== log.durableEnd || log.end !== log.durableEnd) {
      const behind = end.offset - log.durableEnd;
      reasons.push(blocking('MIRROR_LAG', `${place} has ${behind} offsets to go`));
    }
  }
  return reasons;
}

export function stillWriting(quiet: SourceQuiet, quietMs: number): readonly Blocking[] {
  const busy = quiet.busy(quietMs);
  if (busy.length === 0) return [];
  const named = busy.slice(0, partitionsNamed).join(', ');
  const more = busy.length > partitionsNamed ? ` and ${busy.length - partitionsNamed} more` : '';
  const when = `the source was written to within the last ${quietMs} ms`;
  return [blocking('PRODUCERS_WRITING', `${when} (partition ${named}${more})`)];
}

export function openTransactions(topic: MirrorTopic): readonly Blocking[] {
  return topic.partitions.flatMap(({ partition, log }) =>
    (log?.openTransactions() ?? []).map(({ producerId, firstOffset }) =>
      blocking(
        'TRANSACTION_OPEN',
        `partition ${partition}: transaction of producer ${producerId} ` +
          `open since offset ${firstOffset}`,
      ),
    ),
  );
}
