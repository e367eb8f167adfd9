// Topics that were switched, and what their source still does: its ends are read on for days. Owns
// the completion of receipts (the true loss, once a dead source answers) and the count of stray
// records (written there after the switch). Refuses to change anything but receipts. Invariant:
// growth is counted from ends that are on record, so that a restart forgets none of it.
import { ErrorCode } from '../../../protocol/index.ts';
import { type Cluster, ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type {
  LinkRecord,
  ReceiptPartition,
  ReceiptRecord,
  ReceiptTopic,
} from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import type { MirrorTopic, MirrorTopics } from '../mirror/mirror-topics.ts';
import type { TopicChanges } from '../mirror/topic-changes.ts';
import { Loop, messageOf } from '../signal.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { latestTimestamp, listOffsets } from '../source-offsets.ts';
import { lossOf } from './receipt.ts';

/** An event says that strays go on at most so often, per topic. */
const eventSpacingMs = 60_000;

export interface SwitchedWatchParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly links: () => readonly LinkRuntime[];
}

interface Strays {
  readonly count: bigint;
  readonly toldAtMs: number;
}

/** By partition, the source's end. */
type Ends = ReadonlyMap<number, bigint>;

export class SwitchedWatch {
  readonly #parts: SwitchedWatchParts;
  readonly #strays = new Map<string, Strays>();
  readonly #busy = new Map<string, Promise<void>>();
  readonly #loop = new Loop(() => this.#turn());

  constructor(parts: SwitchedWatchParts) {
    this.#parts = parts;
  }

  /** Records that the source got after the switch; null while it has not been read. */
  strays(topicId: string | null): bigint | null {
    return this.#strays.get(topicId ?? '')?.count ?? null;
  }

  /** The receipt of a switched topic, the newest if there are several. */
  receiptOf(topic: MirrorTopic): { receipt: ReceiptRecord; line: ReceiptTopic } | null {
    return newestReceipts(this.#parts.context.state.view.receipts.values()).get(topic.name) ?? null;
  }

  start(): void {
    this.#loop.start();
  }

  async close(): Promise<void> {
    await this.#loop.close();
    await Promise.all(this.#busy.values());
  }

  async #turn(): Promise<number> {
    const { context } = this.#parts;
    if (context.state.lease.isValid()) {
      for (const link of this.#parts.links()) this.#begin(link);
    }
    return context.limits.switchedWatchMs;
  }

  /** One look per link at a time; a source that hangs holds up its own only. */
  #begin(link: LinkRuntime): void {
    if (this.#busy.has(link.name) || link.record.paused) return;
    const topics = this.#watched(link);
    if (topics.length === 0) return;
    const look = this.#look(link, topics)
      .catch((error: unknown) => {
        if (error instanceof ClusterError || error instanceof StateError) return;
        this.#parts.context.events.error('switched_watch_fault', messageOf(error), {
          link: link.name,
        });
      })
      .finally(() => this.#busy.delete(link.name));
    this.#busy.set(link.name, look);
  }

  #watched({ name, record: { linkId } }: LinkRuntime): MirrorTopic[] {
    const { context, topics } = this.#parts;
    const sinceMs = context.clock.unixMs() - context.limits.switchedWatchForMs;
    return [...topics.all].filter(
      ({ record }) =>
        record.link === name &&
        (record.linkId ?? linkId) === linkId &&
        record.state === 'STOPPED' &&
        record.stateTimeMs >= sinceMs,
    );
  }

  async #look(link: LinkRuntime, topics: readonly MirrorTopic[]): Promise<void> {
    const { context } = this.#parts;
    const source = { cluster: await link.connected(), record: link.record };
    const ends = await sourceEnds(source, topics);
    if (this.#loop.isClosed) return;
    const receipts = newestReceipts(context.state.view.receipts.values());
    const completed = new Map<ReceiptRecord, Map<string, Ends>>();
    for (const topic of topics) {
      const found = receipts.get(topic.name);
      const seen = ends.get(topic.name);
      if (found === undefined || seen === undefined) continue;
      const { line } = found;
      if (line.completedTimeMs >= 0) {
        this.#count(topic, line, seen);
        continue;
      }
      if (line.partitions.some(({ partition }) => !seen.has(partition))) continue;
      const own = completed.get(found.receipt) ?? new Map<string, Ends>();
      completed.set(found.receipt, own.set(topic.name, seen));
    }
    for (const [receipt, seen] of completed) {
      await this.#commit(complete(receipt, { seen, timeMs: context.clock.unixMs() }));
    }
  }

