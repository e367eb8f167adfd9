// Mirrors of a link that cannot go on. Owns which ones, and what was lost with them; refuses to
// know how causes are found. Invariants: a failing topic is not fetched, its state follows, however
// often the commit has to be tried; of one that lost history the lost ranges of all its partitions
// are on record, since none of them is fetched any more that could find its own. Those whose leader
// does not answer are asked for as long as it takes, ever later. What failed a mirror that was
// paused before that was on record is forgotten: it may be over when it is resumed.
import { ErrorCode } from '../../../protocol/index.ts';
import { type Cluster, ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { LinkRecord, MirrorError, MirrorState, TopicRecord } from '../../state/records.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import { lastExtent } from '../../timeline/timeline.ts';
import type { LinkContext } from '../context.ts';
import type { Loss } from '../fetch/source-link.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { earliestTimestamp, listOffsets } from '../source-offsets.ts';
import { tellLoss, unrecordedLoss, withLosses } from './lost-history.ts';
import { isFetching } from './mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror-topics.ts';
import { failedWith, type TopicChanges } from './topic-changes.ts';

/** What a mirror is FAILED with waits no longer for leaders that do not answer. */
const askTimeoutMs = 2_000;
/** Starts that are not told are asked for again after so long, doubled each time. */
const askAgainMsMin = 2_000;
const askAgainMsMax = 600_000;

/** What is asked of the link. */
export interface FailingLink {
  readonly name: string;
  readonly record: LinkRecord;
  readonly cluster: Cluster;
  readonly feeds: { stop(topic: string): Promise<void> };
  inBackground(work: () => Promise<void>): void;
}

interface Failure {
  readonly error: MirrorError;
  /** By partition. */
  readonly losses: Map<number, Loss>;
  /** Partitions whose source has not said yet where it starts. */
  readonly toAsk: Set<number>;
  asking: Promise<void> | null;
  /** In a row that brought nothing new. */
  vainAsks: number;
  /** Monotonic ms. */
  askAtMs: number;
}

export class TopicFailures {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;
  readonly #link: FailingLink;
  readonly #failing = new Map<string, Failure>();

  constructor(parts: {
    context: LinkContext;
    topics: MirrorTopics;
    changes: TopicChanges;
    link: FailingLink;
  }) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
    this.#link = parts.link;
  }

  has(name: string): boolean {
    return this.#failing.has(name);
  }

  forget(name: string): void {
    this.#failing.delete(name);
  }

  fail(name: string, error: MirrorError, loss: Loss | null): void {
    const known = this.#failing.get(name);
    if (known !== undefined && loss === null) return;
    const failure = known ?? this.#begin(name, error);
    if (loss !== null) this.#add(name, failure, loss);
    this.#link.inBackground(async () => {
      await this.#link.feeds.stop(name);
      await this.#ask(name, failure);
      await this.#commit(name, failure);
    });
  }

  /** What could not be committed or found out is tried again. */
  tend(): void {
    for (const [name, failure] of this.#failing) {
      const state = this.#topics.byName(name)?.record.state;
      if (state === undefined) continue;
      if (isOutOfReach(state)) {
        this.#failing.delete(name);
        continue;
      }
      const isToAsk = state === 'FAILED' && this.#isAskDue(failure);
      if (!isToAsk && !isFetching(state)) continue;
      this.#link.inBackground(async () => {
        await this.#ask(name, failure);
        await this.#commit(name, failure);
      });
    }
  }

  #begin(name: string, error: MirrorError): Failure {
    const partitions = error.code === 'LOST_HISTORY' ? this.#topics.byName(name)?.partitions : [];
    const toAsk = new Set((partitions ?? []).map(({ partition }) => partition));
    const asked = { asking: null, vainAsks: 0, askAtMs: Number.NEGATIVE_INFINITY };
    const failure: Failure = { error, losses: new Map(), toAsk, ...asked };
    this.#failing.set(name, failure);
    return failure;
  }

  #add(name: string, failure: Failure, loss: Loss): void {
    failure.toAsk.delete(loss.partition);
    const known = failure.losses.get(loss.partition);
    if (known !== undefined && known.to >= loss.to) return;
    failure.losses.set(loss.partition, { ...loss, from: known?.from ?? loss.from });
    tellLoss(this.#context.events, loss, { topic: name, link: this.#link.name });
  }

  #isAskDue({ toAsk, askAtMs }: Failure): boolean {
    return toAsk.size > 0 && this.#context.clock.monotonicMs() >= askAtMs;
  }

  /** Asks the source where the other partitions start. Whoever comes meanwhile waits for it. */
  async #ask(name: string, failure: Failure): Promise<void> {
    if (failure.asking === null && !this.#isAskDue(failure)) return;
    failure.asking ??= this.#askStarts(name, failure).finally(() => {
      failure.asking = null;
    });
    await failure.asking;
  }

  async #askStarts(name: string, failure: Failure): Promise<void> {
    const topic = this.#topics.byName(name);
    if (topic === undefined) return;
    const before = failure.toAsk.size;
    try {
      const starts = await startsOf(this.#link, topic.record, [...failure.toAsk]);
      for (const [partition, start] of starts) {
        failure.toAsk.delete(partition);
        const loss = lossBelow(topic, partition, start);
        if (loss !== null) this.#add(name, failure, loss);
      }
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    } finally {
      // Leaders that come back one after the other are asked soon.
      failure.vainAsks = failure.toAsk.size < before ? 1 : failure.vainAsks + 1;
      const waitMs = backOffMs(failure.vainAsks, askAgainMsMin, askAgainMsMax);
      failure.askAtMs = this.#context.clock.monotonicMs() + waitMs;
    }
  }

  async #commit(name: string, failure: Failure): Promise<void> {
    const { error } = failure;
    const timeMs = this.#context.clock.unixMs();
    // Of a mirror that was made anew since, this is not true.
    const isOver = (): boolean => this.#failing.get(name) !== failure;
    const failed = await this.#changes.apply(name, 'fail', failedWith(error), (record) => {
      if (isOver() || !isFetching(record.state)) return null;
      const { lost, lostBefore } = withLosses(record, [...failure.losses.values()], timeMs);
      return {
        error,
        ...(lost === undefined ? {} : { lost }),
        ...(lostBefore === undefined ? {} : { lostBefore }),
      };
    });
    if (failed !== null) return;
    // Paused, or switched, before it was FAILED: fetched again, it would find the cause again.
    const state = this.#changes.record(name)?.state;
    if (state !== undefined && isOutOfReach(state) && !isOver()) this.#failing.delete(name);
    // It is FAILED already; other partitions have found their losses since.
    await this.#changes.edit(name, (record) =>
      isOver() || record.state !== 'FAILED'
        ? record
        : withLosses(record, [...failure.losses.values()], timeMs),
    );
  }
}

