// Ages out the mirrored prefix of promoted topics by the topic's own retention.ms and
// retention.bytes, as their broker does with what came after it; and deletes it once that broker
// has deleted any of what came after it, since a log has no holes. Owns when that is looked at;
// refuses to know segments (the log says what can go). Invariants: a mirror is never touched, its
// log start is the source's; a topic whose configs cannot be read, or that is not to be deleted
// from, loses nothing by age or size.
import { ErrorCode } from '../../protocol/index.ts';
import { StorageError } from '../../storage/errors.ts';
import type { RetentionRules } from '../../storage/mirror-log.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { readTopicConfigs } from '../cluster/config-requests.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import type { LinkContext } from '../link/context.ts';
import { isMirror } from '../link/mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from '../link/mirror/mirror-topics.ts';
import { Loop, messageOf } from '../link/signal.ts';
import { earliestTimestamp, listOffsets } from '../link/source-offsets.ts';
import { isCopyOutlived } from '../timeline/merged-view.ts';
import { nativeOffset, type VirtualOffset } from '../timeline/offsets.ts';
import { openNativeExtent } from '../timeline/timeline.ts';

/** Kafka's own log.retention.check.interval.ms. */
const checkMsDefault = 300_000;
const topicsAtOnce = 100;
const keys = ['cleanup.policy', 'retention.ms', 'retention.bytes'];

/** Null: nothing is ever deleted. */
export function retentionRules(
  configs: ReadonlyMap<string, string | null>,
  nowMs: number,
): RetentionRules | null {
  const policies = (configs.get('cleanup.policy') ?? '').split(',').map((text) => text.trim());
  if (!policies.includes('delete')) return null;
  const limit = (key: string): number | null => {
    const text = configs.get(key) ?? '';
    // Negative means unlimited; what is not a number limits nothing either.
    return /^\d+$/.test(text) ? Number(text) : null;
  };
  const ageMs = limit('retention.ms');
  const oldest = ageMs === null ? 0 : Math.floor(nowMs) - ageMs;
  const rules = {
    oldestTimestamp: ageMs !== null && oldest > 0 ? BigInt(oldest) : null,
    bytesMax: limit('retention.bytes'),
  };
  return rules.oldestTimestamp === null && rules.bytesMax === null ? null : rules;
}

export interface PrefixRetentionParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly checkMs?: number | undefined;
}

interface Cut {
  /** Null: nothing goes by age or size. */
  readonly rules: RetentionRules | null;
  readonly outlived: ReadonlyMap<number, VirtualOffset>;
}

export class PrefixRetention {
  readonly #parts: PrefixRetentionParts;
  readonly #loop = new Loop(() => this.#turn());
  readonly #checkMs: number;

  constructor(parts: PrefixRetentionParts) {
    this.#parts = parts;
    this.#checkMs = parts.checkMs ?? checkMsDefault;
  }

  start(): void {
    this.#loop.start(this.#checkMs);
  }

  async close(): Promise<void> {
    await this.#loop.close();
  }

  async #turn(): Promise<number> {
    try {
      await this.#look();
    } catch (error) {
      const level = error instanceof ClusterError ? 'warn' : 'error';
      this.#parts.context.events.emit(level, 'prefix_retention_failed', messageOf(error));
    }
    return this.#checkMs;
  }

  async #look(): Promise<void> {
    const { topics } = this.#parts;
    const promoted = [...topics.all].filter(
      (topic) =>
        !isMirror(topic.record.state) &&
        topic.partitions.some(({ log }) => log !== null && log.sizeBytes > 0),
    );
    for (let index = 0; index < promoted.length; index += topicsAtOnce) {
      await this.#age(promoted.slice(index, index + topicsAtOnce));
    }
  }

  async #age(promoted: readonly MirrorTopic[]): Promise<void> {
    const { destination, clock } = this.#parts.context;
    const outlived = await this.#outlived(promoted);
    const names = promoted.map(({ name }) => name);
    const answers = await readTopicConfigs(destination, names, keys);
    for (const topic of promoted) {
      const answer = answers.get(topic.name);
      const configs = new Map(answer?.configs.map(({ name, value }) => [name, value] as const));
      const isKnown = answer?.errorCode === ErrorCode.NONE;
      const rules = isKnown ? retentionRules(configs, clock.unixMs()) : null;
      await this.#cut(topic, { rules, outlived: outlived.get(topic.name) ?? new Map() });
    }
  }

  /** Ends of copies that have to go whole, by topic and partition. */
  async #outlived(
    promoted: readonly MirrorTopic[],
  ): Promise<ReadonlyMap<string, ReadonlyMap<number, VirtualOffset>>> {
    const { destination } = this.#parts.context;
    const { topics } = await destination.metadata(promoted.map(({ name }) => name));
    // Another topic of that name says nothing.
    const same = promoted.filter((topic) => topics.get(topic.name)?.topicId === topic.topicId);
    const leaders = same.flatMap(({ name }) =>
      (topics.get(name)?.partitions ?? []).map((one) => ({ topic: name, ...one })),
    );
    const starts = await listOffsets(destination, leaders, { timestamp: earliestTimestamp });
    const outlived = new Map<string, ReadonlyMap<number, VirtualOffset>>();
    for (const topic of same) {
      const ends = new Map<number, VirtualOffset>();
      for (const { partition, timeline } of topic.partitions) {
        const native = openNativeExtent(timeline);
        const start = starts.get(partitionKey(topic.name, partition));
        if (native === null || start === undefined || start.errorCode !== ErrorCode.NONE) continue;
        if (isCopyOutlived(native, nativeOffset(start.offset))) ends.set(partition, native.start);
      }
      outlived.set(topic.name, ends);
    }
    return outlived;
  }

  async #cut(topic: MirrorTopic, { rules, outlived }: Cut): Promise<void> {
    const { context } = this.#parts;
    for (const { partition, log } of topic.partitions) {
      // Looked at again for each: a lease may be lost, and a topic may go, at any time.
      if (this.#loop.isClosed || !context.state.lease.isValid()) return;
      if (isMirror(topic.record.state) || log === null) continue;
      const from = log.logStart;
      const end = outlived.get(partition);
      const start = end ?? (rules === null ? from : log.retentionStart(rules));
      if (start <= from) continue;
      const fields = { topic: topic.name, partition };
      const place = `${topic.name}-${partition}`;
      try {
        await log.deleteHead(start);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        const message = `${place}: old mirrored records stay: ${messageOf(error)}`;
        context.events.warn('prefix_retention_failed', message, fields);
        continue;
      }
      context.events.info(
        'mirror_prefix_aged_out',
        `${place}: mirrored records at offsets [${from}, ${start}) went ` +
          (end === undefined ? "by the topic's retention" : 'as records behind them are deleted'),
        { ...fields, from: String(from), to: String(start) },
      );
    }
  }
}