  async #commit(receipt: ReceiptRecord): Promise<void> {
    const { context, changes } = this.#parts;
    context.state.lease.check();
    await changes.commit([{ put: receipt }]);
    const lost = receipt.topics.flatMap(({ partitions }) =>
      partitions.map(({ found }) => found?.lostRecords ?? 0n),
    );
    const total = lost.reduce((sum, one) => sum + one, 0n);
    context.events.info(
      'receipt_completed',
      `The source answers again: ${total} records were lost by the ${receipt.command} of receipt ` +
        `${receipt.id}`,
      { receipt: receipt.id, lostRecords: String(total) },
    );
  }

  /** Growth beyond the ends that the receipt has. */
  #count(topic: MirrorTopic, line: ReceiptTopic, seen: Ends): void {
    const { topicId } = topic.record;
    if (topicId === null) return;
    let count = 0n;
    for (const { partition, found } of line.partitions) {
      const end = seen.get(partition);
      if (end !== undefined && found !== null && end > found.sourceEnd) {
        count += end - found.sourceEnd;
      }
    }
    const { context } = this.#parts;
    const before = this.#strays.get(topicId);
    const nowMs = context.clock.monotonicMs();
    const isNews = count > (before?.count ?? 0n);
    const isDue = before === undefined || before.count === 0n;
    const isToTell = isNews && (isDue || nowMs - before.toldAtMs >= eventSpacingMs);
    this.#strays.set(topicId, { count, toldAtMs: isToTell ? nowMs : (before?.toldAtMs ?? 0) });
    if (!isToTell) return;
    context.events.warn(
      'stray_writes',
      `STRAY_WRITES: source topic '${topic.record.sourceTopic}' has got ${count} records after ` +
        `'${topic.name}' was switched; they are not here ` +
        `(causeway mirror export-tail ${topic.name} --to FILE)`,
      { topic: topic.name, link: topic.link, code: 'STRAY_WRITES', records: String(count) },
    );
  }
}

/** Ends by topic of ours; a topic that was made anew at the source is not the same. */
async function sourceEnds(
  source: { readonly cluster: Cluster; readonly record: LinkRecord },
  topics: readonly MirrorTopic[],
): Promise<ReadonlyMap<string, Ends>> {
  const { cluster } = source;
  const names = [...new Set(topics.map(({ record }) => record.sourceTopic))];
  const { topics: infos } = await cluster.metadata(names);
  // The source of an archived copy is another topic, whether ids tell or not.
  const asked = topics.filter(({ record }) => record.logTopicId === undefined);
  const partitions = [...new Set(asked.map(({ record }) => record.sourceTopic))].flatMap((topic) =>
    (infos.get(topic)?.partitions ?? []).map(({ partition, leaderId }) => ({
      topic,
      partition,
      leaderId,
    })),
  );
  const answers = await listOffsets(cluster, partitions, { timestamp: latestTimestamp });
  const records = asked.map(({ record }) => record);
  const unconfirmed = await unconfirmedSources(source, records);
  const same = asked.filter(({ name }) => !unconfirmed.has(name));
  return new Map(
    same.map(({ name, record, partitions: own }) => {
      const ends = new Map<number, bigint>();
      for (const { partition } of own) {
        const answer = answers.get(partitionKey(record.sourceTopic, partition));
        if (answer?.errorCode === ErrorCode.NONE) ends.set(partition, answer.offset);
      }
      return [name, ends] as const;
    }),
  );
}

export function newestReceipts(
  receipts: Iterable<ReceiptRecord>,
): ReadonlyMap<string, { receipt: ReceiptRecord; line: ReceiptTopic }> {
  const newest = new Map<string, { receipt: ReceiptRecord; line: ReceiptTopic }>();
  for (const receipt of receipts) {
    for (const line of receipt.topics) {
      const known = newest.get(line.topic);
      if (known === undefined || known.receipt.timeMs <= receipt.timeMs) {
        newest.set(line.topic, { receipt, line });
      }
    }
  }
  return newest;
}

/** The receipt with what the source was found to have of some of its topics, by name. */
export function complete(
  receipt: ReceiptRecord,
  at: { readonly seen: ReadonlyMap<string, Ends>; readonly timeMs: number },
): ReceiptRecord {
  return {
    ...receipt,
    topics: receipt.topics.map((line) => {
      const seen = at.seen.get(line.topic);
      if (seen === undefined) return line;
      const partitions = line.partitions.map((partition) => withFound(partition, seen));
      return { ...line, partitions, completedTimeMs: at.timeMs };
    }),
  };
}

function withFound(partition: ReceiptPartition, seen: Ends): ReceiptPartition {
  const sourceEnd = seen.get(partition.partition);
  if (sourceEnd === undefined) return partition;
  const { mirroredEnd } = partition;
  return { ...partition, found: { sourceEnd, lostRecords: lossOf({ sourceEnd, mirroredEnd }) } };
}