/** Not fetched, and not FAILED. */
function isOutOfReach(state: MirrorState): boolean {
  return !isFetching(state) && state !== 'FAILED';
}

/** By partition, as far as their leaders answer. @throws ClusterError */
async function startsOf(
  { cluster, record: link }: FailingLink,
  record: TopicRecord,
  partitions: readonly number[],
): Promise<ReadonlyMap<number, bigint>> {
  const { sourceTopic: topic } = record;
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const leaders = new Map((info?.partitions ?? []).map((found) => [found.partition, found]));
  const asked = partitions.map((partition) => ({
    ...{ topic, partition },
    leaderId: leaders.get(partition)?.leaderId ?? -1,
  }));
  const query = { timestamp: earliestTimestamp, timeoutMs: askTimeoutMs };
  const answers = await listOffsets(cluster, asked, query);
  // They are asked for by name.
  if ((await unconfirmedSources({ cluster, record: link }, [record])).size > 0) return new Map();
  const starts = new Map<number, bigint>();
  for (const partition of partitions) {
    const answer = answers.get(partitionKey(topic, partition));
    if (answer?.errorCode === ErrorCode.NONE) starts.set(partition, answer.offset);
  }
  return starts;
}

function lossBelow(topic: MirrorTopic, partition: number, start: bigint): Loss | null {
  const view = topic.partition(partition);
  if (view === undefined || view.log === null) return null;
  // A log may begin below its first offset, with the batch that holds it.
  const first = lastExtent(view.timeline).start;
  const isBelow = view.log.end < first;
  const from = isBelow ? first : view.log.end;
  return from < start ? unrecordedLoss(topic.record, { partition, from, to: start }) : null;
}
